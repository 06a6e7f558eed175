# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from ansible_collections.gb10.serving.plugins.module_utils._inventory._build import inventory
from ansible_collections.gb10.serving.plugins.module_utils._inventory._families import FAMILIES
from ansible_collections.gb10.serving.plugins.module_utils._inventory._types import Tensor
from ansible_collections.gb10.serving.plugins.module_utils._model_config import essentials, text_config
from ansible_collections.gb10.serving.plugins.module_utils._model_tensors import tensor_class
from ansible_collections.gb10.serving.tests.unit.plugins.module_utils.inventory_gqa_models import MODELS, Config

# Zero of them is a number that models have.
ZERO_IS_MEANT = {
    "first_k_dense_replace",
    "hidden_size_per_layer_input",
    "interleave_moe_layer_step",
    "moe_layer_end_index",
    "moe_layer_start_index",
    "moe_num_shared_experts",
    "n_shared_experts",
    "num_experts",  # Gemma 4 without experts
    "num_kv_shared_layers",
    "num_nextn_predict_layers",
    "num_shared_experts",
    "shared_expert_intermediate_size",
}
NOT_USED = {"num_heads"}  # a vision tower's heads share its hidden size, and all have the same
NO_DENSE_LAYER = {
    ("Qwen3-30B-A3B", "intermediate_size"),
    ("Qwen3-VL-235B-A22B", "intermediate_size"),
}
SAME_KEYS = {  # as a model of the same family that is tested
    "Gemma-3-1B",
    "Gemma-3-27B",
    "Gemma-4-E2B",
    "GLM-4.6",
    "gpt-oss-120b",
    "Llama-3.1-405B",
    "Llama-3.1-70B",
    "Llama-4-Scout",
    "Mistral-7B-v0.3",
    "Mixtral-8x22B",
    "Qwen2.5-72B",
    "Qwen3-0.6B",
    "Qwen3-235B-A22B",
}
FAMILY = [name for name in MODELS if name not in SAME_KEYS]
HAS_DEFAULT = {  # without the key, these are what the engine takes
    "global_head_dim",
    "head_dim",
    "in_channels",
    "moe_num_experts",
    "num_channels",
    "num_global_key_value_heads",
    "num_key_value_heads",
    "projector_hidden_size",
    "share_expert_dim",
    "spatial_merge_size",
    "swa_v_head_dim",
    "temporal_patch_size",
    "v_head_dim",
}


def tensors(config: Config) -> list[Tensor]:
    return list(FAMILIES[config["model_type"]](text_config(config), config))


def classes(config: Config) -> Counter[str]:
    """Parameters by class."""
    found: Counter[str] = Counter()
    for tensor in tensors(config):
        found[tensor_class(tensor.module, text_config(config)["num_hidden_layers"])] += tensor.elements
    return found


@pytest.mark.parametrize("name", MODELS)
def test_every_parameter_of_a_model_is_there(name: str) -> None:
    config, expected = MODELS[name]
    assert sum(size for cls, size in classes(config).items() if not cls.startswith("mtp")) == expected


@pytest.mark.parametrize("name", MODELS)
def test_bytes_are_two_for_each_parameter_and_four_for_routers_in_float32(name: str) -> None:
    config, expected = MODELS[name]
    wide = sum(t.elements for t in tensors(config) if t.dtype == "float32" and ".mtp." not in t.module)
    drafts = sum(size for cls, size in classes(config).items() if cls.startswith("mtp"))
    by_class, reason = inventory(config)
    assert reason is None
    extra = sum(by_class.values()) - 2 * (expected + drafts)
    assert 0 <= 2 * wide - extra <= 64  # a counter of experts more or less


@pytest.mark.parametrize("name", MODELS)
def test_a_module_is_named_once(name: str) -> None:
    names = Counter(tensor.module for tensor in tensors(MODELS[name][0]))
    assert [module for module, times in names.items() if times > 1] == []


@pytest.mark.parametrize("name", MODELS)
def test_a_tensor_of_no_known_class_is_small(name: str) -> None:
    """Such tensors count on every rank in full: only the gates of Gemma's per-layer embeddings are meant to."""
    config = MODELS[name][0]
    other = [t for t in tensors(config) if tensor_class(t.module, text_config(config)["num_hidden_layers"]) == "other"]
    assert {t.module.rpartition(".")[2] for t in other} <= {"per_layer_input_gate", "per_layer_projection"}


def test_the_output_layer_is_there_unless_it_is_the_embedding() -> None:
    config = MODELS["Qwen3-8B"][0]
    assert classes(config)["lm_head"] == classes(config)["embeddings"] == 151936 * 4096
    assert "lm_head" not in classes({**config, "tie_word_embeddings": True})


def test_gemma_ties_its_embeddings_where_the_file_does_not_say() -> None:
    config = MODELS["Gemma-2-27B"][0]
    assert "lm_head" not in classes(config)
    assert "lm_head" in classes({**config, "tie_word_embeddings": False})


def test_the_layer_for_prediction_is_a_class_of_its_own() -> None:
    drafts = {cls: size for cls, size in classes(MODELS["GLM-4.5-Air"][0]).items() if cls.startswith("mtp")}
    ends, joint = 2 * 151552 * 4096, 2 * 4096**2 + 3 * 4096  # embedding and output layer; what joins the inputs
    layer = 3 * 4096 * 1408 * (128 + 1) + 128 * 4096 + 128 + 2 * 4096 + 4096 * 128 * (2 * 96 + 2 * 8) + 128 * (96 + 16)
    assert sum(drafts.values()) == ends + joint + layer
    assert not [cls for cls in classes({**MODELS["GLM-4.5-Air"][0], "num_nextn_predict_layers": 0}) if "mtp" in cls]


@pytest.mark.parametrize(
    ("changes", "dense"),
    [
        ({"decoder_sparse_step": 1}, 0),
        ({"decoder_sparse_step": 2}, 24),
        ({"mlp_only_layers": [0, 47]}, 2),
        ({"decoder_sparse_step": 2, "mlp_only_layers": [0, 1]}, 25),
    ],
)
def test_qwen_says_by_step_and_by_list_which_layers_have_experts(changes: Config, dense: int) -> None:
    config = {**MODELS["Qwen3-30B-A3B"][0], **changes}
    found = classes(config)
    assert found["mlp"] == dense * 3 * 2048 * 6144
    assert found["experts"] == (48 - dense) * 128 * 3 * 2048 * 768
    assert essentials(config)[0]["dense_layers"] == dense


@pytest.mark.parametrize(
    ("changes", "more"),
    [
        ({"attention_bias": True}, 32 * (4096 + 1024 + 1024 + 4096)),
        ({"attention_bias": True, "qkv_bias": False}, 32 * 4096),
        ({"mlp_bias": True}, 32 * (2 * 14336 + 4096)),
        ({"head_dim": 64}, -32 * 4096 * 64 * (32 + 32 + 8 + 8)),
    ],
)
def test_biases_and_head_sizes_count(changes: Config, more: int) -> None:
    config, expected = MODELS["Llama-3.1-8B"]
    assert sum(classes({**config, **changes}).values()) == expected + more


NUMBERS = ("num_experts", "moe_intermediate_size", "intermediate_size", "shared_expert_intermediate_size",
           "dense_layers", "num_key_value_heads")  # fmt: skip


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Qwen3-8B", (0, None, 12288, 0, 36, 8)),
        ("Qwen2-57B-A14B", (64, 2560, None, 20480, 0, 4)),
        ("Mixtral-8x7B", (8, 14336, 14336, 0, 0, 8)),
        ("gpt-oss-20b", (32, 2880, 2880, 0, 0, 8)),
        ("MiniMax-M2", (256, 1536, 1536, 0, 0, 8)),
        ("MiniMax-M3", (128, 3072, 12288, 3072, 3, 4)),
        ("GLM-4.6", (160, 1536, 12288, 1536, 3, 8)),
        ("Llama-4-Scout", (16, 8192, 16384, 8192, 0, 8)),
        ("Llama-4-Maverick", (128, 8192, 16384, 8192, 24, 8)),
        ("Step-3.5-Flash", (288, 1280, 11264, 1280, 3, 8)),
        ("MiMo-V2-Flash", (256, 2048, 16384, 0, 1, 4)),
        ("ERNIE-4.5-21B-A3B", (64, 1536, 12288, 3072, 1, 4)),
        ("Hy3", (192, 1536, 13312, 1536, 1, 8)),
        ("Gemma-3-4B", (0, None, 10240, 0, 34, 4)),
    ],
)
def test_the_essential_numbers_have_one_name(name: str, expected: tuple[int | None, ...]) -> None:
    numbers, problems = essentials(MODELS[name][0])
    assert problems == []
    assert tuple(numbers[key] for key in NUMBERS) == expected


def places(config: Config) -> Iterator[tuple[tuple[str, ...], Any]]:
    """(path of keys, value) of every number."""
    for key, value in config.items():
        if isinstance(value, dict):
            for path, inner in places(value):
                yield (key, *path), inner
        elif isinstance(value, int) and not isinstance(value, bool):
            yield (key,), value


def changed(config: Config, path: tuple[str, ...], value: object) -> Config:
    result = copy.deepcopy(config)
    inner = result
    for key in path[:-1]:
        inner = inner[key]
    if value is None:
        del inner[path[-1]]
    else:
        inner[path[-1]] = value
    return result


@pytest.mark.parametrize("name", FAMILY)
def test_a_number_that_makes_no_sense_is_named(name: str) -> None:
    config = MODELS[name][0]
    for path, _value in places(config):
        key = path[-1]
        for wrong in (0, -2, 1.5, "8", [4], 1 << 40):
            if key in NOT_USED or (name, key) in NO_DENSE_LAYER or (wrong == 0 and key in ZERO_IS_MEANT):
                continue
            by_class, reason = inventory(changed(config, path, wrong))
            assert (by_class, key in (reason or "")) == ({}, True), (path, wrong, reason)


@pytest.mark.parametrize("name", FAMILY)
def test_a_number_that_is_missing_is_named(name: str) -> None:
    config = MODELS[name][0]
    for path, _value in places(config):
        by_class, reason = inventory(changed(config, path, None))
        key = path[-1]
        if key in ZERO_IS_MEANT | NOT_USED | HAS_DEFAULT and not reason:
            continue
        if by_class == inventory(config)[0] or text_config(changed(config, path, None)).get(key):
            continue  # the engine's own default
        assert (by_class, f"it has no {key}" in (reason or "")) == ({}, True), (path, reason)


@pytest.mark.parametrize(
    ("name", "changes", "said"),
    [
        ("Gemma-4-31B", {"layer_types": ["full_attention"]}, "layer_types is a list of 1; expected a list of 60"),
        ("Gemma-4-31B", {"layer_types": ["linear_attention"] * 60}, "layer_types has 'linear_attention' in it"),
        ("Gemma-4-31B", {"layer_types": None}, "it has no layer_types"),
        ("Gemma-4-31B", {"attention_k_eq_v": 1}, "attention_k_eq_v is 1, expected true or false"),
        ("Gemma-4-31B", {"num_kv_shared_layers": 61}, "num_kv_shared_layers is 61"),
        ("MiMo-V2-Flash", {"moe_layer_freq": 1}, "moe_layer_freq is 1; expected a list of 48"),
        ("MiMo-V2-Flash", {"hybrid_layer_pattern": [2] * 48}, "hybrid_layer_pattern has 2 in it; expected 0 or 1"),
        ("MiMo-V2-Flash", {"moe_router_dtype": "int8"}, "moe_router_dtype is 'int8'"),
        ("Step-3.5-Flash", {"moe_layers_enum": "3,x"}, "moe_layers_enum is '3,x'"),
        ("Step-3.5-Flash", {"att_impl_type": "MFA"}, "att_impl_type is 'MFA'; expected GQA"),
        ("Step-3.5-Flash", {"attention_other_setting": [1]}, "attention_other_setting is [1], expected an object"),
        ("Qwen3-30B-A3B", {"mlp_only_layers": "0"}, "mlp_only_layers is '0'; expected a list of layer numbers"),
        ("Llama-3.1-8B", {"num_key_value_heads": 7}, "num_key_value_heads is 7, expected a divisor of"),
        ("Llama-3.1-8B", {"num_attention_heads": 4097, "head_dim": None}, "num_attention_heads is 4097"),
        ("Llama-3.1-8B", {"mlp_bias": "no"}, "mlp_bias is 'no', expected true or false"),
        ("Llama-3.1-8B", {"num_hidden_layers": 5000}, "num_hidden_layers is 5000"),
        ("Mistral-Small-3.2-24B", {"model_type": "mamba"}, "text_config.model_type is 'mamba'"),
    ],
)
def test_what_changes_the_shape_and_is_not_known_is_no_guess(name: str, changes: Config, said: str) -> None:
    config = copy.deepcopy(MODELS[name][0])
    config.get("text_config", config).update(changes)
    by_class, reason = inventory(config)
    assert by_class == {}
    assert said in (reason or "")


@pytest.mark.parametrize("vision", [None, {}, 7, {"hidden_size": 8}])
def test_a_tower_without_sizes_is_no_traceback(vision: object) -> None:
    for name, (config, _count) in MODELS.items():
        if "vision_config" in config:
            by_class, reason = inventory({**config, "vision_config": vision})
            built = config["model_type"] in ("gemma3", "llama4") and not vision  # by the engine's own defaults
            assert bool(by_class) == built, (name, reason)
            assert bool(reason) != built
