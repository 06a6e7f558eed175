# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""Inputs that make no sense have a reason, and no traceback."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ansible_collections.gb10.serving.plugins.plugin_utils._memory import plan
from ansible_collections.gb10.serving.tests.unit.plugins.plugin_utils.memory_models import CONFIGS, model, nodes

VLLM = {"name": "vllm", "version": "0.33.0"}

# nodes, model, wishes -> words of the refusal
REFUSED: list[tuple[list[dict[str, Any]], dict[str, Any], dict[str, Any], str]] = [
    ([], model("llama-8b"), {}, "No node is given"),
    (nodes(2), model("llama-8b"), {"tensor_parallel": 4}, "gb10_plan_tp is 4, which needs 4 nodes"),
    (nodes(3), model("llama-8b"), {"tensor_parallel": 3}, "(32) must be divisible by tensor parallel size (3)"),
    (nodes(1), model("llama-8b"), {"tensor_parallel": 0}, "gb10_plan_tp is 0; expected a whole number from 1 to"),
    (nodes(1), model("llama-8b"), {"gpu_memory_utilization": 1.5}, "gb10_plan_gpu_memory_utilization is 1.5"),
    (nodes(1), model("llama-8b"), {"mem_fraction_static": 0.8}, "which vLLM does not know"),
    (
        nodes(1),
        model("llama-8b"),
        {"max_num_seqs": 99, "max_num_batched_tokens": 64},
        "greater than or equal to max_num_seqs",
    ),
    (nodes(1), model("llama-8b"), {"dtype": "int4"}, "gb10_plan_dtype is 'int4'"),
    (nodes(1), model("llama-8b"), {"reserve_bytes": -1}, "(-1 bytes); expected GiB, from 0 to 1048576"),
    (nodes(1), model("llama-8b"), {"context_length": 200000}, "User-specified max_model_len (200000)"),
    ([{"host": "a", "total_bytes": 0, "available_bytes": 1}], model("llama-8b"), {}, "total_bytes is 0"),
    ([{"host": "a", "total_bytes": 5, "available_bytes": 9}], model("llama-8b"), {}, "is more than total_bytes"),
    (nodes(1), model("llama-8b", model_type="unheard_of"), {}, "needs the safetensors headers"),
    (nodes(1), {**model("gpt-oss-20b", 10), "problems": ["x is truncated."]}, {}, "x is truncated"),
    (nodes(1), model("llama-8b", 15, layer_types=["odd_attention"] * 32), {}, "odd_attention"),
    (nodes(1), model("llama-8b", 15, num_hidden_layers=None), {}, "num_hidden_layers"),
    (nodes(1), model("llama-8b", 15, num_attention_heads=0), {}, "num_attention_heads is 0"),
    (nodes(1), model("llama-8b", 15, head_dim=1.5), {}, "head_dim is 1.5"),
    (nodes(1), model("llama-8b", 15, layer_types=["full_attention"]), {}, "layer_types names 1 layers"),
    (nodes(1), {"exists": False, "problems": ["/m does not exist."], "config": {}}, {}, "/m does not exist"),
    (nodes(1), {}, {}, "gives no usable num_hidden_layers"),
]


@pytest.mark.parametrize(("machines", "of", "wishes", "words"), REFUSED)
def test_bad_input_is_refused_with_a_reason(
    machines: list[dict[str, Any]], of: dict[str, Any], wishes: dict[str, Any], words: str
) -> None:
    answer = plan(machines, of, wishes, VLLM)
    assert answer["verdict"] == "refused"
    assert words in " ".join(answer["reasons"])
    assert not any("named above" in remedy for remedy in answer["remedies"]), "the reasons say what to correct"


@pytest.mark.parametrize("key", sorted(CONFIGS["qwen3.5-122b-fp8"]["text_config"]))
@pytest.mark.parametrize("value", [None, 0, -1, 1.5, "x", [], {}, True, 7])
def test_no_value_of_a_config_breaks_the_plan(key: str, value: object) -> None:
    text = {**CONFIGS["qwen3.5-122b-fp8"]["text_config"], key: value}
    for weights in (None, 110.0):
        answer = plan(nodes(2), model("qwen3.5-122b-fp8", weights, text_config=text), {}, VLLM)
        assert answer["verdict"] in ("fits", "borderline", "refused")
        json.dumps(answer)
        assert all(size >= 0 for rank in answer["ranks"] for k, size in rank.items() if k.endswith("_bytes"))
