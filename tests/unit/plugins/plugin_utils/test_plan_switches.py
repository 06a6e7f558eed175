# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""Flags that are on or off, those of another engine, and a variable that says something else than an argument."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gb10.serving.plugins.plugin_utils import _plan_args, _plan_case, _plan_variables
from ansible_collections.gb10.serving.plugins.plugin_utils._engines import ENGINES
from ansible_collections.gb10.serving.plugins.plugin_utils._plan_options import Option


@pytest.mark.parametrize(
    ("engine", "args", "wish", "value"),
    [
        ("vllm", ["--enforce-eager"], "enforce_eager", True),
        ("vllm", ["--enforce-eager", "--no-enforce-eager"], "enforce_eager", False),
        ("vllm", ["--no_enforce_eager", "--enforce_eager"], "enforce_eager", True),
        ("vllm", ["-O0"], "enforce_eager", True),
        ("vllm", ["-O", "0"], "enforce_eager", True),
        ("vllm", ["-O=0", "--no-enforce-eager"], "enforce_eager", True),
        ("vllm", ["--optimization-level=0"], "enforce_eager", True),
        ("vllm", ["-O0", "-O2"], "enforce_eager", False),
        ("vllm", ["--compilation-config", '{"cudagraph_mode": "NONE"}'], "enforce_eager", True),
        ("vllm", ["--compilation-config", '{"level": 3}'], "enforce_eager", False),
        ("vllm", ["--compilation-config.cudagraph_mode", "NONE"], "enforce_eager", True),
        ("vllm", ["--disable-prefix-caching"], "prefix_caching", False),
        ("vllm", ["--no-enable-prefix-caching"], "prefix_caching", False),
        ("vllm", ["--no-enable-prefix-caching", "--enable-prefix-caching"], "prefix_caching", None),
        ("vllm", ["--language-model-only", "--no-language-model-only"], "language_model_only", False),
        ("vllm", ["-ep", "--no-enable-expert-parallel"], "expert_parallel", False),
        ("vllm", ["--disable-expert-parallel"], "expert_parallel", False),
        ("vllm", ["-sc", '{"method": "mtp", "num_speculative_tokens": 2}'], "speculative_tokens", 2),
        ("sglang", ["--disable-cuda-graph"], "enforce_eager", True),
        ("sglang", ["--disable-radix-cache"], "prefix_caching", False),
        ("sglang", ["--enforce-eager", "-O0"], "enforce_eager", False),
        ("sglang", ["--ep", "2"], "expert_parallel", True),
        ("sglang", ["--ep-size", "1"], "expert_parallel", False),
        ("vllm", ["--disable-radix-cache"], "prefix_caching", None),
        ("vllm", ["--disable-cuda-graph"], "enforce_eager", False),
    ],
)
def test_the_last_flag_counts(engine: str, args: list[str], wish: str, value: bool | None) -> None:
    found, problems = _plan_args.from_args(args, engine)
    assert (found.get(wish), problems) == (value, [])


@pytest.mark.parametrize(
    ("engine", "arg", "remedy"),
    [
        ("vllm", "--enforce-eager=false", "write --enforce-eager without '=', or --no-enforce-eager."),
        ("vllm", "--no-enable-prefix-caching=1", "or --enable-prefix-caching."),
        ("sglang", "--disable-cuda-graph=0", "write --disable-cuda-graph without '='."),
    ],
)
def test_a_switch_has_no_value(engine: str, arg: str, remedy: str) -> None:
    _found, (problem,) = _plan_args.from_args([arg], engine)
    assert f"{arg} has a value." in str(problem) and problem.remedy.endswith(remedy)


@pytest.mark.parametrize(
    ("engine", "args", "instead"),
    [
        ("vllm", ["--disable-radix-cache"], "give --no-enable-prefix-caching instead"),
        ("vllm", ["--disable-cuda-graph"], "give --enforce-eager instead"),
        ("vllm", ["--speculative-num-steps", "3"], "give --speculative-config (a JSON value) instead"),
        ("vllm", ["--ep-size=2"], "give --enable-expert-parallel instead"),
        ("vllm", ["--page-size", "64"], "give --block-size instead"),
        ("vllm", ["--mamba-full-memory-ratio", "1"], "take it out."),
        ("sglang", ["--enforce-eager"], "give --disable-cuda-graph instead"),
        ("sglang", ["--no_enable_prefix_caching"], "give --disable-radix-cache instead"),
        ("sglang", ["--enable-prefix-caching"], "take it out."),
        ("sglang", ["-ep"], "give --ep-size (takes the number of ranks) instead"),
        ("sglang", ["--speculative-config.method", "mtp"], "give --speculative-algorithm"),
    ],
)
def test_flags_of_another_engine_are_refused(engine: str, args: list[str], instead: str) -> None:
    (problem,) = _plan_args.decided(args, engine)
    assert "is given, which is another engine's." in problem.seen and instead in problem.remedy


@pytest.mark.parametrize(
    ("engine", "args"),
    [
        ("vllm", ["--enforce-eager", "--language-model-only", "--cpu-offload-gb", "4", "--data-parallel-size", "2"]),
        ("sglang", ["--disable-cuda-graph", "--language-model-only", "--data-parallel-size", "2", "--page-size", "1"]),
        ("sglang", ["--speculative-algorithm", "NEXTN", "--speculative-num-steps", "3", "--ep", "2"]),
    ],
)
def test_its_own_flags_are_not(engine: str, args: list[str]) -> None:
    assert _plan_args.decided(args, engine) == []


@pytest.mark.parametrize(
    ("engine", "values", "args", "words"),
    [
        (
            "vllm",
            {"gb10_plan_speculative_tokens": 5},
            ["--speculative-config", '{"method": "mtp", "num_speculative_tokens": 2}'],
            "gb10_plan_speculative_tokens: it is 5, and --speculative-config in gb10_server_args says 2.",
        ),
        (
            "vllm",
            {"gb10_plan_ep": True},
            ["--no-enable-expert-parallel"],
            "gb10_plan_ep: it is true, and --no-enable-expert-parallel in gb10_server_args says false.",
        ),
        ("vllm", {"gb10_plan_ep": True}, ["--disable-expert-parallel"], "--disable-expert-parallel"),
        ("vllm", {"gb10_plan_ep": False}, ["--enable-expert-parallel"], "it is false, and --enable-expert-parallel"),
        ("sglang", {"gb10_plan_ep": False}, ["--ep-size", "2"], "it is false, and --ep-size"),
        ("vllm", {"gb10_plan_dtype": "bfloat16"}, ["--dtype", "half"], "it is bfloat16, and --dtype"),
        ("vllm", {"gb10_plan_dtype": "float16"}, ["--dtype", "half"], ""),
        ("vllm", {"gb10_plan_dtype": "auto"}, ["--dtype", "half"], ""),
        ("vllm", {"gb10_plan_ep": True}, ["-ep"], ""),
        ("vllm", {"gb10_plan_ep": True}, [], ""),
    ],
)
def test_a_variable_against_an_argument(engine: str, values: dict[str, Any], args: list[str], words: str) -> None:
    found = _plan_case.argument_problems(Option("", {**values, "gb10_server_engine": engine}), args)
    assert [words in str(problem) for problem in found] == ([True] if words else []), found


def test_drafts_of_sglang_name_who_makes_them() -> None:
    args = ENGINES["sglang"].wish_args("auto", 3)
    assert args[:4] == ["--speculative-algorithm", "NEXTN", "--speculative-num-steps", "3"]
    assert args[4:] == ["--speculative-eagle-topk", "1", "--speculative-num-draft-tokens", "4"]
    found, problems = _plan_args.from_args(args, "sglang")
    assert (found["speculative_tokens"], problems, _plan_args.decided(args, "sglang")) == (3, [], [])
    _found, (problem,) = _plan_variables.wishes({}, ["--speculative-num-steps", "3"], "sglang")
    assert "without --speculative-algorithm" in problem.seen


@pytest.mark.parametrize(
    ("problems", "source", "note"),
    [
        (
            ["1 of 39 files model-*-of-00039.safetensors are there; missing: x."],
            "config.json",
            "1 of 39 shards is there",
        ),
        (["3 of 39 files model-*-of-00039.safetensors are there; missing: x."], "config.json", "3 of 39 shards are"),
        (["3 of 39 files model-*-of-00039.safetensors are there; missing: x."], "safetensors headers", ""),
        (["/m has no safetensors weights. Download the model."], "config.json", ""),
    ],
)
def test_a_model_that_is_there_in_part(problems: list[str], source: str, note: str) -> None:
    found = _plan_case._shards({"problems": problems}, {"weights_source": source})
    assert [line.startswith(note) and line.endswith("; planned from config.json.") for line in found] == [True] * bool(
        note
    )
