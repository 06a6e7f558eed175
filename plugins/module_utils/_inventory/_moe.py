# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 gb10.serving contributors
#
# Private to this collection: may change without notice.
"""Mixtures of experts whose layers all have the same attention."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ansible_collections.gb10.serving.plugins.module_utils._inventory import _moe_mixed
from ansible_collections.gb10.serving.plugins.module_utils._inventory._common import (
    Heads,
    attention,
    ends,
    experts,
    gated_mlp,
    heads_of,
    index_list,
    names_of,
    norms,
    vector,
)
from ansible_collections.gb10.serving.plugins.module_utils._inventory._read import flag, layers, section, whole
from ansible_collections.gb10.serving.plugins.module_utils._inventory._types import Family, Tensor, linear
from ansible_collections.gb10.serving.plugins.module_utils._inventory._vision import glm_vision, qwen_vision

_MIXTRAL = ("w1", "w3", "w2")


def _decoder(
    text: dict[str, Any],
    config: dict[str, Any],
    heads: Heads,
    names: tuple[str, str],
    feed_forward: Callable[[int, str], Iterator[Tensor]],
    untied: bool = False,
) -> Iterator[Tensor]:
    yield from ends(text, config, names, untied)
    for n in range(layers(text, "num_hidden_layers", least=1)):
        layer = f"{names[0]}.layers.{n}"
        yield from norms(layer, heads.hidden)
        yield from attention(f"{layer}.self_attn", heads)
        yield from feed_forward(n, layer)


def _qwen_moe(text: dict[str, Any], config: dict[str, Any], heads: Heads) -> Iterator[Tensor]:
    """Expert layers by decoder_sparse_step and mlp_only_layers; a gated shared expert where it has a size."""
    hidden, count = heads.hidden, whole(text, "num_experts")
    inner, shared = (
        whole(text, "moe_intermediate_size"),
        whole(text, "shared_expert_intermediate_size", default=0, least=0),
    )
    step, only = whole(text, "decoder_sparse_step", default=1), index_list(text, "mlp_only_layers")

    def feed_forward(n: int, layer: str) -> Iterator[Tensor]:
        if n in only or (n + 1) % step:
            yield from gated_mlp(f"{layer}.mlp", hidden, whole(text, "intermediate_size"))
            return
        yield linear(f"{layer}.mlp.gate", count, hidden)
        yield from experts(f"{layer}.mlp.experts", hidden, inner, count)
        if shared:
            yield vector(f"{layer}.mlp.shared_expert_gate", 1, hidden)
            yield from gated_mlp(f"{layer}.mlp.shared_expert", hidden, shared)

    yield from _decoder(text, config, heads, names_of(text, config), feed_forward)


def qwen2_moe(text: dict[str, Any], config: dict[str, Any]) -> Iterator[Tensor]:
    return _qwen_moe(text, config, heads_of(text, qkv_bias=True))


def qwen3_moe(text: dict[str, Any], config: dict[str, Any]) -> Iterator[Tensor]:
    return _qwen_moe(text, config, heads_of(text, qkv_bias=flag(text, "attention_bias"), norm="head"))


def qwen3_vl_moe(text: dict[str, Any], config: dict[str, Any]) -> Iterator[Tensor]:
    yield from qwen3_moe(text, config)
    yield from qwen_vision(section(config, "vision_config") or {}, "model.visual")


def mixtral(text: dict[str, Any], config: dict[str, Any]) -> Iterator[Tensor]:
    heads, inner, count = heads_of(text), whole(text, "intermediate_size"), whole(text, "num_local_experts")

    def feed_forward(n: int, layer: str) -> Iterator[Tensor]:
        yield vector(f"{layer}.block_sparse_moe.gate", count, heads.hidden)
        yield from experts(f"{layer}.block_sparse_moe.experts", heads.hidden, inner, count, _MIXTRAL)

    yield from _decoder(text, config, heads, names_of(text, config), feed_forward)


def minimax_m2(text: dict[str, Any], config: dict[str, Any]) -> Iterator[Tensor]:
    """The modules for multi-token prediction of num_mtp_modules are not in the published checkpoints."""
    heads = heads_of(text, qkv_bias=flag(text, "attention_bias"), norm="full")
    inner, count = whole(text, "intermediate_size"), whole(text, "num_local_experts")
    bias = flag(text, "use_routing_bias")

    def feed_forward(n: int, layer: str) -> Iterator[Tensor]:
        moe = f"{layer}.block_sparse_moe"
        yield vector(f"{moe}.gate", count, heads.hidden, dtype="float32")
        if bias:
            yield vector(f"{moe}.e_score_correction_bias", count, dtype="float32")
        yield from experts(f"{moe}.experts", heads.hidden, inner, count, _MIXTRAL)

    yield from _decoder(text, config, heads, names_of(text, config), feed_forward)


def gpt_oss(text: dict[str, Any], config: dict[str, Any]) -> Iterator[Tensor]:
    """Biases everywhere, a sink for each query head. The experts of a layer are one tensor in the checkpoint."""
    heads = heads_of(text, qkv_bias=True, out_bias=True)
    hidden, inner, count = (
        heads.hidden,
        whole(text, "intermediate_size"),
        whole(text, "num_local_experts", "num_experts"),
    )

    def feed_forward(n: int, layer: str) -> Iterator[Tensor]:
        yield vector(f"{layer}.self_attn.sinks", heads.query)
        yield vector(f"{layer}.mlp.router", count, hidden)
        yield vector(f"{layer}.mlp.router.bias", count)
        yield linear(f"{layer}.mlp.experts.gate_up_proj", 2 * inner, hidden, count)
        yield linear(f"{layer}.mlp.experts.down_proj", hidden, inner, count)
        yield Tensor(f"{layer}.mlp.experts.gate_up_proj_bias", (2 * inner,), count)
        yield Tensor(f"{layer}.mlp.experts.down_proj_bias", (hidden,), count)

    yield from _decoder(text, config, heads, names_of(text, config), feed_forward, untied=True)


def glm4_moe(text: dict[str, Any], config: dict[str, Any]) -> Iterator[Tensor]:
    """Dense layers first, shared experts, router in float32; the layers after the last are for prediction."""
    norm = "head" if flag(text, "use_qk_norm") else None
    heads, names = heads_of(text, qkv_bias=flag(text, "attention_bias"), norm=norm), names_of(text, config)
    hidden, inner, count = heads.hidden, whole(text, "moe_intermediate_size"), whole(text, "n_routed_experts")
    shared = whole(text, "n_shared_experts", default=0, least=0)
    dense, last = whole(text, "first_k_dense_replace", default=0, least=0), layers(text, "num_hidden_layers", least=1)

    def feed_forward(n: int, layer: str) -> Iterator[Tensor]:
        if n < dense:
            yield from gated_mlp(f"{layer}.mlp", hidden, whole(text, "intermediate_size"))
            return
        yield vector(f"{layer}.mlp.gate", count, hidden, dtype="float32")
        yield vector(f"{layer}.mlp.gate.e_score_correction_bias", count, dtype="float32")
        yield from experts(f"{layer}.mlp.experts", hidden, inner, count)
        if shared:
            yield from gated_mlp(f"{layer}.mlp.shared_experts", hidden, inner * shared)

    yield from _decoder(text, config, heads, names, feed_forward)
    for n in range(last, last + layers(text, "num_nextn_predict_layers", default=0)):
        layer = f"{names[0]}.layers.{n}"
        yield vector(f"{layer}.embed_tokens", whole(text, "vocab_size"), hidden)
        yield vector(f"{layer}.shared_head.head", whole(text, "vocab_size"), hidden)
        yield vector(f"{layer}.eh_proj", hidden, 2 * hidden)
        yield from norms(layer, hidden, ("enorm", "hnorm", "shared_head.norm"))
        yield from norms(layer, hidden)
        yield from attention(f"{layer}.self_attn", heads)
        yield from feed_forward(max(n, dense), layer)


def glm4v_moe(text: dict[str, Any], config: dict[str, Any]) -> Iterator[Tensor]:
    yield from glm4_moe(text, config)
    yield from glm_vision(section(config, "vision_config") or {}, "model.visual")


def ernie4_5_moe(text: dict[str, Any], config: dict[str, Any]) -> Iterator[Tensor]:
    bias, total = flag(text, "use_bias"), layers(text, "num_hidden_layers", least=1)
    heads, count = heads_of(text, qkv_bias=bias), whole(text, "moe_num_experts")
    hidden, inner = heads.hidden, whole(text, "moe_intermediate_size")
    shared = whole(text, "moe_num_shared_experts", default=0, least=0)
    start, step = whole(text, "moe_layer_start_index", default=0, least=0), whole(text, "moe_layer_interval", default=1)
    end = whole(text, "moe_layer_end_index", default=total - 1, least=-1)

    def feed_forward(n: int, layer: str) -> Iterator[Tensor]:
        if not start <= n <= (total if end < 0 else end) or (n + 1) % step:
            yield from gated_mlp(f"{layer}.mlp", hidden, whole(text, "intermediate_size"), bias)
            return
        yield vector(f"{layer}.mlp.gate", count, hidden, dtype="float32")
        yield vector(f"{layer}.mlp.moe_statics.e_score_correction_bias", count, dtype="float32")
        yield from experts(f"{layer}.mlp.experts", hidden, inner, count)
        if shared:
            yield from gated_mlp(f"{layer}.mlp.shared_experts", hidden, inner * shared)

    yield from _decoder(text, config, heads, names_of(text, config), feed_forward)


def hy_v3(text: dict[str, Any], config: dict[str, Any]) -> Iterator[Tensor]:
    heads = heads_of(text, norm="head" if flag(text, "qk_norm") else None)
    hidden, inner = heads.hidden, whole(text, "expert_hidden_dim", "moe_intermediate_size")
    count, shared = whole(text, "num_experts"), whole(text, "num_shared_experts", least=0)
    dense = whole(text, "first_k_dense_replace", least=0)

    def feed_forward(n: int, layer: str) -> Iterator[Tensor]:
        if n < dense:
            yield from gated_mlp(f"{layer}.mlp", hidden, whole(text, "intermediate_size"))
            return
        yield vector(f"{layer}.mlp.router.gate", count, hidden, dtype="float32")
        yield vector(f"{layer}.mlp.expert_bias", count, dtype="float32")
        yield from experts(f"{layer}.mlp.experts", hidden, inner, count)
        if shared:
            yield from gated_mlp(f"{layer}.mlp.shared_mlp", hidden, inner * shared)

    yield from _decoder(text, config, heads, names_of(text, config), feed_forward)


FAMILIES: dict[str, Family] = {
    "qwen2_moe": qwen2_moe,
    "qwen3_moe": qwen3_moe,
    "qwen3_vl_moe": qwen3_vl_moe,
    "qwen3_vl_moe_text": qwen3_moe,
    "mixtral": mixtral,
    "minimax_m2": minimax_m2,
    "gpt_oss": gpt_oss,
    "glm4_moe": glm4_moe,
    "glm4v_moe": glm4v_moe,
    "glm4v_moe_text": glm4_moe,
    "ernie4_5_moe": ernie4_5_moe,
    "hy_v3": hy_v3,
    **_moe_mixed.FAMILIES,
}
