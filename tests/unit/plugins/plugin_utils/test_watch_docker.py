# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""Starts on nodes whose docker is away for a while or for good, and whose clock is set back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gb10.serving.tests.unit.plugins.plugin_utils.watched_ranks import Node, log_of, spread, watch

GOOD = [spread(log_of(f"good-vllm-mp-2nodes-rank{rank}.txt"), 30, 60) for rank in (0, 1)]
#: Seconds in which a rank that ends is to be named.
DEAD = 5.0


@pytest.mark.parametrize(("away", "hangs"), [((40, 48), False), ((0, 8), False), ((40, 70), True)])
def test_a_docker_that_comes_back_ends_nothing(tmp_path: Path, away: tuple[float, float], hangs: bool) -> None:
    outcomes, _at, told = watch(tmp_path, [Node(GOOD[0]), Node(GOOD[1], away=away, hangs=hangs)])
    assert outcomes[0]["ready"] and outcomes[1]["ready"]
    assert sum("node-1  rank 1  docker does not answer, it is asked again" in line for line in told) == 1


@pytest.mark.parametrize("seconds", [3, 60, 86400])
def test_a_clock_that_is_set_back_hides_no_line(tmp_path: Path, seconds: float) -> None:
    fails = spread(log_of("vllm-missing-shard.txt"), 30, 10)
    good, _at, _told = watch(tmp_path / "a", [Node(GOOD[0], set_back=(50, seconds)), Node(GOOD[1])])
    assert good[0]["ready"] and good[0]["phase"] == "ready"
    assert all(entry["seconds"] >= 0 for entry in good[0]["phases"])
    nodes = [Node(GOOD[0][:4]), Node(fails, set_back=(32, seconds))]
    failed, at, _told = watch(tmp_path / "b", nodes)
    assert failed[1]["cause"] == "model_incomplete" and max(at) < 40 + DEAD
    assert len(set(failed[1]["log"])) == len(failed[1]["log"])  # none came twice


DENIED = "permission denied while trying to connect to the docker API at unix:///var/run/docker.sock"


@pytest.mark.parametrize(
    ("more", "within", "cause"),
    [
        ({}, 15, "docker_unreachable"),
        ({"away_words": "podman: some other trouble: access denied"}, 15, "docker_unreachable"),
        ({"away_words": DENIED}, 15, "docker_permission"),
        ({"hangs": True}, 80, "docker_unreachable"),
    ],
)
def test_a_docker_that_stays_away_is_named(tmp_path: Path, more: dict[str, Any], within: float, cause: str) -> None:
    outcomes, at, _told = watch(tmp_path, [Node(GOOD[0][:9]), Node(GOOD[1][:4], away=(40, 9999), **more)])
    assert 50 < max(at) < 40 + within
    for outcome in outcomes:
        assert (outcome["cause"], outcome["first"]) == (cause, {"host": "node-1", "rank": 1})
    assert f"{cause} (high confidence): docker on node-1 does not answer: " in outcomes[1]["msg"]
    said = (
        "`docker container inspect` did not end within 10 s" if more.get("hangs") else more.get("away_words", "Cannot")
    )
    assert said in outcomes[1]["evidence"][0]


def test_a_docker_that_hangs_holds_up_no_other_end(tmp_path: Path) -> None:
    """Neither the failure of another rank nor the end of the time is waited for longer than one answer may take."""
    nodes = [Node(spread(log_of("vllm-missing-shard.txt")), 20, 1), Node(GOOD[1][:4], away=(15, 9999), hangs=True)]
    outcomes, at, _told = watch(tmp_path, nodes)
    assert max(at) < 20 + 15 and outcomes[0]["cause"] == outcomes[1]["cause"] == "model_incomplete"
    outcomes, at, _told = watch(tmp_path, [Node([], away=(0, 9999), hangs=True)], timeout=25)
    assert 25 < max(at) < 25 + 15 and outcomes[0]["cause"] == "docker_unreachable"
