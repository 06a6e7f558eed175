# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""After a deploy: what the plan said of the KV cache is what the engine printed when it started, to the token."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest

testinfra_hosts = ["local://"]
ROOT = Path(__file__).resolve().parents[5]


@pytest.fixture(scope="module")
def started(status: dict[str, Any]) -> Path:
    """The newest report of a run that started this release: one that finds it running may see no start."""
    release = status["ranks"][0]["release"]
    for path in sorted((ROOT / "gb10-reports" / "main").glob("*/report.json"), reverse=True):
        report = json.loads(path.read_text())
        if (report.get("spec") or {}).get("id") == release and "kv_cache_tokens" in report["engine_told"]:
            return path
    pytest.fail(f"no report in {ROOT / 'gb10-reports' / 'main'} has what the engine of {release} printed")


def test_the_engine_printed_the_tokens_that_were_planned(started: Path) -> None:
    report = json.loads(started.read_text())
    assert report["engine_told"]["kv_cache_tokens"] > 0
    assert report["plan"]["kv_tokens_estimate"] == report["engine_told"]["kv_cache_tokens"]


def test_the_engine_printed_the_concurrency_that_was_planned(started: Path) -> None:
    report = json.loads(started.read_text())
    assert report["plan"]["max_concurrency_estimate"] == pytest.approx(
        report["engine_told"]["max_concurrency"], abs=0.01
    )


def test_the_report_compares_both_and_shows_the_picture(started: Path) -> None:
    rows = {entry["what"]: entry for entry in json.loads(started.read_text())["plan_against_engine"]}
    assert rows["KV cache size, tokens"]["difference_percent"] == 0
    text = started.with_name("report.md").read_text()
    assert "## Plan against engine" in text and "](plan.svg)" in text
    assert ElementTree.parse(started.with_name("plan.svg")).getroot().tag == "{http://www.w3.org/2000/svg}svg"
