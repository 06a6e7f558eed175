# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
# Private to this collection: no stability promised.
"""The state of a deployment from what was seen of its ranks and its endpoint. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

RUNNING, DEGRADED, FAILED, STOPPED = "running", "degraded", "failed", "stopped"


def rank_status(host: str, number: int, state: Mapping[str, Any]) -> dict[str, Any]:
    """One rank as the status shows it. ``state`` is empty when the host could not be asked."""
    if not state:
        return _row(host, number, "unreachable", "the host could not be asked; check its power, its network and ssh")
    if state["error"]:
        return _row(host, number, "unknown", state["error"])
    container = state["container"]
    last = state["log"][-1] if state["log"] else None
    if container is None:
        return _row(host, number, "absent", None, release=state["current"])
    row = _row(host, number, container["state"], None, release=container["release"], last_line=last)
    row["started_at"] = container["started_at"]
    if not state["spec"]:
        row["reason"] = "its release has no spec.json that can be read; deploy again"
    if not container["running"]:
        row["exit_code"] = container["exit_code"]
        row["reason"] = f"container {container['name']} ended with exit code {container['exit_code']}"
        if container["oom_killed"]:
            row["reason"] += ", killed for lack of memory"
    return row


def _row(
    host: str, rank: int, state: str, reason: str | None, release: str | None = None, last_line: str | None = None
) -> dict[str, Any]:
    return {
        "host": host,
        "rank": rank,
        "state": state,
        "release": release,
        "started_at": None,
        "exit_code": None,
        "reason": reason,
        "last_line": last_line,
    }


def running_spec(states: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """The spec that every rank runs at this moment, or None if a rank is down, unknown, or runs another release."""
    specs = []
    for state in states:
        container, spec = state.get("container") or {}, state.get("spec") or {}
        release = container.get("release")
        if not container.get("running") or not spec or not release == spec.get("id") == state.get("current"):
            return None
        specs.append(spec)
    return dict(specs[0]) if specs and len({spec["id"] for spec in specs}) == 1 else None


def overall(ranks: Sequence[Mapping[str, Any]], endpoint: Mapping[str, Any] | None) -> tuple[str, str]:
    """State of the whole and one sentence why.

    Every rank holds a part of the model, so one that is missing is a failure of the whole. All ranks running is
    ``running`` only if the endpoint also answered; otherwise ``degraded``.
    """
    up = [rank for rank in ranks if rank["state"] == "running"]
    if not up and all(rank["state"] == "absent" for rank in ranks):
        return STOPPED, "no rank is there"
    if len(up) < len(ranks):
        down = [rank for rank in ranks if rank["state"] != "running"]
        parts = [f"rank {rank['rank']} on {rank['host']} is {rank['state']}" for rank in down]
        return FAILED, f"{'; '.join(parts)}. All ranks must run: deploy again to bring it back"
    releases = {rank["release"] for rank in ranks}
    if len(releases) > 1:
        return FAILED, f"the ranks run different releases ({', '.join(sorted(map(str, releases)))}). Deploy again"
    if endpoint is None or not endpoint["ok"]:
        return DEGRADED, (endpoint or {}).get("problem") or "the endpoint was not asked"
    return RUNNING, "all ranks run and the endpoint answers"
