# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""What an engine's arguments mean for the plan, and which of them it refuses."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gb10.serving.plugins.plugin_utils import _plan_args, _plan_variables


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--block-size", "\u00b2"], "--block-size is '\u00b2'. Expected: a multiple of 16 from 16 to 65536"),
        (["--block-size", "0"], "--block-size is '0'"),
        (["--block-size=7"], "--block-size is '7'"),
        (["--block-size", "99999999999999999999"], "from 16 to 65536"),
        (["--block-size", "100000000000000"], "from 16 to 65536"),
        (["--block-size"], "--block-size has no value"),
        (["--speculative-config", "notjson"], "--speculative-config is 'notjson'. Expected: JSON such as"),
        (["--speculative-config={"], "--speculative-config is '{'"),
        (["--speculative-config"], "--speculative-config has no value"),
        (["--speculative-config", "[]"], "--speculative-config is '[]'"),
        (["--speculative-config", "[" * 100000], "Expected: JSON such as"),
        (["--speculative-config", '{"num_speculative_tokens": 1e9}'], "a whole number from 0 to 128"),
        (["--speculative-num-steps", "1000000000"], "a whole number from 0 to 128"),
        (["--dtype", "int4"], "one of auto, bfloat16"),
        (["--mm-encoder-tp-mode", "both"], "one of weights, data"),
    ],
)
def test_arguments_that_make_no_sense_are_named(args: list[str], words: str) -> None:
    found, (problem,) = _plan_variables.wishes({}, args)
    assert str(problem).startswith("gb10_server_args: ") and words in str(problem) and len(str(problem)) < 300
    assert set(found) <= {"enforce_eager", "language_model_only", "vision_sharded"}


@pytest.mark.parametrize(
    ("engine", "args", "pairs"),
    [
        ("vllm", ["--max-model-len", "1"], [("--max-model-len", "gb10_plan_context_length")]),
        ("vllm", ["--max_num_seqs=1"], [("--max-num-seqs", "gb10_plan_max_num_seqs")]),
        ("vllm", ["--gpu-memory-utilization=1"], [("--gpu-memory-utilization", "gb10_plan_gpu_memory_utilization")]),
        ("vllm", ["--kv-cache-dtype", "fp8"], [("--kv-cache-dtype", "gb10_plan_kv_cache_dtype")]),
        ("vllm", ["--kv-cache-memory-bytes", "1"], [("--kv-cache-memory-bytes", "gb10_plan_kv_cache_gib")]),
        ("vllm", ["-tp", "2"], [("-tp", "gb10_plan_tp")]),
        ("vllm", ["--pipeline-parallel-size", "2"], [("--pipeline-parallel-size", "gb10_plan_pp")]),
        ("vllm", ["--mem-fraction-static", "1"], [("--mem-fraction-static", "gb10_plan_gpu_memory_utilization")]),
        ("sglang", ["--context-length=1"], [("--context-length", "gb10_plan_context_length")]),
        ("sglang", ["--mem-fraction-static", "1"], [("--mem-fraction-static", "gb10_plan_mem_fraction_static")]),
        ("sglang", ["--max-model-len", "1"], [("--max-model-len", "gb10_plan_context_length")]),
        ("vllm", ["--enforce-eager", "--block-size", "32", "--config", "x"], []),
        ("elsewhere", ["--max-model-len", "1"], []),
    ],
)
def test_flags_that_the_plan_decides_are_refused(engine: str, args: list[str], pairs: list[tuple[str, str]]) -> None:
    found = _plan_args.decided(args, engine)
    assert [(p.seen.split()[0], p.remedy) for p in found] == [
        (flag, f"take it out, and set {variable} instead.") for flag, variable in pairs
    ]
    assert all("which the plan" in p.seen and p.where == "gb10_server_args" for p in found)


@pytest.mark.parametrize(
    ("args", "wish"),
    [
        (["--enforce-eager"], {"enforce_eager": True}),
        (["--language-model-only"], {"language_model_only": True}),
        (["--no-enable-prefix-caching"], {"prefix_caching": False}),
        (["--enable-expert-parallel"], {"expert_parallel": True}),
        (["--block-size", "32"], {"block_size": 32}),
        (["--block_size=32"], {"block_size": 32}),
        (["--mm-encoder-tp-mode", "data"], {"vision_sharded": False}),
        (["--dtype", "float16"], {"dtype": "float16"}),
        (["--load-format=fastsafetensors"], {"load_format": "fastsafetensors"}),
        (
            ["--speculative-config", '{"method": "mtp", "num_speculative_tokens": 2}'],
            {"speculative_tokens": 2, "drafting_args": ["--speculative-config"]},
        ),
        (
            ["--speculative-config.num_speculative_tokens", "3"],
            {"speculative_tokens": 3, "drafting_args": ["--speculative-config.num-speculative-tokens"]},
        ),
        (["--dtype=half"], {"dtype": "float16"}),
        (["--reasoning-parser", "qwen3"], {}),
    ],
)
def test_arguments_of_the_engine(args: list[str], wish: dict[str, Any]) -> None:
    nothing = {"enforce_eager": False, "language_model_only": False}
    assert _plan_variables.wishes({}, args) == ({**nothing, **wish}, [])


@pytest.mark.parametrize(
    ("args", "pools"),
    [
        (["--mamba-full-memory-ratio", "0.2"], {"state_ratio": 0.2}),
        (["--mamba_full_memory_ratio=2"], {"state_ratio": 2.0}),
        (["--max-mamba-cache-size", "40"], {"state_slots": 40}),
        (["--swa-full-tokens-ratio", ".5"], {"window_ratio": 0.5}),
        (["--mamba-scheduler-strategy", "no_buffer"], {"state_strategy": "no_buffer"}),
        (["--mamba-radix-cache-strategy=extra_buffer"], {"state_strategy": "extra_buffer"}),
        (["--disable-overlap-schedule"], {"overlap": False}),
        (["--disable-radix-cache"], None),
    ],
)
def test_how_the_pool_of_sglang_is_divided(args: list[str], pools: dict[str, Any] | None) -> None:
    found, problems = _plan_args.from_args(args, "sglang")
    assert (found.get("pools"), problems) == (pools, [])
    assert "pools" not in _plan_args.from_args(args, "vllm")[0]


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--mamba-full-memory-ratio", "0"], "a number above 0"),
        (["--mamba-full-memory-ratio", "nan"], "a number above 0"),
        (["--mamba-full-memory-ratio"], "has no value"),
        (["--swa-full-tokens-ratio", "1.5"], "at most 1"),
        (["--max-mamba-cache-size", "-1"], "a whole number from 1"),
        (["--mamba-radix-cache-strategy", "some"], "one of auto, no_buffer"),
    ],
)
def test_a_division_that_makes_no_sense_is_named(args: list[str], words: str) -> None:
    found, (problem,) = _plan_args.from_args(args, "sglang")
    assert words in str(problem) and "pools" not in found


@pytest.mark.parametrize(
    ("args", "separate"),
    [
        (["--speculative-config", '{"method": "mtp", "num_speculative_tokens": 2}'], False),
        (["--speculative-config", '{"method": "eagle3", "model": "a/b", "num_speculative_tokens": 2}'], True),
        (["--speculative-config", '{"method": "ngram", "num_speculative_tokens": 2}'], True),
        (["--speculative-config.method", "qwen3_next_mtp", "--speculative-config.num_speculative_tokens", "2"], False),
        (["--speculative-config.model", "a/b", "--speculative-config.num_speculative_tokens", "2"], True),
        (["--speculative-algorithm", "NEXTN", "--speculative-num-steps", "3"], False),
        (["--speculative-algorithm", "EAGLE3", "--speculative-draft-model-path", "a/b"], True),
        (["--speculative-num-steps", "3"], False),
    ],
)
def test_who_makes_the_drafts(args: list[str], separate: bool) -> None:
    for engine in ("vllm", "sglang"):
        assert _plan_args.from_args(args, engine)[0].get("separate_drafter", False) == separate


def test_a_variable_wins_over_an_argument_but_its_default_does_not() -> None:
    args = ["--enable-expert-parallel", "--dtype", "float16"]
    found, _problems = _plan_variables.wishes({"gb10_plan_ep": False, "gb10_plan_dtype": "auto"}, args)
    assert (found["expert_parallel"], found["dtype"]) == (True, "float16")
    assert _plan_variables.wishes({"gb10_plan_dtype": "float32"}, args)[0]["dtype"] == "float32"


@pytest.mark.parametrize(
    ("ref", "version"),
    [
        ("vllm/vllm-openai:v0.25.1-aarch64", "0.25.1"),
        ("registry:5000/vllm:0.33", "0.33"),
        ("vllm/vllm-openai:latest", ""),
        ("vllm", ""),
        ("", ""),
    ],
)
def test_version_of_an_image(ref: str, version: str) -> None:
    assert _plan_args.version_of(ref) == version
