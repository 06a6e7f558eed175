# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors

from __future__ import annotations

import pytest

from ansible_collections.gb10.serving.plugins.module_utils._model_tensors import CLASSES, summarise, tensor_class
from ansible_collections.gb10.serving.plugins.plugin_utils._memory_weights import SHARDING

NAMES = [
    ("model.language_model.embed_tokens.weight", "embeddings"),
    ("lm_head.weight", "lm_head"),
    ("model.language_model.layers.0.linear_attn.in_proj_qkv.weight", "linear_attention"),
    ("model.language_model.layers.0.linear_attn.A_log", "linear_attention"),
    ("model.language_model.layers.0.linear_attn.norm.weight", "norms_router"),
    ("model.language_model.layers.3.self_attn.q_proj.weight_scale_inv", "attention"),
    ("model.layers.3.self_attn.k_proj.weight", "attention_kv"),
    ("model.layers.3.self_attn.v_proj.bias", "attention_kv"),
    ("model.layers.3.self_attn.o_proj.weight", "attention"),
    ("model.layers.3.self_attn.q_norm.weight", "norms_router"),
    ("model.layers.3.self_attn.kv_a_proj_with_mqa.weight", "attention_replicated"),
    ("model.layers.3.self_attn.q_a_proj.weight", "attention_replicated"),
    ("model.layers.3.self_attn.kv_a_layernorm.weight", "norms_router"),
    ("model.layers.3.self_attn.kv_b_proj.weight", "attention"),
    ("model.layers.3.self_attn.indexer.wk.weight", "attention_replicated"),
    ("model.layers.3.input_layernorm.weight", "norms_router"),
    ("model.layers.3.mlp.gate.weight", "norms_router"),
    ("model.layers.3.mlp.gate.e_score_correction_bias", "norms_router"),
    ("model.layers.3.mlp.shared_expert_gate.weight", "norms_router"),
    ("model.layers.3.mlp.shared_expert.gate_proj.weight", "shared_experts"),
    ("model.layers.3.mlp.experts.17.down_proj.weight", "experts"),
    ("model.layers.3.mlp.experts.gate_up_proj", "experts"),
    ("model.layers.3.block_sparse_moe.experts.17.w1.weight", "experts"),
    ("model.layers.3.block_sparse_moe.gate.weight", "norms_router"),
    ("model.layers.3.block_sparse_moe.e_score_correction_bias", "norms_router"),
    ("model.layers.3.mlp.gate_proj.weight", "mlp"),
    ("model.layers.3.mlp.down_proj.weight", "mlp"),
    ("model.norm.weight", "norms_router"),
    ("model.visual.blocks.3.attn.qkv.weight", "vision"),
    ("model.visual.blocks.3.norm1.weight", "vision_replicated"),
    ("vision_tower.encoder.layers.60.mlp.fc1.weight", "vision"),
    ("mtp.layers.0.mlp.experts.3.up_proj.weight", "mtp.experts"),
    ("mtp.fc.weight", "mtp"),
    ("model.layers.48.mlp.experts.3.up_proj.weight", "mtp.experts"),
    ("mtp.layers.0.self_attn.q_proj.weight", "mtp"),
    ("mtp.norm.weight", "mtp.replicated"),
    ("model.layers.48.eh_proj.weight", "mtp.replicated"),
    ("model.layers.48.shared_head.head.weight", "mtp"),
    ("model.layers.48.shared_head.norm.weight", "mtp.replicated"),
    ("model.layers.48.mlp.gate.weight", "mtp.replicated"),
    ("model.layers.48.self_attn.kv_a_proj_with_mqa.weight", "mtp.replicated"),
    ("model.layers.48.embed_tokens.weight", "mtp"),
    ("mtp.0.attn.wq_b.weight", "mtp"),
    ("embed.weight", "embeddings"),
    ("head.weight", "lm_head"),
    ("layers.3.attn.wq_a.weight", "attention_replicated"),
    ("layers.3.attn.compressor.wkv.weight", "attention_replicated"),
    ("layers.3.attn.wo_b.scale", "attention"),
    ("layers.3.ffn.experts.9.w2.weight", "experts"),
    ("layers.3.ffn.gate.bias", "norms_router"),
    ("backbone.embeddings.weight", "embeddings"),
    ("backbone.norm_f.weight", "norms_router"),
    ("backbone.layers.3.mixer.in_proj.weight", "linear_attention"),
    ("backbone.layers.3.mixer.conv1d.weight", "linear_attention"),
    ("backbone.layers.3.mixer.q_proj.weight", "attention"),
    ("backbone.layers.3.mixer.k_proj.weight_scale", "attention_kv"),
    ("backbone.layers.3.mixer.experts.7.up_proj.weight_scale_2", "experts"),
    ("backbone.layers.3.mixer.shared_experts.up_proj.weight", "shared_experts"),
    ("backbone.layers.3.mixer.fc1_latent_proj.weight", "other"),
    ("backbone.layers.3.mixer.up_proj.weight", "mlp"),
    ("model.layers.3.share_expert.up_proj.weight", "shared_experts"),
    ("model.layers.3.moe.up_proj.weight", "experts"),
    ("model.layers.3.moe.router_bias", "norms_router"),
    ("model.language_model.embed_tokens_per_layer.weight", "embeddings"),
    ("model.language_model.per_layer_model_projection.weight", "mlp"),
    ("model.vision_tower.encoder.layers.3.self_attn.q_proj.linear.weight", "vision_replicated"),
    ("vision_tower.vision_model.encoder.layers.3.self_attn.q_proj.weight", "vision"),
    ("vision_tower.vision_model.embeddings.position_embedding.weight", "vision_replicated"),
    ("multi_modal_projector.linear_1.weight", "vision"),
    ("multi_modal_projector.mm_input_projection_weight", "vision_replicated"),
    ("mm_projector.proj.0.weight", "vision_replicated"),
    ("model.visual.patch_embed.proj.weight", "vision_replicated"),
    ("model.visual.merger.linear_fc1.weight", "vision"),
    ("model.layers.3.mlp.experts.down_proj_bias", "norms_router"),
    ("model.rotary.inv_freq", "unused"),
    ("model.layers.3.mlp.experts.4.up_proj.g_idx", "unused"),
    ("model.some.table", "other"),
]


@pytest.mark.parametrize(("name", "expected"), NAMES)
def test_the_class_of_a_tensor(name: str, expected: str) -> None:
    assert tensor_class(name, 48) == expected


def test_the_planner_knows_how_each_class_is_shared() -> None:
    assert set(SHARDING) == set(CLASSES)


def test_bytes_are_summed_by_class_and_dtype() -> None:
    found = summarise(
        {
            "model.layers.0.mlp.experts.0.up_proj.weight": ("U8", 8),
            "model.layers.0.mlp.experts.1.up_proj.weight": ("U8", 8),
            "model.layers.0.mlp.experts.0.up_proj.weight_scale": ("F8_E4M3", 1),
            "model.layers.2.mlp.experts.0.up_proj.weight": ("BF16", 32),
        },
        2,
    )
    assert found["by_class"] == {"experts": 17, "mtp.experts": 32}
    assert found["by_dtype"] == {"BF16": 32, "F8_E4M3": 1, "U8": 16}
