# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gb10.serving.plugins.plugin_utils import _memory_overhead as _priors
from ansible_collections.gb10.serving.plugins.plugin_utils import _plan_document
from ansible_collections.gb10.serving.plugins.plugin_utils._memory_model import Model, Wishes
from ansible_collections.gb10.serving.plugins.plugin_utils._memory_overhead import load_peak, overhead_terms
from ansible_collections.gb10.serving.tests.unit.plugins.plugin_utils.plan_examples import GIB, plan, refused, shown

KEYS = {
    "option", "flags",
    "schema", "verdict", "reasons", "remedies", "model", "engine", "nodes", "basis", "weights_source", "settings", "kv",
    "slack_bytes", "margin_bytes", "load_peak", "notes", "candidates", "ranks", "terms", "changes", "levers",
    "expected_log", "options",
}  # fmt: skip
# A refusal before any sum has neither ranks nor terms.
EMPTY = plan(verdict="refused", reasons=["No."], remedies=["Do."], ranks=[], kv_tokens_estimate=0)


@pytest.mark.parametrize("found", [plan(), refused(), EMPTY], ids=["fits", "refused", "empty"])
def test_the_keys_stay(found: dict[str, Any]) -> None:
    document = shown(found)
    assert set(document) == KEYS
    assert set(document["kv"]) >= {
        "bytes_per_token_per_rank",
        "bytes_per_request_per_rank",
        "tokens",
        "max_concurrency",
    }
    assert set(document["settings"]) >= set(_plan_document.SETTINGS)
    for rank in document["ranks"]:
        assert {"rank", *_plan_document.RANK_KEYS} <= set(rank)
    assert json.loads(json.dumps(document)) == document


def test_the_parts_of_a_rank_are_its_memory() -> None:
    rank = shown()["ranks"][0]
    assert sum(rank[key] for key in _plan_document.RANK_KEYS) + rank["taken_bytes"] == rank["total_bytes"]


def test_terms_have_five_keys() -> None:
    terms = [{"name": "kv", "bytes": 5, "formula": "f", "uncertainty_bytes": 1}]
    found = plan(ranks=[{**plan()["ranks"][0], "terms": terms}])
    assert shown(found)["terms"] == [{"name": "kv", "bytes": 5, "uncertainty_bytes": 1, "formula": "f", "source": ""}]
    better = [{**terms[0], "source": "header"}]
    assert shown({**found, "terms": better})["terms"][0]["source"] == "header"


def test_advice_is_the_plans_changes_or_else_its_remedies() -> None:
    assert [entry["change"] for entry in shown(refused())["changes"]] == refused()["remedies"]
    change = {"change": "Do it.", "effect_bytes": 5, "verdict": "fits", "settings": {"tp": 4}}
    assert shown(refused(changes=[change]))["changes"] == [change]


@pytest.mark.parametrize(
    ("engine", "lines"),
    [
        (
            "vllm",
            [
                "GPU KV cache size: 2,359,296 tokens",
                "Maximum concurrency for 131,072 tokens per request: 18.00x",
            ],
        ),
        ("sglang", ["max_total_num_tokens=2359296"]),
    ],
)
def test_expected_log(engine: str, lines: list[str]) -> None:
    assert [_plan_document.line_of(entry) for entry in _plan_document.expected_log_of(plan(), engine)] == lines


def test_expected_log_of_the_plan_itself() -> None:
    found = plan(expected_log=[{"line": "x 1", "tokens": 1}, "y"])
    assert [_plan_document.line_of(entry) for entry in shown(found)["expected_log"]] == ["x 1", "y"]
    assert shown(EMPTY)["expected_log"] == []


def test_the_page_explains_every_term() -> None:
    page = (Path(__file__).resolve().parents[4] / "docs" / "memory.md").read_text()
    config = {"hidden_size": 64, "vocab_size": 64, "vision": {"depth": 1}, "architecture": "Step3"}
    model = Model(config, {}, "config.json", {"method": "fp8"})
    overhead = overhead_terms(model, 2, Wishes(speculative_tokens=1, load_format="fastsafetensors"))
    names = {term.name for term in [*overhead, load_peak(0, overhead)]} | {"kv", "state", "reserve", "overhead"}
    assert len(names) > 10
    assert [name for name in sorted(names) if f"`{name}`" not in page] == []


def test_the_page_gives_the_priors_that_are_used() -> None:
    page = (Path(__file__).resolve().parents[4] / "docs" / "memory.md").read_text()
    per_unit = (_priors.FORWARD_BYTES_DENSE, _priors.FORWARD_BYTES_HYBRID, _priors.FORWARD_BYTES_MOE)
    words = [f"{_priors.SAMPLER_BYTES} B", *(f"{size} B" for size in per_unit)]
    words += [f"{_priors.GRAPHS_GIB[0]} GiB vLLM, {_priors.SGLANG_GRAPHS_GIB[0]:.0f} GiB SGLang"]
    words += [f"{_priors.LOADER_GIB[0]} GiB for loaders", f"{_priors.VISION_GIB[0]:.0f} GiB: the largest image"]
    (alone, buffers), (few, some), (many, more) = [(row[1][0], row[2][0]) for row in _priors.BY_RANKS]
    words += [f"{alone} GiB alone, {few} up to 4 ranks, {many} beyond", f"{buffers}, {some}, {more} GiB"]
    words += ["{} GiB on one rank, {} on several".format(*(size for size, _error in _priors.SPECULATIVE_GIB))]
    assert [text for text in words if text not in page] == []


def test_a_row_of_the_comparison() -> None:
    row = _plan_document.summary_of("one", plan(), {"nodes": {"count": 2}})
    assert (row["name"], row["verdict"], row["weights_bytes"], row["cache_bytes"]) == (
        "one",
        "fits",
        60 * GIB,
        36 * GIB,
    )
    assert _plan_document.summary_of("none", EMPTY, {})["weights_bytes"] == 0
