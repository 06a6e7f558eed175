# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gb10.serving.plugins.module_utils._model_config import essentials, quantization
from ansible_collections.gb10.serving.tests.unit.plugins.plugin_utils.memory_models import CONFIGS

NEMOTRON = {
    "hidden_size": 64,
    "num_hidden_layers": 6,
    "num_attention_heads": 4,
    "hybrid_override_pattern": "MEM*-E",
    "n_routed_experts": 4,
    "n_shared_experts": 1,
    "moe_intermediate_size": 48,
    "moe_shared_expert_intermediate_size": 96,
    "mamba_num_heads": 8,
    "mamba_head_dim": 64,
    "n_groups": 2,
    "ssm_state_size": 128,
    "mamba_ssm_cache_dtype": "float32",
}


def test_a_multimodal_wrapper_gives_the_numbers_of_its_text_part() -> None:
    numbers, problems = essentials(CONFIGS["qwen3.5-122b"])
    assert problems == []
    assert numbers["architecture"] == "Qwen3_5MoeForConditionalGeneration"
    assert numbers["layer_kinds"] == {"full": 12, "linear": 36}
    assert (numbers["num_experts"], numbers["dense_layers"], numbers["mtp_layers"]) == (256, 0, 1)
    assert numbers["vision"]["depth"] == 27
    assert numbers["linear"] == {"key_heads": 16, "value_heads": 64, "key_head_dim": 128, "value_head_dim": 128,
                                 "conv_kernel": 4, "ssm_dtype": "float32", "separate_inputs": False}  # fmt: skip


def test_a_text_only_model_with_an_interval_instead_of_layer_types() -> None:
    numbers, problems = essentials(CONFIGS["tiny"])
    assert problems == []
    assert (numbers["layer_kinds"], numbers["vision"]) == ({"full": 1, "linear": 3}, None)


@pytest.mark.parametrize(
    ("name", "changes", "key", "value"),
    [
        ("minimax-m2", {}, "moe_intermediate_size", 1536),
        ("minimax-m2", {}, "num_experts", 256),
        ("glm-4.6-fp8", {}, "shared_expert_intermediate_size", 1536),
        ("glm-4.6-fp8", {}, "dense_layers", 3),
        ("glm-4.7-flash", {}, "mla", {"kv_lora_rank": 512, "q_lora_rank": 768, "qk_rope_head_dim": 64,
                                      "qk_nope_head_dim": 192, "v_head_dim": 256}),
        ("llama-8b", {}, "dense_layers", 32),
        ("llama-8b", {"head_dim": None}, "head_dim", 128),
        ("llama-8b", {"num_key_value_heads": None}, "num_key_value_heads", 32),
        ("llama-8b", {"dtype": None, "torch_dtype": "torch.float16"}, "dtype", "float16"),
        ("gpt-oss-20b", {}, "layer_kinds", {"full": 12, "sliding": 12}),
        ("gpt-oss-20b", {}, "sliding_window", 128),
        ("llama-8b", {"index_topk": 4}, "not_modelled", []),
        ("gpt-oss-20b", {"layer_types": ["full_attention", "odd"] * 12}, "not_modelled", ["layers of type odd"]),
        ("nemotron", {}, "layer_kinds", {"full": 1, "mamba": 2}),
        ("nemotron", {"num_hidden_layers": None}, "num_hidden_layers", 6),
        ("nemotron", {"hybrid_override_pattern": None, "layers_block_type": ["mamba", "moe", "attention"] * 2},
         "layer_kinds", {"full": 2, "mamba": 2}),
        ("nemotron", {}, "dense_layers", 1),
        ("nemotron", {}, "shared_expert_intermediate_size", 96),
        ("nemotron", {}, "mamba", {"heads": 8, "head_dim": 64, "groups": 2, "state_size": 128, "conv_kernel": 4,
                                   "ssm_dtype": "float32"}),
        ("llama-8b", {"intermediate_size": [1, 2]}, "not_modelled", ["intermediate_size that differs by layer"]),
        ("qwen3.5-35b", {"text_config": {"num_hidden_layers": 2, "layer_types": ["linear_attention"] * 2}},
         "not_modelled", [("layers whose linear_key_head_dim, linear_num_key_heads, linear_num_value_heads, "
                           "linear_value_head_dim config.json does not give")]),
    ],
)  # fmt: skip
def test_one_name_for_each_number(name: str, changes: dict[str, Any], key: str, value: object) -> None:
    numbers, problems = essentials({**{**CONFIGS, "nemotron": NEMOTRON}[name], **changes})
    assert problems == []
    assert numbers[key] == value


ODD: tuple[Any, ...] = (0, -1, {}, [64], "64", "", True)
NO_TABLES: tuple[Any, ...] = ([], 0, "", False, "fp8")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"num_attention_heads": 0}, "num_attention_heads is 0; expected a whole number from 1 on"),
        ({"head_dim": 128.5}, "head_dim is 128.5"),
        ({"vocab_size": "many"}, "vocab_size is 'many'"),
        ({"hidden_size": True}, "hidden_size is True"),
        ({"layer_types": ["full_attention"] * 3}, "layer_types names 3 layers, num_hidden_layers is 32"),
        ({"vocab_size": 10**4000}, "expected a whole number up to 1099511627775"),
        ({"dtype": "int64"}, "config.json: dtype is 'int64'; expected one of bfloat16, float16"),
        ({"torch_dtype": "int64"}, "config.json: torch_dtype is 'int64'"),
        *(({"dtype": value}, f"dtype is {value!r}; expected one of") for value in ODD),
        *(
            ({"quantization_config": value}, f"quantization_config is {value!r}; expected a table, or null")
            for value in NO_TABLES
        ),
    ],
)
def test_nonsense_is_named(changes: dict[str, Any], words: str) -> None:
    _numbers, problems = essentials({**CONFIGS["llama-8b"], **changes})
    assert len(problems) == 1
    assert words in problems[0]


@pytest.mark.parametrize("value", ["int64", 0, -1, {}, [64], "64"])
def test_the_dtype_of_the_inner_part_is_looked_at(value: Any) -> None:
    config = CONFIGS["qwen3.5-35b"]
    _numbers, problems = essentials({**config, "text_config": {**config["text_config"], "dtype": value}})
    (problem,) = problems
    assert problem.startswith(f"config.json: text_config.dtype is {value!r}; expected one of bfloat16, ")


@pytest.mark.parametrize(
    "changes", [{"dtype": "torch.float16"}, {"dtype": None, "torch_dtype": "half"}, {"quantization_config": None}]
)
def test_what_is_accepted_of_a_dtype(changes: dict[str, Any]) -> None:
    assert essentials({**CONFIGS["llama-8b"], **changes})[1] == []


def test_what_is_absent_is_no_problem_of_the_file() -> None:
    numbers, problems = essentials({"model_type": "another"})
    assert problems == []
    assert numbers["num_hidden_layers"] is None


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (None, None),
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, ("fp8", 8, [128, 128], None)),
        ({"quant_method": "awq", "bits": 4}, ("awq", 4, None, None)),
        ({"quant_method": "mxfp4"}, ("mxfp4", 4, None, None)),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8"},
         ("modelopt", 4, None, "fp8")),
        ({"quant_method": "compressed-tensors", "config_groups": {"group_0": {"weights": {"num_bits": 4}}}},
         ("compressed-tensors", 4, None, None)),
        ({"quant_method": "compressed-tensors", "kv_cache_scheme": {"num_bits": 8}},
         ("compressed-tensors", None, None, "fp8")),
    ],
)  # fmt: skip
def test_quantisation(raw: dict[str, Any] | None, expected: tuple[object, ...] | None) -> None:
    found = quantization({"quantization_config": raw} if raw else {})
    if expected is None:
        assert found is None
    else:
        assert found is not None
        assert (found["method"], found["bits"], found["block"], found["kv_cache"]) == expected
