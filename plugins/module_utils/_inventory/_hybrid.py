# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 gb10.serving contributors
#
# Private to this collection: may change without notice.
"""Hybrids of gated delta net and gated attention: Qwen3-Next, Qwen3.5 and later."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ansible_collections.gb10.serving.plugins.module_utils._inventory._read import (
    flag,
    layers,
    names,
    section,
    tied,
    whole,
)
from ansible_collections.gb10.serving.plugins.module_utils._inventory._types import Family, Tensor, linear
from ansible_collections.gb10.serving.plugins.module_utils._inventory._vision import qwen_vision

KINDS = ("linear_attention", "full_attention")


def layer_kinds(text: dict[str, Any], known: tuple[str, ...] = KINDS) -> list[str]:
    """Kind of each layer: named one by one, or full attention at each so-manieth layer."""
    count = layers(text, "num_hidden_layers", least=1)
    named = names(text, "layer_types", known, count)
    if named is not None:
        return named
    interval = layers(text, "full_attention_interval", default=4, least=1)
    return [KINDS[(number + 1) % interval == 0] for number in range(count)]


def gated_mlp(module: str, inner: int, hidden: int, count: int = 1) -> Iterator[Tensor]:
    yield linear(f"{module}.gate_proj", inner, hidden, count)
    yield linear(f"{module}.up_proj", inner, hidden, count)
    yield linear(f"{module}.down_proj", hidden, inner, count)


def delta_net(text: dict[str, Any], module: str, fused: bool) -> Iterator[Tensor]:
    hidden, heads = whole(text, "hidden_size"), whole(text, "linear_num_value_heads")
    keys = whole(text, "linear_num_key_heads") * whole(text, "linear_key_head_dim")
    dim = whole(text, "linear_value_head_dim")
    values = heads * dim
    if fused:
        yield linear(f"{module}.in_proj_qkvz", 2 * keys + 2 * values, hidden)
        yield linear(f"{module}.in_proj_ba", 2 * heads, hidden)
    else:
        yield linear(f"{module}.in_proj_qkv", 2 * keys + values, hidden)
        yield linear(f"{module}.in_proj_z", values, hidden)
        yield linear(f"{module}.in_proj_b", heads, hidden)
        yield linear(f"{module}.in_proj_a", heads, hidden)
    yield Tensor(
        f"{module}.conv1d", (2 * keys + values, 1, whole(text, "linear_conv_kernel_dim", default=4, most=4096))
    )
    yield Tensor(f"{module}.A_log", (heads,), dtype="float32")
    yield Tensor(f"{module}.dt_bias", (heads,))
    yield Tensor(f"{module}.norm", (dim,))
    yield linear(f"{module}.out_proj", hidden, values)


def gated_attention(text: dict[str, Any], module: str) -> Iterator[Tensor]:
    hidden, heads = whole(text, "hidden_size"), whole(text, "num_attention_heads")
    kv_heads = whole(text, "num_key_value_heads", default=heads)
    dim = whole(text, "head_dim", default=hidden // heads)
    gated = 2 if flag(text, "attn_output_gate", True) else 1  # the gate is the other half of the query projection
    outputs = {"q_proj": gated * heads * dim, "k_proj": kv_heads * dim, "v_proj": kv_heads * dim}
    for name, out in outputs.items():
        yield linear(f"{module}.{name}", out, hidden)
        if flag(text, "qkv_bias"):
            yield Tensor(f"{module}.{name}.bias", (out,))
    yield linear(f"{module}.o_proj", hidden, heads * dim)
    yield Tensor(f"{module}.q_norm", (dim,))
    yield Tensor(f"{module}.k_norm", (dim,))


def experts(text: dict[str, Any], module: str) -> Iterator[Tensor]:
    hidden, count = whole(text, "hidden_size"), whole(text, "num_experts")
    yield Tensor(f"{module}.gate", (count, hidden))
    yield from gated_mlp(f"{module}.experts.*", whole(text, "moe_intermediate_size"), hidden, count)
    shared = whole(text, "shared_expert_intermediate_size", least=0)
    if shared:
        yield from gated_mlp(f"{module}.shared_expert", shared, hidden)
    yield Tensor(f"{module}.shared_expert_gate", (1, hidden))


def _is_moe(text: dict[str, Any], number: int) -> bool:
    if not whole(text, "num_experts", default=0, least=0):
        return False
    dense = text.get("mlp_only_layers") or []
    if not isinstance(dense, list):
        raise ValueError(f"mlp_only_layers is {dense!r:.60}, expected a list of layer numbers")
    return number not in dense and (number + 1) % layers(text, "decoder_sparse_step", default=1, least=1) == 0


def _layer(text: dict[str, Any], module: str, kind: str, moe: bool, fused: bool) -> Iterator[Tensor]:
    hidden = whole(text, "hidden_size")
    if kind == "linear_attention":
        yield from delta_net(text, f"{module}.linear_attn", fused)
    else:
        yield from gated_attention(text, f"{module}.self_attn")
    if moe:
        yield from experts(text, f"{module}.mlp")
    else:
        yield from gated_mlp(f"{module}.mlp", whole(text, "intermediate_size"), hidden)
    yield Tensor(f"{module}.input_layernorm", (hidden,))
    yield Tensor(f"{module}.post_attention_layernorm", (hidden,))


def _mtp(text: dict[str, Any], count: int, fused: bool) -> Iterator[Tensor]:
    """The draft layers are full attention layers; input and output embeddings are those of the model."""
    if not count:
        return
    hidden = whole(text, "hidden_size")
    yield linear("mtp.fc", hidden, 2 * hidden)
    for number in range(count):
        yield from _layer(text, f"mtp.layers.{number}", "full_attention", _is_moe(text, number), fused)
    for name in ("norm", "pre_fc_norm_embedding", "pre_fc_norm_hidden"):
        yield Tensor(f"mtp.{name}", (hidden,))


def _decoder(text: dict[str, Any], config: dict[str, Any], module: str, draft: int, fused: bool) -> Iterator[Tensor]:
    hidden, vocab = whole(text, "hidden_size"), whole(text, "vocab_size")
    yield Tensor(f"{module}.embed_tokens", (vocab, hidden))
    for number, kind in enumerate(layer_kinds(text)):
        yield from _layer(text, f"{module}.layers.{number}", kind, _is_moe(text, number), fused)
    yield Tensor(f"{module}.norm", (hidden,))
    if not tied(text, config):
        yield linear("lm_head", vocab, hidden)
    yield from _mtp(text, draft, fused)


def qwen3_next(text: dict[str, Any], config: dict[str, Any]) -> Iterator[Tensor]:
    # Not every file counts the draft layers; the engines take one then.
    yield from _decoder(text, config, "model", layers(text, "num_nextn_predict_layers", default=1), fused=True)


def qwen3_5(text: dict[str, Any], config: dict[str, Any]) -> Iterator[Tensor]:
    draft = layers(text, "mtp_num_hidden_layers", default=0)
    vision = section(config, "vision_config")
    module = "model.language_model" if text is not config else "model"
    yield from _decoder(text, config, module, draft, fused=False)
    if vision:
        yield from qwen_vision(vision, "model.visual")


FAMILIES: dict[str, Family] = {
    "qwen3_next": qwen3_next,
    "qwen3_5": qwen3_5,
    "qwen3_5_text": qwen3_5,
    "qwen3_5_moe": qwen3_5,
    "qwen3_5_moe_text": qwen3_5,
}
