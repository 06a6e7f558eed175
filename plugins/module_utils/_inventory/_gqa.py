# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 gb10.serving contributors
#
# Private to this collection: may change without notice.
"""Llama-like dense decoders."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ansible_collections.gb10.serving.plugins.module_utils._inventory import _gemma
from ansible_collections.gb10.serving.plugins.module_utils._inventory._common import (
    Heads,
    attention,
    ends,
    gated_mlp,
    heads_of,
    names_of,
    norms,
)
from ansible_collections.gb10.serving.plugins.module_utils._inventory._read import flag, layers, section, whole
from ansible_collections.gb10.serving.plugins.module_utils._inventory._towers import pixtral
from ansible_collections.gb10.serving.plugins.module_utils._inventory._types import Family, Tensor
from ansible_collections.gb10.serving.plugins.module_utils._inventory._vision import qwen_vision


def _dense(
    text: dict[str, Any],
    config: dict[str, Any],
    heads: Heads,
    names: tuple[str, str],
    mlp_bias: bool = False,
    places: tuple[str, ...] = ("input_layernorm", "post_attention_layernorm"),
) -> Iterator[Tensor]:
    inner = whole(text, "intermediate_size")
    yield from ends(text, config, names)
    for n in range(layers(text, "num_hidden_layers", least=1)):
        layer = f"{names[0]}.layers.{n}"
        yield from norms(layer, heads.hidden, places)
        yield from attention(f"{layer}.self_attn", heads)
        yield from gated_mlp(f"{layer}.mlp", heads.hidden, inner, mlp_bias)


def llama(text: dict[str, Any], config: dict[str, Any]) -> Iterator[Tensor]:
    """Llama, Mistral and Phi-3: bias by attention_bias (all four projections) and mlp_bias, mostly none."""
    bias = flag(text, "attention_bias")
    heads = heads_of(text, qkv_bias=flag(text, "qkv_bias", bias), out_bias=bias)
    yield from _dense(text, config, heads, names_of(text, config, old=True), flag(text, "mlp_bias"))


def mistral3(text: dict[str, Any], config: dict[str, Any]) -> Iterator[Tensor]:
    if text.get("model_type") not in ("mistral", "ministral3"):
        raise ValueError(f"text_config.model_type is {text.get('model_type')!r}; expected mistral or ministral3")
    yield from llama(text, config)
    yield from pixtral(config, whole(text, "hidden_size"))


def ernie4_5(text: dict[str, Any], config: dict[str, Any]) -> Iterator[Tensor]:
    bias = flag(text, "use_bias")
    yield from _dense(text, config, heads_of(text, qkv_bias=bias), names_of(text, config), bias)


def glm4(text: dict[str, Any], config: dict[str, Any]) -> Iterator[Tensor]:
    places = ("input_layernorm", "post_attention_layernorm", "post_self_attn_layernorm", "post_mlp_layernorm")
    heads = heads_of(text, qkv_bias=flag(text, "attention_bias"))
    return _dense(text, config, heads, names_of(text, config), places=places)


def exaone4(text: dict[str, Any], config: dict[str, Any]) -> Iterator[Tensor]:
    bias = flag(text, "attention_bias")
    heads = heads_of(text, qkv_bias=bias, out_bias=bias, norm="head")
    places = ("post_attention_layernorm", "post_feedforward_layernorm")
    return _dense(text, config, heads, names_of(text, config), flag(text, "mlp_bias"), places)


def qwen2(text: dict[str, Any], config: dict[str, Any]) -> Iterator[Tensor]:
    yield from _dense(text, config, heads_of(text, qkv_bias=True), names_of(text, config))


def qwen3(text: dict[str, Any], config: dict[str, Any]) -> Iterator[Tensor]:
    heads = heads_of(text, qkv_bias=flag(text, "attention_bias"), norm="head")
    yield from _dense(text, config, heads, names_of(text, config))


def qwen3_vl(text: dict[str, Any], config: dict[str, Any]) -> Iterator[Tensor]:
    yield from qwen3(text, config)
    yield from qwen_vision((section(config, "vision_config") or {}), "model.visual")


FAMILIES: dict[str, Family] = {
    "llama": llama,
    "mistral": llama,
    "ministral3": llama,
    "mistral3": mistral3,
    "phi3": llama,
    "granite": llama,
    "ernie4_5": ernie4_5,
    "glm4": glm4,
    "exaone4": exaone4,
    "qwen2": qwen2,
    "qwen3": qwen3,
    "qwen3_vl": qwen3_vl,
    "qwen3_vl_text": qwen3,
    **_gemma.FAMILIES,
}
