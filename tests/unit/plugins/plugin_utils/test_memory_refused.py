# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""What an engine does not start with is refused in its own words, with what takes it back; what it ignores is noted."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gb10.serving.plugins.plugin_utils._memory import plan
from ansible_collections.gb10.serving.tests.unit.plugins.plugin_utils.memory_models import model, nodes

MTP = "Unsupported speculative method: 'mtp'"
EXPERTS = "Number of experts in the model must be greater than 0 when expert parallelism is enabled"
E5M2 = "fp8_e5m2 kv-cache is not supported with fp8 checkpoints"

# model, engine, wishes, words of the reason (nothing: it is planned), what is to be set instead
CASES: list[tuple[str, str, dict[str, Any], str, dict[str, Any]]] = [
    ("llama-8b", "vllm", {"speculative_tokens": 3}, MTP, {"gb10_plan_speculative_tokens": 0}),
    ("llama-8b", "sglang", {"speculative_tokens": 3}, "draft-model-path", {"gb10_plan_speculative_tokens": 0}),
    ("llama-8b", "vllm", {"speculative_tokens": 3, "separate_drafter": True}, "", {}),
    ("qwen3.5-122b-fp8", "vllm", {"speculative_tokens": 3}, "", {}),
    ("llama-8b", "vllm", {"expert_parallel": True}, EXPERTS, {"gb10_plan_ep": False}),
    ("llama-8b", "vllm", {"expert_parallel": False}, "", {}),
    ("llama-8b", "sglang", {"expert_parallel": True}, "", {}),
    ("qwen3.5-122b-fp8", "vllm", {"expert_parallel": True}, "", {}),
    ("qwen3.5-122b-fp8", "vllm", {"kv_cache_dtype": "fp8_e5m2"}, E5M2, {"gb10_plan_kv_cache_dtype": "fp8"}),
    ("qwen3.5-122b-fp8", "vllm", {"kv_cache_dtype": "fp8_e4m3"}, "", {}),
    ("qwen3.5-122b-fp8", "sglang", {"kv_cache_dtype": "fp8_e5m2"}, "", {}),
    ("llama-8b", "vllm", {"kv_cache_dtype": "fp8_e5m2"}, "", {}),
]


@pytest.mark.parametrize(("name", "engine", "wishes", "words", "instead"), CASES)
def test_what_does_not_start_is_refused(
    name: str, engine: str, wishes: dict[str, Any], words: str, instead: dict[str, Any]
) -> None:
    answer = plan(nodes(2), model(name), {"context_length": 8192, **wishes}, {"name": engine})
    if not words:
        assert answer["verdict"] == "fits", answer["reasons"]
        return
    (reason,), (change,) = answer["reasons"], answer["changes"]
    assert (answer["verdict"], answer["ranks"]) == ("refused", [])
    assert words in reason and reason.endswith(".")
    assert (change["verdict"], change["settings"]) == ("fits", instead)
    assert change["change"] == answer["remedies"][0]


@pytest.mark.parametrize(
    ("method", "scales", "refused"),
    [
        ("fp8", None, True),
        ("modelopt", None, True),
        ("modelopt_fp4", None, True),
        ("compressed-tensors", "fp8", True),
        ("compressed-tensors", None, False),
        ("awq", None, False),
        ("gptq", None, False),
    ],
)
def test_scales_of_the_cache_are_looked_for_by_some_methods(method: str, scales: str | None, refused: bool) -> None:
    of = {**model("llama-8b"), "quantization": {"method": method, "kv_cache": scales}}
    answer = plan(nodes(2), of, {"context_length": 8192, "kv_cache_dtype": "fp8_e5m2"}, {"name": "vllm"})
    assert (E5M2 in " ".join(answer["reasons"])) == refused


@pytest.mark.parametrize(
    ("ordered", "engine", "version", "words"),
    [
        ("desc_act", "vllm", "", "GPTQ group activation ordering (desc_act=True) is no longer supported."),
        ("actorder", "vllm", "0.33.0", "Compressed-tensors group/dynamic activation ordering"),
        ("desc_act", "vllm", "0.31.0", ""),
        ("desc_act", "sglang", "", ""),
        (None, "vllm", "", ""),
    ],
)
def test_an_order_of_inputs_that_is_no_longer_served(
    ordered: str | None, engine: str, version: str, words: str
) -> None:
    of = {**model("llama-8b"), "quantization": {"method": "gptq", "ordered": ordered}}
    answer = plan(nodes(2), of, {"context_length": 8192}, {"name": engine, "version": version})
    assert words in " ".join(answer["reasons"]) and (answer["verdict"] == "refused") == bool(words)
    assert not words or answer["changes"][0]["settings"] == {"gb10_model_id": None}


def test_two_refusals_are_both_told() -> None:
    wishes = {"expert_parallel": True, "speculative_tokens": 2}
    answer = plan(nodes(2), model("llama-8b"), wishes, {"name": "vllm"})
    assert len(answer["reasons"]) == len(answer["changes"]) == 2


def test_experts_that_are_not_there_are_ignored_by_the_other_engine() -> None:
    wishes = {"expert_parallel": True, "context_length": 8192}
    answer = plan(nodes(2), model("llama-8b"), wishes, {"name": "sglang"})
    assert any("SGLang starts, and splits nothing by it" in note for note in answer["notes"])
    of = plan(nodes(2), model("qwen3.5-122b-fp8"), wishes, {"name": "sglang"})
    assert not any("splits nothing" in note for note in of["notes"])


@pytest.mark.parametrize(
    ("engine", "words"),
    [
        ("vllm", "User-specified max_model_len (1000000) is greater than the derived max_model_len"),
        ("sglang", "User-specified context_length (1000000) is greater than the derived context_length (262144)."),
    ],
)
def test_a_context_beyond_the_model_is_said_in_the_words_of_the_engine(engine: str, words: str) -> None:
    answer = plan(nodes(2), model("qwen3.5-122b-fp8"), {"context_length": 1000000}, {"name": engine})
    (reason,), (change,) = answer["reasons"], answer["changes"]
    assert reason.startswith(words) and ("vLLM" in reason) == (engine == "vllm")
    assert (change["settings"], change["verdict"]) == ({"gb10_plan_context_length": 262144}, "fits")


@pytest.mark.parametrize(
    ("engine", "dtype", "refused"),
    [
        ("sglang", "float16", True),
        ("sglang", "bfloat16", False),
        ("sglang", "fp8_e5m2", False),
        ("vllm", "float16", False),
    ],
)
def test_a_cache_in_float16_is_none_of_sglangs(engine: str, dtype: str, refused: bool) -> None:
    answer = plan(nodes(2), model("llama-8b"), {"context_length": 8192, "kv_cache_dtype": dtype}, {"name": engine})
    assert any("'float16', which SGLang does not take" in reason for reason in answer["reasons"]) == refused
    assert bool(answer["ranks"]) != refused
