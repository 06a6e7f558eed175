# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""Rows of the comparison keep the layout of the plan that they stand beside."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gb10.serving.plugins.action.plan_document import ActionModule
from ansible_collections.gb10.serving.plugins.plugin_utils._plan_options import Option, laid_out
from ansible_collections.gb10.serving.tests.unit.plugins.plugin_utils.memory_models import model


def test_a_row_takes_nodes_and_layout_of_the_plan() -> None:
    row = laid_out(Option("32k", {"gb10_plan_context_length": 32768}), {"tp": 2, "pp": 2, "ep": 1}, 5)
    assert row.values == {
        "gb10_plan_context_length": 32768,
        "gb10_plan_nodes": 5,
        "gb10_plan_tp": 2,
        "gb10_plan_pp": 2,
        "gb10_plan_ep": False,
    }
    assert (row.name, row.nodes) == ("32k", 5)
    blank = Option("32k", {})
    assert laid_out(blank, {"tp": 0, "pp": 1, "ep": 1}, 2) == blank


# In the first row the layout of all nodes fits a part of the context only, and another layout would fit more.
@pytest.mark.parametrize(
    ("name", "count", "engine"),
    [
        ("deepseek-v4-flash", 2, "sglang"),
        ("minimax-m2", 3, "vllm"),
        ("glm-4.6-fp8", 4, "vllm"),
        ("llama-8b", 2, "vllm"),
    ],
)
def test_all_contexts_of_a_plan_are_in_one_layout(
    name: str, count: int, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: dict[str, Any] = {}
    action = ActionModule.__new__(ActionModule)
    monkeypatch.setattr(action, "_model", lambda option, root: {**model(name), "name": name})
    monkeypatch.setattr(action, "_result", lambda document, base: shown.update(document) or {})
    variables = {"gb10_plan_nodes": count, "gb10_server_engine": engine}
    action.answer({"about": "plan", "variables": variables, "model_root": "", "image_ref": "", "args": []}, {})
    layouts = {tuple(row["settings"][key] for key in ("tp", "pp", "ep")) for row in shown["options"]}
    assert len(shown["options"]) > 1 and len(layouts) == 1
    taken = shown["settings"]
    longer = [row for row in shown["options"] if row["settings"]["context_length"] > taken["context_length"]]
    assert all(row["verdict"] != "fits" for row in longer)


def test_what_is_said_to_be_free_takes_the_place_of_the_prior(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: dict[str, Any] = {}
    action = ActionModule.__new__(ActionModule)
    monkeypatch.setattr(action, "_model", lambda option, root: {**model("llama-8b"), "name": "llama-8b"})
    monkeypatch.setattr(action, "_result", lambda document, base: shown.update(document) or {})
    variables = {"gb10_plan_nodes": 2, "gb10_plan_available_bytes": str(101 << 30)}
    action.answer({"about": "plan", "variables": variables, "model_root": "", "image_ref": "", "args": []}, {})
    assert [rank["available_bytes"] for rank in shown["ranks"]] == [101 << 30] * 2
    assert shown["basis"] == "as set (gb10_plan_available_bytes)"
