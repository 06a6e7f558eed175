# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""Plans against what engines logged on real nodes (tests/bench/data): each row within its target, or named here."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ansible_collections.gb10.serving.tests.bench.plan_accuracy import DATA, evaluate, summary

CONFIGS = json.loads((DATA / "models.json").read_text())
ROWS = json.loads((DATA / "measured.json").read_text())
EVALUATED: dict[str, dict[str, Any]] = {row["name"]: evaluate(row, CONFIGS) for row in ROWS}

# Rows that miss, and why
POOL_MISSES = {"GLM-5.3-Flash EXL3, 0.86": "two kits with equal settings differed by 2 to 5 GiB"}
TOKEN_MISSES = {
    "DeepSeek-V4-Flash, two nodes": "compressor states are known to 5 %",
    "Qwen3.8-Flash-Next NVFP4, table on disk": "pooled index keys are laid out differently in each build",
    "Qwen3.8-Flash-Next NVFP4, two nodes": "as many tokens as a pool 1.3 GiB smaller would give",
    "Qwen3.8-Flash-Next NVFP4, two nodes, equal boot": "as many tokens as a pool 1.3 GiB smaller would give",
}


def _with(key: str, but: dict[str, str]) -> list[str]:
    return [name for name, row in EVALUATED.items() if key in row and name not in but]


@pytest.mark.parametrize("name", _with("weights_gib", {}))
def test_weights_of_a_rank(name: str) -> None:
    assert abs(EVALUATED[name]["weights_gib"]["off_percent"]) <= 1


@pytest.mark.parametrize("name", _with("pool_gib", POOL_MISSES))
def test_the_cache_that_the_engine_makes(name: str) -> None:
    pool = EVALUATED[name]["pool_gib"]
    limit = 2 if pool["counts"] else None
    assert limit is None or abs(pool["off_gib"]) <= limit


@pytest.mark.parametrize("name", _with("tokens", TOKEN_MISSES))
def test_requests_in_the_cache(name: str) -> None:
    assert abs(EVALUATED[name]["tokens"]["best_off_percent"]) <= 1


@pytest.mark.parametrize("name", _with("verdict", {}))
def test_the_verdict(name: str) -> None:
    verdict = EVALUATED[name]["verdict"]
    assert verdict["right"], verdict


def test_known_misses_are_still_rows() -> None:
    assert not {*POOL_MISSES, *TOKEN_MISSES} - EVALUATED.keys()
    counts = summary(list(EVALUATED.values()))
    assert counts["weights within 1 %"]["hf-mem"] != counts["weights within 1 %"]["ours"]
