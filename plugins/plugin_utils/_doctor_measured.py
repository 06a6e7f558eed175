# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
# Private to this collection: no stability promised.
"""What the doctor says about measured speed. What was not measured is said to be so, and never good. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ._doctor_types import ERROR, FABRIC, INFO, OK, UNMEASURED, WARNING, Row

GOOD = "92 Gb/s or more a rail, 175 Gb/s or more together"
LEVELS = {"good": OK, "note": INFO, "warning": WARNING, "error": ERROR}
ORDER = (ERROR, WARNING, UNMEASURED, INFO, OK)


def measured_rows(measured: Mapping[str, Any]) -> list[Row]:
    """One row for each thing that the fabric test found.

    Args:
        measured: ``paths`` are the findings about reachability (None when not tried), ``findings`` those about speed,
            ``fabric`` the judged figures, ``reason`` why nothing was measured, ``failed`` whether the test broke off.
    """
    rows = list(_paths(measured.get("paths")))
    fabric = measured.get("fabric") or {}
    entries = fabric.get("entries") or []
    if not entries:
        reason = str(measured.get("reason") or "no measurement was made")
        if measured.get("failed"):
            remedy = "First mend what is above, then look at the output of the failed task."
            return [*rows, Row(FABRIC, "bandwidth", reason, GOOD, WARNING, remedy)]
        return [*rows, Row(FABRIC, "bandwidth", reason, GOOD, UNMEASURED)]
    groups: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for item in entries:
        groups.setdefault((*sorted((item["source"], item["target"])), tuple(item["rails"])), []).append(item)
    rows += [_figures(items, fabric) for items in groups.values()]
    rows += [_finding(item) for item in measured.get("findings") or [] if item.get("code") == "changed"]
    return rows


def _paths(findings: Sequence[Mapping[str, Any]] | None) -> Iterator[Row]:
    if findings is None:
        yield Row(FABRIC, "paths", "not tried", "every node reaches every other on every rail", UNMEASURED)
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
    remedy = _sentence(str(item["remedy"]))
    return Row(FABRIC, what, f"{where}{item['seen']}", str(item["expected"]), verdict, remedy)


def _figures(items: Sequence[Mapping[str, Any]], fabric: Mapping[str, Any]) -> Row:
    """Both directions of one pair on one rail, or on all of them."""
    first = items[0]
    what = f"rail {first['rails'][0]}" if len(first["rails"]) == 1 else "all rails together"
    verdicts = [_verdict(item) for item in items]
    worst = items[verdicts.index(min(verdicts, key=ORDER.index))]
    rates = " / ".join(_gbps(item.get("bits_per_second")) for item in items)
    seen = f"{first['source']} to {first['target']} and back: {rates}" if len(items) > 1 else (
        f"{first['source']} to {first['target']}: {rates}"
    )  # fmt: skip
    seen += f", {worst['class']}"
    if fabric.get("measured_at"):
        seen += f" (measured {fabric['measured_at']})" if fabric.get("kept") else ""
    limits = [item["expected_bits_per_second"] for item in items if item.get("expected_bits_per_second")]
    expected = f"about {_gbps(min(limits))}" if limits else "nothing to compare it with"
    remedy = " ".join(_sentence(str(worst[key])) for key in ("cause", "remedy") if worst.get(key))
    verdict = _verdict(worst)
    return Row(FABRIC, what, seen, expected, verdict, remedy if verdict not in (OK, INFO) else "")


def _verdict(item: Mapping[str, Any]) -> str:
    if item.get("bits_per_second") is None and item.get("level") != "error":
        return UNMEASURED
    return LEVELS.get(str(item.get("level")), UNMEASURED)


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:].rstrip(".") + "."


def _gbps(bits: float | None) -> str:
    return "unmeasured" if bits is None else f"{bits / 1e9:.1f} Gb/s"
