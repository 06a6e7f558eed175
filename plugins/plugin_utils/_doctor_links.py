# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
# Private to this collection: no stability promised.
"""What the doctor says about the links of one machine: ports, addresses, MTU, GIDs. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ._doctor_types import ERROR, INFO, OK, UNMEASURED, WARNING, Node, Row, Settings, halves

PORT_EXPECTED = "a link of 200 Gb/s, an IPv4 address on both interfaces"
MEANINGS = {
    "no-link": "no link",
    "unknown": "the state of the link could not be read",
    "twin-down": "one of its two interfaces is down",
    "link-below-200": "the link is below 200 Gb/s",
    "pcie-degraded": "a PCIe link has fewer than 4 lanes",
    "twin-without-ipv4": "an interface has no IPv4 address",
    "twins-share-subnet": "both interfaces are in one subnet",
    "gid-missing": "an address has no RoCE v2 GID",
    "unmeasured": "readings are fine, the speed is not measured",
}


def link_rows(node: Node, settings: Settings, alone: bool) -> list[Row]:
    """All rows about the links of one machine. ``alone``: there is no other node, so nothing about links is wrong."""
    rows = _link_rows(node, settings, alone)
    return [replace(row, verdict=INFO) if alone and row.verdict in (WARNING, ERROR) else row for row in rows]


def _link_rows(node: Node, settings: Settings, alone: bool) -> list[Row]:
    facts = node.part("fabric")
    hcas = list(facts.get("hcas") or [])
    if not hcas:
        return [_empty(node, facts, settings, alone)]
    ports = list(facts.get("ports") or [])
    linked = any(port["verdict"] != "no-link" for port in ports)
    return [
        *(_port(node, port, hcas, alone or linked) for port in ports),
        *_hotplug(node, facts),
        *(row for hca in hcas if hca.get("ipv4") for row in _interface(node, hca, settings)),
    ]


def _empty(node: Node, facts: Mapping[str, Any], settings: Settings, alone: bool) -> Row:
    seen = str(facts.get("reason") or node.why("fabric.hcas"))
    if facts.get("verdict") is None:
        return Row(node.host, "fabric ports", seen, PORT_EXPECTED, UNMEASURED)
    verdict = INFO if alone else ERROR if settings.rdma else WARNING
    seen, remedy = halves(seen, "With the nodes off, plug the cable in at both ends, then start them.")
    return Row(node.host, "fabric ports", seen, PORT_EXPECTED, verdict, "" if alone else remedy)


def _port(node: Node, port: Mapping[str, Any], hcas: Sequence[Mapping[str, Any]], spare: bool) -> Row:
    """One QSFP port. ``spare``: it may do without a link."""
    mine = [hca for hca in hcas if hca["name"] in port["hcas"]]
    names = ", ".join(str(hca.get("netdev") or hca["name"]) for hca in mine)
    rates = [hca["rate_gbps"] for hca in mine if hca.get("rate_gbps") is not None]
    findings = port.get("findings") or [port["verdict"]]
    seen = f"{names}: " + "; ".join(MEANINGS.get(word, word) for word in findings)
    seen += f" ({min(rates)} Gb/s)" if rates else ""
    what = f"QSFP port {port['port']}"
    remedy = str(port.get("remedy") or "")
    if port["verdict"] == "unmeasured":
        return Row(node.host, what, seen, PORT_EXPECTED, UNMEASURED, "See the rows of the fabric for measured speeds.")
    if port["verdict"] == "no-link" and spare:
        return Row(node.host, what, seen, "nothing: another port has the link, or none is needed", INFO)
    if port["verdict"] == "unknown":
        return Row(node.host, what, seen, PORT_EXPECTED, UNMEASURED, remedy)
    return Row(node.host, what, seen, PORT_EXPECTED, ERROR if port["verdict"] == "no-link" else WARNING, remedy)


def _hotplug(node: Node, facts: Mapping[str, Any]) -> Iterator[Row]:
    late = (facts.get("hotplug") or {}).get("plugged_after_boot") or []
    if late:
        yield Row(
            node.host,
            "cable",
            f"plugged in while the node ran: {', '.join(str(item) for item in late)}",
            "plugged in before the start",
            WARNING,
            "Such a link may carry 13 Gb/s only. Reboot both nodes with the cable in.",
        )


def _interface(node: Node, hca: Mapping[str, Any], settings: Settings) -> Iterator[Row]:
    name = hca.get("netdev") or hca["name"]
    mtu, expected = hca.get("netdev_mtu"), f"MTU {settings.mtu}"
    if mtu is None:
        yield Row(node.host, f"MTU of {name}", node.why(f"fabric.hcas.{hca['name']}.netdev_mtu"), expected, UNMEASURED)
    elif mtu < settings.mtu:
        remedy = f"Set 'mtu: {settings.mtu}' for {name} in /etc/netplan on every node, while no rank runs."
        yield Row(node.host, f"MTU of {name}", str(mtu), expected, WARNING, remedy)
    else:
        yield Row(node.host, f"MTU of {name}", str(mtu), expected)
    what, expected = f"GID of {hca['name']}", f"a RoCE v2 entry of {hca['ipv4'].partition('/')[0]}"
    if hca.get("gid_index") is not None:
        yield Row(node.host, what, f"index {hca['gid_index']}", expected, OK)
    elif not hca.get("gid_known", True):
        yield Row(node.host, what, str(hca.get("gid_reason") or "not known"), expected, UNMEASURED)
    else:
        verdict = WARNING if settings.rdma else INFO
        remedy = f"Set {name} down and up again, or reboot the node."
        yield Row(node.host, what, str(hca.get("gid_reason") or "none"), expected, verdict, remedy)
