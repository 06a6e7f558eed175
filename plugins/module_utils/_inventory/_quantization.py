# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 gb10.serving contributors
#
# Private to this collection: may change without notice.
"""quantization_config of a checkpoint -> bytes of each linear layer's weight and scales. No guesses: what is not known
has a reason."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.gb10.serving.plugins.module_utils._inventory import _formats as formats
from ansible_collections.gb10.serving.plugins.module_utils._inventory._formats import Format
from ansible_collections.gb10.serving.plugins.module_utils._inventory._patterns import anywhere, matcher, names_of
from ansible_collections.gb10.serving.plugins.module_utils._inventory._types import Tensor

KNOWN = "fp8, modelopt, compressed-tensors, mxfp4, awq, gptq, auto-round and fbgemm_fp8"
_EXPERT = re.compile(r"\bexperts?\b")
_HEAD = re.compile(r"(?:^|\.)(?:lm_head|head|shared_head\.head)$")
_VISION = re.compile(r"\b(?:visual|vision_\w+|multi_modal_projector|mm_projector|embed_vision)\b")


@dataclass(frozen=True)
class Scheme:
    """How the linear layers of one checkpoint are stored."""

    default: Format | None = None  # of linear layers that nothing else names
    experts: Format | None = None  # of the routed experts, where they differ
    ignored: tuple[str, ...] = ()  # patterns of modules in the model's own dtype
    layers: dict[str, Format | None] = field(default_factory=dict)  # module or its parent -> format; None is plain
    targets: tuple[tuple[tuple[str, ...], Format], ...] = ()  # patterns -> format
    head: bool = False  # the output layer is a linear layer as any other

    @classmethod
    def of(cls, config: dict[str, Any]) -> tuple[Scheme | None, str | None]:
        """(scheme, None), or (None, why it is not known)."""
        raw = config.get("quantization_config")
        if not raw:
            text = config.get("text_config")
            raw = text.get("quantization_config") if isinstance(text, dict) else None
        if not raw:
            return cls(), None
        if not isinstance(raw, dict):
            return None, f"quantization_config is {raw!r}; expected a table"
        method = str(raw.get("quant_method") or "").lower()
        if not method and ("quant_algo" in raw or "quantization" in raw):
            method = "modelopt"
        reader = next((read for prefix, read in _METHODS.items() if method.startswith(prefix)), None)
        if reader is None:
            return None, f"quantization_config: quant_method is {raw.get('quant_method')!r}; known are {KNOWN}"
        try:
            return reader(raw, config), None
        except ValueError as exc:
            return None, str(exc)
        except (TypeError, AttributeError, KeyError) as exc:
            return None, f"quantization_config: a value in it makes no sense: {exc}"

    def format(self, module: str) -> Format | None:
        """Format of a linear layer, None for the model's own dtype."""
        module = module.replace("*", "0")  # the first expert stands for all of a layer
        if self.layers:
            name = module
            while name:
                if name in self.layers:
                    return self.layers[name]
                name = name.rpartition(".")[0]
        if (not self.head and _HEAD.search(module)) or (self.ignored and matcher(self.ignored)(module)):
            return None
        for patterns, chosen in self.targets:
            if matcher(patterns)(module):
                return chosen
        if self.experts and _EXPERT.search(module):
            return self.experts
        return self.default

    def bytes(self, tensor: Tensor, plain: int) -> int:
        chosen = self.format(tensor.module)
        if chosen is None:
            return tensor.elements * plain
        out, into = tensor.shape
        return tensor.count * chosen.bytes(out, into)


def _fp8(raw: dict[str, Any], config: dict[str, Any]) -> Scheme:
    """8-bit floats by block or by tensor; routed experts may be 4-bit floats (DeepSeek-V4)."""
    ignored = names_of(raw.get("modules_to_not_convert") or raw.get("ignored_layers"), "modules_to_not_convert")
    block = raw.get("weight_block_size")
    scale = 8 if raw.get("scale_fmt") == "ue8m0" and config.get("expert_dtype") else 32
    default = formats.FP8_TENSOR
    if block is not None:
        default = formats.fp8_block(*formats.block_of(block, "weight_block_size"), scale)
    experts = None
    if config.get("expert_dtype") not in (None, "fp8"):
        if config["expert_dtype"] != "fp4":
            raise ValueError(f"expert_dtype is {config['expert_dtype']!r}; known are fp8 and fp4")
        experts = formats.MXFP4
    return Scheme(default, experts, ignored, _layers(raw.get("quantized_layers")))


def _layers(value: Any) -> dict[str, Format | None]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ValueError(f"quantization_config: quantized_layers is {str(value)[:60]}; expected a table")
    return {name: _algorithm(entry.get("quant_algo")) for name, entry in value.items()}


def _algorithm(name: Any) -> Format:
    found = formats.ALGORITHMS.get(str(name).upper())
    if found is None:
        known = ", ".join((*formats.ALGORITHMS, "MIXED_PRECISION"))
        raise ValueError(f"quantization_config: quant_algo is {name!r}; known are {known}")
    return found


def _modelopt(raw: dict[str, Any], config: dict[str, Any]) -> Scheme:
    """NVIDIA ModelOpt, as config.json or hf_quant_config.json has it."""
    inner = raw.get("quantization")
    if isinstance(inner, dict):
        raw = inner
    ignored = names_of(raw.get("ignore") or raw.get("exclude_modules"), "ignore")
    algorithm = raw.get("quant_algo")
    if algorithm is None and raw.get("config_groups"):
        return _compressed(dict(raw, ignore=list(ignored)), config)
    if str(algorithm).upper() == "MIXED_PRECISION":
        layers = _layers(raw.get("quantized_layers"))
        if not layers:
            raise ValueError("quantization_config: quant_algo is MIXED_PRECISION and quantized_layers is missing")
        return Scheme(ignored=ignored, layers=layers)
    return Scheme(_algorithm(algorithm), ignored=ignored, head=True)


def _compressed(raw: dict[str, Any], config: dict[str, Any]) -> Scheme:
    """compressed-tensors: groups with targets, which are "Linear", module names or expressions."""
    if (raw.get("sparsity_config") or {}).get("format") not in (None, "dense"):
        raise ValueError("quantization_config: sparsity_config is not known; expected a dense checkpoint")
    groups = raw.get("config_groups")
    if not isinstance(groups, dict) or not groups:
        raise ValueError(f"quantization_config: config_groups is {groups!r}; expected at least one group")
    default, targets = None, []
    for group in groups.values():
        chosen = formats.of_weights(group.get("weights"))
        named = tuple(t for t in names_of(group.get("targets") or ["Linear"], "targets") if not _is_class(t))
        if len(named) < len(group.get("targets") or ["Linear"]):
            default = chosen
        if named:
            targets.append((named, chosen))
    ignored = (*names_of(raw.get("ignore"), "ignore"), *_TOWERS)
    return Scheme(default, ignored=ignored, targets=tuple(targets))


def _is_class(target: str) -> bool:
    """ "Linear", "FusedMoE": a class of layers rather than a name."""
    return target[:1].isupper() and target.isidentifier()


def _mxfp4(raw: dict[str, Any], config: dict[str, Any]) -> Scheme:
    """Routed experts alone."""
    return Scheme(experts=formats.MXFP4)


def _fbgemm(raw: dict[str, Any], config: dict[str, Any]) -> Scheme:
    return Scheme(formats.FP8_CHANNEL, ignored=names_of(raw.get("modules_to_not_convert"), "modules_to_not_convert"))


def _bits_group(raw: dict[str, Any], zeros: bool) -> Format:
    bits = formats.whole(raw.get("bits", raw.get("w_bit", 4)), "bits", "2, 3, 4 or 8")
    if bits not in (2, 3, 4, 8):
        raise ValueError(f"quantization_config: bits is {bits}; expected 2, 3, 4 or 8")
    group = raw.get("group_size", raw.get("q_group_size", 128))
    return formats.integer(bits, -1 if group == -1 else formats.whole(group, "group_size"), zeros)


def _awq(raw: dict[str, Any], config: dict[str, Any]) -> Scheme:
    """Names match anywhere in a module's name."""
    ignored = names_of(raw.get("modules_to_not_convert"), "modules_to_not_convert")
    return Scheme(_bits_group(raw, True), ignored=(*anywhere(ignored), *_TOWERS))


_TOWERS = (rf"re:.*{_VISION.pattern}",)  # integer checkpoints leave them as they were


def _gptq(raw: dict[str, Any], config: dict[str, Any]) -> Scheme:
    """ "dynamic" has expressions: "-:" leaves a module as it was, "+:" gives it other bits."""
    ignored, targets = list(anywhere(names_of(raw.get("modules_in_block_to_not_quantize"), "modules"))), []
    for name, change in (raw.get("dynamic") or {}).items():
        expression = f"re:.*(?:{name[2:] if name[:2] in ('-:', '+:') else name})"
        if name.startswith("-:"):
            ignored.append(expression)
        else:
            targets.append(((expression,), _bits_group({**raw, **change}, True)))
    return Scheme(_bits_group(raw, True), ignored=(*ignored, *_TOWERS), targets=tuple(targets))


def _auto_round(raw: dict[str, Any], config: dict[str, Any]) -> Scheme:
    """extra_config names the modules with bits of their own; 16 bits and more are not quantised."""
    data_type = str(raw.get("data_type") or "int")
    if data_type != "int":
        raise ValueError(f"quantization_config: data_type is {data_type!r}; known is int")
    ignored: list[str] = list(_TOWERS)
    targets: list[tuple[tuple[str, ...], Format]] = []
    for name, change in (raw.get("extra_config") or {}).items():
        pattern = name if not re.search(r"[\\|(\[^$+?]|\.\*", name) else f"re:{name}"
        if change.get("bits", raw.get("bits")) >= 16:
            ignored.append(pattern)
        else:
            targets.append(((pattern,), _bits_group({**raw, **change}, True)))
    return Scheme(_bits_group(raw, True), ignored=tuple(ignored), targets=tuple(targets))


# Start of quant_method -> reader. First match wins.
_METHODS: dict[str, Callable[[dict[str, Any], dict[str, Any]], Scheme]] = {
    "fp8": _fp8,
    "modelopt": _modelopt,
    "compressed-tensors": _compressed,
    "mxfp4": _mxfp4,
    "gpt_oss_mxfp4": _mxfp4,
    "fbgemm_fp8": _fbgemm,
    "awq": _awq,
    "gptq": _gptq,
    "auto-round": _auto_round,
    "inc": _auto_round,
}


def merge_hf_quant_config(config: dict[str, Any], hf_quant: Any) -> dict[str, Any]:
    """config.json with the quantisation of a hf_quant_config.json beside it, where it has none of its own."""
    inner = hf_quant.get("quantization") if isinstance(hf_quant, dict) else None
    if config.get("quantization_config") or not isinstance(inner, dict) or not inner.get("quant_algo"):
        return config
    return {**config, "quantization_config": {"quant_method": "modelopt", **inner}}


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


def formats_of(config: dict[str, Any], layers: Any) -> dict[str, Any]:
    """What planning must know: the format of the routed experts, and whether MLA's latent projection has one."""
    unknown = {"experts": None, "group": None, "zeros": False, "symmetric": False, "latent": True}
    scheme, _reason = Scheme.of(config)
    if scheme is None:
        return unknown
    middle = layers // 2 if isinstance(layers, int) else 0
    name = _EXPERTS.get(str(config.get("model_type")), "mlp.experts.0.gate_proj")
    try:
        experts, latent = (_anyhow(scheme, middle, module) for module in (name, "self_attn.kv_b_proj"))
    except ValueError:  # a pattern that is none: the inventory says so
        return unknown
    raw = config.get("quantization_config") or {}
    return {
        "experts": experts.name if experts else None,
        "group": experts.block[1] if experts and experts.block else None,
        "zeros": bool(experts and experts.zero_bits),
        "symmetric": bool(raw.get("sym")),
        "latent": latent is not None,
    }
