# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""What all ranks saw becomes one answer about the rank that matters."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gb10.serving.plugins.module_utils import _collective
from ansible_collections.gb10.serving.plugins.plugin_utils import _collective_ender
from ansible_collections.gb10.serving.plugins.plugin_utils._collective_verdict import judge
from ansible_collections.gb10.serving.tests.unit.plugins.module_utils import collective_outputs as out

HOSTS = ("spark-a", "spark-b", "spark-c")


def verdict(*outputs: tuple[str, int | None] | None, rdma: bool = True) -> dict[str, Any]:
    """The answer for what each rank printed and how it ended; None is a host without an answer."""
    spec = out.spec(len(outputs), rdma)
    found = {
        HOSTS[number]: _collective.read(spec, number, output[0], output[1], 29501, 10.0 + number) if output else {}
        for number, output in enumerate(outputs)
    }
    return judge(spec, found, 60)


def hang(stage: str, *silent: int, gpu: bool = False) -> tuple[str, int]:
    return out.until(stage, gpu) + out.event(failed="hang", stage=stage, silent=list(silent), missing=[]), 4


def peer(stage: str, number: int) -> tuple[str, int]:
    return out.until(stage) + out.event(failed="peer", stage=stage, peer=number, missing=[]), 5


def error(stage: str, text: str) -> tuple[str, int]:
    return out.until(stage) + text + out.event(failed="error", stage=stage), 3


GOOD = (out.RDMA + out.until("end", True) + out.event(done=True), 0)
SLOW = (out.SOCKETS + out.until("end", True).replace("0.004", "0.04").replace("0.0002", "0.04"), 0)
MISSING = (out.until("arrive") + out.event(failed="missing", stage="arrive", missing=[1]), 3)
UNREACHED = error("store", out.STORE_TIMEOUT)
LATE = peer("arrive", 0)
NO_TORCH = (out.until("torch") + out.event(failed="torch", text="No module named 'torch'"), 3)


def test_all_is_well() -> None:
    answer = verdict(GOOD, GOOD)
    assert answer["ok"] and answer["problem"] is None and answer["warnings"] == []
    assert answer["summary"] == "all-reduce of 2 ranks by NCCL 2.29.3 over RDMA: 134 Gb/s, after 11 s"
    assert (answer["transport"], answer["bandwidth_gbps"], answer["seconds"]) == ("rdma", 134.22, 11.0)


def test_a_time_of_nothing_is_no_bandwidth() -> None:
    about = out.event(about={"torch": "2", "nccl": None, "gpu": False, "cuda": None})
    zero, other = (out.event(reduced=1 << 20, count=1, seconds=seconds) for seconds in (0.0, 0.001))
    ended = out.event(stage="end", at=1) + out.event(done=True)
    answer = verdict((about + zero + ended, 0), (about + zero + ended, 0))
    assert answer["ok"] and answer["bandwidth_gbps"] is None and "no bandwidth measured" in answer["summary"]
    assert verdict((about + zero + other + ended, 0), (about + zero + ended, 0))["bandwidth_gbps"] > 0


def test_the_slowest_rank_counts_and_is_warned_about() -> None:
    answer = verdict(GOOD, SLOW)
    assert answer["ok"] and answer["transport"] == "sockets"
    assert answer["bandwidth_gbps"] == pytest.approx(13.42)
    assert len(answer["warnings"]) == 1 and answer["warnings"][0].startswith("spark-b: rank 1: NCCL uses TCP sockets")


@pytest.mark.parametrize("first", [out.until("torch"), out.until("store"), out.until("arrive"), NO_TORCH[0]])
def test_another_image_comes_before_all_that_follows_from_it(first: str) -> None:
    spec = out.spec(2)
    waited = _collective_ender.ended(_collective.read(spec, 0, first, 137, 29501, 3.0), {"rank": 1, "host": "spark-b"})
    other = {**_collective.read(spec, 1, "", None, 29501, 0.1), "stage": "image", "skipped": False}
    other.update(cause="ranks_disagree", reason="the image is gone", remedy="deploy again.", image=None)
    answer = judge(spec, {"spark-a": {**waited, "image": "sha256:ab"}, "spark-b": other}, 60)
    assert (answer["cause"], answer["first"]) == ("ranks_disagree", {"host": "spark-b", "rank": 1})
    assert answer["remedy"] == "deploy again." and answer["image"] is None
    assert "spark-b, rank 1: the image is gone (ranks_disagree)." in str(answer["problem"])


def test_a_rank_that_was_ended_says_for_whom() -> None:
    spec, first = out.spec(2), {"rank": 1, "host": "spark-b"}
    waited = _collective_ender.ended(_collective.read(spec, 0, out.until("store"), 137, 29501, 3.0), first)
    assert waited["cause"] == "peer_died" and not waited["skipped"]
    assert waited["reason"] == (
        "rank 1 on spark-b did not take part, so this one was ended while connecting to the store of rank 0"
    )
    refused = _collective.read(spec, 1, "docker: Error response from daemon: bad option\n", 125, 29501, 0.3)
    answer = judge(spec, {"spark-a": waited, "spark-b": refused}, 60)
    assert answer["first"] == first and "bad option" in str(answer["problem"])
    # One that had come to its end nevertheless keeps its answer.
    good = _collective.read(spec, 0, GOOD[0], 0, 29501, 3.0)
    assert _collective_ender.ended(good, first) == good


def test_the_image_is_told_where_it_is_the_same() -> None:
    spec = out.spec(2)
    found = {
        host: {**_collective.read(spec, n, *GOOD, 29501, 9.0), "image": "sha256:ab"} for n, host in enumerate(HOSTS[:2])
    }
    assert judge(spec, found, 60)["image"] == "sha256:ab"


FAILED: list[tuple[str, tuple[Any, ...], str, int, tuple[str, ...]]] = [
    # (what is shown, what the ranks printed, cause, rank, parts of the message)
    ("a rank that never ran", (MISSING, None), "rank_missing", 0, ("rank 1 did not arrive", "on spark-b: see on")),
    (
        "a store behind a firewall", (MISSING, UNREACHED), "rendezvous_unreachable", 1,
        ("spark-b, rank 1: the store of rank 0 at 10.99.7.1:29501 was not reached", "Expected: an all-reduce by all 2"),
    ),
    (
        "a taken port is not the second rank's fault", (error("store", out.PORT_IN_USE), UNREACHED), "port_in_use", 0,
        ("spark-a, rank 0:",),
    ),
    (
        "an interface that is not there", (peer("gloo", 1), error("gloo", out.NO_SUCH_INTERFACE)),
        "interface_not_found", 1, ("spark-b, rank 1:", "Unable to find address for: eth9"),
    ),
    ("a wrong address", (MISSING, error("address", out.NOT_LOCAL)), "address_not_local", 1, ("spark-b, rank 1:",)),
    (
        "NCCL hangs everywhere", (hang("nccl", gpu=True), hang("nccl", gpu=True)), "nccl_init_hang", 0,
        ("it hung while opening NCCL", "fabric test"),
    ),
    (
        "a rank that froze and said nothing", (hang("reduce", 1), (out.until("reduce"), None)), "worker_died", 1,
        ("spark-b, rank 1: its process stopped giving signs of life",),
    ),
    (
        "a rank that froze and has no answer", (hang("reduce", 1), None), "collective_timeout", 0,
        ("rank 1 gave no sign any more", "Next step: on spark-b:"),
    ),
    (
        "a rank that was killed",
        (error("reduce", "RuntimeError: [pair.cc:525] Connection closed by peer [10.99.7.2]:46024\n"),
         (out.until("reduce"), 137)),
        "worker_died", 1, ("exit code 137",),
    ),
    (
        "free ports are closed", (hang("gloo"), hang("gloo")), "nccl_init_hang", 0, ("allow all TCP ports",),
    ),
    (
        "one of three differs",
        tuple(
            (out.until("arrive", True).replace("2.29.3", own)
             + out.event(ranks=[out.about(True, nccl=n) for n in ("2.29.3", "2.28.9", "2.29.3")])
             + out.event(failed="versions", stage="arrive"), 3)
            for own in ("2.29.3", "2.28.9", "2.29.3")
        ),
        "nccl_mismatch", 1, ("spark-b, rank 1:", "NCCL 2.28.9"),
    ),
    (
        "no GPU on one",
        tuple(
            (out.until("arrive", bool(gpu)) + out.event(ranks=[out.about(True), out.about(False)])
             + out.event(failed="versions", stage="arrive"), 3)
            for gpu in (1, 0)
        ),
        "gpu_not_visible", 1, ("spark-b, rank 1: PyTorch sees no GPU here",),
    ),
    (
        "a cause of one's own is not passed over for a slow rank",
        (error("store", out.PORT_IN_USE), (out.until("torch"), None)), "port_in_use", 0, ("spark-a",),
    ),
]  # fmt: skip


@pytest.mark.parametrize(("shown", "outputs", "cause", "rank", "parts"), FAILED, ids=[case[0] for case in FAILED])
def test_one_message_for_the_rank_that_matters(
    shown: str, outputs: tuple[Any, ...], cause: str, rank: int, parts: tuple[str, ...]
) -> None:
    answer = verdict(*outputs)
    assert not answer["ok"] and not answer["skipped"]
    assert (answer["cause"], answer["first"]) == (cause, {"host": HOSTS[rank], "rank": rank})
    text = str(answer["problem"])
    for part in (*parts, "Expected:", "Next step:"):
        assert part in text


@pytest.mark.parametrize(
    ("shown", "outputs", "part"),
    [
        ("no PyTorch", (NO_TORCH, NO_TORCH), "spark-a, the image's python3 has no PyTorch"),
        ("one is too slow", (MISSING, (out.until("torch"), None)), "spark-b, loading PyTorch took longer"),
        ("one came too late", (MISSING, LATE), "rank 1 on spark-b reached the store of rank 0, but too late"),
        ("no answers", (None, None), "spark-a, spark-b: there is no answer"),
    ],
)
def test_a_test_that_shows_nothing_is_a_warning(shown: str, outputs: tuple[Any, ...], part: str) -> None:
    answer = verdict(*outputs)
    assert answer["skipped"] and not answer["ok"] and answer["problem"] is None
    assert part in answer["summary"] and answer["warnings"] == [answer["summary"]]
