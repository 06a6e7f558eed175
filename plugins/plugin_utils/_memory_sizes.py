# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
#
# Private to this collection: may change without notice.
"""The sizes of tensor parallelism that a model accepts. Pure."""

from __future__ import annotations

import math
from typing import Any

from ansible_collections.gb10.serving.plugins.plugin_utils._memory_model import UNASKED, Engine, Model, Wishes

VOCAB_PAD = 64
_JOINED = ("intermediate_size", "shared_expert_intermediate_size")  # two projections side by side: their seam counts
FINEST = 32  # from 0.32 on blocks of expert scales are cut down to this


def padded_vocab(vocab: int) -> int:
    return math.ceil(vocab / VOCAB_PAD) * VOCAB_PAD


def _divides(value: int | None, tp: int) -> bool:
    return not value or value % tp == 0


def tp_problems(model: Model, tp: int, engine: Engine, ep: int = 1, wishes: Wishes = UNASKED) -> list[str]:
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
            f"{padded_vocab(vocab)} is not divisible by {tp} (vocab_size, padded to a multiple of {VOCAB_PAD})."
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
    found.extend(_splits(model, tp))
    found.extend(_tower(model, tp, engine, wishes))
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
    packed = quantization.get("method") == "compressed-tensors"
    if packed and form == "fp8_block" and group and part % group:
        text = f"The output_size of gate's and up's weight = {part} is not divisible by weight quantization "
        return [f"{text}block_n = {group}."]
    grouped = packed and form.startswith("int")
    if grouped and group and part % group:
        text = "CompressedTensors WNA16 MoE with static group scales requires the MoE intermediate size per "
        return [f"{text}tensor-parallel partition ({part}) to be divisible by group_size ({group})."]
    return []


def _splits(model: Model, tp: int) -> list[str]:
    """Shards of other layers that cut a block or a group of scales, or a row of packed 4-bit floats."""
    c, quantization = model.config, model.quantization or {}
    linear, method = c.get("linear") or {}, str(quantization.get("method"))
    sizes = {
        "intermediate_size": c.get("intermediate_size") if c.get("dense_layers") else None,
        "shared_expert_intermediate_size": c.get("shared_expert_intermediate_size"),
        "attention": None if model.mla else _heads_width(c),
        "linear_attention": (linear.get("value_heads") or 0) * (linear.get("value_head_dim") or 0),
    }
    names = {"attention": "num_attention_heads x head_dim", "linear_attention": "linear_num_value_heads x head dim"}
    found = []
    for key, wanted in (quantization.get("splits") or {}).items():
        size, of, form = sizes.get(key), wanted["of"], wanted["form"]
        if (
            not size
            or size % tp
            or size // tp % of == 0
            or (form == "fp8_block" and tp == 1 and not (method == "compressed-tensors" and key in _JOINED))
        ):
            continue
        if form != "nvfp4" or method == "modelopt":  # the kernels of compressed-tensors pad
            found.append(f"{_cut(method, form, size // tp, of)} ({names.get(key, key)}).")
    return found


def _tower(model: Model, tp: int, engine: Engine, wishes: Wishes) -> list[str]:
    """vLLM splits a vision tower by its heads, too; some towers it copies where they do not divide."""
    heads, here = model.config.get("vision_heads"), model.by_class.get("vision")
    if not heads or not here or wishes.language_model_only or not wishes.vision_sharded or engine.name != "vllm":
        return []
    if heads % tp == 0 or model.config.get("vision_copied"):
        return []
    remedy = "Start with --mm-encoder-tp-mode data, or with --language-model-only."
    return [f"{heads} is not divisible by {tp} (attention heads in vision_config). {remedy}"]


def _heads_width(config: dict[str, Any]) -> int | None:
    """The output of attention, where all layers have the same."""
    parts = [g for g in config.get("cache") or () if g.get("of") == "model" and g.get("head_dim") and g.get("kv_heads")]
    widths = {part.get("value_head_dim") or part["head_dim"] for part in parts}
    heads = config.get("num_attention_heads")
    return heads * widths.pop() if heads and len(widths) == 1 else None


def _cut(method: str, form: str, part: int, of: int) -> str:
    if form == "fp8_block":
        return f"Weight input_size_per_partition = {part} is not divisible by weight quantization block_k = {of}"
    if form == "nvfp4":
        return f"Unsupported model when in features size is not multiple of {of}: {part}"
    if method == "awq":
        return (
            "The input size is not aligned with the quantized weight shape. This can be caused by too large tensor "
            f"parallel size: {part} is not divisible by group_size = {of}"
        )
    return f"in_features per partition {part} is not divisible by group_size = {of}"
