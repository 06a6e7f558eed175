# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 gb10.serving contributors
#
# Private to this collection: may change without notice.
"""Sort tensors into classes by their names: what tensor parallelism shards alike is one class."""

from __future__ import annotations

import re
from functools import lru_cache

# First match wins. Digits are taken out of names before matching: a model has few names without them.
_RULES: tuple[tuple[str, str], ...] = (
    ("mtp", r"^(?:model\.)?(?:mtp|nextn)\b"),
    ("vision", r"\b(?:visual|vision_\w+|vit|mm_projector|multi_modal_projector|image_newline|audio_\w+)\b"),
    ("embeddings", r"\b(?:embed_tokens|word_embeddings|wte|tok_embeddings)\b"),
    ("lm_head", r"\blm_head\b|^output\.weight$"),
    ("norms_router", r"norm(?:\.(?:weight|bias))?$|\b(?:ln_f|layernorm)\b|e_score_correction_bias|\bexpert_bias$"),
    ("norms_router", r"\b(?:gate|router|shared_expert_gate|wg)(?:\.(?:weight|bias|weight_scale|weight_scale_inv))?$"),
    ("shared_experts", r"\bshared_experts?\."),
    ("experts", r"\bexperts?\b|\bblock_sparse_moe\b"),
    ("linear_attention", r"\b(?:linear_attn|mamba|mixer\.(?:in_proj|out_proj|conv1d|A_log|D|dt_bias))"),
    ("attention_replicated", r"\b(?:q_a_proj|kv_a_proj_with_mqa|kv_a_proj|fused_qkv_a_proj|indexer)\b"),
    ("attention_kv", r"\b(?:k_proj|v_proj|k_scale|v_scale)\b"),
    ("attention", r"\b(?:self_attn|attention|attn)\b"),
    ("mlp", r"\b(?:mlp|feed_forward|ffn)\b"),
)
_COMPILED = tuple((name, re.compile(pattern)) for name, pattern in _RULES)
_WITHOUT_DIGITS = str.maketrans("", "", "0123456789")

CLASSES = (*dict.fromkeys(name for name, _pattern in _RULES), "other")


@lru_cache(maxsize=4096)
def _class_of(name: str) -> str:
    return next((cls for cls, pattern in _COMPILED if pattern.search(name)), "other")


def _layer(name: str) -> int:
    """The number after "layers.", -1 without one."""
    start = name.find("layers.")
    if start < 0:
        return -1
    number = name[start + 7 : name.find(".", start + 7)]
    return int(number) if number.isdecimal() else -1


def tensor_class(name: str, layers: int | None = None) -> str:
    """The class of one tensor. A layer beyond the model's own layers is a multi-token-prediction layer."""
    found = _class_of(name.translate(_WITHOUT_DIGITS))
    if layers is not None and found != "vision" and _layer(name) >= layers:
        return "mtp"
    return found


def summarise(tensors: dict[str, tuple[str, int]], layers: int | None) -> dict[str, object]:
    """Bytes by class and by dtype of name -> (dtype, bytes)."""
    by_class: dict[str, int] = {}
    by_dtype: dict[str, int] = {}
    for name, (dtype, size) in tensors.items():
        cls = tensor_class(name, layers)
        by_class[cls] = by_class.get(cls, 0) + size
        by_dtype[dtype] = by_dtype.get(dtype, 0) + size
    return {
        "count": len(tensors),
        "by_class": {cls: by_class[cls] for cls in CLASSES if cls in by_class},
        "by_dtype": dict(sorted(by_dtype.items())),
    }
