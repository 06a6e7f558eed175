# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
# Private to this collection: no stability promised.
"""The doctor: what was seen of nodes and fabric in, one list of judged rows out. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ._doctor_fabric import fabric_rows, mtu_rows
from ._doctor_links import Others, link_rows, switched_off
from ._doctor_node import node_rows
from ._doctor_types import ERROR, FABRIC, INFO, OK, UNMEASURED, WARNING, Node, Row, Settings, overall
from ._rails import Rail, pair_rails

__all__ = ["Node", "Report", "Row", "Settings", "examine", "no_hosts", "not_testable"]


VERDICTS = (ERROR, WARNING, UNMEASURED, INFO, OK)


@dataclass(frozen=True)
class Report:
    """All rows, host after host and the fabric last."""

    rows: list[Row]
    #: the figures of the fabric in Gb/s, one entry for each direction
    bandwidth: list[dict[str, Any]] = field(default_factory=list)

    @property
    def verdict(self) -> str:
        return overall(self.rows)

    @property
    def summary(self) -> str:
        """Verdict and counts as one line."""
        counts = {word: sum(row.verdict == word for row in self.rows) for word in VERDICTS}
        parts = [f"{n} {word}{'s' if n != 1 and word in (ERROR, WARNING) else ''}" for word, n in counts.items()]
        return f"{self.verdict}: {', '.join(parts)} ({len(self.rows)} rows)"

    def as_dict(self) -> dict[str, Any]:
        """Plain values for a result or a file."""
        return {
            "verdict": self.verdict,
            "summary": self.summary,
            "counts": {word: sum(row.verdict == word for row in self.rows) for word in VERDICTS},
            "rows": [row.as_dict() for row in self.rows],
            "bandwidth": self.bandwidth,
        }


def no_hosts(group: str) -> Report:
    """The answer to an inventory without nodes."""
    return Report(
        [
            Row(
                "inventory",
                "nodes",
                f"group '{group}' is missing or has no host",
                f"one host or more in group '{group}'",
                ERROR,
                "Pass your inventory with '-i'; inventories/sparks/hosts.yml shows its shape.",
            )
        ]
    )


def not_testable(nodes: Sequence[Node]) -> str:
    """Why the fabric between these nodes, all of the deployment, cannot be tested; empty when it can."""
    absent = [node.host for node in nodes if not node.facts]
    if absent:
        return f"not measured: {', '.join(absent)} could not be probed, or this run leaves it out"
    if len(nodes) < 2:
        return "not measured: one node has nothing to measure to"
    if pair_rails({node.host: node.part("fabric") for node in nodes}).errors:
        return "not measured: the rails have errors, see above"
    return ""


def examine(nodes: Sequence[Node], settings: Settings, measured: Mapping[str, Any] | None = None) -> Report:
    """Judge everything that is known.

    Args:
        nodes: the hosts in rank order; the first is the head.
        settings: what a deployment would ask of them.
        measured: what the fabric test found; None or empty when it did not run.
    """
    rows: list[Row] = []
    found = measured or {}
    pairing = pair_rails({node.host: node.part("fabric") for node in nodes if node.facts})
    others = Others(
        alone=len(nodes) == 1,
        switched=switched_off(nodes),
        speeds=speeds(pairing.rails, found),
        mtus=mtu_rows(pairing, found) if len(nodes) > 1 else {},
    )
    for number, node in enumerate(nodes):
        if not node.facts:
            rows.append(_not_probed(node))
            continue
        rows += node_rows(node, settings, head=number == 0)
        rows += link_rows(node, settings, others)
    if len(nodes) == 1 and settings.total > 1:
        seen = f"limited to 1 of {settings.total} nodes"
        remedy = "Run the check without --limit."
        rows.append(Row(FABRIC, "rails", seen, "nothing: rails are checked between nodes", INFO, remedy))
    elif len(nodes) == 1:
        rows.append(Row(FABRIC, "rails", "one node", "nothing: one node needs no fabric", INFO))
    else:
        rows += fabric_rows(nodes, settings, found, pairing)
    return Report(rows, figures(found))


def figures(measured: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What was measured, as numbers for a file. None is unmeasured."""

    def in_gbps(bits: int | None) -> float | None:
        return None if bits is None else round(bits / 1e9, 2)

    fabric = measured.get("fabric") or {}
    return [
        {
            "source": item["source"],
            "target": item["target"],
            "rails": list(item["rails"]),
            "gbps": in_gbps(item.get("bits_per_second")),
            "expected_gbps": in_gbps(item.get("expected_bits_per_second")),
            "method": item.get("method"),
            "class": item.get("class"),
            "measured_at": fabric.get("measured_at"),
        }
        for item in fabric.get("entries") or []
    ]


def speeds(rails: Sequence[Rail], measured: Mapping[str, Any]) -> dict[tuple[str, str], list[Mapping[str, Any]]]:
    """(host, device) to the figures of its rail alone, in both directions and with every other node."""
    found: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for item in (measured.get("fabric") or {}).get("entries") or []:
        if len(item["rails"]) == 1 and item["rails"][0] < len(rails):
            members = rails[item["rails"][0]].members
            for host in (item["source"], item["target"]):
                if host in members:
                    found.setdefault((host, members[host].hca), []).append(item)
    return found


def _not_probed(node: Node) -> Row:
    """The row of a host without facts, from the one message that the probe failed with."""
    text = " ".join(node.failure.split()).removeprefix("Task failed: ")
    found = re.match(r"^(?P<head>.*?)\.? Seen: (?P<seen>.*?)\.? Expected: (?P<expected>[^.]*)\.? (?P<remedy>.*)$", text)
    if found:
        seen = f"{found['head']}: {found['seen']}"
        return Row(
            node.host,
            "probe",
            seen,
            found["expected"],
            ERROR,
            re.sub(r"Next(?: step)?: (.)", lambda next_: next_[1].upper(), found["remedy"]),
        )
    remedy = f"Log in to {node.host} as Ansible does and run the check again; -vvv shows each step."
    return Row(node.host, "probe", text or "no facts came back", "the probe reads the node", ERROR, remedy)
