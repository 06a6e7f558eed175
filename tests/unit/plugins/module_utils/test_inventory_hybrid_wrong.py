# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""A config.json of a hybrid, latent-attention or Mamba model with nonsense in it: a reason, never a guess."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.gb10.serving.plugins.module_utils._inventory._build import inventory
from ansible_collections.gb10.serving.tests.unit.plugins.module_utils.inventory_hybrid_models import MODELS, changed


@pytest.mark.parametrize(
    ("name", "changes", "words"),
    [
        ("qwen3.5-27b", {"hidden_size": None}, "it has no hidden_size"),
        ("qwen3.5-27b", {"intermediate_size": None}, "it has no intermediate_size"),
        ("qwen3.5-27b", {"hidden_size": 0}, "hidden_size is 0, expected a whole number from 1"),
        ("qwen3.5-27b", {"hidden_size": 5120.0}, "hidden_size is 5120.0"),
        ("qwen3.5-27b", {"hidden_size": "5120"}, "hidden_size is '5120'"),
        ("qwen3.5-27b", {"num_hidden_layers": True}, "num_hidden_layers is True"),
        ("qwen3.5-27b", {"num_hidden_layers": 10**9}, "num_hidden_layers is 1000000000"),
        ("qwen3.5-27b", {"vocab_size": -1}, "vocab_size is -1"),
        ("qwen3.5-27b", {"layer_types": ["full_attention"] * 3}, "layer_types names 3 layers, num_hidden_layers is 64"),
        ("qwen3.5-27b", {"layer_types": ["odd"] * 64}, "layer_types has a layer 'odd'"),
        ("qwen3.5-27b", {"layer_types": "full"}, "layer_types is 'full'"),
        ("qwen3.5-27b", {"layer_types": [["full"]] * 64}, "layer_types has a layer ['full']"),
        ("qwen3.5-27b", {"attn_output_gate": 1}, "attn_output_gate is 1, expected true or false"),
        ("qwen3.5-27b", {"vision_config.depth": None}, "it has no depth"),
        ("qwen3.5-27b", {"vision_config.depth": "27"}, "depth is '27'"),
        ("qwen3.5-27b", {"vision_config.deepstack_visual_indexes": 3}, "deepstack_visual_indexes is 3"),
        ("qwen3.5-35b", {"moe_intermediate_size": None}, "it has no moe_intermediate_size"),
        ("qwen3.5-35b", {"mlp_only_layers": 3}, "mlp_only_layers is 3"),
        ("qwen3.5-35b", {"linear_num_value_heads": 0}, "linear_num_value_heads is 0"),
        ("qwen3-next-80b", {"full_attention_interval": 0}, "full_attention_interval is 0"),
        ("deepseek-v3", {"kv_lora_rank": None}, "it has no kv_lora_rank"),
        ("deepseek-v3", {"q_lora_rank": 0}, "q_lora_rank is 0"),
        ("deepseek-v3", {"n_routed_experts": -256}, "n_routed_experts is -256"),
        ("deepseek-v3", {"num_nextn_predict_layers": "one"}, "num_nextn_predict_layers is 'one'"),
        ("deepseek-v3.2", {"index_head_dim": None}, "it has no index_head_dim"),
        ("deepseek-v3.2", {"index_topk": 0}, "index_topk is 0"),
        ("glm-5.2", {"indexer_types": ["full"] * 77}, "indexer_types names 77 layers, num_hidden_layers is 78"),
        ("glm-5.2", {"index_topk_pattern": "FX" * 39}, "index_topk_pattern is 'FXFX"),
        ("glm-5", {"first_k_dense_replace": None, "mlp_layer_types": ["dense"]}, "mlp_layer_types names 1 layers"),
        ("kimi-k2.5", {"vision_config.merge_kernel_size": [2]}, "merge_kernel_size is [2]"),
        ("kimi-k2.5", {"vision_config.merge_kernel_size": [2, 0]}, "merge_kernel_size[1] is 0"),
        ("kimi-k2.5", {"vision_config.mm_projector_type": "new"}, "mm_projector_type is 'new'"),
        ("nemotron-nano", {"hybrid_override_pattern": None}, "it has no layers_block_type"),
        ("nemotron-nano", {"hybrid_override_pattern": "MEMX"}, "hybrid_override_pattern has a layer 'X'"),
        ("nemotron-nano", {"hybrid_override_pattern": ""}, "hybrid_override_pattern is ''"),
        ("nemotron-nano", {"hybrid_override_pattern": 52}, "hybrid_override_pattern is 52"),
        ("nemotron-nano", {"hybrid_override_pattern": "ME" * 25}, "names 50 layers, num_hidden_layers is 52"),
        ("nemotron-nano", {"layers_block_type": ["mamba", 7]}, "layers_block_type has a layer 7"),
        ("nemotron-nano", {"ssm_state_size": None}, "it has no ssm_state_size"),
        ("nemotron-super", {"mtp_hybrid_override_pattern": "*M"}, "mtp_hybrid_override_pattern has a layer 'M'"),
        ("nemotron-super", {"mtp_hybrid_override_pattern": None}, "it has no mtp_layers_block_type"),
        ("nemotron-super", {"moe_latent_size": 0}, "moe_latent_size is 0"),
        ("deepseek-v4-flash", {"compress_ratios": [4] * 42}, "compress_ratios is 42 numbers"),
        ("deepseek-v4-flash", {"compress_ratios": [5] * 43}, "compress_ratios has 5, known are 0, 1, 4, 128"),
        ("deepseek-v4-flash", {"dspark_target_layer_ids": [40]}, "it has no dspark_markov_rank"),
        ("deepseek-v4-flash", {"dspark_target_layer_ids": 7, "dspark_markov_rank": 256}, "layer_ids is 7"),
        ("deepseek-v4-flash", {"vision_n_layers": 2}, "vision_n_layers is 2"),
        ("qwen3.8-flash", {"ple_layer_ids": [0]}, "ple_layer_ids is [0], expected numbers of layers from 1 to 48"),
        ("qwen3.8-flash", {"ple_embed_dim": 2561}, "ple_embed_dim is 2561, expected a multiple of the 16"),
        ("qwen3.8-flash", {"indexer_head_dim": None}, "it has no indexer_head_dim"),
        ("glm-5.3-flash", {"mhc": "yes"}, "mhc is 'yes'"),
        ("glm-5.3-flash", {"linear_attn_config": [64]}, "linear_attn_config is [64], expected an object"),
        ("glm-5.3-flash", {"vision_config.num_heads": 0}, "num_heads is 0"),
    ],
)  # fmt: skip
def test_nonsense_is_a_reason_with_key_and_value(name: str, changes: dict[str, Any], words: str) -> None:
    by_class, reason = inventory(changed(name, changes))
    assert by_class == {}
    assert words in str(reason)


JUNK = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=3), st.lists(st.integers(), max_size=3),
    st.dictionaries(st.text(max_size=2), st.integers(), max_size=2),
)  # fmt: skip


@settings(deadline=None, max_examples=80)
@given(data=st.data(), name=st.sampled_from(sorted(MODELS)), value=JUNK)
def test_a_mutated_file_gives_bytes_or_a_reason(data: st.DataObject, name: str, value: object) -> None:
    config = copy.deepcopy(MODELS[name])
    parts = [config, *(part for part in config.values() if isinstance(part, dict))]
    part = data.draw(st.sampled_from(parts))
    part[data.draw(st.sampled_from(sorted(part)))] = value
    by_class, reason = inventory(config)
    assert bool(by_class) != bool(reason)
    assert all(isinstance(size, int) and 0 < size < 10**24 for size in by_class.values())
