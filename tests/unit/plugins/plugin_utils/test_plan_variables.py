# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.gb10.serving.plugins.plugin_utils import _plan_options, _plan_variables
from ansible_collections.gb10.serving.plugins.plugin_utils._memory_model import GIB, Wishes
from ansible_collections.gb10.serving.plugins.plugin_utils._plan_variables import VARIABLES

ROOT = Path(__file__).resolve().parents[4]


def test_every_wish_is_one_that_the_plan_knows() -> None:
    wishes = {known.wish for known in VARIABLES.values() if known.wish}
    assert wishes <= set(Wishes.__dataclass_fields__)


@pytest.mark.parametrize(
    ("name", "value", "wish"),
    [
        ("gb10_plan_tp", "2", {"tensor_parallel": 2}),
        ("gb10_plan_tp", 2.0, {"tensor_parallel": 2}),
        ("gb10_plan_tp", "0", {}),
        ("gb10_plan_tp", "", {}),
        ("gb10_plan_ep", "true", {"expert_parallel": True}),
        ("gb10_plan_ep", "no", {"expert_parallel": False}),
        ("gb10_plan_ep", "", {}),
        ("gb10_plan_gpu_memory_utilization", "0.85", {"gpu_memory_utilization": 0.85}),
        ("gb10_plan_kv_cache_gib", "0.25", {"kv_cache_bytes": GIB // 4}),
        ("gb10_plan_kv_cache_gib", 0, {}),
        ("gb10_plan_reserve_gib", "0", {"reserve_bytes": 0}),
        ("gb10_plan_kv_cache_dtype", "fp8", {"kv_cache_dtype": "fp8"}),
        ("gb10_plan_dtype", "float16", {"dtype": "float16"}),
        ("gb10_plan_nodes", "4", {}),
    ],
)
def test_text_from_the_command_line_becomes_a_wish(name: str, value: Any, wish: dict[str, Any]) -> None:
    found, problems = _plan_variables.wishes({name: value})
    assert problems == []
    assert {key: found[key] for key in found if key not in ("enforce_eager", "language_model_only")} == wish
    # What was read may be read again.
    once, _problems = _plan_variables.read_all({name: value})
    assert _plan_variables.wishes(once) == (found, [])


@pytest.mark.parametrize(
    ("name", "value", "accepted"),
    [
        ("gb10_plan_tp", "two", "a whole number from 1 to 1024; 0 leaves it to the plan"),
        ("gb10_plan_tp", "-1", "a whole number from 1 to 1024"),
        ("gb10_plan_tp", 2.5, "a whole number from 1 to 1024"),
        ("gb10_plan_tp", True, "a whole number from 1 to 1024"),
        ("gb10_plan_tp", [2], "a whole number from 1 to 1024"),
        ("gb10_plan_tp", "inf", "a whole number from 1 to 1024"),
        ("gb10_plan_memory_bytes", "0", "the bytes of a node's memory"),
        ("gb10_plan_memory_bytes", -5, "the bytes of a node's memory"),
        ("gb10_plan_gpu_memory_utilization", "85", "a share above 0 and at most 1"),
        ("gb10_plan_reserve_gib", "-1", "GiB, a number from 0 on"),
        ("gb10_plan_ep", "perhaps", "true or false"),
        ("gb10_server_engine", "vlm", "one of vllm, sglang"),
        ("gb10_plan_kv_cache_dtype", "fp4", "one of auto, bfloat16"),
        ("gb10_plan_engine_version", "latest", "a version such as"),
    ],
)
def test_a_wrong_value_is_named_with_what_is_accepted(name: str, value: Any, accepted: str) -> None:
    _found, (problem,) = _plan_variables.wishes({name: value})
    assert problem.where == name and repr(value) in problem.seen and accepted in problem.expected


def test_a_name_that_is_none_gets_a_hint() -> None:
    (problem,) = _plan_variables.unknown(["gb10_plan_contxt_length", "gb10_plan_tp", "gb10_other", "x"])
    assert (problem.where, problem.remedy) == ("gb10_plan_contxt_length", "use gb10_plan_context_length instead.")


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
        (["--speculative-config", '{"method": "mtp", "num_speculative_tokens": 2}'], {"speculative_tokens": 2}),
        (["--speculative-config={"], {}),
        (["--speculative-config"], {}),
        (["--reasoning-parser", "qwen3"], {}),
    ],
)
def test_arguments_of_the_engine(args: list[str], wish: dict[str, Any]) -> None:
    nothing = {"enforce_eager": False, "language_model_only": False}
    assert _plan_variables.wishes({}, args) == ({**nothing, **wish}, [])


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
    assert _plan_variables.version_of(ref) == version


def test_advice_speaks_of_variables() -> None:
    text = "Set tensor_parallel to one of [1, 2], gb10_plan_max_num_seqs to 4 or max_num_batched_tokens to 2048."
    assert _plan_variables.named(text) == (
        "Set gb10_plan_tp to one of [1, 2], gb10_plan_max_num_seqs to 4 or gb10_plan_max_num_batched_tokens to 2048."
    )
    plan = {"remedies": ["Raise kv_cache_bytes."], "changes": [{"change": "Lower max_num_seqs.", "effect_bytes": 1}]}
    named = _plan_variables.named_plan(plan)
    assert named["remedies"] == ["Raise gb10_plan_kv_cache_gib."]
    assert named["changes"] == [{"change": "Lower gb10_plan_max_num_seqs.", "effect_bytes": 1}]


def test_the_roles_have_these_variables_with_these_choices() -> None:
    options: dict[str, Any] = {}
    for role in ("gb10_defaults", "gb10_plan"):
        path = ROOT / "roles" / role / "meta" / "argument_specs.yml"
        for entry in yaml.safe_load(path.read_text())["argument_specs"].values():
            options.update(entry["options"])
    assert set(VARIABLES) <= set(options)
    assert {name for name in options if name.startswith("gb10_plan_")} <= set(VARIABLES)
    for name, known in VARIABLES.items():
        assert options[name].get("choices", []) == list(known.choices)
        assert _plan_variables.read(name, options[name]["default"])[1] is None


def test_both_tasks_hand_over_every_variable_that_they_have() -> None:
    tasks = ROOT / "roles" / "gb10_plan" / "tasks"
    (offline,) = yaml.safe_load((tasks / "offline.yml").read_text())
    assert set(offline["gb10.serving.plan_document"]["variables"]) == set(VARIABLES)
    deploy = yaml.safe_load((tasks / "plan.yml").read_text())[0]["gb10.serving.memory_plan"]["variables"]
    main = yaml.safe_load((ROOT / "roles" / "gb10_plan" / "meta" / "argument_specs.yml").read_text())
    shared = yaml.safe_load((ROOT / "roles" / "gb10_defaults" / "meta" / "argument_specs.yml").read_text())
    known = {**main["argument_specs"]["main"]["options"], **shared["argument_specs"]["main"]["options"]}
    # A release is tensor parallel over all nodes, so these two are not the user's.
    assert (deploy.pop("gb10_plan_pp"), deploy.pop("gb10_plan_ep")) == (1, False)
    assert set(deploy) == {name for name in known if name.startswith("gb10_plan_")}


BASE = {"gb10_model_id": "a/b", "gb10_plan_nodes": 2, "gb10_plan_context_length": 4096}


@pytest.mark.parametrize(
    ("given", "name", "values", "nodes"),
    [
        ({"name": "eight", "kv_cache_dtype": "fp8"}, "eight", {**BASE, "gb10_plan_kv_cache_dtype": "fp8"}, 2),
        ({"tp": "4"}, "tp 4", {"gb10_model_id": "a/b", "gb10_plan_context_length": 4096, "gb10_plan_tp": 4}, 4),
        ({"tp": 1, "nodes": 2}, "tp 1, nodes 2", {**BASE, "gb10_plan_tp": 1}, 2),
        ({"name": "other", "model_dir": "/m"}, "other", {**BASE, "gb10_model_dir": "/m"}, 2),
        ({"name": "all of it", "gb10_plan_context_length": 0}, "all of it", {**BASE}, 2),
        ({}, "option 1", BASE, 2),
    ],
)
def test_an_option_replaces_variables(given: Any, name: str, values: dict[str, Any], nodes: int) -> None:
    option, problems = _plan_options.option_of(0, given, BASE)
    if "model_dir" in given:
        values.pop("gb10_model_id")
    if "gb10_plan_context_length" in given:
        values.pop("gb10_plan_context_length")
    assert (problems, option.name, option.values, option.nodes) == ([], name, values, nodes)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"contxt_length": 1}, "use 'context_length' instead"),
        ({"tp": "two"}, "gb10_plan_options[0]: gb10_plan_tp: it is 'two'"),
        ("tp1", "Expected: a mapping"),
    ],
)
def test_a_wrong_option_is_named(given: Any, words: str) -> None:
    _option, (problem,) = _plan_options.option_of(0, given, {})
    assert words in str(problem) and str(problem).startswith("gb10_plan_options[0]")


def test_options_must_be_a_list() -> None:
    assert "write it as a list" in str(_plan_options.options_of("tp=1", {})[1][0])
    assert _plan_options.options_of([], BASE) == ([_plan_options.Option("", BASE)], [])


@pytest.mark.parametrize(
    ("limit", "lengths"),
    [
        (262144, [None, 32768, 131072, 262144]),
        (40960, [None, 32768, 40960]),
        (4096, [None, 4096]),
        (None, [None]),
    ],
)
def test_contexts_when_nothing_is_said(limit: int | None, lengths: list[int | None]) -> None:
    options = _plan_options.by_context(_plan_options.Option("", {}), limit)
    assert [option.values.get("gb10_plan_context_length") for option in options] == lengths


@pytest.mark.parametrize(
    ("values", "nodes"),
    [({}, 2), ({"gb10_plan_tp": 4}, 4), ({"gb10_plan_tp": 2, "gb10_plan_pp": 2}, 4), ({"gb10_plan_nodes": 3}, 3)],
)
def test_number_of_nodes(values: dict[str, Any], nodes: int) -> None:
    assert _plan_options.Option("", values).nodes == nodes


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("gb10_plan_nodes", 10**6),
        ("gb10_plan_tp", "1000000000"),
        ("gb10_plan_kv_cache_gib", 1e300),
        ("gb10_plan_reserve_gib", "1e300"),
        ("gb10_plan_tp", 10**400),
        ("gb10_plan_memory_bytes", 2**60),
        ("gb10_plan_engine_version", "1" * 5000),
        ("gb10_plan_engine_version", "0.33.0\n evil"),
        ("gb10_plan_kv_cache_dtype", "int8"),
    ],
)
def test_what_is_too_large_or_strange_is_refused_in_few_words(name: str, value: object) -> None:
    read, problem = _plan_variables.read(name, value)
    assert read is None
    assert problem is not None and name in str(problem) and len(str(problem)) < 300


@pytest.mark.parametrize("dtype", ["auto", "bfloat16", "fp8", "fp8_e4m3", "fp8_e5m2"])
def test_the_engines_names_of_cache_dtypes_are_known(dtype: str) -> None:
    assert _plan_variables.read("gb10_plan_kv_cache_dtype", dtype) == (dtype, None)
