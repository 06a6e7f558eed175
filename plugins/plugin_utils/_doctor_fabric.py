# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
# Private to this collection: no stability promised.
"""What the doctor says about all nodes together: equal software, paired rails, measured speed. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ._doctor_measured import measured_rows
from ._doctor_types import ERROR, FABRIC, OK, UNMEASURED, WARNING, Node, Row, Settings
from ._rails import pair_rails

#: Facts that should be the same on every node: name, key of the platform facts, verdict when not, and what to do.
PARITY = (
    ("architecture", "arch", ERROR, "Take the odd machine out of the inventory group."),
    ("kernels", "kernel", WARNING, "Update all nodes to the same DGX OS and reboot them."),
    ("drivers", "driver", WARNING, "Update all nodes to the same DGX OS and reboot them."),
)


def fabric_rows(nodes: Sequence[Node], settings: Settings, measured: Mapping[str, Any]) -> list[Row]:
    """All rows about the nodes together. Nodes without facts have their own row and are left out here."""
    known = [node for node in nodes if node.facts]
    if len(known) < 2:
        seen = f"{len(known)} of {len(nodes)} nodes could be probed"
        return [Row(FABRIC, "rails", seen, "two nodes to compare", UNMEASURED, "First mend the nodes named above.")]
    rows = [*_parity(known), *_pairing(known, settings)]
    return rows + measured_rows(measured)


def _parity(nodes: Sequence[Node]) -> Iterator[Row]:
    for what, key, verdict, remedy in PARITY:
        values = {node.host: node.part("platform").get(key) for node in nodes}
        expected = "the same on all nodes"
        unknown = [host for host, value in values.items() if value is None]
        found = sorted({str(value) for value in values.values() if value is not None})
        shown = ", ".join(f"{host} {value}" for host, value in values.items() if value is not None)
        if len(found) > 1:
            yield Row(FABRIC, what, shown, expected, verdict, remedy)
        elif unknown:
            seen = f"not known of {', '.join(unknown)}" + (f"; {shown}" if shown else "")
            yield Row(FABRIC, what, seen, expected, UNMEASURED)
        else:
            yield Row(FABRIC, what, found[0], expected)


def _pairing(nodes: Sequence[Node], settings: Settings) -> Iterator[Row]:
    pairing = pair_rails({node.host: node.part("fabric") for node in nodes})
    expected = "two rails: subnets in which every node has one address"
    codes = {problem.code for problem in pairing.problems}
    if pairing.rails:
        seen = f"{pairing.topology}, " + ", ".join(f"rail {n} is {rail.subnet}" for n, rail in enumerate(pairing.rails))
        if "one-rail" not in codes:
            yield Row(FABRIC, "rails", seen, expected, OK)
    for problem in pairing.problems:
        if problem.code == "no-roce-gid":
            continue  # each interface has a row of its own about that
        seen, wanted, remedy = split(str(problem))
        yield Row(FABRIC, problem.code.replace("-", " "), seen, wanted, problem.level, remedy)
    if not pairing.rails and not pairing.errors:
        remedy = "Set addresses in /etc/netplan/40-cx7.yaml."
        yield Row(FABRIC, "rails", "none", expected, ERROR if settings.rdma else WARNING, remedy)


def split(message: str) -> tuple[str, str, str]:
    """Seen, expected and remedy of a message in the form "Seen. Expected this. Do that."."""
    match = re.match(r"^(.*?)\.?\s+Expected:?\s+(.*?)(?:[.;]\s+(?=[A-Z])(.*)|\.?)$", message, re.DOTALL)
    if not match:
        return message, "", ""
    return match.group(1), match.group(2), match.group(3) or ""
