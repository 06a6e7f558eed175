# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""Names of variables and of options."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gb10.serving.plugins.plugin_utils import _plan_names, _plan_options
from ansible_collections.gb10.serving.plugins.plugin_utils._plan_variables import VARIABLES


@pytest.mark.parametrize(
    ("word", "name"),
    [
        ("tensor_parallel", "gb10_plan_tp"),
        ("tensor-parallel-size", "gb10_plan_tp"),
        ("kv_dtype", "gb10_plan_kv_cache_dtype"),
        ("memory", "gb10_plan_memory_bytes"),
        ("max_model_len", "gb10_plan_context_length"),
        ("model_dir", "gb10_model_dir"),
        ("engine", "gb10_server_engine"),
        ("contxt_length", "gb10_plan_context_length"),
        ("tensor_paralel", "gb10_plan_tp"),
        ("zzzqqq", None),
    ],
)
def test_what_is_meant_by_another_name(word: str, name: str | None) -> None:
    assert _plan_names.meant(word, VARIABLES) == name
    problem = _plan_names.unknown([f"gb10_plan_{word}"])[0]
    assert (f"use {name} instead." if name else "take it out") in problem.remedy


def test_every_other_name_stands_for_a_variable() -> None:
    assert {_plan_names.meant(word, VARIABLES) for word in _plan_names._MEANT} <= set(VARIABLES)
    assert not {f"gb10_plan_{word}" for word in _plan_names._MEANT} & set(VARIABLES)


def test_a_name_that_is_none_gets_a_hint() -> None:
    (problem,) = _plan_names.unknown(["gb10_plan_contxt_length", "gb10_plan_tp", "gb10_other", "x"])
    assert (problem.where, problem.remedy) == ("gb10_plan_contxt_length", "use gb10_plan_context_length instead.")


def test_advice_speaks_of_variables() -> None:
    text = "Set tensor_parallel to one of [1, 2], gb10_plan_max_num_seqs to 4 or max_num_batched_tokens to 2048."
    assert _plan_names.named(text) == (
        "Set gb10_plan_tp to one of [1, 2], gb10_plan_max_num_seqs to 4 or gb10_plan_max_num_batched_tokens to 2048."
    )
    plan = {"remedies": ["Raise kv_cache_bytes."], "changes": [{"change": "Lower max_num_seqs.", "effect_bytes": 1}]}
    named = _plan_names.named_plan(plan)
    assert named["remedies"] == ["Raise gb10_plan_kv_cache_gib."]
    assert named["changes"] == [{"change": "Lower gb10_plan_max_num_seqs.", "effect_bytes": 1}]


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ([{"tp": 1}, {"tp": 2}], ["tp 1", "tp 2"]),
        ([{"model_dir": "/m/a/"}, {"model_id": "org/b"}], ["model_dir a", "model_id b"]),
        ([{"name": "x"}, {"name": "y"}, {"name": "x"}], ["x (1)", "y", "x (2)"]),
        (
            [{"tp": 2, "model_dir": "/a/m"}, {"tp": 2, "model_dir": "/b/m"}],
            ["tp 2, model_dir m (1)", "tp 2, model_dir m (2)"],
        ),
    ],
)
def test_no_two_rows_have_one_name(given: list[dict[str, Any]], names: list[str]) -> None:
    options, problems = _plan_options.options_of(given, {})
    assert problems == [] and [option.name for option in options] == names
