# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gb10.serving.plugins.plugin_utils import _status


def state(running: bool = True, exit_code: int | None = None, release: str = "r1", **more: Any) -> dict[str, Any]:
    container = {
        "name": "gb10-main-rank1",
        "state": "running" if running else "exited",
        "running": running,
        "exit_code": exit_code,
        "oom_killed": False,
        "started_at": "2026-11-30T10:00:00Z",
        "release": release,
        **more,
    }
    return {
        "container": container,
        "error": None,
        "current": release,
        "log": ["first", "the last line"],
        "spec": {"id": release},
    }


NONE: dict[str, Any] = {"container": None, "error": None, "current": "r1", "log": [], "spec": {"id": "r1"}}
GOOD = {"ok": True, "problem": None}
HUNG = {"ok": False, "problem": "no answer within 30 s."}


@pytest.mark.parametrize(
    ("states", "endpoint", "expected", "words"),
    [
        ([state(), state()], GOOD, "running", "endpoint answers"),
        ([state(), state()], HUNG, "degraded", "no answer within 30 s"),
        ([state(), state()], None, "degraded", "not asked"),
        ([state(), state(running=False, exit_code=137)], GOOD, "failed", "rank 1 on b is exited"),
        ([state(), NONE], GOOD, "failed", "rank 1 on b is absent"),
        ([state(), {}], GOOD, "failed", "rank 1 on b is unreachable"),
        ([state(running=False, exit_code=1), NONE], None, "failed", "rank 0 on a is exited"),
        ([state(), state(release="r2")], GOOD, "failed", "different releases"),
        ([NONE, NONE], None, "stopped", "no rank"),
    ],
)
def test_overall(states: list[dict[str, Any]], endpoint: dict[str, Any] | None, expected: str, words: str) -> None:
    ranks = [
        _status.rank_status(host, number, found) for number, (host, found) in enumerate(zip("ab", states, strict=True))
    ]
    verdict, reason = _status.overall(ranks, endpoint)
    assert verdict == expected
    assert words in reason


def test_dead_rank_shows_exit_code_and_last_line() -> None:
    row = _status.rank_status("b", 1, state(running=False, exit_code=137))
    assert (row["exit_code"], row["last_line"]) == (137, "the last line")
    assert row["reason"] == "container gb10-main-rank1 ended with exit code 137"


def test_lack_of_memory_is_named() -> None:
    row = _status.rank_status("b", 1, state(running=False, exit_code=137, oom_killed=True))
    assert row["reason"].endswith("killed for lack of memory")


def test_running_rank_without_a_readable_spec_is_mentioned() -> None:
    assert "spec.json" in _status.rank_status("a", 0, {**state(), "spec": None})["reason"]


def test_docker_that_does_not_answer_is_unknown() -> None:
    row = _status.rank_status("b", 1, {"container": None, "error": "docker is down", "current": None, "log": []})
    assert (row["state"], row["reason"]) == ("unknown", "docker is down")


def runs(release: str | None, running: bool = True) -> dict[str, Any]:
    spec = {"id": release} if release else None
    return {"container": {"running": running, "release": release}, "spec": spec, "current": release}


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        ([runs("r1"), runs("r1")], {"id": "r1"}),
        ([runs("r1"), runs("r2")], None),
        ([runs("r1"), runs("r1", running=False)], None),
        ([runs("r1"), runs(None)], None),
        ([runs("r1"), {}], None),
        ([runs("r1"), {**runs("r1"), "current": None}], None),
        ([{"container": {"running": True, "release": "r0"}, "spec": {"id": "r1"}}], None),
        ([], None),
    ],
)
def test_running_spec_is_one_that_all_ranks_run(states: list[dict[str, Any]], expected: dict[str, Any] | None) -> None:
    assert _status.running_spec(states) == expected
