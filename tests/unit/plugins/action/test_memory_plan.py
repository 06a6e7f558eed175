# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors

from __future__ import annotations

from typing import Any
from unittest.mock import MagicMock

import pytest
import yaml
from ansible.errors import AnsibleError

from ansible_collections.gb10.serving.plugins.action import memory_plan
from ansible_collections.gb10.serving.plugins.action.memory_plan import ARGUMENT_SPEC, ActionModule
from ansible_collections.gb10.serving.plugins.modules import memory_plan as stub
from ansible_collections.gb10.serving.plugins.plugin_utils._memory import plan
from ansible_collections.gb10.serving.plugins.plugin_utils._memory_model import Wishes
from ansible_collections.gb10.serving.tests.unit.plugins.plugin_utils.memory_models import model, nodes


def run(**args: Any) -> dict[str, Any]:
    task = MagicMock(args=args, async_val=0, check_mode=True, diff=False)
    return ActionModule(task, MagicMock(), MagicMock(), MagicMock(), MagicMock(), MagicMock()).run(None, {})


def test_it_needs_no_connection_and_no_files() -> None:
    assert ActionModule._requires_connection is False
    assert ActionModule.TRANSFERS_FILES is False


def test_a_plan_that_fits() -> None:
    result = run(nodes=nodes(2), model=model("qwen3.5-122b-fp8"), wishes={"context_length": 131072})
    assert not result.get("failed")
    assert (result["changed"], result["plan"]["verdict"]) == (False, "fits")
    assert result["plan"]["context_length"] == 131072


def test_a_refusal_fails_with_reasons_then_ranked_remedies_and_still_returns_the_plan() -> None:
    result = run(nodes=nodes(1), model=model("qwen3.5-122b-fp8"))
    assert (result["failed"], result["changed"], result["plan"]["verdict"]) == (True, False, "refused")
    reason, remedy = result["plan"]["reasons"][0], result["plan"]["remedies"][0]
    assert result["msg"].index(reason) < result["msg"].index(f"1. {remedy}")
    assert "nothing has been changed" in result["msg"]


@pytest.mark.parametrize(
    ("wishes", "words"),
    [
        ({"context_length": 0}, "wishes.context_length is 0; expected a whole number from 1 on"),
        ({"reserve_bytes": -1}, "wishes.reserve_bytes is -1; expected a whole number from 0 on"),
        ({"gpu_memory_utilization": 1.5}, "wishes.gpu_memory_utilization is 1.5"),
    ],
)
def test_wishes_without_meaning_are_named(wishes: dict[str, Any], words: str) -> None:
    result = run(nodes=nodes(2), model=model("qwen3.5-122b-fp8"), wishes=wishes)
    assert result["failed"]
    assert words in result["msg"]


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ({"model": {}}, "nodes"),
        ({"nodes": [{"total_bytes": 1}], "model": {}}, "host"),
        ({"nodes": nodes(1), "model": {}, "wishes": {"context": 1}}, "context"),
        ({"nodes": nodes(1), "model": {}, "wishes": {"kv_cache_dtype": "fp4"}}, "fp4"),
    ],
)
def test_arguments_are_validated(args: dict[str, Any], words: str) -> None:
    with pytest.raises(AnsibleError, match=words):
        run(**args)


@pytest.mark.parametrize("empty", [{"wishes": None, "engine": None, "previous": None}, {"previous": {}}])
def test_what_is_empty_is_like_what_is_absent(empty: dict[str, Any]) -> None:
    result = run(nodes=nodes(2), model=model("qwen3.5-122b-fp8"), **empty)
    assert result["plan"] == run(nodes=nodes(2), model=model("qwen3.5-122b-fp8"))["plan"]


def test_numbers_that_come_as_text_from_a_template_are_the_same_question() -> None:
    text = [{key: str(value) for key, value in node.items()} for node in nodes(2)]
    first = run(nodes=nodes(2), model=model("qwen3.5-122b-fp8"), wishes={"context_length": 8192})
    assert run(nodes=text, model=model("qwen3.5-122b-fp8"), wishes={"context_length": "8192"})["plan"] == first["plan"]


def test_the_previous_plan_is_kept() -> None:
    first = run(nodes=nodes(2), model=model("qwen3.5-122b-fp8"))["plan"]
    again = run(nodes=nodes(2, 9.0), model=model("qwen3.5-122b-fp8"), previous=first)
    assert again["plan"] == {**first, "kept": True}


def documented(options: dict[str, Any]) -> dict[str, Any]:
    keys = ("type", "elements", "required", "default", "choices")
    result: dict[str, Any] = {}
    for name, option in options.items():
        result[name] = {key: option[key] for key in keys if key in option}
        inner = option.get("suboptions") or option.get("options")
        if inner:
            result[name]["options"] = documented(inner)
    return result


def test_the_documentation_names_the_arguments_and_results() -> None:
    assert documented(yaml.safe_load(stub.DOCUMENTATION)["options"]) == documented(ARGUMENT_SPEC)
    returned = yaml.safe_load(stub.RETURN)["plan"]["contains"]
    answers = plan(nodes(2), model("qwen3.5-122b-fp8")), plan([], {})
    assert all(set(returned) == set(answer) for answer in answers)
    assert all(f"C({key})" in " ".join(returned["ranks"]["description"]) for key in answers[0]["ranks"][0])


def test_wishes_that_are_left_out_have_the_plans_own_defaults() -> None:
    ours = {key: option["default"] for key, option in ARGUMENT_SPEC["wishes"]["options"].items() if "default" in option}
    assert ours == {key: getattr(Wishes(), key) for key in ours}
    assert set(ARGUMENT_SPEC["wishes"]["options"]) == set(Wishes.__dataclass_fields__)


def test_variables_are_wishes_and_the_advice_speaks_of_them() -> None:
    asked = run(
        nodes=nodes(2),
        model=model("qwen3.5-122b-fp8"),
        variables={"gb10_plan_context_length": "8192", "gb10_plan_kv_cache_gib": "2.0", "gb10_plan_tp": 2},
        args=["--enforce-eager"],
    )
    wished = {"context_length": 8192, "kv_cache_bytes": 2 << 30, "tensor_parallel": 2, "enforce_eager": True}
    assert asked["plan"] == run(nodes=nodes(2), model=model("qwen3.5-122b-fp8"), wishes=wished)["plan"]
    wrong = run(nodes=nodes(2), model=model("qwen3.5-122b-fp8"), variables={"gb10_plan_tp": "two"})
    assert wrong["failed"] and "gb10_plan_tp: it is 'two'" in wrong["msg"]


def test_it_shows_the_bars_when_asked_to(monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[str] = []
    monkeypatch.setattr(memory_plan.display, "display", lines.append)
    run(nodes=nodes(2), model=model("qwen3.5-122b-fp8"))
    assert lines == []
    run(nodes=nodes(2), model=model("qwen3.5-122b-fp8"), show=True)
    assert [line.split("  [")[0] for line in lines if line.startswith("rank ")] == [
        "rank 0, spark-a",
        "rank 1, spark-b",
    ]
