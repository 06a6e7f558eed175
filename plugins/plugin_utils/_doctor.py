# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
# Private to this collection: no stability promised.
"""The doctor: what was seen of nodes and fabric in, one list of judged rows out. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ._doctor_fabric import fabric_rows
from ._doctor_links import link_rows
from ._doctor_node import node_rows
from ._doctor_types import ERROR, FABRIC, INFO, OK, UNMEASURED, WARNING, Node, Row, Settings, overall
from ._rails import pair_rails

__all__ = ["Node", "Report", "Row", "Settings", "examine", "no_hosts", "not_testable"]


@dataclass(frozen=True)
class Report:
    """All rows, host after host and the fabric last."""

    rows: list[Row]

    @property
    def verdict(self) -> str:
        return overall(self.rows)

    @property
    def summary(self) -> str:
        """Verdict and counts as one line."""
        counts = {word: sum(row.verdict == word for row in self.rows) for word in (ERROR, WARNING, UNMEASURED)}
        parts = [f"{count} {word}{'s' if count != 1 and word != UNMEASURED else ''}" for word, count in counts.items()]
        return f"{self.verdict}: {', '.join(parts)}, {sum(row.verdict == OK for row in self.rows)} ok"

    def as_dict(self) -> dict[str, Any]:
        """Plain values for a result or a file."""
        return {"verdict": self.verdict, "summary": self.summary, "rows": [row.as_dict() for row in self.rows]}


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
    for number, node in enumerate(nodes):
        if not node.facts:
            rows.append(_not_probed(node))
            continue
        rows += node_rows(node, settings, head=number == 0)
        rows += link_rows(node, settings, alone=len(nodes) == 1)
    if len(nodes) == 1:
        rows.append(Row(FABRIC, "rails", "one node", "nothing: one node needs no fabric", INFO))
        return Report(rows)
    return Report(rows + fabric_rows(nodes, settings, measured or {}))


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
            re.sub(r"Next: (.)", lambda next_: next_[1].upper(), found["remedy"]),
        )
    remedy = f"Log in to {node.host} as Ansible does and run the check again; -vvv shows each step."
    return Row(node.host, "probe", text or "no facts came back", "the probe reads the node", ERROR, remedy)
