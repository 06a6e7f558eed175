# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 gb10.serving contributors
#
# Private to this collection: may change without notice.
"""config.json -> the few numbers that memory planning needs, under one name each whatever the model family."""

from __future__ import annotations

from typing import Any

DTYPE_BYTES = {"bfloat16": 2, "float16": 2, "half": 2, "float32": 4, "float": 4, "float8_e4m3fn": 1}

# Families whose cache or state follows rules that are not modelled: key in config.json -> what it means.
_NOT_MODELLED = {
    "index_topk": "sparse attention with an indexer (DSA)",
    "compress_ratios": "compressed attention (DeepSeek-V4)",
    "hybrid_override_pattern": "Mamba2 layers (Nemotron-H)",
    "mamba_num_heads": "Mamba2 layers (Nemotron-H)",
    "hybrid_layer_pattern": "attention layers of several shapes",
    "indexer_head_dim": "sparse attention with an indexer (QSA)",
    "ple_embed_dim": "n-gram embedding tables",
    "linear_attn_config": "Kimi delta attention",
    "num_kv_shared_layers": "layers that share their KV cache",
    "global_head_dim": "attention layers with two head sizes",
    "ple_vocab_size": "per-layer embedding tables",
}
_KINDS = {
    "full_attention": "full",
    "attention": "full",
    "linear_attention": "linear",
    "sliding_attention": "sliding",
    "chunked_attention": "sliding",
}


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
                self.by_layer.append(key)
                return default
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                self.problems.append(
                    f"config.json: {key} is {value!r}; expected a whole number from {least} on. "
                    "Fetch the file again or correct it."
                )
                return default
            return value
        return default


def text_config(config: dict[str, Any]) -> dict[str, Any]:
    """The language model's part: nested in multimodal wrappers, the whole file otherwise."""
    for key in ("text_config", "llm_config", "language_config"):
        inner = config.get(key)
        if isinstance(inner, dict) and inner:
            return inner
    return config


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
    }


def _layer_kinds(text: dict[str, Any], layers: int | None, problems: list[str]) -> dict[str, int]:
    if layers is None:
        return {}
    types = text.get("layer_types")
    if isinstance(types, list):
        if len(types) != layers:
            problems.append(
                f"config.json: layer_types names {len(types)} layers, num_hidden_layers is {layers}; expected the same."
            )
            return {}
        kinds = [_KINDS.get(str(kind), "unknown") for kind in types]
    else:
        interval = text.get("full_attention_interval")
        if isinstance(interval, int) and interval > 1 and text.get("linear_num_value_heads"):
            kinds = ["full" if (n + 1) % interval == 0 else "linear" for n in range(layers)]
        else:
            kinds = ["full"] * layers
    return {kind: kinds.count(kind) for kind in ("full", "linear", "sliding", "unknown") if kind in kinds}


def _linear(read: _Reader) -> dict[str, Any]:
    return {
        "key_heads": read.integer("linear_num_key_heads"),
        "value_heads": read.integer("linear_num_value_heads"),
        "key_head_dim": read.integer("linear_key_head_dim"),
        "value_head_dim": read.integer("linear_value_head_dim"),
        "conv_kernel": read.integer("linear_conv_kernel_dim", default=4),
        "ssm_dtype": read.config.get("mamba_ssm_dtype"),
    }


def _mla(read: _Reader) -> dict[str, Any] | None:
    rank = read.integer("kv_lora_rank")
    if rank is None:
        return None
    return {
        "kv_lora_rank": rank,
        "q_lora_rank": read.integer("q_lora_rank"),
        "qk_rope_head_dim": read.integer("qk_rope_head_dim"),
        "qk_nope_head_dim": read.integer("qk_nope_head_dim"),
        "v_head_dim": read.integer("v_head_dim"),
    }


def essentials(config: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The numbers (None where the file has none), and sentences on values that make no sense."""
    text = text_config(config)
    read = _Reader(text)
    layers = read.integer("num_hidden_layers", "n_layer")
    hidden = read.integer("hidden_size", "n_embd")
    heads = read.integer("num_attention_heads", "n_head")
    experts = read.integer("num_experts", "n_routed_experts", "num_local_experts", default=0, least=0) or 0
    moe = read.integer("moe_intermediate_size", "expert_ffn_hidden_size")
    dense = read.integer("intermediate_size", "ffn_hidden_size")
    if experts and moe is None:
        moe = dense
    shared = read.integer("shared_expert_intermediate_size", "shared_intermediate_size", default=0, least=0) or 0
    shared_count = read.integer("n_shared_experts", "num_shared_experts", default=0, least=0) or 0
    if not shared and shared_count and moe:
        shared = moe * shared_count
    kinds = _layer_kinds(text, layers, read.problems)
    if not experts:
        dense_layers = layers or 0
    else:
        only = text.get("mlp_only_layers")
        dense_layers = read.integer("first_k_dense_replace", default=0, least=0) or 0
        dense_layers = dense_layers or (len(only) if isinstance(only, list) else 0)
    dtype = str(
        text.get("dtype") or text.get("torch_dtype") or config.get("dtype") or config.get("torch_dtype") or "bfloat16"
    ).removeprefix("torch.")
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
        "num_key_value_heads": read.integer("num_key_value_heads", default=heads),
        "head_dim": head_dim,
        "value_head_dim": read.integer("v_head_dim", default=head_dim) if mla is None else head_dim,
        "vocab_size": read.integer("vocab_size"),
        "intermediate_size": dense,
        "moe_intermediate_size": moe if experts else None,
        "shared_expert_intermediate_size": shared,
        "num_experts": experts,
        "num_experts_per_tok": read.integer("num_experts_per_tok", "num_experts_per_token"),
        "dense_layers": dense_layers,
        "max_position_embeddings": read.integer("max_position_embeddings", "n_positions"),
        "tie_word_embeddings": bool(text.get("tie_word_embeddings", config.get("tie_word_embeddings", False))),
        "attention_output_gate": bool(text.get("attn_output_gate", False)),
        "dtype": dtype,
        "layer_kinds": kinds,
        "sliding_window": read.integer("sliding_window") if kinds.get("sliding") else None,
        "linear": _linear(read) if kinds.get("linear") and "linear_num_value_heads" in text else None,
        "mla": mla,
        "mtp_layers": read.integer(
            "mtp_num_hidden_layers", "num_nextn_predict_layers", "num_mtp_modules", default=0, least=0
        )
        or 0,
        "vision": {k: v for k, v in vision.items() if isinstance(v, int) and not isinstance(v, bool)}
        if isinstance(vision, dict)
        else None,
        "not_modelled": sorted({meaning for key, meaning in _NOT_MODELLED.items() if text.get(key)}),
    }
    result["not_modelled"] += [f"{key} that differs by layer" for key in read.by_layer]
    if kinds.pop("unknown", 0):
        types = sorted({str(kind) for kind in text["layer_types"]} - _KINDS.keys())
        result["not_modelled"] += [f"layers of type {', '.join(types)}"]
    if kinds.get("linear") and result["linear"] is None and not result["not_modelled"]:
        result["not_modelled"] = ["linear attention of an unknown kind"]
    return result, read.problems
