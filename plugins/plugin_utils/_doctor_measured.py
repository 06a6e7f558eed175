# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
# Private to this collection: no stability promised.
"""What the doctor says about measured speed. What was not measured is said to be so, and never good. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ._doctor_types import ERROR, FABRIC, INFO, OK, UNMEASURED, WARNING, Row, Settings
from ._fabric_class import worded

#: Expected of a rail where neither the hardware nor the inventory says it.
NOTHING = "nothing to compare it with"
LEVELS = {"good": OK, "note": INFO, "warning": WARNING, "error": ERROR}
ORDER = (ERROR, WARNING, UNMEASURED, INFO, OK)


def measured_rows(measured: Mapping[str, Any], settings: Settings, expected: str = NOTHING) -> list[Row]:
    """One row for each thing that the fabric test found. Unless the gate fails a deploy, none of them is an error."""
    rows = _measured_rows(measured, settings, expected)
    soft = settings.gate != "fail"
    return [
        replace(row, verdict=WARNING) if soft and row.verdict == ERROR and row.what != "settings" else row
        for row in rows
    ]


def _measured_rows(measured: Mapping[str, Any], settings: Settings, expected: str) -> list[Row]:
    """The rows as they are.

    Args:
        measured: ``paths`` are the findings about reachability (None when not tried), ``findings`` those about speed,
            ``fabric`` the judged figures, ``reason`` why nothing was measured, ``failed`` whether the test broke off,
            ``refused`` the values of variables that the test did not take.
        settings: what a deployment would ask of the nodes.
        expected: what a rail should carry, in words.
    """
    if measured.get("refused"):
        seen = " ".join(str(item).rstrip(".") + "." for item in measured["refused"])
        remedy = "Correct the variable, then run the check again."
        return [Row(FABRIC, "settings", seen, "values as in docs/variables.md", ERROR, remedy)]
    rows = list(_paths(measured.get("paths"), "gb10_fabric_gate is off" if settings.gate == "off" else "not tried"))
    fabric = measured.get("fabric") or {}
    entries = fabric.get("entries") or []
    if not entries:
        reason = str(measured.get("reason") or "no measurement was made")
        if settings.gate == "off":
            reason = "not measured: gb10_fabric_gate is off"
        if measured.get("failed"):
            remedy = "First mend what is above, then look at the output of the failed task."
            return [*rows, Row(FABRIC, "bandwidth", reason, expected, WARNING, remedy)]
        return [*rows, Row(FABRIC, "bandwidth", reason, expected, UNMEASURED)]
    groups: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for item in entries:
        groups.setdefault((*sorted((item["source"], item["target"])), tuple(item["rails"])), []).append(item)
    rows += [_figures(items, fabric) for items in groups.values()]
    rows += [_finding(item) for item in measured.get("findings") or [] if item.get("code") == "changed"]
    return rows


def _paths(findings: Sequence[Mapping[str, Any]] | None, otherwise: str) -> Iterator[Row]:
    if findings is None:
        yield Row(FABRIC, "paths", otherwise, "every node reaches every other on every rail", UNMEASURED)
    elif not findings:
        seen = "small and full-size packets pass on every rail"
        yield Row(FABRIC, "paths", seen, "every node reaches every other on every rail")
    for item in findings or []:
        yield _finding(item)


def _finding(item: Mapping[str, Any]) -> Row:
    """A finding of the fabric test; it names its hosts."""
    where = f"{item['where']}: " if item.get("where") else ""
    verdict = LEVELS.get(str(item.get("level")), WARNING)
    what = str(item["code"]) if item.get("rail") is None else f"rail {item['rail']} {item['code']}"
    remedy = sentence(str(item["remedy"]))
    return Row(FABRIC, what, f"{where}{item['seen']}", str(item["expected"]), verdict, remedy)


def _figures(items: Sequence[Mapping[str, Any]], fabric: Mapping[str, Any]) -> Row:
    """Both directions of one pair on one rail, or on all of them."""
    first = items[0]
    what = f"rail {first['rails'][0]}" if len(first["rails"]) == 1 else "all rails together"
    verdicts = [_verdict(item) for item in items]
    worst = items[verdicts.index(min(verdicts, key=ORDER.index))]
    rates = [_gbps(item.get("bits_per_second")) for item in items]
    shown = "unmeasured" if set(rates) == {"unmeasured"} else " / ".join(rates)
    back = " and back" if len(items) > 1 else ""
    seen = f"{first['source']} to {first['target']}{back}: {worded(shown, worst['class'])}"
    if fabric.get("measured_at"):
        seen += f" (measured {fabric['measured_at']})" if fabric.get("kept") else ""
    limits = [item["expected_bits_per_second"] for item in items if item.get("expected_bits_per_second")]
    expected = f"about {_gbps(min(limits))}" if limits else NOTHING
    remedy = " ".join(sentence(str(worst[key])) for key in ("cause", "remedy") if worst.get(key))
    verdict = _verdict(worst)
    return Row(FABRIC, what, seen, expected, verdict, remedy if verdict not in (OK, INFO) else "")


def _verdict(item: Mapping[str, Any]) -> str:
    if item.get("bits_per_second") is None and item.get("level") != "error":
        return UNMEASURED
    return LEVELS.get(str(item.get("level")), UNMEASURED)


def sentence(text: str) -> str:
    """The text as a sentence."""
    return text[:1].upper() + text[1:].rstrip(".") + "."


def _gbps(bits: float | None) -> str:
    return "unmeasured" if bits is None else f"{bits / 1e9:.1f} Gb/s"
