# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
# Private to this collection: no stability promised.
"""From measured bits per second to a class, a cause and a remedy. Pure.

On a GB10 each rail is held back by its PCIe link, not by its port: 126 Gb/s raw on Gen5 x4, of which healthy machines
show 92 to 112, and 175 to 196 on both rails of a port. What is not measured is called unmeasured, never good.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ._fabric_limits import Place, expected_bits, joint, joint_of_gb10, place, together
from ._fabric_types import Finding
from ._problems import Problem

__all__ = ["Place", "expected_bits", "findings", "gbps", "judge", "place", "rate_one", "together", "worded"]

G = 1e9
#: Limits as shares of what is expected: up to the first a rail is degraded, from the second on good.
DEGRADED, GOOD, HALF, PAIR_GOOD = 0.26, 0.8, 0.65, 0.89
#: Without an expectation: below this share of the other rail or of the other direction something is wrong.
UNEVEN = 0.25
#: Below this share of the last result a rate has changed.
CHANGED = 0.5
METHODS = {"rdma": "ib_write_bw", "iperf3": "iperf3", "sockets": "TCP streams"}

COLD_START = (
    "shut both nodes down, take their power off for a minute, and start them with the cable in; reboot BOTH after "
    "every change of the cable. Then update the driver if it is older than 580.142."
)


@dataclass(frozen=True)
class Rating:
    """What a figure means. level: "good", "note", "warning" or "error"."""

    code: str
    level: str
    cause: str
    remedy: str
    ratio: float | None


def gbps(bits: float | None) -> str:
    return "unmeasured" if bits is None else f"{bits / G:.1f} Gb/s"


def worded(shown: str, code: str) -> str:
    """Rates and their class; what has neither is unmeasured once."""
    words = {word.strip() for word in shown.split("/")}
    return code if words == {"unmeasured"} and code == "unmeasured" else f"{shown}, {code}"


def rate_one(
    bits: int | None,
    expected: int | None,
    rails: int = 1,
    method: str | None = "rdma",
    rdma: bool = True,
    others: Iterable[int | None] = (),
    reverse: int | None = None,
    error: str = "",
) -> Rating:
    """The class of one figure. others: the same direction on the other rails; reverse: the same rails the other way."""
    if not bits:
        return _unmeasured(error)
    ratio = round(bits / expected, 3) if expected else None
    if expected and ratio is not None:
        if ratio <= DEGRADED:
            return _degraded(ratio, bool(reverse and reverse / expected > 2 * DEGRADED), method)
        if method != "rdma" and rdma:
            cause = _stop(f"TCP carries this; RDMA is unmeasured{': ' + error if error else ''}")
            remedy = "install perftest on both nodes, or correct what it says, and measure again."
            return Rating("TCP only", "warning" if error else "note", cause, remedy, ratio)
        if rails > 1 and ratio < HALF:
            return Rating(
                "half",
                "error",
                "about half of what both rails carry: the traffic uses one of them.",
                "list both HCAs of the cabled port, give each interface its own subnet, and look at 'lspci -vv' for a "
                "second PCIe link that is not x4.",
                ratio,
            )
        if ratio < (GOOD if rails == 1 else PAIR_GOOD):
            return Rating(
                "below",
                "warning",
                "less than healthy machines show.",
                "look for other load on the nodes, a PCIe link that is not Gen5 x4, a switch port at 100 Gb/s, and "
                "error counters.",
                ratio,
            )
        return Rating("good", "good", "", "", ratio)
    best = max((item for item in [*others, reverse] if item), default=0)
    if bits < UNEVEN * best:
        return Rating(
            "uneven",
            "error",
            f"less than a quarter of the {gbps(best)} that the other rail or the other direction carries.",
            "look at 'tc qdisc show', error counters ('ip -s link') and load on both nodes; on a Spark, reboot both "
            "with the cable in.",
            ratio,
        )
    return Rating("unrated", "note", "measured, with nothing to compare it with.", "", ratio)


def _unmeasured(error: str) -> Rating:
    if error and "no time was left" not in error:
        remedy = "look at firewall and MTU of this rail; the words are the test's own."
        return Rating("no path", "error", _stop(error), remedy, None)
    cause = _stop(error or "it was not measured")
    return Rating("unmeasured", "warning", cause, "measure again on idle nodes.", None)


def _stop(text: str) -> str:
    return text.rstrip(".") + "."


def _degraded(ratio: float, other_way_good: bool, method: str | None) -> Rating:
    if method != "rdma":
        way = "this direction" if other_way_good else "the link"
        cause = (
            f"by TCP alone it is not known. Possible: other load on the nodes, a firewall or MTU that slows TCP, or "
            f"{way} itself (the NIC's state after its cable was plugged in, PCIe reads through the IOMMU)."
        )
        remedy = (
            "install perftest on both nodes and measure again (gb10_fabric_measure=always). When RDMA is as slow: "
            + COLD_START
        )
        return Rating("degraded", "error", cause, remedy, ratio)
    if other_way_good:
        cause = "only this direction is slow: the sender's PCIe reads go through its IOMMU."
        remedy = "compare /sys/kernel/iommu_groups/*/type on both nodes, boot the sender with iommu.passthrough=1."
        return Rating("degraded", "error", cause, remedy, ratio)
    cause = "the link is up at full speed and carries a fraction of it: the NIC's state after its cable was plugged in."
    return Rating("degraded", "error", cause, COLD_START, ratio)


def judge(
    figures: Sequence[Mapping[str, Any]],
    expected: Mapping[tuple[str, int], int | None],
    rdma: bool,
    previous: Sequence[Mapping[str, Any]] = (),
    places: Mapping[tuple[str, int], Place] | None = None,
) -> list[dict[str, Any]]:
    """Figures {source, target, rails, bits_per_second, method, errors} with their class.

    expected: by source and rail; the slower end of a rail counts. places: by the same keys, what a rail shares with
    others; empty when they share nothing, None when nobody said it: then rails are those of GB10s.
    """
    known = {(item["source"], item["target"], tuple(item["rails"])): item["bits_per_second"] for item in figures}
    before = {(item["source"], item["target"], tuple(item["rails"])): item.get("bits_per_second") for item in previous}
    entries = []
    for item in figures:
        source, target, rails = item["source"], item["target"], tuple(item["rails"])
        alone = [_slower(expected.get((source, rail)), expected.get((target, rail))) for rail in rails]
        if places is None:
            limit = joint_of_gb10(alone)
        else:
            sides = [[places.get((host, rail)) for rail in rails] for host in (source, target)]
            limit = _slower(*(joint(alone, side) for side in sides))
        errors = item.get("errors") or {}
        error = errors.get("sockets") if item["bits_per_second"] is None else errors.get("rdma")
        rating = rate_one(
            item["bits_per_second"],
            limit,
            len(rails),
            item.get("method"),
            rdma,
            # all rails together are not compared with one of them
            [
                bits
                for (one, two, other), bits in known.items()
                if (one, two) == (source, target) and other != rails and len(other) == len(rails)
            ],
            known.get((target, source, rails)),
            str(error or ""),
        )
        entries.append(
            {
                "source": source,
                "target": target,
                "rails": list(rails),
                "bits_per_second": item["bits_per_second"],
                "expected_bits_per_second": limit,
                "previous_bits_per_second": before.get((source, target, rails)),
                "ratio": rating.ratio,
                "method": item.get("method"),
                "class": rating.code,
                "level": rating.level,
                "cause": rating.cause,
                "remedy": rating.remedy,
            }
        )
    return entries


def _slower(one: int | None, two: int | None) -> int | None:
    known = [item for item in (one, two) if item is not None]
    return min(known) if known else None


def findings(entries: Sequence[Mapping[str, Any]]) -> list[Finding]:
    """What the classes say to the user. Figures that share pair, rails and class make one line."""
    groups: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for item in entries:
        if item["level"] in ("error", "warning"):
            key = (*sorted((item["source"], item["target"])), tuple(item["rails"]), item["class"], item["cause"])
            groups.setdefault(key, []).append(item)
    found = [_finding(items) for items in groups.values()]
    return found + _changed(entries)


def _changed(entries: Sequence[Mapping[str, Any]]) -> list[Finding]:
    """What has become much slower since the last measurement, in one line."""
    slower = [
        item
        for item in entries
        if item["level"] in ("good", "note")
        and item["bits_per_second"] < CHANGED * (item.get("previous_bits_per_second") or 0)
    ]
    if not slower:
        return []
    shown = "; ".join(
        f"{item['source']} to {item['target']}, {_name(item)}: {gbps(item['bits_per_second'])}, before "
        f"{gbps(item['previous_bits_per_second'])}"
        for item in slower
    )
    remedy = "measure again on idle nodes (gb10_fabric_measure=always); if it stays, look at what was changed since."
    problem = Problem("fabric", f"less than half of the last measurement: {shown}.", "about the same.", remedy)
    return [Finding("changed", "warning", None, problem)]


def _name(item: Mapping[str, Any]) -> str:
    return f"rail {item['rails'][0]}" if len(item["rails"]) == 1 else "all rails together"


def _finding(items: Sequence[Mapping[str, Any]]) -> Finding:
    first = items[0]
    way = ", both ways" if len(items) > 1 else ""
    joint = " and " if len(items) > 1 else " to "
    shown = " and ".join(sorted({gbps(item["bits_per_second"]) for item in items}))
    limit = first["expected_bits_per_second"]
    by = f" ({METHODS[first['method']]})" if first["method"] else ""
    return Finding(
        first["class"],
        first["level"],
        first["rails"][0] if len(first["rails"]) == 1 else None,
        Problem(
            f"{first['source']}{joint}{first['target']}",
            f"{_name(first)}{way}: {worded(shown + by, first['class'])}. Cause: {first['cause']}",
            f"about {gbps(limit)}." if limit else "about the same on each rail and in each direction.",
            first["remedy"],
        ),
    )
