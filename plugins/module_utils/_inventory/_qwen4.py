# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 gb10.serving contributors
#
# Private to this collection: may change without notice.
"""Qwen4-Exp: the delta net hybrid with an indexer for attention, hyper-connections and an n-gram table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ansible_collections.gb10.serving.plugins.module_utils._inventory._hybrid import (
    KINDS,
    delta_net,
    experts,
    gated_attention,
    layer_kinds,
)
from ansible_collections.gb10.serving.plugins.module_utils._inventory._quantization import Scheme
from ansible_collections.gb10.serving.plugins.module_utils._inventory._read import layers, section, tied, whole
from ansible_collections.gb10.serving.plugins.module_utils._inventory._types import Family, Tensor, linear
from ansible_collections.gb10.serving.plugins.module_utils._inventory._vision import qwen_vision

MOST_ROWS = 1 << 32  # of an n-gram table


def _streams(text: dict[str, Any], module: str, joins: bool = True) -> Iterator[Tensor]:
    """How the parallel streams are mixed before a block, and, but at the end, what of its output goes to each."""
    hidden, count = whole(text, "hidden_size"), whole(text, "hc_count", default=4, most=1024)
    rank, wide = whole(text, "hc_lowrank", default=320), hidden * count
    yield Tensor(f"{module}.hc_norm", (wide,))
    yield Tensor(f"{module}.input_mix_weight_down", (rank, wide))
    yield Tensor(f"{module}.input_mix_weight_up", (wide, rank))
    if joins:
        yield Tensor(f"{module}.block_inject_weight", (count, wide))


def _table_dtype(config: dict[str, Any], text: dict[str, Any], module: str) -> str | None:
    """Quantised checkpoints have the table in 8 bits, unless they name it or its parts among what they leave."""
    if text.get("ple_embedding_dtype") == "float8_e4m3fn":
        return "float8_e4m3fn"
    scheme, _reason = Scheme.of(config)
    if scheme is None or any(name.startswith(f"{module}.shard_") for name in scheme.ignored):
        return None
    return "float8_e4m3fn" if scheme.format(module) else None


def _ngrams(text: dict[str, Any], config: dict[str, Any], module: str) -> Iterator[Tensor]:
    """A table for each head of each n-gram length. The real ones have prime sizes, a few rows more than given here."""
    hidden, count = whole(text, "hidden_size"), whole(text, "hc_count", default=4, most=1024)
    size = whole(text, "ple_embed_dim", default=hidden)
    lengths = whole(text, "ngram_size", default=3, least=2, most=64) - 1
    heads = lengths * whole(text, "heads_per_ngram", default=8, most=4096)
    if size % heads:
        raise ValueError(f"ple_embed_dim is {size}, expected a multiple of the {heads} n-gram heads")
    pad = whole(text, "make_ngram_vocab_size_divisible_by", default=128)
    rows = heads * whole(text, "ngram_vocab_size_base", default=20_000_000, most=MOST_ROWS)
    table = f"{module}.ple_embedding.ngram_embedding"
    yield Tensor(table, (-(-rows // pad) * pad, size // heads), dtype=_table_dtype(config, text, table))
    yield linear(f"{module}.key_proj", count * hidden, size)
    yield linear(f"{module}.value_proj", hidden, size)
    for name in ("norm_key", "norm_query", "norm_conv"):
        yield Tensor(f"{module}.{name}", (count * hidden,))
    yield Tensor(f"{module}.conv1d", (count * hidden, 1, whole(text, "ple_conv_kernel_size", default=4, most=4096)))


def _layer(text: dict[str, Any], module: str, kind: str) -> Iterator[Tensor]:
    hidden = whole(text, "hidden_size")
    if kind == "linear_attention":
        yield from delta_net(text, f"{module}.linear_attn", fused=False)
    else:
        yield from gated_attention({**text, "attn_output_gate": True}, f"{module}.self_attn")
        if text.get("indexer_n_heads") is not None:
            dim = whole(text, "indexer_head_dim")
            heads = whole(text, "indexer_n_heads") + whole(text, "indexer_kv_heads", default=1)
            yield linear(f"{module}.self_attn.indexer.index_qk_proj", heads * dim, hidden)
            yield Tensor(f"{module}.self_attn.indexer.q_layernorm", (dim,))
            yield Tensor(f"{module}.self_attn.indexer.k_layernorm", (dim,))
    yield from experts(text, f"{module}.mlp")
    yield from _streams(text, f"{module}.attn_hyper_connection")
    yield from _streams(text, f"{module}.mlp_hyper_connection")


def _with_ngrams(text: dict[str, Any]) -> set[int]:
    """Layers that add the embeddings of n-grams; the file counts from 1."""
    value = text.get("ple_layer_ids") or []
    count = layers(text, "num_hidden_layers", least=1)
    if not isinstance(value, list) or any(isinstance(n, bool) or n not in range(1, count + 1) for n in value):
        raise ValueError(f"ple_layer_ids is {value!r:.60}, expected numbers of layers from 1 to {count}")
    return {number - 1 for number in value}


def qwen4_exp(text: dict[str, Any], config: dict[str, Any]) -> Iterator[Tensor]:
    hidden, vocab = whole(text, "hidden_size"), whole(text, "vocab_size")
    module = "model.language_model" if text is not config else "model"
    yield Tensor(f"{module}.embed_tokens", (vocab, hidden))
    with_ngrams = _with_ngrams(text)
    for number, kind in enumerate(layer_kinds(text, (*KINDS, "indexed_attention", "qwen_sparse_attention"))):
        yield from _layer(text, f"{module}.layers.{number}", kind)
        if number in with_ngrams:
            yield from _ngrams(text, config, f"{module}.layers.{number}.ple")
    yield from _streams(text, f"{module}.hyper_connection_mixer", joins=False)
    if not tied(text, config):
        yield linear("lm_head", vocab, hidden)
    drafts = layers(text, "mtp_num_hidden_layers", default=1)
    for number in range(drafts):
        yield from _layer(text, f"mtp.layers.{number}", "full_attention")
    if drafts:
        yield linear("mtp.fc_embedding", hidden, hidden)
        yield linear("mtp.fc_hidden", hidden, hidden)
        yield Tensor("mtp.pre_fc_norm_embedding", (hidden,))
        yield Tensor("mtp.pre_fc_norm_hidden", (hidden * whole(text, "hc_count", default=4, most=1024),))
        yield from _streams(text, "mtp.hyper_connection_mixer", joins=False)
    vision = section(config, "vision_config")
    if vision:
        yield from qwen_vision(vision, "model.visual")


FAMILIES: dict[str, Family] = {"qwen4_exp": qwen4_exp, "qwen4_exp_text": qwen4_exp}
