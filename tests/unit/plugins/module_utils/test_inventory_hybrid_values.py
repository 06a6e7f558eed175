# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""What single values of config.json change in the inventory of hybrid, latent-attention and Mamba models."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gb10.serving.tests.unit.plugins.module_utils.inventory_hybrid_models import (
    MODELS,
    QWEN_VISION,
    WIDTH,
    changed,
    tensors,
)


@pytest.mark.parametrize(
    ("name", "changes", "gone", "come"),
    [  # bytes of 16-bit tensors that a change of the file takes away or brings
        ("qwen3.5-27b", {"tie_word_embeddings": True}, 2 * 248320 * 5120, 0),
        ("qwen3.5-27b", {"attn_output_gate": False}, 2 * 17 * 24 * 256 * 5120, 0),  # the draft layer has one too
        ("qwen3.5-35b", {"shared_expert_intermediate_size": 0}, 2 * 41 * 3 * 512 * 2048, 0),
        ("nemotron-nano", {"use_conv_bias": False}, 2 * 23 * 6144, 0),
        ("nemotron-nano", {"use_bias": True}, 0, 2 * 23 * (10304 + 2688)),
        ("deepseek-v3", {"n_shared_experts": 2}, 0, 2 * 59 * 3 * 2048 * 7168),
        ("deepseek-v3", {"topk_method": "greedy"}, 4 * 59 * 256, 0),
        ("deepseek-v3", {"moe_layer_freq": 61}, 2 * 58 * (256 * 7168 + 257 * 3 * 2048 * 7168) + 4 * 58 * 256,
         2 * 58 * 3 * 18432 * 7168),
    ],
)  # fmt: skip
def test_what_a_value_of_the_file_changes(name: str, changes: dict[str, Any], gone: int, come: int) -> None:
    before, after = (
        sum(t.elements * WIDTH[t.dtype] for t in tensors(config)) for config in (MODELS[name], changed(name, changes))
    )
    assert after - before == come - gone


@pytest.mark.parametrize(
    "changes",
    [
        {"hybrid_override_pattern": None, "layers_block_type": ["mamba", "moe", "mamba", "attention", "mlp", "moe"]},
        {"hybrid_override_pattern": None, "layers_block_type": [
            "linear_attention", "moe", "linear_attention", "full_attention", "mlp", "moe"]},
        {"hybrid_override_pattern": "MEM*-E", "num_hidden_layers": None},
    ],
)  # fmt: skip
def test_the_order_of_layers_in_each_notation(changes: dict[str, Any]) -> None:
    base = {"num_hidden_layers": 6, "intermediate_size": 512}
    expected = tensors(changed("nemotron-nano", {**base, "hybrid_override_pattern": "MEM*-E"}))
    assert tensors(changed("nemotron-nano", {**base, **changes})) == expected


@pytest.mark.parametrize(
    "changes",
    [
        {"index_topk_freq": 4, "index_skip_topk_offset": 3},
        {"index_topk_pattern": "FFF" + "SSSF" * 18 + "SSS"},
        {"indexer_types": ["full"] * 2 + ["full", "shared", "shared", "shared"] * 19},
    ],
)
def test_shared_indexers_in_each_notation(changes: dict[str, Any]) -> None:
    assert tensors(changed("glm-5", changes)) == tensors(MODELS["glm-5.2"])


@pytest.mark.parametrize(
    ("quantization", "text", "dtype"),
    [
        (None, {}, None),
        (None, {"ple_embedding_dtype": "float8_e4m3fn"}, "float8_e4m3fn"),
        ({"modules_to_not_convert": ["lm_head"]}, {}, "float8_e4m3fn"),
        ({"modules_to_not_convert": ["ngram_embedding"]}, {}, None),
        ({"modules_to_not_convert": ["model.language_model.layers.1.ple.ple_embedding.ngram_embedding.shard_0"]},
         {}, None),
    ],
)  # fmt: skip
def test_dtype_of_the_table_of_ngrams(
    quantization: dict[str, Any] | None, text: dict[str, Any], dtype: str | None
) -> None:
    config = changed("qwen3.8-flash", text)
    if quantization is not None:
        config["quantization_config"] = {"quant_method": "fp8", "weight_block_size": [128, 128], **quantization}
    (table,) = (tensor for tensor in tensors(config) if tensor.module.endswith("ngram_embedding"))
    assert table.dtype == dtype


def test_attention_of_a_quantised_file_that_leaves_it() -> None:
    found = {tensor.module.split(".")[-1] for tensor in tensors(MODELS["glm-5.3-flash"]) if tensor.linear}
    assert found == {"gate_proj", "up_proj", "down_proj", "lm_head"}
    assert not any(tensor.linear for tensor in tensors(MODELS["glm-5.3-flash"]) if "visual" in tensor.module)


@pytest.mark.parametrize(("method", "linear"), [(None, True), ("modelopt", True), ("compressed-tensors", False)])
def test_the_tower_of_a_file_whose_scheme_does_not_name_it(method: str | None, linear: bool) -> None:
    config = changed("kimi-k2.5", {"quantization_config": {"quant_method": method}} if method else {})
    (query,) = (tensor for tensor in tensors(config) if tensor.module == "vision_tower.encoder.blocks.0.wqkv")
    assert query.linear is linear


def test_mergers_of_deeper_layers() -> None:
    plain, deep = (
        changed("qwen3.5-35b", {}),
        changed("qwen3.5-35b", {"vision_config.deepstack_visual_indexes": [8, 16]}),
    )
    more = {t.module: t.shape for t in tensors(deep)}.items() - {t.module: t.shape for t in tensors(plain)}.items()
    merged = 4 * int(str(QWEN_VISION["hidden_size"]))
    assert len(more) == 2 * 6
    assert ("model.visual.deepstack_merger_list.1.norm", (merged,)) in more
    assert ("model.visual.deepstack_merger_list.1.linear_fc2", (2048, merged)) in more


def test_a_text_only_file_has_no_vision_and_no_wrapper_in_its_names() -> None:
    config = {**MODELS["qwen3.5-27b"]["text_config"], "model_type": "qwen3_5_text"}
    assert {tensor.module.split(".")[0] for tensor in tensors(config)} == {"model", "lm_head", "mtp"}
    assert not any("language_model" in tensor.module for tensor in tensors(config))
