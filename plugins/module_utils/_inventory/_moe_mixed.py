# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 gb10.serving contributors
#
# Private to this collection: may change without notice.
"""Decoders whose attention or feed-forward differs from layer to layer: Llama 4, Step, MiMo, MiniMax M3."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from ansible_collections.gb10.serving.plugins.module_utils._inventory import _towers
from ansible_collections.gb10.serving.plugins.module_utils._inventory._common import (
    Heads,
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


def llama4_text(text: dict[str, Any], config: dict[str, Any]) -> Iterator[Tensor]:
    """Experts in each interleave_moe_layer_step-th layer, a dense MLP of another size in the others."""
    names, heads = names_of(text, config, old=True), heads_of(text)
    hidden, inner, count = heads.hidden, whole(text, "intermediate_size"), whole(text, "num_local_experts")
    step = whole(text, "interleave_moe_layer_step", default=1, least=0)
    yield from ends(text, config, names)
    for n in range(layers(text, "num_hidden_layers", least=1)):
        layer = f"{names[0]}.layers.{n}"
        yield from norms(layer, hidden)
        yield from attention(f"{layer}.self_attn", heads)
        if not step or (n + 1) % step:
            yield from gated_mlp(f"{layer}.feed_forward", hidden, whole(text, "intermediate_size_mlp"))
            continue
        yield vector(f"{layer}.feed_forward.router", count, hidden)
        yield from experts(f"{layer}.feed_forward.experts", hidden, inner, count)
        yield from gated_mlp(f"{layer}.feed_forward.shared_expert", hidden, inner)


def llama4(text: dict[str, Any], config: dict[str, Any]) -> Iterator[Tensor]:
    yield from llama4_text(text, config)
    yield from _towers.llama4(section(config, "vision_config") or {}, whole(text, "hidden_size"))


def _step_heads(text: dict[str, Any], kinds: list[Any]) -> list[Heads]:
    """Query heads, groups and head size of the other kind of attention stand in attention_other_setting."""
    query, groups = whole(text, "num_attention_heads"), whole(text, "num_attention_groups", "num_key_value_heads")
    hidden, bias = whole(text, "hidden_size"), flag(text, "attention_bias")
    first = Heads(hidden, query, groups, whole(text, "head_dim", default=hidden // query), qkv_bias=bias, norm="head")
    other, second = section(text, "attention_other_setting"), first
    if text.get("num_sliding_attention_heads") is not None:
        other = {"attention_type": "sliding_attention"}
        second = replace(first, query=whole(text, "num_sliding_attention_heads"))
    elif other:
        query, groups = whole(other, "num_attention_heads"), whole(other, "num_attention_groups")
        second = replace(first, query=query, kv=groups, size=whole(other, "head_dim", default=first.size))
    return [second if other and kind == other.get("attention_type") else first for kind in kinds]


def _step_experts(text: dict[str, Any], total: int) -> frozenset[int]:
    raw = text.get("moe_layers_enum")
    if raw is None and text.get("mlp_layer_types") is not None:
        kinds = per_layer(text, "mlp_layer_types", total, ("sparse", "dense"), longer=True)
        return frozenset(n for n, kind in enumerate(kinds) if kind == "sparse")
    if raw is None:
        return frozenset(range(1, total))
    parts = raw.split(",") if isinstance(raw, str) else raw
    if not isinstance(parts, (list, tuple)) or not all(str(item).strip().isdecimal() for item in parts):
        raise ValueError(f"moe_layers_enum is {raw!r}; expected layer numbers with commas between them")
    return frozenset(int(item) for item in parts)


def step3p5(text: dict[str, Any], config: dict[str, Any]) -> Iterator[Tensor]:
    if text.get("att_impl_type", "GQA") != "GQA":
        raise ValueError(f"att_impl_type is {text['att_impl_type']!r}; expected GQA")
    names, total = names_of(text, config), layers(text, "num_hidden_layers", least=1)
    extra = layers(text, "num_nextn_predict_layers", default=0)
    hidden, inner, count = (
        whole(text, "hidden_size"),
        whole(text, "moe_intermediate_size"),
        whole(text, "moe_num_experts", "n_routed_experts", "num_local_experts"),
    )
    shared = whole(text, "share_expert_dim", default=inner * whole(text, "moe_top_k", "num_experts_per_tok", default=4))
    kinds = per_layer(text, "layer_types", total, _KINDS, longer=True)
    kinds = [*kinds, *text["layer_types"][total : total + extra]]
    kinds += ["sliding_attention"] * (total + extra - len(kinds))
    heads, mixed = _step_heads(text, kinds), _step_experts(text, total)
    yield from ends(text, config, names)
    for n in range(total + extra):
        layer = f"{names[0]}.layers.{n}"
        yield from norms(layer, hidden)
        yield from attention(f"{layer}.self_attn", heads[n])
        if flag(text, "use_head_wise_attn_gate"):
            yield linear(f"{layer}.self_attn.g_proj", heads[n].query, hidden)
        if n in mixed:
            yield vector(f"{layer}.moe.gate", count, hidden, dtype="float32")
            yield vector(f"{layer}.moe.router_bias", count, dtype="float32")
            yield from experts(f"{layer}.moe.experts", hidden, inner, count)
            yield from gated_mlp(f"{layer}.share_expert", hidden, shared)
        else:
            yield from gated_mlp(f"{layer}.mlp", hidden, whole(text, "intermediate_size"))
        if n >= total:
            yield from norms(layer, hidden, ("enorm", "hnorm", "transformer.shared_head.norm"))
            yield vector(f"{layer}.eh_proj", hidden, 2 * hidden)
            yield vector(f"{layer}.transformer.shared_head.output", whole(text, "vocab_size"), hidden)


def step3p7(text: dict[str, Any], config: dict[str, Any]) -> Iterator[Tensor]:
    yield from step3p5(text, config)
    yield from _towers.perception(config, whole(text, "hidden_size"))


def _mimo_heads(text: dict[str, Any], sliding: bool) -> Heads:
    before = "swa_" if sliding else ""
    query, size = whole(text, f"{before}num_attention_heads"), whole(text, f"{before}head_dim")
    value = whole(text, f"{before}v_head_dim", default=size)
    bias = flag(text, "attention_bias")
    return Heads(whole(text, "hidden_size"), query, whole(text, f"{before}num_key_value_heads"), size, value, bias)


def mimo_v2(text: dict[str, Any], config: dict[str, Any]) -> Iterator[Tensor]:
    """Sliding layers (1 in hybrid_layer_pattern) have heads of their own; values are narrower than keys."""
    names, total = names_of(text, config), layers(text, "num_hidden_layers", least=1)
    pattern = per_layer(text, "hybrid_layer_pattern", total, (0, 1))
    mixed = per_layer(text, "moe_layer_freq", total, (0, 1))
    full, sliding = _mimo_heads(text, False), _mimo_heads(text, True)
    hidden, inner, count = full.hidden, whole(text, "moe_intermediate_size"), whole(text, "n_routed_experts")
    dense, sinks = whole(text, "intermediate_size"), flag(text, "add_swa_attention_sink_bias")
    router = text.get("moe_router_dtype") or "float32"
    if router not in ("float32", "bfloat16"):
        raise ValueError(f"moe_router_dtype is {router!r}; expected float32 or bfloat16")
    yield from ends(text, config, names, untied=True)
    for n in range(total):
        layer, heads = f"{names[0]}.layers.{n}", sliding if pattern[n] else full
        yield from norms(layer, hidden)
        yield from attention(f"{layer}.self_attn", heads)
        if sinks and pattern[n]:
            yield vector(f"{layer}.self_attn.attention_sink_bias", heads.query)
        if not mixed[n]:
            yield from gated_mlp(f"{layer}.mlp", hidden, dense)
            continue
        yield vector(f"{layer}.mlp.gate", count, hidden, dtype=router)
        yield vector(f"{layer}.mlp.gate.e_score_correction_bias", count, dtype="float32")
        yield from experts(f"{layer}.mlp.experts", hidden, inner, count)
    layer = "model.mtp.layers.0"  # of three in the checkpoint the engine loads one
    yield from norms(layer, hidden, ("enorm", "hnorm", "input_layernorm", "pre_mlp_layernorm", "final_layernorm"))
    yield vector(f"{layer}.eh_proj", hidden, 2 * hidden)
    yield from attention(f"{layer}.self_attn", sliding)
    yield from gated_mlp(f"{layer}.mlp", hidden, dense)


def minimax_m3_text(text: dict[str, Any], config: dict[str, Any]) -> Iterator[Tensor]:
    """Dense layers first; sparse attention has an indexer whose queries are split as the keys are."""
    names, total = names_of(text, config, old=True), layers(text, "num_hidden_layers", least=1)
    heads = heads_of(text, norm="head")
    hidden, inner, count = heads.hidden, whole(text, "intermediate_size"), whole(text, "num_local_experts")
    shared = whole(text, "n_shared_experts", default=0, least=0)
    mixed = per_layer(text, "moe_layer_freq", total, (0, 1)) if text.get("moe_layer_freq") else [1] * total
    setting = section(text, "sparse_attention_config") or {}
    frequency = setting.get("sparse_attention_freq")
    sparse = per_layer(setting, "sparse_attention_freq", total, (0, 1)) if frequency else [0] * total
    yield from ends(text, config, names)
    for n in range(total):
        layer = f"{names[0]}.layers.{n}"
        yield from norms(layer, hidden)
        yield from attention(f"{layer}.self_attn", heads)
        if sparse[n]:
            size, queries = whole(setting, "sparse_index_dim"), whole(setting, "sparse_num_index_heads")
            yield linear(f"{layer}.self_attn.index_q_proj", queries * size, hidden)
            yield linear(f"{layer}.self_attn.index_k_proj", size, hidden)
            yield vector(f"{layer}.self_attn.index_q_norm", size)
            yield vector(f"{layer}.self_attn.index_k_norm", size)
        if not mixed[n]:
            yield from gated_mlp(f"{layer}.mlp", hidden, whole(text, "dense_intermediate_size"))
            continue
        moe = f"{layer}.block_sparse_moe"
        yield vector(f"{moe}.gate", count, hidden, dtype="float32")
        if flag(text, "use_routing_bias"):
            yield vector(f"{moe}.e_score_correction_bias", count, dtype="float32")
        yield from experts(f"{moe}.experts", hidden, inner, count, ("w1", "w3", "w2"))
        if shared:
            yield from gated_mlp(f"{moe}.shared_experts", hidden, inner * shared)


def minimax_m3(text: dict[str, Any], config: dict[str, Any]) -> Iterator[Tensor]:
    yield from minimax_m3_text(text, config)
    yield from _towers.minimax_vl(config, whole(text, "hidden_size"))


FAMILIES: dict[str, Family] = {
    "llama4": llama4,
    "llama4_text": llama4_text,
    "step3p5": step3p5,
    "step3p7": step3p7,
    "mimo_v2": mimo_v2,
    "mimo_v2_flash": mimo_v2,
    "minimax_m3": minimax_m3_text,
    "minimax_m3_text": minimax_m3_text,
    "minimax_m3_vl": minimax_m3,
}
