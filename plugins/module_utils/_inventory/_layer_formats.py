# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 gb10.serving contributors
#
# Private to this collection: may change without notice.
"""What planning must know of a quantised checkpoint beside its bytes: formats of experts and of what ranks split."""

from __future__ import annotations

from typing import Any

from ansible_collections.gb10.serving.plugins.module_utils._inventory._formats import Format
from ansible_collections.gb10.serving.plugins.module_utils._inventory._quantization import Scheme

_PREFIXES = ("model.", "model.language_model.", "language_model.model.", "backbone.", "")
_EXPERTS = {  # model_type -> name of a routed expert's projection, where it is not the usual one
    "minimax_m2": "block_sparse_moe.experts.0.w1",
    "mixtral": "block_sparse_moe.experts.0.w1",
    "nemotron_h": "mixer.experts.0.up_proj",
    "deepseek_v4": "ffn.experts.0.w1",
    "step3p5": "moe.experts.0.gate_proj",
    "llama4": "feed_forward.experts.0.gate_proj",
    "gemma4": "experts.0.gate_proj",
}


def _anyhow(scheme: Scheme, layer: int, name: str) -> Format | None:
    """Format of a module of a layer, whatever prefix the checkpoint gives it."""
    found = [scheme.format(f"{prefix}layers.{layer}.{name}") for prefix in _PREFIXES]
    if scheme.layers:
        return next((one for one in found if one), None)
    return None if None in found else found[0]


_SPLIT = {  # size in config.json -> layers whose input is split among ranks by it
    "intermediate_size": ("mlp.down_proj", "feed_forward.down_proj"),
    "shared_expert_intermediate_size": (
        "mlp.shared_expert.down_proj",
        "mlp.shared_experts.down_proj",
        "share_expert.down_proj",
        "mixer.shared_experts.down_proj",
        "block_sparse_moe.shared_experts.down_proj",
        "feed_forward.shared_expert.down_proj",
    ),
    "attention": ("self_attn.o_proj",),
    "linear_attention": ("linear_attn.out_proj",),
}
_NVFP4_INPUT = 16


def _multiple(chosen: Format) -> int:
    """What the input of a rank's part must be a multiple of; 0 for anything."""
    if chosen.name == "nvfp4":
        return _NVFP4_INPUT
    if chosen.name == "fp8_block" or chosen.name.startswith("int"):
        return chosen.block[1] if chosen.block else 0
    return 0


def _alike(scheme: Scheme, chosen: Format, layers: list[int], names: tuple[str, ...]) -> bool:
    return all(_anyhow(scheme, layer, name) == chosen for layer in layers for name in names)


def _splits(scheme: Scheme, layers: int) -> dict[str, dict[str, Any]]:
    """Of each size, what its parts must be a multiple of. Layers that are not quantised alike are left out."""
    if not any(map(_multiple, filter(None, (scheme.default, *(chosen for _names, chosen in scheme.targets))))):
        return {}  # a table with an entry for each layer is not looked at
    looked = sorted({at for at in (0, 1, 3, layers - 1) if 0 <= at < layers})  # of every kind, in the usual patterns
    found: dict[str, dict[str, Any]] = {}
    for key, names in _SPLIT.items():
        chosen = _anyhow(scheme, 0, names[0])
        if chosen and _multiple(chosen) and _alike(scheme, chosen, looked, names):
            found[key] = {"of": _multiple(chosen), "form": chosen.name}
    return found


def _ordered(raw: Any) -> str | None:
    """The key that says that inputs are ordered anew for each group, which engines have given up."""
    if not isinstance(raw, dict):
        return None
    method = str(raw.get("quant_method")).lower()
    if method.startswith("gptq") and raw.get("desc_act") is True and raw.get("group_size") != -1:
        return "desc_act"
    groups = raw.get("config_groups") if method == "compressed-tensors" else None
    for group in groups.values() if isinstance(groups, dict) else ():
        weights = group.get("weights") if isinstance(group, dict) else None
        if isinstance(weights, dict) and weights.get("actorder") in ("group", "dynamic"):
            return "actorder"
    return None


def formats_of(config: dict[str, Any], layers: Any) -> dict[str, Any]:
    """What planning must know: the format of the routed experts, and whether MLA's latent projection has one."""
    unknown: dict[str, Any] = {
        "experts": None,
        "group": None,
        "zeros": False,
        "symmetric": False,
        "latent": True,
        "splits": {},
        "ordered": None,
    }
    scheme, _reason = Scheme.of(config)
    if scheme is None:
        return unknown
    middle = layers // 2 if isinstance(layers, int) else 0
    name = _EXPERTS.get(str(config.get("model_type")), "mlp.experts.0.gate_proj")
    try:
        experts, latent = (_anyhow(scheme, middle, module) for module in (name, "self_attn.kv_b_proj"))
        splits = _splits(scheme, layers if isinstance(layers, int) else 1)
    except ValueError:  # a pattern that is none: the inventory says so
        return unknown
    raw = config.get("quantization_config") or {}
    return {
        "experts": experts.name if experts else None,
        "group": experts.block[1] if experts and experts.block else None,
        "zeros": bool(experts and experts.zero_bits),
        "symmetric": bool(raw.get("sym")),
        "latent": latent is not None,
        "splits": splits,
        "ordered": _ordered(raw),
    }
