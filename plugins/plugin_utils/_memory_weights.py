# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
#
# Private to this collection: may change without notice.
"""Weights of one rank, and the sizes of tensor parallelism that a model accepts. Pure."""

from __future__ import annotations

import math

from ansible_collections.gb10.serving.plugins.plugin_utils._memory_model import Engine, Model, Term, Wishes

VOCAB_PAD = 64

# What tensor parallelism does with a class of tensors. "whole" is on every rank in full.
SHARDING = {
    "experts": "split",
    "shared_experts": "split",
    "mlp": "split",
    "attention": "split",
    "attention_kv": "kv",  # split up to one KV head per rank, copied from there on
    "attention_replicated": "whole",  # MLA down projections, indexers
    "linear_attention": "split",
    "embeddings": "vocab",
    "lm_head": "vocab",
    "norms_router": "whole",
    "vision": "whole",
    "mtp": "split",
    "other": "whole",
}


def padded_vocab(vocab: int) -> int:
    return math.ceil(vocab / VOCAB_PAD) * VOCAB_PAD


def weight_terms(model: Model, tp: int, wishes: Wishes) -> list[Term]:
    """One term for each class of tensors that is loaded."""
    config = model.config
    kv_heads, vocab = config.get("num_key_value_heads") or 1, config.get("vocab_size") or 1
    exact = model.source == "safetensors headers"
    terms: list[Term] = []
    for name, size in model.by_class.items():
        rule = SHARDING.get(name, "whole")
        if name == "mtp" and not wishes.speculative_tokens:
            continue
        if name == "vision":
            if wishes.language_model_only:
                continue
            rule = "split" if wishes.vision_sharded else "whole"
        if name == "lm_head" and config.get("tie_word_embeddings"):
            continue
        if rule == "split":
            share, formula = math.ceil(size / tp), f"bytes / tp {tp}"
        elif rule == "kv":
            parts = min(tp, kv_heads)
            share, formula = math.ceil(size / parts), f"bytes / min(tp {tp}, kv heads {kv_heads})"
        elif rule == "vocab":
            share = math.ceil(size * padded_vocab(vocab) / vocab / tp)
            formula = f"bytes x padded vocabulary {padded_vocab(vocab)} / {vocab} / tp {tp}"
        else:
            share, formula = size, "on every rank in full"
        terms.append(
            Term(f"weights.{name}", share, f"weights[{model.source}]: {formula}", share // (500 if exact else 100))
        )
    absorbed = ("qk_nope_head_dim", "v_head_dim", "kv_lora_rank")
    if model.mla and model.quantization and all(model.mla.get(k) for k in absorbed):
        # kv_b is used absorbed into query and output. Of a 16-bit projection that is a view, of a quantised one a copy.
        heads = math.ceil((config.get("num_attention_heads") or 1) / tp)
        size = (
            2
            * heads
            * (model.mla["qk_nope_head_dim"] + model.mla["v_head_dim"])
            * model.mla["kv_lora_rank"]
            * (config.get("num_hidden_layers") or 0)
        )
        terms.append(
            Term(
                "weights.mla_absorbed", size, "mla_absorbed: 2 B x heads/tp x (nope + v) x kv_lora x layers", size // 10
            )
        )
    return terms


def _divides(value: int | None, tp: int) -> bool:
    return not value or value % tp == 0


def tp_problems(model: Model, tp: int, engine: Engine) -> list[str]:
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
        "moe_intermediate_size": moe,
    }
    found.extend(f"{size} is not divisible by {tp} ({key})." for key, size in sizes.items() if not _divides(size, tp))
    block = (model.quantization or {}).get("block")
    if block and moe and moe % tp == 0 and (moe // tp) % block[0] and engine.fp8_block_strict:
        found.append(
            f"The output_size of gate's and up's weight = {moe // tp} is not divisible by weight quantization "
            f"block_n = {block[0]}."
        )
    return found
