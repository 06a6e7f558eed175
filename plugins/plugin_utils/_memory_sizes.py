# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
#
# Private to this collection: may change without notice.
"""The sizes of tensor parallelism that a model accepts. Pure."""

from __future__ import annotations

import math

from ansible_collections.gb10.serving.plugins.plugin_utils._memory_model import Engine, Model

VOCAB_PAD = 64
FINEST = 32  # from 0.32 on blocks of expert scales are cut down to this


def padded_vocab(vocab: int) -> int:
    return math.ceil(vocab / VOCAB_PAD) * VOCAB_PAD


def _divides(value: int | None, tp: int) -> bool:
    return not value or value % tp == 0


def tp_problems(model: Model, tp: int, engine: Engine, ep: int = 1) -> list[str]:
    """Why the engine would refuse this tensor-parallel size, in its own words, with the key of config.json."""
    c = model.config
    found: list[str] = []
    heads, kv = c.get("num_attention_heads"), c.get("num_key_value_heads")
    if not _divides(heads, tp):
        found.append(f"Total number of attention heads ({heads}) must be divisible by tensor parallel size ({tp}).")
    if not model.mla and kv and kv % tp and tp % kv:
        found.append(
            f"num_key_value_heads {kv} and tensor parallel size {tp}: one must divide the other "
            "(assert self.total_num_kv_heads % tp_size == 0)."
        )
    vocab = c.get("vocab_size")
    if vocab and padded_vocab(vocab) % tp:
        found.append(
            f"{padded_vocab(vocab)} is not divisible by {tp} (vocab_size, padded to a multiple of {VOCAB_PAD})"
        )
    linear = c.get("linear") or {}
    moe = c.get("moe_intermediate_size")
    sizes = {
        "linear_num_key_heads": linear.get("key_heads"),
        "linear_num_value_heads": linear.get("value_heads"),
        "intermediate_size": c.get("intermediate_size") if c.get("dense_layers") else None,
        "shared_expert_intermediate_size": c.get("shared_expert_intermediate_size") or None,
        "moe_intermediate_size": moe if ep == 1 else None,
    }
    found.extend(f"{size} is not divisible by {tp} ({key})." for key, size in sizes.items() if not _divides(size, tp))
    if moe and ep == 1 and moe % tp == 0:
        found.extend(_experts(model, moe // tp, engine))
    found.extend(_blocks(model, tp, sizes))
    return found


def _experts(model: Model, part: int, engine: Engine) -> list[str]:
    """Shards of experts that cut a block or a group of scales."""
    quantization = model.quantization or {}
    block, group = quantization.get("block"), int(quantization.get("group") or 0)
    form = str(quantization.get("experts"))
    if block and form == "fp8_block" and part % block[0]:
        fine = math.gcd(block[0], part, model.config.get("hidden_size") or block[0])
        if engine.fp8_block_strict or fine < FINEST:
            text = f"The output_size of gate's and up's weight = {part} is not divisible by weight quantization "
            return [f"{text}block_n = {block[0]}."]
    grouped = quantization.get("method") == "compressed-tensors" and form.startswith("int")
    if grouped and group and part % group:
        text = "CompressedTensors WNA16 MoE with static group scales requires the MoE intermediate size per "
        return [f"{text}tensor-parallel partition ({part}) to be divisible by group_size ({group})."]
    return []


def _blocks(model: Model, tp: int, sizes: dict[str, int | None]) -> list[str]:
    """Shards of other layers that cut a block of scales."""
    quantization = model.quantization or {}
    block = quantization.get("block")
    if not block or quantization.get("method") != "fp8" or tp == 1:
        return []
    found = []
    for key in ("intermediate_size", "shared_expert_intermediate_size"):
        size = sizes.get(key)
        if size and size % tp == 0 and size // tp % block[1]:
            found.append(
                f"Weight input_size_per_partition = {size // tp} is not divisible by weight quantization "
                f"block_k = {block[1]} ({key})."
            )
    return found
