# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 gb10.serving contributors
#
# Private to this collection: may change without notice.
"""Sort tensors into classes by their names: what tensor parallelism shards alike is one class."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

# First match wins. Digits are taken out of names before matching: a model has few names without them.
_TOWER = (
    r"\b(?:visual|vision_\w+|vit\w*|mm_projector|multi_modal_projector|image_newline|audio_\w+"
    r"|embed_(?:vision|audio))\b"
)
_WHOLE_IN_TOWER = (  # norms, patches and positions; Gemma 4 wraps what its tower does not share in ".linear"
    r"norm|embed|\bln_|\.norm|conv|patch_(?!merge)|positional|gamma|\.linear(?:\.|$)|mm_input_projection|downsample"
    r"|projector(?:\.weight)?$|mm_projector|audio_"
)
_RULES: tuple[tuple[str, str], ...] = (
    ("unused", r"\.(?:g_idx|inv_freq|weight_shape)$"),  # in a checkpoint, and not kept by the engine
    ("mtp", r"^(?:model\.)?(?:mtp|nextn)\b"),
    ("vision", r"\bvision_embedder\.patch_dense\b"),
    ("vision_replicated", rf"^(?=.*{_TOWER}).*(?:{_WHOLE_IN_TOWER})"),
    ("vision", _TOWER),
    (
        "embeddings",
        r"\b(?:embed_tokens(?:_per_layer)?|word_embeddings|wte|tok_embeddings|backbone\.embeddings)\b|^embed(?:\.weight)?$",
    ),
    ("lm_head", r"\blm_head\b|^(?:output|head)(?:\.weight\w*)?$"),
    ("norms_router", r"norm(?:_|\.(?:weight|bias))?$|\b(?:ln_f|norm_f|layernorm)\b"),
    ("norms_router", r"e_score_correction_bias|\b(?:expert_bias|router_bias)$|\bgate\.tideid$|\brouter\."),
    ("norms_router", r"\b(?:gate|router|shared_expert_gate|wg)(?:\.\w+)?$"),
    ("norms_router", r"\bexperts\.down_proj_bias$"),
    ("shared_experts", r"\b(?:shared_experts?|share_expert|shared_mlp)\."),
    ("experts", r"\bexperts?\b|\bblock_sparse_moe\b|\bmoe\.(?:gate|up|down)_proj\b"),
    ("linear_attention", r"\b(?:linear_attn|mamba|mixer\.(?:in_proj|out_proj|convd|A_log|D|dt_bias))"),
    (
        "attention_replicated",
        r"\b(?:q_a_proj|kv_a_proj_with_mqa|kv_a_proj|fused_qkv_a_proj|indexer|compressor|wq_a|wkv)\b",
    ),
    ("attention_replicated", r"\bindex_k_proj\b"),
    ("attention_kv", r"\b(?:k_proj|v_proj|index_q_proj|k_scale|v_scale)\b"),
    ("attention", r"\b(?:self_attn|attention|attn|mixer\.[qo]_proj)\b"),
    ("mlp", r"\b(?:mlp|feed_forward|ffn|per_layer_model_projection|mixer\.(?:up|down)_proj)\b"),
)
# On every rank in full: what the rules of sharding of the planner say too.
_WHOLE = frozenset(("norms_router", "attention_replicated", "vision_replicated", "other"))
_COMPILED = tuple((name, re.compile(pattern)) for name, pattern in _RULES)
_WITHOUT_DIGITS = str.maketrans("", "", "0123456789")

CLASSES = (*dict.fromkeys(name for name, _pattern in _RULES), "mtp.experts", "mtp.replicated", "other")


@lru_cache(maxsize=4096)
def _class_of(name: str) -> str:
    return next((cls for cls, pattern in _COMPILED if pattern.search(name)), "other")


def _predicting(found: str, name: str) -> str:
    """The class of a tensor of a multi-token-prediction layer, by what it would be in an ordinary layer."""
    if found == "experts":
        return "mtp.experts"
    return "mtp.replicated" if found in _WHOLE and not _SPLIT.search(name) else "mtp"


_MTP_PREFIX = re.compile(r"^(?:model\.)?(?:mtp|nextn)\.?")
_SPLIT = re.compile(r"\bmtp\.fc\b|\bshared_head\.head\b")  # joins the two inputs; the output layer


def tensor_class(name: str, layers: int | None = None) -> str:
    """The class of one tensor. A layer beyond the model's own layers is a multi-token-prediction layer."""
    start = name.find("layers.") + len("layers.")
    if start < len("layers."):
        return _class_in_layer(name, False)
    end = name.find(".", start)
    number = name[start:end]
    beyond = layers is not None and number.isdecimal() and int(number) >= layers
    # Without the number of its layer a name comes back in each layer, so that the cache answers.
    return _class_in_layer(name[:start] + name[end:], beyond)


@lru_cache(maxsize=65536)
def _class_in_layer(name: str, beyond: bool) -> str:
    found = _class_of(name.translate(_WITHOUT_DIGITS))
    if found == "unused":
        return found
    if found == "mtp":
        return _predicting(_class_of(_MTP_PREFIX.sub("", name).translate(_WITHOUT_DIGITS)), name)
    if beyond and not found.startswith("vision"):
        return _predicting(found, name)
    return found


def summarise(tensors: dict[str, tuple[str, int]], layers: int | None) -> dict[str, Any]:
    """Bytes by class and by dtype of name -> (dtype, bytes)."""
    by_class: dict[str, int] = {}
    by_dtype: dict[str, int] = {}
    for name, (dtype, size) in tensors.items():
        cls = tensor_class(name, layers)
        by_class[cls] = by_class.get(cls, 0) + size
        by_dtype[dtype] = by_dtype.get(dtype, 0) + size
    return {
        "source": "safetensors headers" if tensors else None,
        "reason": None,  # why neither headers nor config.json told the bytes
        "count": len(tensors),
        "by_class": {cls: by_class[cls] for cls in CLASSES if cls in by_class},
        "by_dtype": dict(sorted(by_dtype.items())),
    }
