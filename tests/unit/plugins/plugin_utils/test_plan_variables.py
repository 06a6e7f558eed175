# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.gb10.serving.plugins.plugin_utils import (
    _memory_checks,
    _plan_options,
    _plan_variables,
)
from ansible_collections.gb10.serving.plugins.plugin_utils._memory_model import GIB, Engine, Wishes
from ansible_collections.gb10.serving.plugins.plugin_utils._memory_nodes import read_nodes
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
        ("gb10_plan_tp", "two", "a whole number from 1 to 64; 0 leaves it to the plan"),
        ("gb10_plan_tp", "-1", "a whole number from 1 to 64"),
        ("gb10_plan_tp", 2.5, "a whole number from 1 to 64"),
        ("gb10_plan_tp", True, "a whole number from 1 to 64"),
        ("gb10_plan_tp", [2], "a whole number from 1 to 64"),
        ("gb10_plan_tp", "inf", "a whole number from 1 to 64"),
        ("gb10_plan_memory_bytes", "0", "the bytes of a node's memory"),
        ("gb10_plan_memory_bytes", -5, "the bytes of a node's memory"),
        ("gb10_plan_gpu_memory_utilization", "85", "a share above 0 and at most 1"),
        ("gb10_plan_reserve_gib", "-1", "GiB, a number from 0 to 1048576"),
        ("gb10_plan_ep", "perhaps", "true or false"),
        ("gb10_server_engine", "vlm", "one of vllm, sglang"),
        ("gb10_plan_kv_cache_dtype", "fp4", "one of auto, bfloat16"),
        ("gb10_plan_engine_version", "latest", "a version such as"),
    ],
)
def test_a_wrong_value_is_named_with_what_is_accepted(name: str, value: Any, accepted: str) -> None:
    _found, (problem,) = _plan_variables.wishes({name: value})
    assert problem.where == name and repr(value) in problem.seen and accepted in problem.expected


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("gb10_plan_memory_bytes", "121", "did you mean GiB? Write gb10_plan_memory_bytes=129922760704."),
        ("gb10_plan_memory_bytes", 121.5, "Write gb10_plan_memory_bytes=130459631616."),
        ("gb10_plan_available_bytes", 109, "Write gb10_plan_available_bytes=117037858816."),
        ("gb10_plan_memory_bytes", 2**30 - 1, "less than 1 GiB"),
        ("gb10_plan_kv_cache_gib", "1e-10", "GiB, a number from 0.001 (1 MiB) to 1048576"),
        ("gb10_plan_kv_cache_gib", 2**20 + 1, "to 1048576"),
        ("gb10_plan_max_num_seqs", 2**40, "a whole number from 1 to 65536"),
        ("gb10_plan_max_num_batched_tokens", 2**40, "a whole number from 1 to 16777216"),
        ("gb10_plan_speculative_tokens", 10**9, "a whole number from 1 to 128"),
        ("gb10_plan_nodes", 65, "a whole number from 1 to 64"),
    ],
)
def test_a_value_out_of_range_is_named_with_the_range(name: str, value: Any, words: str) -> None:
    found, problem = _plan_variables.read(name, value)
    assert found is None and problem is not None and words in str(problem) and str(value) in problem.seen


@pytest.mark.parametrize("name", [name for name, known in VARIABLES.items() if known.kind in ("int", "bytes", "gib")])
def test_what_the_reader_takes_at_most_the_plan_takes_too(name: str) -> None:
    known = VARIABLES[name]
    most = {"int": known.most, "bytes": _plan_variables.MOST_BYTES, "gib": _plan_variables.MOST_GIB}[known.kind]
    found, problems = _plan_variables.wishes({name: most})
    engine = Engine.of({"name": "vllm"})
    assert (
        problems == []
        and _memory_checks.wish_problems(replace(Wishes.of(found), max_num_batched_tokens=2**24), engine) == []
    )
    if name == "gb10_plan_memory_bytes":
        assert read_nodes([{"host": "a", "total_bytes": most}], Wishes())[1] == []
    assert _plan_variables.read(name, most + 1)[0] is None


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
        ({"kv_dtype": "fp8"}, "use 'kv_cache_dtype' instead"),
        ({"measure": True}, "it has the key 'measure'"),
        ({"tp": 64, "pp": 2}, "it is 64 x 2, which needs 128 nodes. Expected: at most 64 nodes."),
        ({"tp": "two"}, "gb10_plan_options[0]: gb10_plan_tp: it is 'two'"),
        ("tp1", "Expected: a mapping"),
    ],
)
def test_a_wrong_option_is_named(given: Any, words: str) -> None:
    _option, (problem,) = _plan_options.option_of(0, given, {})
    assert words in str(problem) and str(problem).startswith("gb10_plan_options[0]")


def test_options_must_be_a_list() -> None:
    tagged = type("Tagged", (str,), {"__repr__": lambda self: "tagged"})("foo")
    wrong = str(_plan_options.options_of(tagged, {})[1][0])
    assert "it is 'foo'." in wrong and "write it as a list" in wrong
    assert "at most 50" in str(_plan_options.options_of([{"tp": 1}] * 51, {})[1][0])
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
    [
        ({}, 2),
        ({"gb10_plan_tp": 4}, 4),
        ({"gb10_plan_pp": 4}, 4),
        ({"gb10_plan_tp": 2, "gb10_plan_pp": 2}, 4),
        ({"gb10_plan_nodes": 3}, 3),
    ],
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
