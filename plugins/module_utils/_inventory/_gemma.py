# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 gb10.serving contributors
#
# Private to this collection: may change without notice.
"""Gemma 2, 3 and 4."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from ansible_collections.gb10.serving.plugins.module_utils._inventory import _towers
from ansible_collections.gb10.serving.plugins.module_utils._inventory._common import (
    attention,
    ends,
    experts,
    gated_mlp,
    heads_of,
    names_of,
    norms,
    per_layer,
    vector,
)
from ansible_collections.gb10.serving.plugins.module_utils._inventory._read import flag, layers, section, whole
from ansible_collections.gb10.serving.plugins.module_utils._inventory._types import Family, Tensor, linear

_KINDS = ("full_attention", "sliding_attention")
_GEMMA_NORMS = (
    "input_layernorm",
    "post_attention_layernorm",
    "pre_feedforward_layernorm",
    "post_feedforward_layernorm",
)


def _gemma(text: dict[str, Any], config: dict[str, Any], norm: str | None) -> Iterator[Tensor]:
    bias = flag(text, "attention_bias")
    heads = heads_of(text, qkv_bias=bias, out_bias=bias, norm=norm)
    names = names_of(text, config, old=True)
    inner = whole(text, "intermediate_size")
    yield from ends(text, config, names)
    for n in range(layers(text, "num_hidden_layers", least=1)):
        layer = f"{names[0]}.layers.{n}"
        yield from norms(layer, heads.hidden, _GEMMA_NORMS)
        yield from attention(f"{layer}.self_attn", heads)
        yield from gated_mlp(f"{layer}.mlp", heads.hidden, inner)


def gemma2(text: dict[str, Any], config: dict[str, Any]) -> Iterator[Tensor]:
    return _gemma(text, config, None)


def gemma3_text(text: dict[str, Any], config: dict[str, Any]) -> Iterator[Tensor]:
    return _gemma(text, config, "head")


def gemma3(text: dict[str, Any], config: dict[str, Any]) -> Iterator[Tensor]:
    yield from gemma3_text(text, config)
    yield from _towers.siglip(
        (section(config, "vision_config") or {}), "vision_tower.vision_model", whole(text, "hidden_size")
    )


def gemma4_text(text: dict[str, Any], config: dict[str, Any]) -> Iterator[Tensor]:
    """Full attention has heads of its own size, the last layers may share keys and values of earlier ones, experts
    stand beside the MLP. Where a key is also the value (attention_k_eq_v), the engine keeps it twice nevertheless."""
    names, total = names_of(text, config), layers(text, "num_hidden_layers", least=1)
    bias = flag(text, "attention_bias")
    sliding = heads_of(text, qkv_bias=bias, out_bias=bias, norm="head")
    full = replace(sliding, size=whole(text, "global_head_dim", default=512))
    if flag(text, "attention_k_eq_v"):
        full = replace(full, kv=whole(text, "num_global_key_value_heads", default=full.kv))
    hidden, inner = sliding.hidden, whole(text, "intermediate_size")
    kinds, ple = per_layer(text, "layer_types", total, _KINDS), 0
    if text.get("hidden_size_per_layer_input", 0) is not None:
        usual = 256 if text.get("model_type") == "gemma4_text" else 0
        ple = whole(text, "hidden_size_per_layer_input", default=usual, least=0)
    own = total - whole(text, "num_kv_shared_layers", default=0, least=0, most=total)
    count = whole(text, "num_experts", default=0, least=0)
    yield from ends(text, config, names)
    if ple:
        words = whole(text, "vocab_size_per_layer_input", "vocab_size")
        yield vector(f"{names[0]}.embed_tokens_per_layer", words, ple * total)
        yield linear(f"{names[0]}.per_layer_model_projection", ple * total, hidden)
        yield vector(f"{names[0]}.per_layer_projection_norm", ple)
    for n in range(total):
        layer = f"{names[0]}.layers.{n}"
        heads = full if kinds[n] == "full_attention" or n == total - 1 else sliding
        places = [
            "input_layernorm",
            "post_attention_layernorm",
            "pre_feedforward_layernorm",
            "post_feedforward_layernorm",
        ]
        if n < own:
            yield from attention(f"{layer}.self_attn", heads)
        else:
            yield linear(f"{layer}.self_attn.q_proj", heads.query * heads.size, hidden)
            yield linear(f"{layer}.self_attn.o_proj", hidden, heads.query * heads.size)
            yield vector(f"{layer}.self_attn.q_norm", heads.size)
        wide = 2 if flag(text, "use_double_wide_mlp") and n >= own > 0 else 1
        yield from gated_mlp(f"{layer}.mlp", hidden, wide * inner)
        if count:
            yield vector(f"{layer}.router.proj", count, hidden)
            yield vector(f"{layer}.router.scale", hidden)
            yield vector(f"{layer}.router.per_expert_scale", count)
            yield from experts(
                f"{layer}.experts", hidden, whole(text, "moe_intermediate_size", "expert_intermediate_size"), count
            )
            places += ["post_feedforward_layernorm_1", "post_feedforward_layernorm_2", "pre_feedforward_layernorm_2"]
        if ple:
            yield linear(f"{layer}.per_layer_input_gate", ple, hidden)
            yield linear(f"{layer}.per_layer_projection", hidden, ple)
            places += ["post_per_layer_input_norm"]
        yield from norms(layer, hidden, tuple(places))


def gemma4(text: dict[str, Any], config: dict[str, Any]) -> Iterator[Tensor]:
    yield from gemma4_text(text, config)
    hidden, audio = whole(text, "hidden_size"), section(config, "audio_config")
    yield from _towers.gemma4_vision(section(config, "vision_config") or {}, hidden)
    if audio:
        yield from _towers.gemma4_audio(audio, hidden)


def gemma4_unified(text: dict[str, Any], config: dict[str, Any]) -> Iterator[Tensor]:
    yield from gemma4_text(text, config)
    yield from _towers.gemma4_unified(config, whole(text, "hidden_size"))


FAMILIES: dict[str, Family] = {
    "gemma2": gemma2,
    "gemma3": gemma3,
    "gemma3_text": gemma3_text,
    "gemma4": gemma4,
    "gemma4_text": gemma4_text,
    "gemma4_unified": gemma4_unified,
    "gemma4_unified_text": gemma4_text,
}
