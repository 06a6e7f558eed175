# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""Plans against what engines logged on real nodes (tests/bench/data): each row within its target, or named here."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any

import pytest

from ansible_collections.gb10.serving.tests.bench.plan_accuracy import DATA, evaluate, summary

CONFIGS = json.loads((DATA / "models.json").read_text())
ROWS = json.loads((DATA / "measured.json").read_text())
EVALUATED: dict[str, dict[str, Any]] = {row["name"]: evaluate(row, CONFIGS) for row in ROWS}

# Rows that miss, each with the reason why its pool is no measure, and not a row more
POOL_MISSES = {
    "DeepSeek-V4-Flash-0731, two nodes",
    "GLM-5.3-Flash EXL3 + DFlash, pinning loader",
    "GLM-5.3-Flash EXL3 + DFlash, pinning loader, 0.88",
}
# name: blocks of a smaller pool of which the logged tokens are an exact count
OF_ANOTHER_RANK = {
    "DeepSeek-V4-Flash-0731, two nodes": 6975,
    "Qwen3.8-Flash-Next NVFP4, two nodes": 1603,
    "Qwen3.8-Flash-Next NVFP4, two nodes, equal boot": 1662,
}


def _with(key: str, but: Collection[str]) -> list[str]:
    return [name for name, row in EVALUATED.items() if key in row and name not in but]


@pytest.mark.parametrize("name", _with("weights_gib", {}))
def test_weights_of_a_rank(name: str) -> None:
    assert abs(EVALUATED[name]["weights_gib"]["off_percent"]) <= 1


@pytest.mark.parametrize("name", _with("pool_gib", {}))
def test_the_cache_that_the_engine_makes(name: str) -> None:
    pool = EVALUATED[name]["pool_gib"]
    limit = 2 if pool["on_gb10"] and not pool["polluted"] else None
    assert limit is None or abs(pool["off_gib"]) <= limit


@pytest.mark.parametrize("name", _with("tokens", OF_ANOTHER_RANK))
def test_requests_in_the_cache(name: str) -> None:
    assert abs(EVALUATED[name]["tokens"]["best_off_percent"]) <= 1


def test_tokens_of_another_ranks_pool_stay_misses_and_are_explained() -> None:
    explained = {
        name: row["tokens"]["limiting_rank"]["blocks"]
        for name, row in EVALUATED.items()
        if row.get("tokens", {}).get("limiting_rank")
    }
    assert explained == OF_ANOTHER_RANK
    for name in explained:
        tokens = EVALUATED[name]["tokens"]
        logged = next(row["kv_gib"] for row in ROWS if row["name"] == name)
        assert abs(tokens["best_off_percent"]) > 1 and tokens["limiting_rank"]["pool_gib"] < logged
    counts = summary(list(EVALUATED.values()))["requests in a given pool within 1 %"]
    whole = sum("tokens" in row for row in EVALUATED.values())
    assert counts["ours"] == f"{whole - len(explained)} of {whole}"
    assert counts["ours, or whole blocks of a rank with a smaller pool"] == f"{whole} of {whole}"


@pytest.mark.parametrize("name", OF_ANOTHER_RANK)
@pytest.mark.parametrize("more", [-7, -1, 1, 5])
def test_other_tokens_are_no_whole_blocks(name: str, more: int) -> None:
    row = next(row for row in ROWS if row["name"] == name)
    other = evaluate({**row, "tokens": row["tokens"] + more}, CONFIGS)
    assert other["tokens"]["limiting_rank"] is None


def test_a_recorded_workspace_takes_the_place_of_the_planned_one() -> None:
    row = next(row for row in ROWS if row["name"] == "GLM-5.3-Flash EXL3, 0.86")
    planned, cut = (evaluate(r, CONFIGS)["pool_gib"]["ours"] for r in (row, {**row, "indexer_workspace_gib": 0.1}))
    assert cut - planned == pytest.approx((800_000 * 40 * 132 + 2**20) / 2**30 - 0.1, abs=0.01)


@pytest.mark.parametrize("name", _with("verdict", {}))
def test_the_verdict(name: str) -> None:
    verdict = EVALUATED[name]["verdict"]
    assert verdict["right"], verdict


def test_known_misses_are_still_rows() -> None:
    assert not {*POOL_MISSES, *OF_ANOTHER_RANK} - EVALUATED.keys()
    for name in POOL_MISSES:
        assert abs(EVALUATED[name]["pool_gib"]["off_gib"]) > 2 and EVALUATED[name]["polluted"]
    counts = summary(list(EVALUATED.values()))
    assert counts["weights within 1 %"]["hf-mem"] != counts["weights within 1 %"]["ours"]
