# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
#
# Private to this collection: may change without notice.
"""Weights of a model of which only config.json is known: parameters by class from the architecture. Pure."""

from __future__ import annotations

import math
from typing import Any

# Families whose tensors follow from the config: model_type -> what is special.
FAMILIES: dict[str, frozenset[str]] = {
    "llama": frozenset(),
    "qwen2": frozenset({"qkv_bias"}),
    "qwen3": frozenset({"qk_norm"}),
    "qwen3_moe": frozenset({"qk_norm"}),
    "qwen3_next": frozenset({"qk_norm", "gate"}),
    "qwen3_5": frozenset({"qk_norm", "gate"}),
    "qwen3_5_text": frozenset({"qk_norm", "gate"}),
    "qwen3_5_moe": frozenset({"qk_norm", "gate"}),
    "qwen3_5_moe_text": frozenset({"qk_norm", "gate"}),
    "minimax_m2": frozenset({"qk_norm", "router_fp32"}),
    "glm4_moe": frozenset({"qkv_bias", "qk_norm"}),
    "glm4_moe_lite": frozenset(),
    "deepseek_v3": frozenset(),
    "kimi_k2": frozenset(),
}
HEADERS = (
    "The weights cannot be derived from config.json ({}): memory planning needs the safetensors headers. "
    "Download the model first."
)


def _attention(c: dict[str, Any], flags: frozenset[str]) -> dict[str, int]:
    hidden, heads, mla = c["hidden_size"], c["num_attention_heads"], c.get("mla")
    if mla:
        nope, rope, value, rank = (
            mla["qk_nope_head_dim"],
            mla["qk_rope_head_dim"],
            mla["v_head_dim"],
            mla["kv_lora_rank"],
        )
        q_rank = mla.get("q_lora_rank")
        query = (q_rank or hidden) * heads * (nope + rope)
        return {
            "attention": query + rank * heads * (nope + value) + heads * value * hidden,
            "attention_replicated": hidden * (rank + rope) + (hidden * q_rank if q_rank else 0),
        }
    dim, kv = c["head_dim"], c["num_key_value_heads"]
    gated = 2 if "gate" in flags or c.get("attention_output_gate") else 1
    bias = 1 if "qkv_bias" in flags else 0
    return {
        "attention": hidden * heads * dim * (gated + 1) + bias * heads * dim,
        "attention_kv": 2 * hidden * kv * dim + 2 * bias * kv * dim,
    }


def _linear(c: dict[str, Any]) -> tuple[int, int]:
    """Parameters of one gated delta net layer: (large projections, small tensors that stay unquantised)."""
    lin, hidden = c["linear"], c["hidden_size"]
    keys, values = lin["key_heads"] * lin["key_head_dim"], lin["value_heads"] * lin["value_head_dim"]
    large = hidden * (2 * keys + 2 * values) + values * hidden
    small = hidden * 2 * lin["value_heads"] + (2 * keys + values) * lin["conv_kernel"] + 2 * lin["value_heads"]
    return large, small


def _vision(vision: dict[str, int]) -> int:
    """A ViT with a patch merger. Approximate for towers of another build."""
    hidden, depth = vision.get("hidden_size", 0), vision.get("depth", 0)
    inner, merge = vision.get("intermediate_size", 0), vision.get("spatial_merge_size", 2) ** 2
    block = 4 * hidden * hidden + 2 * hidden * inner + 9 * hidden + inner
    patch = 3 * vision.get("temporal_patch_size", 1) * vision.get("patch_size", 0) ** 2 * hidden
    merger = (hidden * merge) ** 2 + hidden * merge * vision.get("out_hidden_size", 0)
    return depth * block + patch + vision.get("num_position_embeddings", 0) * hidden + merger


def _missing(c: dict[str, Any], kinds: dict[str, int]) -> list[str]:
    """Keys without which the parameters cannot be counted."""
    parts: list[tuple[dict[str, Any], tuple[str, ...]]] = [
        (
            c,
            (
                "layer_kinds",
                "hidden_size",
                "num_hidden_layers",
                "num_attention_heads",
                "num_key_value_heads",
                "vocab_size",
                "head_dim",
            ),
        ),
    ]
    if c.get("mla"):
        parts.append((c["mla"], ("kv_lora_rank", "qk_rope_head_dim", "qk_nope_head_dim", "v_head_dim")))
    if kinds.get("linear"):
        parts.append(
            (c.get("linear") or {}, ("key_heads", "value_heads", "key_head_dim", "value_head_dim", "conv_kernel"))
        )
    if c.get("num_experts"):
        parts.append((c, ("moe_intermediate_size",)))
    if c.get("dense_layers"):
        parts.append((c, ("intermediate_size",)))
    return [key for values, keys in parts for key in keys if not values.get(key)]


def inventory(
    config: dict[str, Any], model_type: str, quantization: dict[str, Any] | None
) -> tuple[dict[str, int], str | None]:
    """Bytes by tensor class, or the reason why there are none."""
    if not config:
        return {}, "The model's config.json is not known. Give the directory of a model that has one."
    flags = FAMILIES.get(model_type)
    if flags is None or config.get("not_modelled"):
        detail = ", ".join(config.get("not_modelled") or []) or f"model_type {model_type or 'missing'} is not known"
        return {}, HEADERS.format(detail)
    method = (quantization or {}).get("method")
    if method not in (None, "fp8"):
        return {}, HEADERS.format(f"quantisation {method} differs from checkpoint to checkpoint")
    kinds = config.get("layer_kinds") or {}
    missing = _missing(config, kinds)
    if missing:
        return {}, HEADERS.format(f"it has no usable {', '.join(missing)}")
    plain = 4 if config["dtype"] == "float32" else 2
    block = (quantization or {}).get("block") or [128, 128]
    quantised = 1 + 4 / (block[0] * block[1]) if method == "fp8" else plain
    c, hidden, layers = config, config["hidden_size"], config["num_hidden_layers"]
    attention_layers = layers - kinds.get("linear", 0)
    dense_layers, moe_layers = c["dense_layers"], layers - c["dense_layers"]
    attention = _attention(c, flags)
    out: dict[str, float] = {cls: n * attention_layers * quantised for cls, n in attention.items()}
    if kinds.get("linear"):
        large, small = _linear(c)
        out["linear_attention"] = kinds["linear"] * (large * quantised + small * plain)
    experts = 3 * hidden * (c.get("moe_intermediate_size") or 0) * c.get("num_experts", 0)
    shared = 3 * hidden * c.get("shared_expert_intermediate_size", 0)
    dense = 3 * hidden * (c.get("intermediate_size") or 0)
    out["experts"] = moe_layers * experts * quantised
    out["shared_experts"] = moe_layers * shared * quantised if c.get("num_experts") else 0
    out["mlp"] = dense_layers * dense * quantised
    router = hidden * c.get("num_experts", 0) * (4 if "router_fp32" in flags else plain)
    out["norms_router"] = moe_layers * router + (2 * layers + 1) * hidden * plain
    out["embeddings"] = c["vocab_size"] * hidden * plain
    if not c.get("tie_word_embeddings"):
        out["lm_head"] = c["vocab_size"] * hidden * plain
    if c.get("vision"):
        out["vision"] = _vision(c["vision"]) * plain
    if c.get("mtp_layers"):
        one = sum(attention.values()) + (experts + shared if c.get("num_experts") else dense) + 2 * hidden * hidden
        out["mtp"] = c["mtp_layers"] * one * quantised
    return {cls: math.ceil(n) for cls, n in out.items() if n}, None
