# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
# Private to this collection: no stability promised.
"""What all ranks of a failed start show together: which one has the cause, and how it is told. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.gb10.serving.plugins.module_utils._engine_log import (
    EVIDENCE_LINES,
    OF_A_PEER,
    Reading,
    classify,
    judge,
    of_all,
)
from ansible_collections.gb10.serving.plugins.module_utils._engine_log_causes import CAUSES
from ansible_collections.gb10.serving.plugins.plugin_utils._watch import Look, exit_words

#: Causes that only say that something ended.
VAGUE = ("unknown", "worker_died")

#: Exit codes of a process that a signal ended. An engine may give them to itself, so they prove little.
SIGNALS = range(129, 160)

_CONFIDENCE = ("high", "medium", "low")

#: Last lines of a rank that are shown.
SHOWN_LINES = 25


def answer(reading: Reading, look: Look, silent: float | None) -> dict[str, Any]:
    """What the log of one rank says, in the light of its container's end. The exit code alone names nothing."""
    if look.running:
        return judge(reading, silent)
    if look.unanswered:
        said = judge(reading, 0)
        cause = "docker_permission" if classify(look.problem)["cause"] == "docker_permission" else "docker_unreachable"
        return said if is_certain(said) else _named(said, cause, "high", "failed", look.problem.splitlines())
    said = judge(reading, 0, ended=True)
    if look.oom_killed and said["confidence"] != "high":
        return _named(said, "host_oom_killed", "high", "failed", ["docker says OOMKilled of the container"])
    if said["cause"] is None:
        killed = look.exit_code in SIGNALS
        ended = [f"the container ended {exit_words(look)}"] if look.exists else []
        return _named(said, "worker_died" if killed else "unknown", "low", "failed", ended)
    return {**said, "verdict": "failed"}


def _named(
    said: Mapping[str, Any], cause: str, confidence: str, verdict: str, evidence: Sequence[str] = ()
) -> dict[str, Any]:
    lines = [*evidence, *said["evidence"]][:EVIDENCE_LINES]
    named = {"verdict": verdict, "cause": cause, "remedy": CAUSES[cause].remedy, "confidence": confidence}
    return {**said, **named, "evidence": lines}


def lost(host: str, rank: int) -> dict[str, Any]:
    """What is decided when a node does not answer any more: nothing of the engine is known."""
    said: dict[str, Any] = {"verdict": "failed", "cause": None, "remedy": None, "evidence": [], "confidence": "low"}
    return {"host": host, "rank": rank, "answer": said}


def is_certain(said: Mapping[str, Any]) -> bool:
    """Whether no other rank's view can change what this one says."""
    return (
        said["verdict"] == "failed"
        and said["confidence"] == "high"
        and said["cause"] not in OF_A_PEER
        and said["cause"] not in VAGUE
    )


def decide(views: Mapping[int, dict[str, Any]], claimant: int) -> dict[str, Any]:
    """The view of the rank that has the cause, with those of the others as ``others``."""
    ranks = sorted(views)
    answers = dict(zip(ranks, of_all([views[rank]["answer"] for rank in ranks]), strict=True))

    def weight(rank: int) -> tuple[Any, ...]:
        said = answers[rank]
        own = said["verdict"] == "failed" and said["cause"] not in OF_A_PEER
        return (
            not own,
            said["cause"] is None,
            said["cause"] in VAGUE,
            _CONFIDENCE.index(said["confidence"]),
            rank != claimant,
            rank,
        )

    first = min(ranks, key=weight)
    if answers[first]["cause"] is None:
        answers[first] = _named(answers[first], "unknown", "low", "stalled")
    others = [
        {**{key: views[rank][key] for key in ("host", "rank", "reason")}, **_short(answers[rank])}
        for rank in ranks
        if rank != first
    ]
    reason = views[first]["reason"]
    if first != claimant and not views[first]["ended"]:
        reason = f"rank {claimant} on {views[claimant]['host']} noticed it first: {views[claimant]['reason']}"
    return {**views[first], "reason": reason, "answer": answers[first], "others": others}


def _short(said: Mapping[str, Any]) -> dict[str, Any]:
    return {key: said[key] for key in ("phase", "verdict", "cause", "evidence")}


def result_of(decision: Mapping[str, Any]) -> dict[str, Any]:
    """What every rank's result says of the cause."""
    said = decision["answer"]
    kept = {key: said[key] for key in ("verdict", "cause", "remedy", "evidence", "confidence")}
    return {**kept, "first": {"host": decision["host"], "rank": decision["rank"]}}


def message(decision: Mapping[str, Any]) -> str:
    """The failure in words: the cause and the rank that has it, what it said, what to do, and the other ranks."""
    said = decision["answer"]
    cause = CAUSES[said["cause"]]
    title = f"{said['cause']} ({said['confidence']} confidence)"
    lines = [f"{decision['host']}: rank {decision['rank']} did not start: {title}: {decision['reason']}."]
    if said["cause"] != "unknown":
        lines.append(f"Why: {cause.why}")
    lines += _block("It said:", said["evidence"])
    lines += [_other(entry, said["cause"]) for entry in decision["others"]]
    lines += _block("Connections of its processes:", decision["sockets"])
    lines += _block("The kernel of its node says:", decision["kernel"])
    shown = decision["log"] or ["(it printed nothing)"]
    lines += _block("Its last lines:", shown)
    lines.append("Expected: every rank running, and getting on, until rank 0 answers.")
    lines.append(f"Next step: {said['remedy'] or cause.remedy} Then deploy again.")
    return "\n".join(lines)


def _block(title: str, lines: Sequence[str]) -> list[str]:
    return [title, *(f"    {line}" for line in lines)] if lines else []


def _other(entry: Mapping[str, Any], cause: str) -> str:
    who = f"Rank {entry['rank']} on {entry['host']}"
    if entry["cause"] is None:
        return f"{who}: no failure of its own; last phase: {entry['phase']}."
    evidence = f": {entry['evidence'][0]}" if entry["evidence"] else ""
    words = "failed alike" if entry["cause"] == cause else "followed"
    if entry["verdict"] != "failed":
        words = "waits in vain"
    return f"{who} {words} ({entry['cause']}){evidence}"
