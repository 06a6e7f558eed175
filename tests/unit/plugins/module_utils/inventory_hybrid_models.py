# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""Sizes of hybrid, latent-attention and Mamba models for the tests of the inventory: only the keys it reads."""

from __future__ import annotations

import copy
from typing import Any

from ansible_collections.gb10.serving.plugins.module_utils._inventory._families import FAMILIES
from ansible_collections.gb10.serving.plugins.module_utils._inventory._types import Tensor

QWEN_VISION = {
    "depth": 27,
    "hidden_size": 1152,
    "intermediate_size": 4304,
    "num_position_embeddings": 2304,
    "patch_size": 16,
    "deepstack_visual_indexes": [],
}


def _delta_net(layers: int, hidden: int, heads: int, kv: int, values: int, **more: Any) -> dict[str, Any]:
    return {
        "num_hidden_layers": layers,
        "hidden_size": hidden,
        "num_attention_heads": heads,
        "num_key_value_heads": kv,
        "head_dim": 256,
        "linear_num_key_heads": 16,
        "linear_num_value_heads": values,
        "linear_key_head_dim": 128,
        "linear_value_head_dim": 128,
        **more,
    }


def _qwen35(text: dict[str, Any]) -> dict[str, Any]:
    kinds = (["linear_attention"] * 3 + ["full_attention"]) * (text["num_hidden_layers"] // 4)
    return {
        "model_type": "qwen3_5_moe" if "num_experts" in text else "qwen3_5",
        "text_config": {"vocab_size": 248320, "layer_types": kinds, "mtp_num_hidden_layers": 1, **text},
        "vision_config": {**QWEN_VISION, "out_hidden_size": text["hidden_size"]},
    }


def _mla(model_type: str, layers: int, hidden: int, heads: int, vocab: int, **more: Any) -> dict[str, Any]:
    return {
        "model_type": model_type,
        "num_hidden_layers": layers,
        "hidden_size": hidden,
        "num_attention_heads": heads,
        "vocab_size": vocab,
        "kv_lora_rank": 512,
        "qk_nope_head_dim": 128,
        "qk_rope_head_dim": 64,
        "v_head_dim": 128,
        "moe_intermediate_size": 2048,
        "n_shared_experts": 1,
        "topk_method": "noaux_tc",
        **more,
    }


def _nemotron(hidden: int, heads: int, mamba: int, inner: int, **more: Any) -> dict[str, Any]:
    return {
        "model_type": "nemotron_h",
        "hidden_size": hidden,
        "num_attention_heads": heads,
        "num_key_value_heads": 2,
        "head_dim": 128,
        "mamba_num_heads": mamba,
        "mamba_head_dim": 64,
        "n_groups": 8,
        "ssm_state_size": 128,
        "moe_intermediate_size": inner,
        "moe_shared_expert_intermediate_size": 2 * inner,
        "n_shared_experts": 1,
        "vocab_size": 131072,
        **more,
    }


_V3 = {"q_lora_rank": 1536, "intermediate_size": 18432, "n_routed_experts": 256, "first_k_dense_replace": 3}
_KIMI = {**_V3, "n_routed_experts": 384, "first_k_dense_replace": 1, "num_nextn_predict_layers": 0}
_GLM5 = {
    "q_lora_rank": 2048,
    "qk_nope_head_dim": 192,
    "v_head_dim": 256,
    "intermediate_size": 12288,
    "n_routed_experts": 256,
    "first_k_dense_replace": 3,
    "num_nextn_predict_layers": 1,
    "index_topk": 2048,
    "index_n_heads": 32,
    "index_head_dim": 128,
}
_V4 = {
    "model_type": "deepseek_v4",
    "head_dim": 512,
    "index_n_heads": 64,
    "index_head_dim": 128,
    "hc_mult": 4,
    "n_shared_experts": 1,
    "num_experts_per_tok": 6,
    "num_hash_layers": 3,
    "num_nextn_predict_layers": 1,
    "o_lora_rank": 1024,
    "topk_method": "noaux_tc",
    "vocab_size": 129280,
}
_SUPER = "MEMEMEM*" + "EMEMEMEM*" * 2 + "EMEMEMEMEM*" * 4 + "EMEMEMEM*" + "EMEMEMEME"

MODELS: dict[str, dict[str, Any]] = {
    "qwen3-next-80b": {
        "model_type": "qwen3_next",
        "vocab_size": 151936,
        "full_attention_interval": 4,
        **_delta_net(48, 2048, 16, 2, 32),
        "num_experts": 512,
        "moe_intermediate_size": 512,
        "shared_expert_intermediate_size": 512,
    },
    "qwen3.5-27b": _qwen35(_delta_net(64, 5120, 24, 4, 48, intermediate_size=17408)),
    "qwen3.5-35b": _qwen35(
        _delta_net(40, 2048, 16, 2, 32, num_experts=256, moe_intermediate_size=512, shared_expert_intermediate_size=512)
    ),
    "qwen3.5-397b": _qwen35(
        _delta_net(
            60, 4096, 32, 2, 64, num_experts=512, moe_intermediate_size=1024, shared_expert_intermediate_size=1024
        )
    ),
    "deepseek-v2-lite": _mla(
        "deepseek_v2", 27, 2048, 16, 102400, q_lora_rank=None, intermediate_size=10944, moe_intermediate_size=1408,
        n_routed_experts=64, n_shared_experts=2, first_k_dense_replace=1, topk_method="greedy",
    ),
    "deepseek-v3": _mla("deepseek_v3", 61, 7168, 128, 129280, **_V3, num_nextn_predict_layers=1),
    "deepseek-v3.2": _mla(
        "deepseek_v32", 61, 7168, 128, 129280, **_V3, num_nextn_predict_layers=1, index_topk=2048, index_n_heads=64,
        index_head_dim=128,
    ),
    "kimi-k2": _mla("kimi_k2", 61, 7168, 64, 163840, **_KIMI),
    "kimi-k2.5": {
        "model_type": "kimi_k25",
        "text_config": _mla("deepseek_v3", 61, 7168, 64, 163840, **_KIMI),
        "vision_config": {
            "vt_hidden_size": 1152,
            "vt_intermediate_size": 4304,
            "vt_num_hidden_layers": 27,
            "patch_size": 14,
            "init_pos_emb_height": 64,
            "init_pos_emb_width": 64,
            "merge_kernel_size": [2, 2],
            "mm_projector_type": "patchmerger",
        },
    },
    "glm-4.7-flash": _mla(
        "glm4_moe_lite", 47, 2048, 20, 154880, q_lora_rank=768, qk_nope_head_dim=192, v_head_dim=256,
        intermediate_size=10240, moe_intermediate_size=1536, n_routed_experts=64, first_k_dense_replace=1,
        num_nextn_predict_layers=1, topk_method=None,
    ),
    "glm-5": _mla("glm_moe_dsa", 78, 6144, 64, 154880, **_GLM5),
    "glm-5.2": _mla(
        "glm_moe_dsa", 78, 6144, 64, 154880, **_GLM5, index_topk_freq=4, index_skip_topk_offset=3,
        indexer_types=["full"] * 2 + ["full", "shared", "shared", "shared"] * 19,
    ),
    "deepseek-v4-flash": {
        **_V4, "num_hidden_layers": 43, "hidden_size": 4096, "num_attention_heads": 64, "q_lora_rank": 1024,
        "o_groups": 8, "moe_intermediate_size": 2048, "n_routed_experts": 256,
        "compress_ratios": [0, 0, *[4, 128] * 20, 4, 0],
    },
    "glm-5.3-flash": {
        "model_type": "glm5_next",
        "text_config": _mla(
            "glm5_next_text", 45, 4096, 64, 154880, q_lora_rank=1536, qk_nope_head_dim=256, qk_rope_head_dim=0,
            v_head_dim=256, intermediate_size=12288, n_routed_experts=288, num_nextn_predict_layers=1,
            index_topk=2048, index_n_heads=32, index_head_dim=128, index_kpool=16, mhc=True, hc_mult=4,
            linear_attn_config={"num_heads": 64, "head_dim": 128, "short_conv_kernel_size": 4},
        ),
        "vision_config": {
            "depth": 24, "hidden_size": 1024, "num_heads": 16, "patch_size": 14, "intermediate_size": 4096,
            "out_hidden_size": 4096, "projection_intermediate_size": 10240,
        },
    },
    "qwen3.8-flash": {
        **_qwen35(_delta_net(
            48, 2560, 24, 2, 48, num_experts=512, moe_intermediate_size=640, shared_expert_intermediate_size=640,
            hc_count=4, hc_lowrank=320, indexer_n_heads=4, indexer_kv_heads=1, indexer_head_dim=128,
            ple_layer_ids=[2], ple_embed_dim=2560, ngram_size=3, heads_per_ngram=8, ngram_vocab_size_base=20000000,
        )),
        "model_type": "qwen4_exp",
    },
    "nemotron-nano": _nemotron(
        2688, 32, 64, 1856, n_routed_experts=128, num_hidden_layers=52,
        hybrid_override_pattern="MEMEM*" + "EMEMEM*" * 4 + "EMEMEMEM*" + "EMEMEMEME",
    ),
    "nemotron-super": _nemotron(
        4096, 32, 128, 2688, n_routed_experts=512, moe_latent_size=1024, num_hidden_layers=88,
        hybrid_override_pattern=_SUPER, num_nextn_predict_layers=1, mtp_hybrid_override_pattern="*E",
    ),
}  # fmt: skip


def changed(name: str, changes: dict[str, Any]) -> dict[str, Any]:
    """A copy with other values in its text part (a key with a dot: in a part of the file); None takes the key away."""
    config = copy.deepcopy(MODELS[name])
    for path, value in changes.items():
        part, _dot, key = path.rpartition(".")
        target = config[part] if part else config.get("text_config", config)
        if value is None:
            target.pop(key, None)
        else:
            target[key] = value
    return config


WIDTH = {None: 2, "float32": 4}


def tensors(config: dict[str, Any]) -> list[Tensor]:
    return list(FAMILIES[config["model_type"]](config.get("text_config", config), config))
