# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 gb10.serving contributors
#
# Private to this collection: may change without notice.
"""DeepSeek-V4: one shared key-value vector, compressed and indexed attention, streams mixed by hyper-connections."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ansible_collections.gb10.serving.plugins.module_utils._inventory._read import layers, tied, whole
from ansible_collections.gb10.serving.plugins.module_utils._inventory._types import Family, Tensor, linear
from ansible_collections.gb10.serving.plugins.module_utils._model_layers import drafting_layers, has_dspark

INDEXED = 4  # the compression ratio at which attention also chooses its tokens
MOST_STAGES = 64
RATIOS = (0, 1, INDEXED, 128)


def _ratios(text: dict[str, Any]) -> list[int]:
    """Of each layer, how many tokens its attention makes one of. The file may go on with its draft layers."""
    count = layers(text, "num_hidden_layers", least=1)
    ratios = text.get("compress_ratios")
    if ratios is None:
        raise KeyError("compress_ratios")
    drafts = drafting_layers(text)
    if not isinstance(ratios, list) or not count <= len(ratios) <= count + drafts:
        seen = f"{len(ratios)} numbers" if isinstance(ratios, list) else f"{ratios!r:.60}"
        raise ValueError(f"compress_ratios is {seen}, expected one number for each of {count} layers")
    wrong = next((ratio for ratio in ratios if isinstance(ratio, bool) or ratio not in RATIOS), None)
    if wrong is not None:
        raise ValueError(f"compress_ratios has {wrong!r:.60}, known are {', '.join(map(str, RATIOS))}")
    return ratios[:count]


def _compressor(module: str, hidden: int, dim: int, ratio: int) -> Iterator[Tensor]:
    wide = dim * (2 if ratio == INDEXED else 1)  # overlapping windows at the small ratio
    yield Tensor(f"{module}.ape", (ratio, wide), dtype="float32")
    yield Tensor(f"{module}.wkv", (wide, hidden))
    yield Tensor(f"{module}.wgate", (wide, hidden))
    yield Tensor(f"{module}.norm", (dim,))


def _attention(text: dict[str, Any], module: str, ratio: int) -> Iterator[Tensor]:
    hidden, heads, dim = whole(text, "hidden_size"), whole(text, "num_attention_heads"), whole(text, "head_dim")
    q_rank, o_rank, groups = whole(text, "q_lora_rank"), whole(text, "o_lora_rank"), whole(text, "o_groups")
    yield linear(f"{module}.wq_a", q_rank, hidden)
    yield linear(f"{module}.wkv", dim, hidden)
    yield Tensor(f"{module}.q_norm", (q_rank,))
    yield Tensor(f"{module}.kv_norm", (dim,))
    yield linear(f"{module}.wq_b", heads * dim, q_rank)
    yield linear(f"{module}.wo_a", groups * o_rank, heads * dim // groups)
    yield linear(f"{module}.wo_b", hidden, groups * o_rank)
    yield Tensor(f"{module}.attn_sink", (heads,), dtype="float32")
    if ratio > 1:
        yield from _compressor(f"{module}.compressor", hidden, dim, ratio)
    if ratio == INDEXED:
        index_heads, index_dim = whole(text, "index_n_heads"), whole(text, "index_head_dim")
        yield linear(f"{module}.indexer.wq_b", index_heads * index_dim, q_rank)
        yield Tensor(f"{module}.indexer.weights_proj", (index_heads, hidden))
        yield from _compressor(f"{module}.indexer.compressor", hidden, index_dim, ratio)


def _experts(text: dict[str, Any], module: str, hashed: bool) -> Iterator[Tensor]:
    """The first layers choose experts by the token alone, from a table."""
    hidden, experts, inner = (whole(text, k) for k in ("hidden_size", "n_routed_experts", "moe_intermediate_size"))
    yield Tensor(f"{module}.gate", (experts, hidden))
    if hashed:  # whole numbers of 32 bits, as wide as the dtype named
        table = (whole(text, "vocab_size"), whole(text, "num_experts_per_tok", most=experts))
        yield Tensor(f"{module}.gate.tid2eid", table, dtype="float32")
    elif text.get("topk_method") == "noaux_tc":
        yield Tensor(f"{module}.gate.bias", (experts,), dtype="float32")
    shared = inner * whole(text, "n_shared_experts", default=0, least=0, most=4096)
    for part, width, count in (("experts.*", inner, experts), ("shared_experts", shared, 1)):
        if width:
            yield linear(f"{module}.{part}.w1", width, hidden, count)
            yield linear(f"{module}.{part}.w2", hidden, width, count)
            yield linear(f"{module}.{part}.w3", width, hidden, count)


def _layer(text: dict[str, Any], module: str, ratio: int, hashed: bool) -> Iterator[Tensor]:
    hidden, streams = whole(text, "hidden_size"), whole(text, "hc_mult", most=1024)
    mixed = (2 + streams) * streams
    yield from _attention(text, f"{module}.attn", ratio)
    yield from _experts(text, f"{module}.ffn", hashed)
    for part in ("attn", "ffn"):
        yield Tensor(f"{module}.{part}_norm", (hidden,))
        yield Tensor(f"{module}.hc_{part}_fn", (mixed, streams * hidden), dtype="float32")
        yield Tensor(f"{module}.hc_{part}_base", (mixed,), dtype="float32")
        yield Tensor(f"{module}.hc_{part}_scale", (3,), dtype="float32")


def _streams_joined(text: dict[str, Any], prefix: str) -> Iterator[Tensor]:
    hidden, streams = whole(text, "hidden_size"), whole(text, "hc_mult", most=1024)
    yield Tensor(f"{prefix}hc_head_fn", (streams, streams * hidden), dtype="float32")
    yield Tensor(f"{prefix}hc_head_base", (streams,), dtype="float32")
    yield Tensor(f"{prefix}hc_head_scale", (1,), dtype="float32")
    yield Tensor(f"{prefix}norm", (hidden,))


def _dspark(text: dict[str, Any], stages: int) -> Iterator[Tensor]:
    """A drafter in the place of the prediction layers, which reads the outputs of a few layers."""
    hidden, vocab = whole(text, "hidden_size"), whole(text, "vocab_size")
    read, rank = text["dspark_target_layer_ids"], whole(text, "dspark_markov_rank", most=1 << 20)
    if not isinstance(read, list) or stages > MOST_STAGES:
        raise ValueError(
            f"dspark_target_layer_ids is {read!r:.60} and n_mtp_layers {stages}, expected a list and a few"
        )
    yield linear("mtp.0.main_proj", hidden, hidden * len(read))
    yield Tensor("mtp.0.main_norm", (hidden,))
    for number in range(stages):
        yield from _layer(text, f"mtp.{number}", 0, hashed=False)
    last = f"mtp.{stages - 1}"
    yield from _streams_joined(text, f"{last}.")
    yield Tensor(f"{last}.markov_head.markov_w1", (vocab, rank))
    yield Tensor(f"{last}.markov_head.markov_w2", (vocab, rank))
    yield Tensor(f"{last}.confidence_head.proj", (1, hidden + rank))


def deepseek_v4(text: dict[str, Any], config: dict[str, Any]) -> Iterator[Tensor]:
    hidden, vocab = whole(text, "hidden_size"), whole(text, "vocab_size")
    if whole(text, "vision_n_layers", default=0, least=0):
        raise ValueError(f"vision_n_layers is {text['vision_n_layers']}, known is the model without vision")
    hashed = layers(text, "num_hash_layers", default=0)
    yield Tensor("embed", (vocab, hidden))
    for number, ratio in enumerate(_ratios(text)):
        yield from _layer(text, f"layers.{number}", ratio, number < hashed)
    yield from _streams_joined(text, "")
    if not tied(text, config):
        yield linear("head", vocab, hidden)
    if has_dspark(text):
        yield from _dspark(text, drafting_layers(text))
        return
    for number in range(layers(text, "num_nextn_predict_layers", default=0)):
        module = f"mtp.{number}"
        for name in ("e_proj", "h_proj"):
            yield linear(f"{module}.{name}", hidden, hidden)
        for name in ("enorm", "hnorm"):
            yield Tensor(f"{module}.{name}", (hidden,))
        yield from _layer(text, module, 0, hashed=False)
        yield from _streams_joined(text, f"{module}.")


FAMILIES: dict[str, Family] = {"deepseek_v4": deepseek_v4}
