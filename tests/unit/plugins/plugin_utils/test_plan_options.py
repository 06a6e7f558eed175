# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""Rows of the comparison keep the layout of the plan that they stand beside."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gb10.serving.plugins.action import plan_document
from ansible_collections.gb10.serving.plugins.action.plan_document import ActionModule
from ansible_collections.gb10.serving.plugins.plugin_utils._plan_options import Option, laid_out
from ansible_collections.gb10.serving.tests.unit.plugins.plugin_utils.memory_models import CONFIGS, model


def test_a_row_takes_nodes_and_layout_of_the_plan() -> None:
    row = laid_out(Option("32k", {"gb10_plan_context_length": 32768}), {"tp": 2, "pp": 2, "ep": 1}, 5)
    assert row.picked == {"gb10_plan_nodes", "gb10_plan_tp", "gb10_plan_pp", "gb10_plan_ep"}
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


def answered(
    monkeypatch: pytest.MonkeyPatch, args: list[str] | None = None, variables: dict[str, Any] | None = None, **more: Any
) -> dict[str, Any]:
    """What the action answers, with what it printed."""
    printed: list[str] = []
    variables = {**(variables or {}), **more}
    monkeypatch.setattr(plan_document.display, "display", lambda line, **_more: printed.append(line))
    action = ActionModule.__new__(ActionModule)
    found = action.answer(
        {"about": "plan", "variables": variables, "model_root": "", "image_ref": "x/vllm:v0.32.1", "args": args or []},
        {},
    )
    return {"failed": False, **found, "printed": "\n".join(printed)}


@pytest.fixture
def folder(tmp_path: Path) -> Callable[[str, str], str]:
    def made(name: str, called: str) -> str:
        (tmp_path / called).mkdir()
        (tmp_path / called / "config.json").write_text(json.dumps(CONFIGS[name]))
        return str(tmp_path / called)

    return made


Folder = Callable[[str, str], str]


def test_options_of_which_one_fits_are_no_failure(monkeypatch: pytest.MonkeyPatch, folder: Folder) -> None:
    wanted = {"gb10_model_dir": folder("qwen3.5-122b-fp8", "m")}
    one, two = {"name": "one node", "tp": 1}, {"name": "two, fp8 cache", "tp": 2, "kv_cache_dtype": "fp8"}
    found = answered(monkeypatch, variables=wanted, gb10_plan_options=[one, two])
    assert not found["failed"] and found["verdict"] == "refused"
    assert "Of the options 'two, fp8 cache' fits." in found["printed"]
    assert found["document"]["option"] == "one node"
    assert answered(monkeypatch, variables=wanted, gb10_plan_options=[one])["failed"]
    assert answered(monkeypatch, variables=wanted, gb10_plan_nodes=1, gb10_plan_context_length=8192)["failed"]


def test_every_option_keeps_its_notes(monkeypatch: pytest.MonkeyPatch, folder: Folder) -> None:
    options = [{"model_dir": folder("llama-8b", "m")}, {"model_dir": folder("llama-8b", "m-NVFP4")}]
    found = answered(monkeypatch, gb10_plan_options=options)
    notes = [" ".join(row["notes"]) for row in found["document"]["options"]]
    assert ["says NVFP4" in text for text in notes] == [False, True]
    assert "model_dir m-NVFP4: The name m-NVFP4 says NVFP4" in found["printed"]


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        (
            {"gb10_plan_context_length": "1000000", "gb10_plan_memory_bytes": "130562000000"},
            "You had set: gb10_plan_context_length=1000000.",
        ),
        ({"gb10_plan_tp": "3", "gb10_plan_nodes": 4}, "You had set: gb10_plan_nodes=4, gb10_plan_tp=3."),
    ],
)
def test_a_plan_that_cannot_be_made_says_what_was_set_and_nothing_else(
    variables: dict[str, Any], words: str, monkeypatch: pytest.MonkeyPatch, folder: Folder
) -> None:
    found = answered(monkeypatch, gb10_model_dir=folder("llama-8b", "m"), variables=variables)
    text = " ".join(found["printed"].split())
    assert found["failed"] and "The plan cannot be made: " in text and words in text
    assert "It does not fit" not in text and "context 0" not in text and "named above" not in text
    assert "(vLLM 0.32.1)" in text


@pytest.mark.parametrize(
    ("variables", "args", "words"),
    [
        (
            {"gb10_plan_options": [{"tp": 2}, {"model_dir": "/nope"}]},
            [],
            "gb10_plan_options[1]: gb10_model_dir: it is '/nope'",
        ),
        (
            {},
            ["--max-model-len", "8"],
            "gb10_server_args: --max-model-len is given, which the plan and the spec decide",
        ),
        ({}, ["--block-size", "7"], "--block-size is '7'"),
        ({"gb10_plan_tp": 64, "gb10_plan_pp": 2}, [], "which needs 128 nodes"),
    ],
)
def test_what_makes_no_sense_is_said_before_anything_is_planned(
    variables: dict[str, Any], args: list[str], words: str, monkeypatch: pytest.MonkeyPatch, folder: Folder
) -> None:
    found = answered(monkeypatch, args, gb10_model_dir=folder("llama-8b", "m"), variables=variables)
    assert found["failed"] and found["msg"].startswith("The plan cannot be made: ") and words in found["msg"]


def test_the_flags_of_variables_and_arguments_are_among_those_of_the_plan(
    monkeypatch: pytest.MonkeyPatch, folder: Folder
) -> None:
    args = ["--enforce-eager", "--dtype", "float16"]
    wanted = {"gb10_plan_dtype": "float16", "gb10_plan_speculative_tokens": 2, "gb10_plan_kv_cache_dtype": "fp8"}
    where = folder("qwen3.5-122b-fp8", "m")
    found = answered(monkeypatch, args, gb10_model_dir=where, gb10_plan_nodes=2, variables=wanted)
    flags = found["document"]["flags"]
    assert flags[flags.index("--kv-cache-dtype") + 1] == "fp8" and flags.count("--dtype") == 1
    assert flags[flags.index("--speculative-config") + 1] == '{"method": "mtp", "num_speculative_tokens": 2}'
    assert found["document"]["engine"] == {"name": "vllm", "version": "0.32.1", "version_assumed": False}


def test_no_row_says_that_the_user_set_what_the_plan_took(monkeypatch: pytest.MonkeyPatch, folder: Folder) -> None:
    found = answered(monkeypatch, gb10_model_dir=folder("llama-8b", "m"), gb10_plan_nodes=33)["document"]
    assert any("nodes are used: Total number of attention heads (32)" in note for note in found["notes"])
    assert len(found["options"]) > 1
    assert not any("nodes are used" in note for row in found["options"][1:] for note in row["notes"])


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
    monkeypatch.setattr(action, "_model", lambda option, *_: {**model(name), "name": name})
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
    monkeypatch.setattr(action, "_model", lambda option, *_: {**model("llama-8b"), "name": "llama-8b"})
    monkeypatch.setattr(action, "_result", lambda document, base: shown.update(document) or {})
    variables = {"gb10_plan_nodes": 2, "gb10_plan_available_bytes": str(101 << 30)}
    action.answer({"about": "plan", "variables": variables, "model_root": "", "image_ref": "", "args": []}, {})
    assert [rank["available_bytes"] for rank in shown["ranks"]] == [101 << 30] * 2
    assert shown["basis"] == "as given: gb10_plan_available_bytes"
