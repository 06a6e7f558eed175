# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
# Private to this collection: no stability promised.
"""From what each rank saw of the collective test to one answer: which rank matters, and what to do there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.gb10.serving.plugins.module_utils._engine_log import of_all

from ._problems import Problem

#: Causes that a rank names which only notices what is wrong elsewhere, the most telling first. Others come before.
ORDER = (
    "rendezvous_unreachable",
    "nccl_system_error",
    "ranks_disagree",
    "rank_missing",
    "nccl_init_hang",
    "collective_timeout",
    "peer_died",
)

#: Characters of what a rank itself says that a message has room for; the rest is in the result.
TOLD = 300

Results = Mapping[str, Mapping[str, Any]]


def judge(spec: Mapping[str, Any], found: Results, timeout: int) -> dict[str, Any]:
    """One answer for all ranks.

    Args:
        spec: the deployment's spec.
        found: by host, what ``collective_test`` returned as ``collective``; a host without an answer is left out.
        timeout: seconds that the test could take.

    Returns:
        ``ok``, ``skipped``, ``transport``, ``backend``, ``bandwidth_gbps``, ``seconds``, ``missing_ranks``, ``cause``,
        ``remedy``, ``first`` (host and rank that matter, or None), ``summary`` (one line), ``evidence``,
        ``warnings``, ``image`` (its content, where it is the same on all), and ``problem`` (for the message of a
        failure) or None.
    """
    hosts = {int(entry["rank"]): str(entry["host"]) for entry in spec["ranks"]}
    results = {rank: dict(found[host]) for rank, host in sorted(hosts.items()) if found.get(host)}
    absent = [rank for rank in sorted(hosts) if rank not in results]
    answer: dict[str, Any] = {
        "ok": False,
        "skipped": False,
        "image": _same(results, "image"),
        "backend": _same(results, "backend"),
        "transport": _transport(results),
        # The slowest counts: all ranks wait for it.
        "bandwidth_gbps": min((r["bandwidth_gbps"] for r in results.values() if r["bandwidth_gbps"]), default=None),
        "seconds": max((result["seconds"] for result in results.values()), default=None),
        "missing_ranks": sorted({rank for result in results.values() for rank in result["missing_ranks"]}),
        "cause": None,
        "remedy": None,
        "first": None,
        "evidence": [],
        "warnings": [
            f"{hosts[rank]}: rank {rank}: {text}" for rank, result in results.items() for text in result["warnings"]
        ],
        "problem": None,
    }
    if results and not absent and all(result["ok"] for result in results.values()):
        return {**answer, "ok": True, "summary": _summary(answer, len(hosts), results)}
    reason = _skipped(results, hosts, absent, timeout)
    if reason:
        return {**answer, "skipped": True, "summary": reason, "warnings": [*answer["warnings"], reason]}
    rank = _first(results)
    result = results[rank]
    where = hosts[rank]
    seen = f"{where}: rank {rank}: {result['reason']}"
    problem = Problem(
        f"{where}, rank {rank}",
        f"{result['reason']} ({result['cause']}).{_told(result['evidence'])}",
        f"an all-reduce by all {len(hosts)} ranks before they load weights, within {timeout} s.",
        _remedy(result, hosts),
    )
    return {
        **answer,
        "cause": result["cause"],
        "remedy": problem.remedy,
        "first": {"host": where, "rank": rank},
        "evidence": result["evidence"],
        "summary": seen,
        "problem": problem,
    }


def _first(results: Mapping[int, Mapping[str, Any]]) -> int:
    """The rank whose answer matters. Only consequences are left to ranks beside one that has a cause of its own."""
    failed = {rank: result for rank, result in results.items() if not result["ok"] and not result["skipped"]}
    other = [rank for rank, result in failed.items() if result["stage"] == "image"]
    if other:
        return other[0]
    answers = of_all([{"verdict": "failed", "remedy": None, **result} for result in failed.values()])
    causes = dict(zip(failed, (answer["cause"] for answer in answers), strict=True))
    first = min(causes, key=lambda rank: (_weight(causes[rank]), rank))
    if causes[first] == "nccl_mismatch":
        # All see that versions differ; the one that is not as the first is the one to look at.
        return next((rank for rank in causes if results[rank]["versions"] != results[first]["versions"]), first)
    return first


def _weight(cause: str) -> int:
    if cause == "unknown":
        return ORDER.index("collective_timeout")
    return ORDER.index(cause) if cause in ORDER else -1


def _skipped(
    results: Mapping[int, Mapping[str, Any]], hosts: Mapping[int, str], absent: list[int], timeout: int
) -> str | None:
    """Why the test shows nothing, where it does not. A rank with a cause of its own is never passed over for it."""
    failed = [result for result in results.values() if not result["ok"] and not result["skipped"]]
    if any(_weight(result["cause"]) < ORDER.index("rank_missing") for result in failed):
        return None
    for rank, result in results.items():
        if result["skipped"]:
            return (
                f"The collective was not tested: on {hosts[rank]}, {result['reason']}. Next step: none if the ranks "
                "start; to be sure, raise gb10_server_smoke_timeout or use an image with PyTorch."
            )
    late = [rank for result in failed for rank in result["missing_ranks"] if results.get(rank, {}).get("arrived")]
    if late:
        return (
            f"The collective was not tested: rank {late[0]} on {hosts[late[0]]} reached the store of rank 0, but too "
            f"late for the rest of the test. Next step: raise gb10_server_smoke_timeout, now {timeout}."
        )
    if absent and not failed:
        return f"The collective was not tested on {', '.join(hosts[rank] for rank in absent)}: there is no answer."
    return None


def _remedy(result: Mapping[str, Any], hosts: Mapping[int, str]) -> str:
    text = str(result["remedy"])
    named = [hosts[rank] for rank in [*result["missing_ranks"], *result["silent_ranks"]] if rank in hosts]
    return f"on {', '.join(named)}: {text}" if named else text


def _told(evidence: list[str]) -> str:
    return f" It says: '{evidence[0][:TOLD].rstrip('.')}'." if evidence else ""


def _same(results: Mapping[int, Mapping[str, Any]], key: str) -> Any:
    values = {result.get(key) for result in results.values()}
    return values.pop() if len(values) == 1 else None


def _transport(results: Mapping[int, Mapping[str, Any]]) -> str | None:
    """One rank on sockets is enough for all to be as slow."""
    values = {result["transport"] for result in results.values()}
    return next((way for way in ("sockets", "rdma", "shared_memory") if way in values), None)


def _summary(answer: Mapping[str, Any], count: int, results: Mapping[int, Mapping[str, Any]]) -> str:
    way = {"rdma": "RDMA", "sockets": "sockets", "shared_memory": "shared memory"}.get(str(answer["transport"]))
    version = next(iter(results.values()))["versions"]["nccl"]
    name = f"NCCL {version}" if answer["backend"] == "nccl" else str(answer["backend"])
    rate = answer["bandwidth_gbps"]
    over = f" over {way}" if way else ""
    measured = "no bandwidth measured" if rate is None else f"{rate:.3g} Gb/s"
    return f"all-reduce of {count} ranks by {name}{over}: {measured}, after {answer['seconds']:.0f} s"
