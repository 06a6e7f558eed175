# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""Starts of two ranks from recorded logs: who is named, why, and how long it takes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gb10.serving.plugins.module_utils._engine_log import judge, read
from ansible_collections.gb10.serving.plugins.plugin_utils import _engines
from ansible_collections.gb10.serving.plugins.plugin_utils._engines import sglang, vllm
from ansible_collections.gb10.serving.tests.unit.plugins.plugin_utils.watched_ranks import (
    LOGS,
    Node,
    log_of,
    spread,
    watch,
)

GOOD = [spread(log_of(f"good-vllm-mp-2nodes-rank{rank}.txt"), 30, 60) for rank in (0, 1)]
HALF = spread(log_of("loading-half-way.txt"))
GOALS = {"dead": 5.0, "stalled": 5.0}


def test_a_start_that_goes_well(tmp_path: Path) -> None:
    (head, other), at, told = watch(tmp_path, [Node(GOOD[0]), Node(GOOD[1])])
    assert (head["ready"], other["ready"]) == (True, True)
    assert (head["verdict"], head["cause"], head["first"], head["phase"]) == ("ready", None, None, "ready")
    ready = next(seconds for seconds, text in GOOD[0] if "Application startup complete" in text)
    assert max(at) - ready < 3
    names = [entry["name"] for entry in head["phases"]]
    assert names[:3] == ["starting", "rendezvous", "weights"] and names[-1] == "ready"
    begins = {"rendezvous": "distributed_init_method", "weights": "Starting to load model"}
    first = {name: next(at for at, text in GOOD[0] if part in text) for name, part in begins.items()}
    seconds = {entry["name"]: entry["seconds"] for entry in head["phases"]}
    assert seconds["starting"] == pytest.approx(first["rendezvous"], abs=0.1)
    assert seconds["rendezvous"] == pytest.approx(first["weights"] - first["rendezvous"], abs=0.1)
    assert told[0].startswith("node-0  rank 0  starting (starting the container)  0 s")
    assert any(line.startswith("node-1  rank 1  weights") for line in told)
    assert head["told"]["kv_cache_tokens"] > 0


def test_the_share_of_the_weights_is_shown(tmp_path: Path) -> None:
    ((outcome,), _at, told) = watch(tmp_path, [Node(HALF)], timeout=30)
    assert any("  44 %  " in line for line in told)
    assert outcome["failed"] and "not ready after 30 s; last phase: weights (loading weights)" in outcome["msg"]


def test_only_new_lines_are_asked_for(tmp_path: Path) -> None:
    node = Node(GOOD[0])
    watch(tmp_path, [node, Node(GOOD[1])])
    polls = [command for command in node.asked if "docker logs" in command]
    assert sum("--since" not in command for command in polls) < 35  # until the first line came
    assert "--since" in polls[-1]


def dead(name: str, exit_code: int, end: float = 20, **more: Any) -> Node:
    return Node(spread(log_of(name)), end, exit_code, **more)


@pytest.mark.parametrize(
    ("nodes", "first", "cause", "confidence"),
    [
        # Rank 0 waits without a word; the exit code of rank 1 says that all is well.
        ([lambda: Node(GOOD[0][:12]), lambda: dead("vllm-rank1-worker-dies-rank1-view.txt", 0)], 1, "worker_died",
         "low"),
        # Rank 0 only notices the end of rank 1, and ends first.
        (
            [
                lambda: dead("vllm-peer-crashed-secondary.txt", 1, 20),
                lambda: dead("vllm-missing-shard.txt", 1, 20.9),
            ],
            1,
            "model_incomplete",
            "high",
        ),
        ([lambda: Node(GOOD[0][:12]), lambda: dead("vllm-missing-shard.txt", 137)], 1, "model_incomplete", "high"),
        ([lambda: Node(GOOD[0][:9]), lambda: Node(GOOD[1][:4], 50, 137, True)], 1, "host_oom_killed", "high"),
        ([lambda: Node(GOOD[0][:9]), lambda: Node(GOOD[1][:4], 50, 137)], 1, "worker_died", "low"),
        ([lambda: Node(GOOD[0][:9]), lambda: Node(GOOD[1][:4], 50, 0)], 1, "unknown", "low"),
        ([lambda: Node([], 20, 3), lambda: Node(GOOD[1])], 0, "unknown", "low"),
        # Both fail alike: the first one is named.
        ([lambda: dead("vllm-no-gpu-in-container.txt", 1, 20), lambda: dead("vllm-no-gpu-in-container.txt", 1, 22)], 0,
         "gpu_not_visible", "high"),
    ],
    ids=["worker", "peer", "missing-shard", "oom", "killed", "quiet-end", "nothing-printed", "both"],
)  # fmt: skip
def test_a_rank_that_ends(tmp_path: Path, nodes: list[Any], first: int, cause: str, confidence: str) -> None:
    world = [make() for make in nodes]
    outcomes, at, _told = watch(tmp_path, world)
    ended = min(node.end for node in world if node.end is not None)
    assert max(at) - ended < GOALS["dead"]
    assert [bool(outcome.get("failed")) for outcome in outcomes].count(True) == 1
    for outcome in outcomes:
        assert outcome["first"] == {"host": f"node-{first}", "rank": first}
        assert (outcome["cause"], outcome["confidence"], outcome["verdict"]) == (cause, confidence, "failed")
        assert not outcome["ready"] and outcome["remedy"]
    (told,) = [outcome["msg"] for outcome in outcomes if outcome.get("failed")]
    assert told.startswith(f"node-{first}: rank {first} did not start: {cause} ({confidence} confidence): ")
    assert f"Rank {1 - first} on node-{1 - first}" in told and outcomes[0]["remedy"] in told
    if world[first].exit_code != 137:
        assert f"exit code {world[first].exit_code}" in told or "still runs" in told


def test_consequences_are_told_as_such(tmp_path: Path) -> None:
    nodes = [dead("vllm-peer-crashed-secondary.txt", 1), dead("vllm-missing-shard.txt", 1, 20.9)]
    (head, other), _at, _told = watch(tmp_path, nodes)
    msg = head.get("msg") or other["msg"]
    assert "Rank 0 on node-0 followed (peer_died): " in msg
    assert "Weight files referenced in index but missing" in msg.split("It said:")[1].split("Rank 0")[0]


@pytest.mark.parametrize("later", [0.3, 0.6, 0.9, 1.2])
def test_the_rank_with_the_cause_may_end_a_little_later(tmp_path: Path, later: float) -> None:
    """Rank 0 notices at once that rank 1 is gone, and ends before rank 1 has said why."""
    words = [(20 + later, text) for _at, text in spread(log_of("vllm-missing-shard.txt"))]
    nodes = [Node(spread(log_of("vllm-peer-crashed-secondary.txt"), 15, 5), 20, 1), Node(words, 20 + later, 1)]
    outcomes, at, _told = watch(tmp_path, nodes)
    assert outcomes[0]["cause"] == outcomes[1]["cause"] == "model_incomplete"
    assert max(at) - 20 < GOALS["dead"]


def test_a_fatal_line_counts_though_the_container_runs(tmp_path: Path) -> None:
    """A rank may take minutes to end, or never do, after it has said that it cannot go on."""
    lines = spread(log_of("vllm-missing-shard.txt"))
    waits = [(3.0, text) for _at, text in GOOD[1] if "headless" in text or "distributed_init_method" in text]
    outcomes, at, _told = watch(tmp_path, [Node(lines), Node(waits)])
    assert max(at) - lines[-1][0] < GOALS["dead"]
    assert outcomes[0]["failed"] and outcomes[0]["cause"] == "model_incomplete"
    assert "its container still runs" in outcomes[0]["reason"]
    # The other one is in the rendezvous, and has not waited there for long.
    assert "Rank 1 on node-1: no failure of its own; last phase: rendezvous." in outcomes[0]["msg"]


def test_a_fatal_line_of_unclear_cause_gets_time(tmp_path: Path) -> None:
    lines = [(1.0, "(Worker pid=1) ERROR 01-01 10:00:00 [x.py:1] WorkerProc failed to start."), (1.0, "OddError: moon")]
    outcomes, at, _told = watch(tmp_path, [Node(lines), Node([])])
    assert 11 < max(at) < 11 + GOALS["dead"]
    assert outcomes[0]["cause"] == "unknown"


@pytest.mark.parametrize(
    ("engine", "logs", "allowance", "causes"),
    [
        (vllm, "vllm-mq-hang-rank{}.txt", 120, ["message_queue_address"]),
        (sglang, "sglang-mq-hang-rank{}.txt", 120, ["message_queue_address"]),
        (vllm, "vllm-world-size-mismatch-rank0-silent.txt", 120, ["rank_missing", "ranks_disagree"]),
        (sglang, "sglang-stuck-after-nccl.txt", 120, ["nccl_init_hang", "message_queue_address"]),
    ],
)
def test_a_start_that_stands_still(tmp_path: Path, engine: Any, logs: str, allowance: float, causes: list[str]) -> None:
    nodes = [Node(spread(log_of(logs.format(rank)))) for rank in (0, 1)]
    nodes[0].sockets = "SYN-SENT 0 1 10.0.0.1:40000 192.168.1.9:3 users:((x,pid=1))\n"
    outcomes, at, _told = watch(tmp_path, nodes, engine)
    last = max(node.log[-1][0] for node in nodes)
    assert last + allowance - 2 < max(at) < last + allowance + GOALS["stalled"]
    (failed,) = [outcome for outcome in outcomes if outcome.get("failed")]
    assert failed["cause"] in causes and failed["verdict"] == "stalled"
    assert "no progress for 120 s while rendezvous" in failed["reason"]
    assert ("SYN-SENT 0 1 10.0.0.1:40000 192.168.1.9:3" in failed["msg"]) == (failed["first"]["rank"] == 0)


def test_where_the_message_queue_waits_is_shown(tmp_path: Path) -> None:
    nodes = [Node(spread(log_of(f"vllm-mq-hang-rank{rank}.txt"))) for rank in (0, 1)]
    outcomes, _at, _told = watch(tmp_path, nodes)
    assert "mq_connect_ip=" in outcomes[0]["evidence"][0]
    (failed,) = [number for number, outcome in enumerate(outcomes) if outcome.get("failed")]
    noticed = "" if failed == 0 else "rank 1 on node-1 noticed it first: "
    assert f"(medium confidence): {noticed}no progress for 120 s while rendezvous" in outcomes[failed]["msg"]


def test_a_slow_load_is_none(tmp_path: Path) -> None:
    """Eight silent minutes, and a rank that is done and waits for one that loads for half an hour."""
    rendezvous = next(at for at, (_s, text) in enumerate(GOOD[0]) if "Starting to load model" in text)
    done = next(at for at, (_s, text) in enumerate(GOOD[0]) if "Loading weights took" in text)
    head = [*GOOD[0][: done + 1], *((at + 1700, text) for at, text in GOOD[0][done + 1 :])]
    loads = next(at for at, (_s, text) in enumerate(GOOD[1]) if "Starting to load model" in text)
    other = [*GOOD[1][: loads + 1], *((at + 1690, text) for at, text in GOOD[1][loads + 1 :])]
    assert rendezvous < done
    (one, two), at, _told = watch(tmp_path, [Node(head), Node(other)])
    assert one["ready"] and two["ready"] and min(at) > 1700


def test_one_bar_may_stand_for_both_ranks(tmp_path: Path) -> None:
    """Rank 1 says nothing for 40 minutes while rank 0 counts shards, then both get on."""
    loads = [next(at for at, (_s, text) in enumerate(log) if "Starting to load model" in text) for log in GOOD]
    bar = "(Worker pid=3) Loading safetensors checkpoint shards: {:3}% Completed | {}/24 [00:10<00:10, 9.3s/it]"
    shards = [(100.0 + 100 * number, bar.format(4 * number, number)) for number in range(24)]
    late = [[(at + 2400, text) for at, text in log[load + 1 :]] for log, load in zip(GOOD, loads, strict=True)]
    nodes = [
        Node([*GOOD[0][: loads[0] + 1], *shards, *late[0]]),
        Node([*GOOD[1][: loads[1] + 1], *late[1]]),
    ]
    outcomes, _at, _told = watch(tmp_path, nodes)
    assert outcomes[0]["ready"] and outcomes[1]["ready"]
    # The same silence of both is none.
    stuck, at, _told = watch(
        tmp_path / "b", [Node(node.log[:-1]) for node in (Node(GOOD[0][: loads[0] + 1]), nodes[1])]
    )
    assert max(at) < 2000 and any(outcome.get("failed") for outcome in stuck)


def test_a_rank_that_only_follows_may_be_silent(tmp_path: Path) -> None:
    """A headless rank says nothing once it is loaded, while rank 0 takes its time."""
    steps = [(100.0 + 300 * part, f"Capturing graphs: {part}/5") for part in range(6)]
    ready = [(1700.0, "INFO:     Application startup complete.")]
    begin = [(at, text) for at, text in GOOD[0] if "Application startup" not in text and "Starting vLLM" not in text]
    outcomes, _at, _told = watch(tmp_path, [Node([*begin, *steps, *ready]), Node(GOOD[1])])
    assert outcomes[0]["ready"] and outcomes[1]["ready"]


def test_a_load_that_never_ends_is_named_after_its_allowance(tmp_path: Path) -> None:
    outcomes, at, _told = watch(tmp_path, [Node(HALF)], factor=0.1)
    assert HALF[-1][0] + 178 < at[0] < HALF[-1][0] + 180 + GOALS["stalled"]
    assert (outcomes[0]["cause"], outcomes[0]["verdict"]) == ("unknown", "stalled")


def test_a_rank_that_never_starts_is_the_one_that_is_waited_for(tmp_path: Path) -> None:
    outcomes, at, _told = watch(tmp_path, [Node(spread(log_of("vllm-diststore-1-of-2-joined.txt")[:3])), Node([])])
    assert 298 < max(at) < 300 + 10 + GOALS["stalled"]
    assert [bool(outcome.get("failed")) for outcome in outcomes].count(True) == 1


def test_a_node_that_is_lost_ends_the_waiting_of_the_others(tmp_path: Path) -> None:
    outcomes, at, _told = watch(tmp_path, [Node(GOOD[0]), Node(GOOD[1], lost=40)])
    assert isinstance(outcomes[1], ConnectionError)
    assert outcomes[0]["first"] == {"host": "node-1", "rank": 1} and not outcomes[0]["ready"]
    assert outcomes[0]["cause"] is None and "failed" not in outcomes[0]
    assert at[0] - 40 < GOALS["dead"]


def test_the_same_release_may_be_waited_for_again(tmp_path: Path) -> None:
    """After a failed restart the release of before, which is the same, is started once more."""
    failed, _at, _told = watch(tmp_path, [Node([], 3, 1), Node([])])
    again, _at, _told = watch(tmp_path, [Node(GOOD[0]), Node(GOOD[1])])
    assert not failed[0]["ready"] and again[0]["ready"] and again[1]["ready"]


@pytest.mark.parametrize("path", sorted(LOGS.glob("good-*.txt")), ids=lambda path: path.stem)
def test_no_begin_of_a_good_log_is_a_failure(path: Path) -> None:
    engine = "sglang" if "sglang" in path.name else "vllm"
    lines = log_of(path.name)
    for count in range(len(lines) + 1):
        reading = read("\n".join(lines[:count]), engine, _engines.get(engine).STEPS)
        assert not reading.fatal and judge(reading, 0)["verdict"] != "failed", lines[count - 1]
