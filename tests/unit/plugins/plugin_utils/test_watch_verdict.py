# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gb10.serving.plugins.module_utils._engine_log import read
from ansible_collections.gb10.serving.plugins.plugin_utils import _watch_verdict
from ansible_collections.gb10.serving.plugins.plugin_utils._watch import Look

OOM = "(Worker pid=3) ERROR 01-01 10:00:00 [x.py:1] torch.OutOfMemoryError: CUDA out of memory. Tried to get 1 GiB\n"
WORKER = "(MainProcess pid=1) ERROR 01-01 10:00:00 [x.py:1] Worker proc VllmWorker-1 died unexpectedly\n"
KERNEL = "[ 10.0] oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),task=python3,pid=7,uid=0\n"


@pytest.mark.parametrize(
    ("text", "look", "cause", "verdict", "shown"),
    [
        (OOM, Look(True, False, 1), "out_of_memory", "failed", "CUDA out of memory"),
        (OOM, Look(True, True), "out_of_memory", "failed", "CUDA out of memory"),
        (WORKER, Look(True, False, 0), "worker_died", "failed", "died unexpectedly"),
        (WORKER, Look(True, False, 0, True), "host_oom_killed", "failed", "OOMKilled"),
        (WORKER + KERNEL, Look(True, False, 0), "host_oom_killed", "failed", "oom-kill:"),
        ("hello\n", Look(True, False, 0), "unknown", "failed", "exit code 0"),
        ("hello\n", Look(True, False, 137), "worker_died", "failed", "exit code 137"),
        ("", Look(False, False), "unknown", "failed", ""),
        ("vLLM API server version 1\n", Look(True, True), None, "running", ""),
    ],
)
def test_log_and_container_together(text: str, look: Look, cause: str | None, verdict: str, shown: str) -> None:
    said = _watch_verdict.answer(read(text), look, 0)
    assert (said["cause"], said["verdict"]) == (cause, verdict)
    assert shown in "".join(said["evidence"][:1])


def view(host: str, rank: int, cause: str | None, verdict: str, confidence: str = "high") -> dict[str, Any]:
    said = {"verdict": verdict, "cause": cause, "confidence": confidence, "remedy": "x", "phase": "weights"}
    return {
        "host": host,
        "rank": rank,
        "reason": f"reason of {host}",
        "ended": verdict == "failed",
        "answer": {**said, "evidence": [f"line of {host}"] if cause else []},
        "log": [],
        "kernel": [],
        "sockets": [],
    }


@pytest.mark.parametrize(
    ("views", "claimant", "first", "cause"),
    [
        ([("peer_died", "failed", "low"), ("disk_full", "failed", "high")], 0, 1, "disk_full"),
        ([("nccl_system_error", "failed", "high"), ("worker_died", "failed", "low")], 0, 1, "worker_died"),
        ([("worker_died", "failed", "low"), ("rdma_failure", "failed", "medium")], 0, 1, "rdma_failure"),
        ([("worker_died", "failed", "medium"), ("rdma_failure", "failed", "low")], 0, 1, "rdma_failure"),
        ([("unknown", "failed", "low"), (None, "running", "medium")], 0, 0, "unknown"),
        ([("disk_full", "failed", "high"), ("port_in_use", "failed", "high")], 1, 1, "port_in_use"),
        ([("rank_missing", "stalled", "low"), (None, "running", "medium")], 1, 0, "rank_missing"),
        ([("nccl_init_hang", "stalled", "low"), ("message_queue_address", "stalled", "medium")], 0, 1,
         "message_queue_address"),
        ([("peer_died", "failed", "low"), (None, "running", "medium")], 0, 0, "peer_died"),
        ([(None, "running", "medium"), (None, "running", "medium")], 1, 1, "unknown"),
    ],
)  # fmt: skip
def test_which_rank_has_the_cause(views: list[Any], claimant: int, first: int, cause: str) -> None:
    given = {rank: view("ab"[rank], rank, *entry) for rank, entry in enumerate(views)}
    decision = _watch_verdict.decide(given, claimant)
    result = _watch_verdict.result_of(decision)
    assert (result["first"], result["cause"]) == ({"host": "ab"[first], "rank": first}, cause)
    assert [entry["rank"] for entry in decision["others"]] == [1 - first]
    words = _watch_verdict.message(decision).splitlines()
    assert words[0].startswith(f"{'ab'[first]}: rank {first} did not start: {cause} (")
    assert any(line.startswith(f"Rank {1 - first} on ") for line in words)
    assert words[-2].startswith("Expected: ") and words[-1].startswith("Next step: ")


@pytest.mark.parametrize(
    ("cause", "verdict", "words"),
    [
        (None, "running", "Rank 1 on b: no failure of its own; last phase: weights."),
        ("rank_missing", "failed", "Rank 1 on b followed (peer_died): line of b"),
        ("rank_missing", "stalled", "Rank 1 on b waits in vain (peer_died): line of b"),
        ("disk_full", "failed", "Rank 1 on b failed alike (disk_full): line of b"),
    ],
)
def test_what_is_said_of_the_others(cause: str | None, verdict: str, words: str) -> None:
    given = {0: view("a", 0, "disk_full", "failed"), 1: view("b", 1, cause, verdict)}
    assert words in _watch_verdict.message(_watch_verdict.decide(given, 0)).splitlines()


@pytest.mark.parametrize(
    ("cause", "verdict", "confidence", "certain"),
    [
        ("disk_full", "failed", "high", True),
        ("disk_full", "failed", "medium", False),
        ("peer_died", "failed", "high", False),
        ("unknown", "failed", "high", False),
        ("disk_full", "stalled", "high", False),
    ],
)
def test_what_needs_no_second_opinion(cause: str, verdict: str, confidence: str, certain: bool) -> None:
    assert _watch_verdict.is_certain(view("a", 0, cause, verdict, confidence)["answer"]) == certain
