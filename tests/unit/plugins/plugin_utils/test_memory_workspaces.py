# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""What vLLM reserves for an indexer by the context length: its bytes, and that a search over the context counts it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ansible_collections.gb10.serving.plugins.module_utils._model_config import essentials
from ansible_collections.gb10.serving.plugins.plugin_utils import _plan_args
from ansible_collections.gb10.serving.plugins.plugin_utils._memory import plan
from ansible_collections.gb10.serving.plugins.plugin_utils._memory_fit import Fit, Shape, fit
from ansible_collections.gb10.serving.plugins.plugin_utils._memory_model import MIB, Engine, Model, Wishes
from ansible_collections.gb10.serving.plugins.plugin_utils._memory_nodes import read_nodes
from ansible_collections.gb10.serving.plugins.plugin_utils._memory_workspaces import (
    FACTOR_KEY,
    NAME,
    indexer_workspace,
)
from ansible_collections.gb10.serving.tests.bench.plan_accuracy import DATA
from ansible_collections.gb10.serving.tests.unit.plugins.plugin_utils.memory_models import GIB, model, nodes

MODELS: dict[str, Any] = json.loads((DATA / "models.json").read_text())
OLD, NEW = {"name": "vllm", "version": "0.31.0"}, {"name": "vllm", "version": "0.32.0"}
SETTING = f"--attention-config.{FACTOR_KEY}"


def _seen(name: str) -> Model:
    return Model(essentials(MODELS[name])[0], {}, "nothing", None) if name in MODELS else Model.of(model(name))


# model, version, context, factor that is set, bytes
BYTES = [
    ("glm-5.3-flash", "0.31.0", 1_000_000, None, 5_281_048_576),  # the log of three ranks: 5036.40 MB
    ("glm-5.3-flash", "0.28.0.dev0", 800_000, None, 800_000 * 40 * 132 + MIB),
    ("glm-5.3-flash", "0.32.0", 1_000_000, None, 1_000_000 * 16 // 4 * 132 + MIB),
    ("deepseek-v3.2", "0.31.0", 163_840, None, 865_075_200 + MIB),  # the figure of the comment in the source
    ("deepseek-v3.2", "0.32.0", 163_840, None, 865_075_200 + MIB),
    ("deepseek-v3.2", "0.32.0", 163_840, 2, 163_840 * 16 * 132 + MIB),
    ("deepseek-v3.2", "0.31.0", 163_840, 2, 865_075_200 + MIB),  # it does not know the setting
    ("glm-5.2", "0.33.0", 262_144, None, 262_144 * 40 * 132 + MIB),
    ("glm-5.2", "0.33.0", 262_400, None, 262_400 * 16 * 132 + MIB),
    ("deepseek-v4-flash", "0.28.0", 1_048_576, None, 1_048_576 * 10 * 132 + MIB),
]


@pytest.mark.parametrize(("name", "version", "context", "factor", "size"), BYTES)
def test_the_buffer_is_that_of_the_release(
    name: str, version: str, context: int, factor: int | None, size: int
) -> None:
    engine = Engine.of({"name": "vllm", "version": version})
    term = indexer_workspace(_seen(name), Wishes(workspace_factor=factor), engine, context)
    assert term and (term.bytes, term.uncertainty_bytes) == (size, 0)
    assert term.formula.startswith(f"{NAME}: context {context} x ") and "indexer.py" in term.source


@pytest.mark.parametrize(
    ("name", "engine", "context"),
    [
        ("glm-5.2", {"name": "sglang"}, 8192),
        ("glm-5.2", {"name": "vllm", "device": "cpu"}, 8192),
        ("glm-5.2", NEW, None),
        ("qwen3.8-flash-next", NEW, 8192),  # its index keys are gathered otherwise
        ("glm-4.7-flash", OLD, 8192),
        ("llama-8b", OLD, 8192),
    ],
)
def test_without_an_indexer_there_is_none(name: str, engine: dict[str, str], context: int | None) -> None:
    assert indexer_workspace(_seen(name), Wishes(), Engine.of(engine), context) is None


def test_a_build_without_a_version_may_take_as_much_as_the_older_ones() -> None:
    unknown = Engine.of({"name": "vllm", "version": "0.1.dev20051+g487ecf187"})
    terms = [
        indexer_workspace(_seen("glm-5.3-flash"), Wishes(), engine, 1_000_000)
        for engine in (unknown, Engine.of(NEW), Engine.of(OLD))
    ]
    sizes = [term.bytes for term in terms if term]
    assert terms[0] and sizes[0] == sizes[1] and terms[0].uncertainty_bytes == sizes[2] - sizes[1]


def test_it_is_a_part_of_the_activations() -> None:
    answer = plan(nodes(8), model("deepseek-v3.2"), {"context_length": 163_840}, OLD)
    terms = {term["name"]: term["bytes"] for term in answer["terms"]}
    assert terms[NAME] == 865_075_200 + MIB
    assert answer["ranks"][0]["activation_bytes"] == terms["activation"] + terms[NAME]
    others = ("activation", NAME, "graphs", "kv", "state", "reserve")
    rest = sum(size for name, size in terms.items() if name not in others and not name.startswith("weights."))
    assert answer["ranks"][0]["non_torch_bytes"] == rest


def _fit(name: str, engine: dict[str, str], context: int, wishes: Wishes | None = None) -> Fit:
    asked = wishes or Wishes()
    machines, _why = read_nodes(nodes(8), asked)
    return fit(Model.of(model(name)), machines, asked, Engine.of(engine), Shape(8), context)


@pytest.mark.parametrize("engine", [OLD, NEW])
@pytest.mark.parametrize("pinned", [False, True])
def test_the_longest_context_counts_what_it_reserves(engine: dict[str, str], pinned: bool) -> None:
    """Against trying every length, with room for little and for much."""
    now = _fit("glm-5.2", engine, 1_048_576, Wishes(kv_cache_bytes=20 * GIB) if pinned else None)
    lengths = range(1024, now.context + 1, 1024)
    reserved = {length: 0 if pinned else sum(t.bytes for t in now.at(length).overhead) for length in lengths}
    for gib in (-5, -1, 0, 2, 7, 11, 12, 13, 25, 40, 90):
        room = gib * GIB
        whole = reserved[now.context]
        fits = [n for n in lengths if now.layout.needed(n) + reserved[n] - whole <= room]
        assert now.longest(room, now.context) == max(fits, default=0), gib


def test_a_picked_context_is_one_that_fits_with_its_buffer() -> None:
    seen = model("glm-5.2", 8 * 45)
    picked = {version["version"]: plan(nodes(8, 90), seen, {}, version) for version in (OLD, NEW)}
    assert picked["0.31.0"]["verdict"] == picked["0.32.0"]["verdict"] == "fits"
    assert picked["0.31.0"]["context_length"] < picked["0.32.0"]["context_length"] < 1_048_576
    for answer in picked.values():
        each = 40 if answer is picked["0.31.0"] or answer["context_length"] <= 262_144 else 16
        size = next(term["bytes"] for term in answer["terms"] if term["name"] == NAME)
        assert size == pytest.approx(answer["context_length"] * each * 132 + MIB, abs=512)
        set_to = {"context_length": answer["context_length"]}
        again = plan(nodes(8, 90), seen, set_to, OLD if answer is picked["0.31.0"] else NEW)
        assert again["verdict"] == "fits" and again["kv_cache_bytes"] == answer["kv_cache_bytes"]


def test_what_makes_it_smaller_is_named_where_the_release_has_it() -> None:
    for engine, known in ((OLD, False), (NEW, True)):
        answer = plan(nodes(8, 75), model("glm-5.2", 8 * 45), {"context_length": 262_144}, engine)
        named = [
            lever["settings"]["gb10_server_args"] for lever in answer["levers"] if f"Set {SETTING}=2" in lever["change"]
        ]
        assert named == [{"add": [f"{SETTING}=2"], "remove": []}] * known
    now = _fit("deepseek-v3.2", NEW, 163_840)
    less = _fit("deepseek-v3.2", NEW, 163_840, Wishes(workspace_factor=2))
    assert less.budget - now.budget == 163_840 * 24 * 132


@pytest.mark.parametrize(
    ("args", "factor"),
    [
        ([f"{SETTING}=3"], 3),
        ([f"{SETTING}", "4"], 4),
        (["--attention-config", f'{{"{FACTOR_KEY}": 2}}'], 2),
        (["-ac", '{"backend": "X"}'], None),
        (["-ac", "{"], None),
        ([], None),
    ],
)
def test_the_setting_is_read_from_the_arguments(args: list[str], factor: int | None) -> None:
    found, problems = _plan_args.from_args(args)
    assert (found.get("workspace_factor"), problems) == (factor, [])
    assert "workspace_factor" not in _plan_args.from_args(args, "sglang")[0]


@pytest.mark.parametrize("value", ["1", "x", "-2", "1e3"])
def test_a_factor_that_vllm_does_not_take_is_named(value: str) -> None:
    found, (problem,) = _plan_args.from_args([f"{SETTING}={value}"])
    assert "workspace_factor" not in found and "a whole number from 2 to" in str(problem)
