# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
#
# Private to this collection: may change without notice.
"""Weights of one rank. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from ansible_collections.gb10.serving.plugins.plugin_utils import _memory_padding as padding
from ansible_collections.gb10.serving.plugins.plugin_utils._memory_model import Model, Term, Wishes
from ansible_collections.gb10.serving.plugins.plugin_utils._memory_sizes import padded_vocab, tp_problems
from ansible_collections.gb10.serving.plugins.plugin_utils._memory_stages import Stage

__all__ = ["SHARDING", "padded_vocab", "tp_problems", "weight_terms"]

# What tensor parallelism does with a class of tensors. "whole" is on every rank in full.
SHARDING = {
    "experts": "experts",  # each one split, or with expert parallelism some of them in full
    "shared_experts": "split",
    "mlp": "split",
    "attention": "split",
    "attention_kv": "kv",  # split up to one KV head per rank, copied from there on
    "attention_replicated": "whole",  # MLA down projections, indexers
    "linear_attention": "split",
    "embeddings": "vocab",
    "lm_head": "vocab",
    "norms_router": "whole",
    "vision": "vision",
    "vision_replicated": "whole",
    "mtp": "split",
    "mtp.experts": "experts",
    "mtp.replicated": "whole",
    "other": "whole",
    "unused": "none",
}


def kv_share(config: dict[str, Any], tp: int) -> tuple[float, str]:
    """Part of the key and value projections on one rank: layers differ where a model has two kinds of attention."""
    groups = [
        group
        for group in config.get("cache") or ()
        if group.get("of") == "model" and group.get("kv_heads") and group.get("head_dim")
    ]
    if len({group["kv_heads"] for group in groups}) < 2:
        heads = groups[0]["kv_heads"] if groups else config.get("num_key_value_heads") or 1
        parts = min(tp, heads)
        return 1 / parts, f"bytes / min(tp {tp}, kv heads {heads})"
    weight = [
        g["layers"] * g["kv_heads"] * (g["head_dim"] + (g.get("value_head_dim") or g["head_dim"])) for g in groups
    ]
    share = sum(size / min(tp, g["kv_heads"]) for size, g in zip(weight, groups, strict=True)) / sum(weight)
    named = ", ".join(str(heads) for heads in sorted({g["kv_heads"] for g in groups}))
    return share, f"bytes / min(tp {tp}, kv heads of the layer: {named})"


def _share(rule: str, model: Model, tp: int, ep: int, wishes: Wishes) -> tuple[float, str]:
    """Part of a class of tensors on one rank, and how it comes about."""
    config = model.config
    if rule == "experts" and ep > 1:
        count = config.get("num_experts") or ep
        return math.ceil(count / ep) / count, f"bytes x ceil({count} experts / ep {ep}) / {count}"
    if rule == "vision" and not wishes.vision_sharded:
        rule = "whole"
    if rule == "vision" and config.get("vision_copied") and (config.get("vision_heads") or tp) % tp:
        return 1.0, f"on every rank in full: {config['vision_heads']} heads are not divisible by tp {tp}"
    if rule == "kv":
        return kv_share(config, tp)
    if rule == "vocab":
        vocab = config.get("vocab_size") or 1
        padded = padded_vocab(vocab)
        return padded / vocab / tp, f"bytes x padded vocabulary {padded} / {vocab} / tp {tp}"
    return (1.0, "on every rank in full") if rule == "whole" else (1 / tp, f"bytes / tp {tp}")


def _left_out(name: str, model: Model, wishes: Wishes) -> bool:
    if name == "unused":
        return True
    if name.startswith("mtp"):
        return not wishes.speculative_tokens
    if name.startswith("vision"):
        return wishes.language_model_only
    return name == "lm_head" and bool(model.config.get("tie_word_embeddings"))


def weight_terms(model: Model, tp: int, wishes: Wishes, ep: int = 1, pp: int = 1, stage: int = 0) -> list[Term]:
    """One term for each class of tensors that is loaded by a rank of this stage of the pipeline."""
    exact = model.source == "safetensors headers"
    here = Stage.of(model, pp, stage)
    terms: list[Term] = []
    for name, size in model.by_class.items():
        part = here.part(name)
        if _left_out(name, model, wishes) or not part:
            continue
        share, formula = _share(SHARDING.get(name, "whole"), model, tp, ep, wishes)
        if pp > 1:
            formula += f", layers {here.first} to {here.last - 1} of {here.layers}"
        rank = math.ceil(size * share * part - 1e-6)
        terms.append(
            Term(f"weights.{name}", rank, f"weights[{model.source}]: {formula}", rank // (500 if exact else 200))
        )
        if SHARDING.get(name) == "experts":
            more = padding.expert_factor(model, 1 if ep > 1 else tp)
            if more.factor > 1:
                extra = math.ceil(rank * (more.factor - 1))
                terms.append(Term(f"weights.{name}_padding", extra, f"weights_padding: {more.formula}", extra // 10))
        if name == "linear_attention" and tp > 1:
            terms.extend(_copied_inputs(model, tp, part))
    return terms


def _copied_inputs(model: Model, tp: int, part: float) -> Iterator[Term]:
    """vLLM keeps the two narrow projections of Qwen3.5's delta net whole where a shard is too narrow for Marlin."""
    config, linear = model.config, model.config.get("linear") or {}
    method = str((model.quantization or {}).get("method"))
    if not linear.get("separate_inputs") or not method.startswith(("awq", "gptq", "auto-round", "auto_round", "inc")):
        return
    layers = (config.get("layer_kinds") or {}).get("linear") or 0
    whole = 2 * linear["value_heads"] * config["hidden_size"] * layers * model.dtype_bytes
    extra = math.ceil(whole * part * (1 - 1 / tp))
    yield Term("weights.linear_attention_padding", extra, "weights_padding: in_proj_a and in_proj_b on every rank")
