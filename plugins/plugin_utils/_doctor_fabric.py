# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
# Private to this collection: no stability promised.
"""What the doctor says about all nodes together: equal software, paired rails, measured speed. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ansible_collections.gb10.serving.plugins.module_utils._facts_fabric_remedy import netdev_of

from ._doctor_measured import NOTHING, measured_rows, sentence
from ._doctor_types import ERROR, FABRIC, OK, UNMEASURED, WARNING, Node, Row, Settings
from ._fabric_class import expected_bits, gbps
from ._rails import Pairing

#: Facts that should be the same on every node: name, key of the platform facts, verdict when not, and what to do.
PARITY = (
    ("architecture", "arch", ERROR, "Take the odd machine out of the inventory group."),
    ("kernels", "kernel", WARNING, "Update all nodes to the same DGX OS and reboot them."),
    ("drivers", "driver", WARNING, "Update all nodes to the same DGX OS and reboot them."),
)


def fabric_rows(nodes: Sequence[Node], settings: Settings, measured: Mapping[str, Any], pairing: Pairing) -> list[Row]:
    """All rows about the nodes together. Nodes without facts have their own row and are left out here."""
    known = [node for node in nodes if node.facts]
    if len(known) < 2:
        seen = f"{len(known)} of {len(nodes)} nodes could be probed"
        return [Row(FABRIC, "rails", seen, "two nodes to compare", UNMEASURED, "First mend the nodes named above.")]
    rows = [*_parity(known), *_pairing(known, settings, pairing, told_by_paths(measured))]
    return rows + measured_rows(measured, settings, _expected(known, settings, pairing))


def told_by_paths(measured: Mapping[str, Any]) -> set[int]:
    """The rails about whose MTU the test of the paths has a row."""
    return {item["rail"] for item in measured.get("paths") or [] if item.get("code") == "mtu"}


def mtu_rows(pairing: Pairing, measured: Mapping[str, Any]) -> dict[tuple[str, str], str]:
    """(host, interface) to the one row of the fabric that is about its MTU."""
    told = told_by_paths(measured)
    return {
        end: f"rail {problem.rail} mtu" if problem.rail in told else "mtu differs"
        for problem in pairing.problems
        if problem.code == "mtu-differs"
        for end in problem.netdevs
    }


def _expected(nodes: Sequence[Node], settings: Settings, pairing: Pairing) -> str:
    """What a rail should carry, in the words that a measured one gets."""
    if settings.expected_gbps:
        return f"about {settings.expected_gbps:.1f} Gb/s a rail"
    if not settings.rdma:
        return NOTHING
    hcas = {(node.host, hca["name"]): hca for node in nodes for hca in node.part("fabric").get("hcas") or []}
    limits = [
        bits
        for rail in pairing.rails
        for host, member in rail.members.items()
        if (bits := expected_bits(hcas.get((host, member.hca)) or {}))
    ]
    return f"about {gbps(min(limits))} a rail" if limits else NOTHING


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


def _pairing(nodes: Sequence[Node], settings: Settings, pairing: Pairing, mtus: set[int]) -> Iterator[Row]:
    expected = "two rails: subnets in which every node has one address"
    codes = {problem.code for problem in pairing.problems}
    ports = {
        (node.host, netdev_of(hca))
        for node in nodes
        for port in node.part("fabric").get("ports") or []
        for hca in node.part("fabric").get("hcas") or []
        if hca["name"] in port["hcas"]
    }
    if pairing.rails:
        seen = f"{pairing.topology}, " + ", ".join(f"rail {n} is {rail.subnet}" for n, rail in enumerate(pairing.rails))
        if "one-rail" not in codes:
            yield Row(FABRIC, "rails", seen, expected, OK)
    for problem in pairing.problems:
        if problem.code == "no-roce-gid":
            continue  # each interface has a row of its own about that
        if problem.code == "link-down" and set(problem.netdevs) <= ports:
            continue  # the row of its port says so
        if problem.code == "mtu-differs" and problem.rail in mtus:
            continue  # the test of the paths found the same, and what it does
        title = problem.code.replace("-", " ")
        verdict = UNMEASURED if problem.code == "addresses-unknown" else problem.level
        yield Row(FABRIC, title, problem.seen, problem.expected, verdict, sentence(problem.remedy))
    if not pairing.rails and not pairing.errors:
        remedy = "Set addresses on the interfaces of the cabled port; playbook configure_fabric.yml can do it."
        yield Row(FABRIC, "rails", "none", expected, ERROR if settings.rdma else WARNING, remedy)
