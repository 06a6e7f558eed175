# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
# Private to this collection: no stability promised.
"""What a report says of the engines that were tried and of the ranks' way up. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.gb10.serving.plugins.plugin_utils._report_words import table


def tried(report: Mapping[str, Any]) -> str:
    """Which engines were tried with what outcome; in a prediction, in which order they would be."""
    tried = [
        f"{attempt['engine']} {'failed (' + attempt['cause'] + ')' if attempt['cause'] else attempt['stage']}"
        for attempt in report["attempts"]
    ]
    return ", ".join(tried) or ", then ".join(report["engines"])


def attempts(report: Mapping[str, Any]) -> list[str]:
    """The engines one after the other; nothing where there was only one to try."""
    if len(report.get("engines") or []) < 2 or not report.get("attempts"):
        return []
    rows = [
        (
            attempt["engine"],
            f"`{attempt['release']}`" if attempt["release"] else None,
            attempt["stage"],
            f"`{attempt['cause']}`" if attempt["cause"] else None,
            f"{attempt['seconds']:.1f} s",
        )
        for attempt in report["attempts"]
    ]
    notes = [f"- {line}" for line in report.get("engine_choice") or []]
    return [
        "## Engines",
        "",
        *table(("engine", "release", "how far", "cause", "time"), rows),
        *notes,
        *([""] if notes else []),
    ]


def start(report: Mapping[str, Any]) -> list[str]:
    """The phases of each rank side by side, and the cause where they led to none."""
    start = report.get("start") or {}
    ranks = start.get("ranks") or []
    if not ranks and not start.get("cause"):
        return []
    phases = dict.fromkeys(entry["name"] for rank in ranks for entry in rank["phases"])
    seconds = [{entry["name"]: f"{entry['seconds']:.1f} s" for entry in rank["phases"]} for rank in ranks]
    rows = [(phase, *(told.get(phase) for told in seconds)) for phase in phases if phase != "ready"]
    head = ("phase", *(f"rank {rank['rank']} ({rank['host']})" for rank in ranks))
    lines = ["## Start", "", *(table(head, rows) if ranks else [])]
    if start["cause"]:
        first = start["first"]
        rank = f"rank {first['rank']} ({first['host']})" if first.get("rank") is not None else first["host"]
        lines += [
            f"Cause: `{start['cause']}` on {rank}, {start['confidence']} confidence.",
            f"Remedy: {start['remedy']}",
            "",
        ]
    return lines
