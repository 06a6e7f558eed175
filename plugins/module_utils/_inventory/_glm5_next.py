# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 gb10.serving contributors
#
# Private to this collection: may change without notice.
"""GLM-5.3-Flash: Kimi delta attention and indexed latent attention, streams mixed by hyper-connections, a vision tower.

Attention and vision are in the model's own dtype also where the rest is quantised.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from ansible_collections.gb10.serving.plugins.module_utils._inventory._hybrid import KINDS, gated_mlp
from ansible_collections.gb10.serving.plugins.module_utils._inventory._mla import Traits, attention, experts, indexer
from ansible_collections.gb10.serving.plugins.module_utils._inventory._read import (
    flag,
    layers,
    names,
    section,
    tied,
    whole,
)
from ansible_collections.gb10.serving.plugins.module_utils._inventory._types import Family, Tensor, linear
from ansible_collections.gb10.serving.plugins.module_utils._inventory._vision import biased


def _plain(tensors: Iterator[Tensor]) -> Iterator[Tensor]:
    return (replace(tensor, linear=False) for tensor in tensors)


def _delta(text: dict[str, Any], module: str) -> Iterator[Tensor]:
    """Three short convolutions, and two gates of low rank."""
    nested = section(text, "linear_attn_config") or {}
    hidden = whole(text, "hidden_size")
    heads = whole(nested, "num_heads", default=whole(text, "linear_num_heads", default=64))
    dim = whole(nested, "head_dim", default=whole(text, "linear_head_dim", default=128))
    default = whole(text, "linear_conv_kernel_dim", default=4, most=4096)
    kernel = whole(nested, "short_conv_kernel_size", default=default, most=4096)
    for letter in ("q", "k", "v"):
        yield Tensor(f"{module}.{letter}_proj", (heads * dim, hidden))
        yield Tensor(f"{module}.{letter}_conv1d", (heads * dim, 1, kernel), dtype="float32")
    yield Tensor(f"{module}.b_proj", (heads, hidden))
    for letter in ("f", "g"):
        yield Tensor(f"{module}.{letter}_a_proj", (dim, hidden))
        yield Tensor(f"{module}.{letter}_b_proj", (heads * dim, dim))
    yield Tensor(f"{module}.dt_bias", (heads * dim,), dtype="float32")
    yield Tensor(f"{module}.A_log", (heads,), dtype="float32")
    yield Tensor(f"{module}.o_norm", (dim,))
    yield Tensor(f"{module}.o_proj", (hidden, heads * dim))


def _latent(text: dict[str, Any], module: str) -> Iterator[Tensor]:
    yield from _plain(attention(text, module))
    if text.get("index_topk") is None:
        return
    dim, pool = whole(text, "index_head_dim"), whole(text, "index_kpool", default=16, most=65536)
    yield from _plain(indexer(text, f"{module}.indexer"))
    yield Tensor(f"{module}.indexer.index_kpool_compress_ape", (pool, dim), dtype="float32")
    yield Tensor(f"{module}.indexer.index_kpool_compress_gate", (dim, whole(text, "hidden_size")))


def _layer(text: dict[str, Any], module: str, kind: str, sparse: bool, streams: int) -> Iterator[Tensor]:
    hidden = whole(text, "hidden_size")
    if kind == "linear_attention":
        yield from _delta(text, f"{module}.self_attn")
    else:
        yield from _latent(text, f"{module}.self_attn")
    if sparse:
        yield from experts(text, f"{module}.mlp", Traits())
    else:
        yield from gated_mlp(f"{module}.mlp", whole(text, "intermediate_size"), hidden)
    yield Tensor(f"{module}.input_layernorm", (hidden,))
    yield Tensor(f"{module}.post_attention_layernorm", (hidden,))
    mixed = (2 + streams) * streams
    for part in ("attn", "ffn") if streams else ():
        yield Tensor(f"{module}.hc_{part}_fn", (mixed, streams * hidden), dtype="float32")
        yield Tensor(f"{module}.hc_{part}_base", (mixed,), dtype="float32")
        yield Tensor(f"{module}.hc_{part}_scale", (3,), dtype="float32")


def _vision(vision: dict[str, Any], module: str) -> Iterator[Tensor]:
    hidden, inner, out = (whole(vision, key) for key in ("hidden_size", "intermediate_size", "out_hidden_size"))
    dim = hidden // whole(vision, "num_heads")
    patch, frames = whole(vision, "patch_size", most=4096), whole(vision, "temporal_patch_size", default=2, most=4096)
    merge = whole(vision, "spatial_merge_size", default=2, most=64)
    yield Tensor(f"{module}.patch_embed.proj", (hidden, whole(vision, "in_channels", default=3), frames, patch, patch))
    yield Tensor(f"{module}.patch_embed.proj.bias", (hidden,))
    for number in range(layers(vision, "depth")):
        block = f"{module}.blocks.{number}"
        yield Tensor(f"{block}.norm1", (hidden,))
        yield Tensor(f"{block}.norm2", (hidden,))
        yield Tensor(f"{block}.attn.q_norm", (dim,))
        yield Tensor(f"{block}.attn.k_norm", (dim,))
        yield from biased(f"{block}.attn.qkv", 3 * hidden, hidden)
        yield from biased(f"{block}.attn.proj", hidden, hidden)
        yield from biased(f"{block}.mlp.gate_proj", inner, hidden)
        yield from biased(f"{block}.mlp.up_proj", inner, hidden)
        yield from biased(f"{block}.mlp.down_proj", hidden, inner)
    yield linear(f"{module}.merger.proj", out, out)
    yield Tensor(f"{module}.merger.post_projection_norm", (out,))
    yield Tensor(f"{module}.merger.post_projection_norm.bias", (out,))
    yield from gated_mlp(f"{module}.merger", whole(vision, "projection_intermediate_size"), out)
    yield Tensor(f"{module}.downsample", (out, hidden, merge, merge))
    yield Tensor(f"{module}.downsample.bias", (out,))
    yield Tensor(f"{module}.post_layernorm", (hidden,))


def glm5_next(text: dict[str, Any], config: dict[str, Any]) -> Iterator[Tensor]:
    hidden, vocab, count = whole(text, "hidden_size"), whole(text, "vocab_size"), layers(text, "num_hidden_layers")
    module = "model.language_model" if text is not config else "model"
    kinds = names(text, "layer_types", (*KINDS, "indexed_attention"), count)
    kinds = kinds or [KINDS[number % 4 == 3] for number in range(count)]
    named = names(text, "mlp_layer_types", ("dense", "sparse"), count)
    named = named or ["dense" if number < 3 else "sparse" for number in range(count)]
    routed = whole(text, "n_routed_experts", default=0, least=0)
    streams = whole(text, "hc_mult", default=4, most=1024) if flag(text, "mhc", True) else 0
    yield Tensor(f"{module}.embed_tokens", (vocab, hidden))
    for number, kind in enumerate(kinds):
        sparse = bool(routed) and named[number] == "sparse"
        yield from _layer(text, f"{module}.layers.{number}", kind, sparse, streams)
    yield Tensor(f"{module}.norm", (hidden,))
    if not tied(text, config):
        yield linear("lm_head", vocab, hidden)
    for number in range(count, count + layers(text, "num_nextn_predict_layers", default=0)):
        layer = f"{module}.layers.{number}"
        for name in ("enorm", "hnorm", "shared_head.norm"):
            yield Tensor(f"{layer}.{name}", (hidden,))
        yield Tensor(f"{layer}.eh_proj", (hidden, 2 * hidden))
        yield from _layer(text, layer, "indexed_attention", bool(routed) and named[-1] == "sparse", 0)
    vision = section(config, "vision_config")
    if vision:
        yield from _plain(_vision(vision, "model.visual"))


FAMILIES: dict[str, Family] = {"glm5_next": glm5_next, "glm5_next_text": glm5_next}
