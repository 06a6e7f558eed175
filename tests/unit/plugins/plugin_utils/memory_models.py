# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""Models for the tests of memory planning: the keys of config.json that matter, and what model_info makes of them."""

from __future__ import annotations

from typing import Any

from ansible_collections.gb10.serving.plugins.module_utils._inventory._build import inventory
from ansible_collections.gb10.serving.plugins.module_utils._model_config import essentials, quantization
from ansible_collections.gb10.serving.tests.unit.plugins.plugin_utils.memory_configs import MORE

GIB = 1024**3
TOTAL = int(121.65 * GIB)
FP8 = {"quant_method": "fp8", "weight_block_size": [128, 128]}


def _qwen35(layers: int, hidden: int, heads: int, kv: int, values: int, **more: Any) -> dict[str, Any]:
    """A Qwen3.5 wrapper: three linear-attention layers, then a full one, and a vision tower."""
    return {
        "architectures": ["Qwen3_5MoeForConditionalGeneration"],
        "model_type": "qwen3_5_moe" if "num_experts" in more else "qwen3_5",
        "tie_word_embeddings": False,
        "text_config": {
            "dtype": "bfloat16",
            "num_hidden_layers": layers,
            "hidden_size": hidden,
            "num_attention_heads": heads,
            "num_key_value_heads": kv,
            "head_dim": 256,
            "vocab_size": 248320,
            "max_position_embeddings": 262144,
            "attn_output_gate": True,
            "layer_types": (["linear_attention"] * 3 + ["full_attention"]) * (layers // 4),
            "linear_conv_kernel_dim": 4,
            "linear_key_head_dim": 128,
            "linear_num_key_heads": 16,
            "linear_num_value_heads": values,
            "linear_value_head_dim": 128,
            "mamba_ssm_dtype": "float32",
            "mtp_num_hidden_layers": 1,
            **more,
        },
        "vision_config": {
            "depth": 27,
            "hidden_size": 1152,
            "intermediate_size": 4304,
            "num_position_embeddings": 2304,
            "out_hidden_size": hidden,
            "patch_size": 16,
            "spatial_merge_size": 2,
            "temporal_patch_size": 2,
        },
    }


def _dense(
    model_type: str,
    layers: int,
    hidden: int,
    heads: int,
    kv: int,
    dim: int,
    inner: int,
    vocab: int,
    context: int,
    **more: Any,
) -> dict[str, Any]:
    return {
        "architectures": ["X"],
        "model_type": model_type,
        "dtype": "bfloat16",
        "num_hidden_layers": layers,
        "hidden_size": hidden,
        "num_attention_heads": heads,
        "num_key_value_heads": kv,
        "head_dim": dim,
        "intermediate_size": inner,
        "vocab_size": vocab,
        "max_position_embeddings": context,
        **more,
    }


_122B = {"num_experts": 256, "moe_intermediate_size": 1024, "shared_expert_intermediate_size": 1024}
CONFIGS: dict[str, dict[str, Any]] = {
    **MORE,
    "qwen3.5-27b": _qwen35(64, 5120, 24, 4, 48, intermediate_size=17408),
    "qwen3.5-35b": _qwen35(
        40, 2048, 16, 2, 32, num_experts=256, moe_intermediate_size=512, shared_expert_intermediate_size=512
    ),
    "qwen3.5-122b": _qwen35(48, 3072, 32, 2, 64, **_122B),
    "qwen3.5-122b-fp8": {**_qwen35(48, 3072, 32, 2, 64, **_122B), "quantization_config": FP8},
    "qwen3.5-397b-fp8": {**_qwen35(60, 4096, 32, 2, 64, **{**_122B, "num_experts": 512}), "quantization_config": FP8},
    "tiny": {
        "architectures": ["Qwen3_5MoeForCausalLM"],
        "model_type": "qwen3_5_moe_text",
        "dtype": "bfloat16",
        "num_hidden_layers": 4,
        "hidden_size": 256,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 64,
        "vocab_size": 512,
        "max_position_embeddings": 2048,
        "full_attention_interval": 4,
        "attn_output_gate": True,
        "linear_conv_kernel_dim": 4,
        "linear_key_head_dim": 64,
        "linear_num_key_heads": 4,
        "linear_num_value_heads": 8,
        "linear_value_head_dim": 64,
        "mamba_ssm_dtype": "float32",
        "num_experts": 8,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 64,
        "shared_expert_intermediate_size": 64,
    },
    "qwen3-235b-fp8": _dense(
        "qwen3_moe",
        94,
        4096,
        64,
        4,
        128,
        12288,
        151936,
        40960,
        num_experts=128,
        moe_intermediate_size=1536,
        quantization_config=FP8,
    ),
    "qwen3-0.6b": _dense("qwen3", 28, 1024, 16, 8, 128, 3072, 151936, 40960, tie_word_embeddings=True),
    "qwen2.5-1.5b": _dense("qwen2", 28, 1536, 12, 2, 128, 8960, 151936, 32768, tie_word_embeddings=True),
    "llama-8b": _dense("llama", 32, 4096, 32, 8, 128, 14336, 128256, 131072),
    "llama-70b-fp8": _dense("llama", 80, 8192, 64, 8, 128, 28672, 128256, 131072, quantization_config=FP8),
    "minimax-m2": _dense(
        "minimax_m2",
        62,
        3072,
        48,
        8,
        128,
        1536,
        200064,
        196608,
        architectures=["MiniMaxM2ForCausalLM"],
        num_local_experts=256,
        quantization_config=FP8,
    ),
    "glm-4.6-fp8": _dense(
        "glm4_moe",
        92,
        5120,
        96,
        8,
        128,
        12288,
        151552,
        202752,
        n_routed_experts=160,
        n_shared_experts=1,
        moe_intermediate_size=1536,
        first_k_dense_replace=3,
        quantization_config=FP8,
    ),
    "glm-4.7-flash": _dense(
        "glm4_moe_lite",
        47,
        2048,
        20,
        20,
        102,
        10240,
        154880,
        202752,
        n_routed_experts=64,
        n_shared_experts=1,
        moe_intermediate_size=1536,
        first_k_dense_replace=1,
        kv_lora_rank=512,
        q_lora_rank=768,
        qk_nope_head_dim=192,
        qk_rope_head_dim=64,
        v_head_dim=256,
    ),
    "deepseek-v3": _dense(
        "deepseek_v3",
        61,
        7168,
        128,
        128,
        56,
        18432,
        129280,
        163840,
        n_routed_experts=256,
        n_shared_experts=1,
        moe_intermediate_size=2048,
        first_k_dense_replace=3,
        kv_lora_rank=512,
        q_lora_rank=1536,
        qk_nope_head_dim=128,
        qk_rope_head_dim=64,
        v_head_dim=128,
        quantization_config=FP8,
    ),
    "kimi-k2-fp8": _dense(
        "kimi_k2",
        61,
        7168,
        64,
        64,
        112,
        18432,
        163840,
        262144,
        n_routed_experts=384,
        n_shared_experts=1,
        moe_intermediate_size=2048,
        first_k_dense_replace=1,
        kv_lora_rank=512,
        q_lora_rank=1536,
        qk_nope_head_dim=128,
        qk_rope_head_dim=64,
        v_head_dim=128,
        quantization_config=FP8,
    ),
    "gpt-oss-20b": _dense(
        "gpt_oss",
        24,
        2880,
        64,
        8,
        64,
        2880,
        201088,
        131072,
        num_local_experts=32,
        sliding_window=128,
        layer_types=["sliding_attention", "full_attention"] * 12,
    ),
    "gemma-3-27b": _dense(
        "gemma3_text",
        62,
        5376,
        32,
        16,
        128,
        21504,
        262208,
        131072,
        sliding_window=1024,
        layer_types=["full_attention"] * 10 + ["sliding_attention"] * 52,
    ),
}


def model(name: str, weights_gib: float | None = None, **changes: Any) -> dict[str, Any]:
    """A model as model_info gives it: config only, or with so many GiB of expert weights in its headers."""
    config = {**CONFIGS[name], **changes}
    numbers, problems = essentials(config)
    by_class: dict[str, int]
    reason = source = None
    if weights_gib is None:
        by_class, reason = inventory(config)
        source = "config.json" if by_class else None
    else:
        by_class, source = {"experts": int(weights_gib * GIB)}, "safetensors headers"
    return {
        "path": f"/models/{name}",
        "exists": True,
        "complete": weights_gib is not None,
        "problems": problems,
        "architectures": config["architectures"],
        "model_type": config["model_type"],
        "quantization": quantization(config),
        "config": numbers,
        "tensors": {"by_class": by_class, "source": source, "reason": reason},
        "digest": name,
    }


def nodes(count: int, available_gib: float | None = 109.0) -> list[dict[str, Any]]:
    return [
        {
            "host": f"spark-{'abcdefghijklmnop'[n]}",
            "total_bytes": TOTAL,
            "available_bytes": None if available_gib is None else int(available_gib * GIB),
        }
        for n in range(count)
    ]
