# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
# Private to this collection: no stability promised.
"""What the doctor says about the links of one machine: ports, addresses, MTU, GIDs. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ansible_collections.gb10.serving.plugins.module_utils._facts_fabric_checks import unread
from ansible_collections.gb10.serving.plugins.module_utils._facts_fabric_remedy import (
    down_words,
    is_down,
    is_set_down,
    netdev_of,
    netplan_place,
)

from ._doctor_types import ERROR, INFO, OK, UNMEASURED, WARNING, Node, Row, Settings, halves

PORT_EXPECTED = "a link of 200 Gb/s, an IPv4 address on both interfaces"
MEANINGS = {
    "no-link": "no link",
    "set-down": "set down",
    "unknown": "the state of the link could not be read",
    "twin-down": "one of its two interfaces is down",
    "link-below-200": "the link is below 200 Gb/s",
    "twin-missing": "the second of its two PCI functions is missing",
    "pcie-degraded": "a PCIe link is slower than Gen5 x4",
    "bonded": "its interfaces are in a bond, which has their address and GIDs",
    "infiniband": "it runs InfiniBand, not Ethernet",
    "twin-without-ipv4": "an interface has no IPv4 address",
    "twins-share-subnet": "both interfaces are in one subnet",
    "gid-missing": "an address has no RoCE v2 GID",
    "unmeasured": "readings are fine, the speed is not measured",
}
WITHOUT = ("no-link", "set-down")


@dataclass(frozen=True)
class Others:
    """What the nodes together tell about the links of each: there may be no other node at all."""

    alone: bool = False
    #: host to the commands that bring up interfaces with addresses that are set down there
    switched: Mapping[str, Sequence[str]] = field(default_factory=dict)
    #: (host, device) to the figures of the rails that it is an end of, each rail alone
    speeds: Mapping[tuple[str, str], Sequence[Mapping[str, Any]]] = field(default_factory=dict)
    #: (host, interface) to the row of the fabric that is about its MTU
    mtus: Mapping[tuple[str, str], str] = field(default_factory=dict)


def switched_off(nodes: Sequence[Node]) -> dict[str, list[str]]:
    """On each node, how to bring up what has an address and was set down."""
    found = {
        node.host: [
            f"'sudo ip link set dev {netdev_of(hca)} up'"
            for hca in node.part("fabric").get("hcas") or []
            if is_set_down(hca) and hca.get("ipv4")
        ]
        for node in nodes
    }
    return {host: commands for host, commands in found.items() if commands}


def link_rows(node: Node, settings: Settings, others: Others) -> list[Row]:
    """All rows about the links of one machine. While it is alone, nothing about links is wrong."""
    rows = _link_rows(node, settings, others)
    return [replace(row, verdict=INFO) if others.alone and row.verdict in (WARNING, ERROR) else row for row in rows]


def _link_rows(node: Node, settings: Settings, others: Others) -> list[Row]:
    facts = node.part("fabric")
    hcas = list(facts.get("hcas") or [])
    if not hcas:
        return [_empty(node, facts, settings, others.alone)]
    ports = list(facts.get("ports") or [])
    used = _used(ports, hcas)
    return [
        *(_port(node, port, _mine(port, hcas), port in used, settings, others) for port in ports),
        *_hotplug(node, facts),
        *(row for hca in hcas if hca.get("ipv4") for row in _interface(node, hca, settings, others)),
    ]


def _mine(port: Mapping[str, Any], hcas: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [hca for hca in hcas if hca["name"] in port["hcas"]]


def _used(ports: Sequence[Mapping[str, Any]], hcas: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The ports that matter: those with a link, else those with addresses, else the first."""
    linked = [port for port in ports if port["verdict"] not in WITHOUT]
    addressed = [port for port in ports if any(hca.get("ipv4") for hca in _mine(port, hcas))]
    return linked or addressed or list(ports[:1])


def _empty(node: Node, facts: Mapping[str, Any], settings: Settings, alone: bool) -> Row:
    seen = str(facts.get("reason") or node.why("fabric.hcas"))
    if facts.get("verdict") is None:
        return Row(node.host, "fabric ports", seen, PORT_EXPECTED, UNMEASURED)
    verdict = INFO if alone else ERROR if settings.rdma else WARNING
    seen, remedy = halves(seen, "With the nodes off, plug the cable in at both ends, then start them.")
    return Row(node.host, "fabric ports", seen, PORT_EXPECTED, verdict, "" if alone else remedy)


def _port(
    node: Node,
    port: Mapping[str, Any],
    mine: Sequence[Mapping[str, Any]],
    used: bool,
    settings: Settings,
    others: Others,
) -> Row:
    """One QSFP port. ``used``: it is one that should have the link."""
    names = ", ".join(netdev_of(hca) for hca in mine)
    rates = [hca["rate_gbps"] for hca in mine if hca.get("rate_gbps") is not None]
    findings = port.get("findings") or [port["verdict"]]
    seen = f"{names}: " + "; ".join(_meaning(word, mine) for word in findings)
    what, verdict = f"QSFP port {port['port']}", port["verdict"]
    seen += f" ({min(rates)} Gb/s)" if rates and verdict not in WITHOUT else ""
    remedy = str(port.get("remedy") or "")
    if verdict == "unmeasured":
        return _speed(Row(node.host, what, seen, PORT_EXPECTED, UNMEASURED), names, mine, settings, others)
    if verdict in WITHOUT and not used:
        return Row(node.host, what, seen, "nothing: another port is used", INFO)
    if verdict in WITHOUT and others.alone:
        return Row(node.host, what, seen, "nothing: one node needs no link", INFO)
    if verdict == "unknown":
        return Row(node.host, what, seen, PORT_EXPECTED, UNMEASURED, remedy)
    elsewhere = {host: commands for host, commands in others.switched.items() if host != node.host}
    if verdict == "no-link" and elsewhere:
        first = "; ".join(f"on {host}, {', '.join(commands)}" for host, commands in elsewhere.items())
        remedy = f"The other end may be the cause: {first}. If that does not help: {remedy}"
    return Row(node.host, what, seen, PORT_EXPECTED, ERROR if verdict in WITHOUT else WARNING, remedy)


def _meaning(word: str, mine: Sequence[Mapping[str, Any]]) -> str:
    """A finding in words; of what is down, each interface with the reason."""
    absent = unread(mine) if word == "unmeasured" else []
    if absent:
        return f"not read: {', '.join(absent)}; the speed is not measured"
    down = [f"{netdev_of(hca)} {down_words(hca)}" for hca in mine if is_down(hca)]
    return ", ".join(down) if word == "twin-down" and down else MEANINGS.get(word, word)


def _speed(row: Row, names: str, mine: Sequence[Mapping[str, Any]], settings: Settings, others: Others) -> Row:
    """A port whose readings are fine: what was measured on its rails, or why nothing was."""
    entries = [item for hca in mine for item in others.speeds.get((row.host, hca["name"]), [])]
    rates = [item["bits_per_second"] / 1e9 for item in entries if item.get("bits_per_second")]
    if rates:
        absent = unread(mine)
        fine = f"not read: {', '.join(absent)}" if absent else "readings are fine"
        seen = f"{names}: {fine}, {min(rates):.1f} to {max(rates):.1f} Gb/s were measured on its rails"
        good = all(item.get("level") == "good" for item in entries)
        return replace(row, seen=seen, verdict=OK if good else INFO)
    remedy = "The rows of the fabric say why."
    if others.alone:
        remedy = "Speed is measured between nodes" + (": run the check without --limit." if settings.total > 1 else ".")
    return replace(row, remedy=remedy)


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


def _interface(node: Node, hca: Mapping[str, Any], settings: Settings, others: Others) -> Iterator[Row]:
    name = netdev_of(hca)
    mtu, expected = hca.get("netdev_mtu"), f"MTU {settings.mtu} at least"
    told = others.mtus.get((node.host, name))
    if mtu is None:
        yield Row(node.host, f"MTU of {name}", node.why(f"fabric.hcas.{hca['name']}.netdev_mtu"), expected, UNMEASURED)
    elif mtu < settings.mtu and told:
        yield Row(node.host, f"MTU of {name}", f"{mtu}; see '{told}' of the fabric", expected, INFO)
    elif mtu < settings.mtu:
        remedy = f"Set 'mtu: {settings.mtu}' for {name} in {netplan_place(hca)}, on every node, while no rank runs."
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
