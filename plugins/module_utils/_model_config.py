# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 gb10.serving contributors
#
# Private to this collection: may change without notice.
"""config.json -> the few numbers that memory planning needs, under one name each whatever the model family."""

from __future__ import annotations

from typing import Any

from ansible_collections.gb10.serving.plugins.module_utils._inventory._layer_formats import formats_of
from ansible_collections.gb10.serving.plugins.module_utils._inventory._quantization import raw_of
from ansible_collections.gb10.serving.plugins.module_utils._model_experts import feed_forward
from ansible_collections.gb10.serving.plugins.module_utils._model_layers import (
    cache_layers,
    principal_kinds,
    usual_drafts,
)

DTYPE_BYTES = {"bfloat16": 2, "float16": 2, "half": 2, "float32": 4, "float": 4, "float8_e4m3fn": 1}

MOST = 2**40 - 1  # of any number

# Families whose cache or state follows rules that are not modelled: key in config.json -> what it means.
_NOT_MODELLED = {
    "ple_vocab_size": "per-layer embedding tables",
}
_DEFAULTS: dict[str, dict[str, Any]] = {
    "gemma2": {"tie_word_embeddings": True},
    "gemma3_text": {
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "head_dim": 256,
        "vocab_size": 262208,
        "max_position_embeddings": 131072,
        "tie_word_embeddings": True,
    },
    "gemma4_text": {"tie_word_embeddings": True},
    "gemma4_unified_text": {"tie_word_embeddings": True},
    "ernie4_5": {"tie_word_embeddings": True},
    "ernie4_5_moe": {"tie_word_embeddings": True},
}
_LETTERS = {"M": "mamba", "*": "attention", "E": "moe", "-": "mlp"}  # of hybrid_override_pattern


class _Reader:
    def __init__(self, config: dict[str, Any]) -> None:
        self.config = config
        self.problems: list[str] = []
        self.by_layer: list[str] = []  # keys whose value differs from layer to layer

    def integer(self, *keys: str, default: int | None = None, least: int = 1) -> int | None:
        for key in keys:
            value = self.config.get(key)
            if value is None:
                continue
            if isinstance(value, list):
                if key not in self.by_layer:
                    self.by_layer.append(key)
                return default
            if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= MOST:
                large = isinstance(value, int) and value > MOST
                accepted = f"up to {MOST}" if large else f"from {least} on"
                problem = f"config.json: {key} is {value!r:.60}; expected a whole number {accepted}. "
                problem += "Fetch the file again or correct it."
                if problem not in self.problems:
                    self.problems.append(problem)
                return default
            return value
        return default


def with_defaults(text: dict[str, Any]) -> dict[str, Any]:
    """With the values that published files of this model_type leave out, as the engine fills them in."""
    defaults = _DEFAULTS.get(str(text.get("model_type")), {})
    missing = {key: value for key, value in defaults.items() if text.get(key) is None}
    return {**text, **missing} if missing else text


def _text_key(config: dict[str, Any]) -> str | None:
    """Where a multimodal wrapper has its language model."""
    keys = ("text_config", "llm_config", "language_config")
    return next((key for key in keys if isinstance(config.get(key), dict) and config[key]), None)


def text_config(config: dict[str, Any]) -> dict[str, Any]:
    """The language model's part: nested in multimodal wrappers, the whole file otherwise."""
    key = _text_key(config)
    return with_defaults(config[key] if key else config)


def dtype_of(config: dict[str, Any]) -> str:
    """torch's name of the dtype of what is not quantised; the hub's default where the file has none."""
    text = text_config(config)
    named = (part.get(key) for part in (text, config) for key in ("dtype", "torch_dtype"))
    return str(next(filter(None, named), "bfloat16")).removeprefix("torch.")


def _nonsense(config: dict[str, Any]) -> list[str]:
    """Values that are no numbers, and on which all bytes hang."""
    inner = _text_key(config)
    parts = [("", config), *([(f"{inner}.", config[inner])] if inner else [])]
    named = [(f"{inside}{key}", part.get(key)) for inside, part in parts for key in ("dtype", "torch_dtype")]
    found = [
        f"{key} is {value!r:.60}; expected one of {', '.join(DTYPE_BYTES)}."
        for key, value in named
        if value is not None and (not isinstance(value, str) or value.removeprefix("torch.") not in DTYPE_BYTES)
    ]
    raw = raw_of(config)
    if raw is not None and not isinstance(raw, dict):
        found.append(f"quantization_config is {raw!r:.60}; expected a table, or null for none.")
    return [f"config.json: {problem} Fetch the file again or correct it." for problem in found]


def quantization(config: dict[str, Any]) -> dict[str, Any] | None:
    """Method, bits, block and the KV dtype that the checkpoint itself asks for."""
    raw = config.get("quantization_config") or text_config(config).get("quantization_config")
    if not isinstance(raw, dict):
        return None
    bits = raw.get("bits")
    groups = raw.get("config_groups")
    if bits is None and isinstance(groups, dict):
        weights = [
            g["weights"].get("num_bits")
            for g in groups.values()
            if isinstance(g, dict) and isinstance(g.get("weights"), dict)
        ]
        bits = min((b for b in weights if isinstance(b, int)), default=None)
    algorithm = str(raw.get("quant_algo") or "")
    method = str(raw.get("quant_method") or "unknown").lower()
    if bits is None:
        bits = 8 if method == "fp8" or "FP8" in algorithm else 4 if "FP4" in algorithm or method == "mxfp4" else None
    block = raw.get("weight_block_size")
    kv = raw.get("kv_cache_quant_algo") or (raw.get("kv_cache_scheme") or None)
    return {
        "method": method,
        "bits": bits if isinstance(bits, int) else None,
        "block": block if isinstance(block, list) and all(isinstance(n, int) for n in block) else None,
        "algorithm": algorithm or None,
        "kv_cache": "fp8" if kv else None,
        **formats_of(config, text_config(config).get("num_hidden_layers")),
    }


def block_types(text: dict[str, Any]) -> list[Any] | None:
    """The kind of each layer of a model that names them all, MLP and experts as layers of their own (Nemotron-H)."""
    listed, pattern = text.get("layers_block_type"), text.get("hybrid_override_pattern")
    if isinstance(listed, list) and listed:
        return listed
    return [_LETTERS.get(letter, letter) for letter in pattern] if isinstance(pattern, str) and pattern else None


_SIGLIP_HEADS = 12  # of a file that does not say it


def _tower(config: dict[str, Any], vision: dict[str, Any]) -> dict[str, Any]:
    """Heads that tensor parallel ranks split a vision tower by, and whether it is copied where they do not divide."""
    model_type, keys = (
        str(config.get("model_type")),
        ("num_heads", "num_attention_heads", "vt_num_attention_heads", "heads"),
    )
    heads = next((vision[key] for key in keys if isinstance(vision.get(key), int) and vision[key] > 0), None)
    if model_type.startswith("gemma4"):  # split by no heads
        heads = None
    if model_type == "gemma3" and vision:
        heads = heads or _SIGLIP_HEADS
    return {"vision_heads": heads, "vision_copied": model_type.startswith("kimi_k25")}


def _linear(read: _Reader) -> dict[str, Any]:
    return {
        "key_heads": read.integer("linear_num_key_heads"),
        "value_heads": read.integer("linear_num_value_heads"),
        "key_head_dim": read.integer("linear_key_head_dim"),
        "value_head_dim": read.integer("linear_value_head_dim"),
        "conv_kernel": read.integer("linear_conv_kernel_dim", default=4),
        "ssm_dtype": read.config.get("mamba_ssm_dtype"),
        "separate_inputs": str(read.config.get("model_type")).startswith("qwen3_5"),
    }


def _mamba(read: _Reader) -> dict[str, Any]:
    return {
        "heads": read.integer("mamba_num_heads"),
        "head_dim": read.integer("mamba_head_dim"),
        "groups": read.integer("n_groups", "mamba_n_groups", default=8),
        "state_size": read.integer("ssm_state_size"),
        "conv_kernel": read.integer("conv_kernel", "mamba_d_conv", default=4),
        "ssm_dtype": read.config.get("mamba_ssm_cache_dtype"),
    }


def _mla(read: _Reader) -> dict[str, Any] | None:
    rank = read.integer("kv_lora_rank")
    if rank is None:
        return None
    return {
        "kv_lora_rank": rank,
        "q_lora_rank": read.integer("q_lora_rank"),
        "qk_rope_head_dim": read.integer("qk_rope_head_dim", least=0),
        "qk_nope_head_dim": read.integer("qk_nope_head_dim"),
        "v_head_dim": read.integer("v_head_dim"),
    }


def essentials(config: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The numbers (None where the file has none), and sentences on values that make no sense."""
    text = text_config(config)
    read = _Reader(text)
    layers = read.integer("num_hidden_layers", "n_layer", default=len(block_types(text) or ()) or None)
    hidden = read.integer("hidden_size", "n_embd")
    heads = read.integer("num_attention_heads", "n_head")
    feed = feed_forward(read, text, layers, block_types(text))
    cache, wrong, unknown = cache_layers(text, layers)
    kinds = principal_kinds(cache)
    dtype = dtype_of(config)
    head_dim = read.integer("head_dim")
    if head_dim is None and hidden and heads:
        head_dim = hidden // heads
    mla = _mla(read)
    vision = config.get("vision_config")
    architectures = config.get("architectures")
    result: dict[str, Any] = {
        "architecture": architectures[0] if isinstance(architectures, list) and architectures else None,
        "num_hidden_layers": layers,
        "hidden_size": hidden,
        "num_attention_heads": heads,
        "num_key_value_heads": read.integer("num_key_value_heads", "num_attention_groups", default=heads),
        "head_dim": head_dim,
        "value_head_dim": read.integer("v_head_dim", default=head_dim) if mla is None else head_dim,
        "vocab_size": read.integer("vocab_size"),
        **feed,
        "max_position_embeddings": read.integer("max_position_embeddings", "n_positions"),
        "tie_word_embeddings": bool(text.get("tie_word_embeddings", config.get("tie_word_embeddings", False))),
        "attention_output_gate": bool(text.get("attn_output_gate", "linear_num_value_heads" in text)),
        "dtype": dtype,
        "layer_kinds": kinds,
        "cache": cache,
        "sliding_window": read.integer("sliding_window") if kinds.get("sliding") else None,
        "linear": _linear(read) if kinds.get("linear") and "linear_num_value_heads" in text else None,
        "mamba": _mamba(read) if kinds.get("mamba") else None,
        "mla": mla,
        "mtp_layers": read.integer(
            "mtp_num_hidden_layers", "num_nextn_predict_layers", "num_mtp_modules", default=usual_drafts(text), least=0
        )
        or 0,
        "vision": {k: v for k, v in vision.items() if isinstance(v, int) and not isinstance(v, bool)}
        if isinstance(vision, dict)
        else None,
        **_tower(config, vision if isinstance(vision, dict) else {}),
        "not_modelled": sorted({meaning for key, meaning in _NOT_MODELLED.items() if text.get(key)}),
    }
    result["not_modelled"] += [f"{key} that differs by layer" for key in read.by_layer]
    result["not_modelled"] += [what for what in unknown if what not in result["not_modelled"]]
    read.problems += _nonsense(config)
    read.problems += [problem for problem in wrong if problem not in read.problems]
    return result, read.problems
