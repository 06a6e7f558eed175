# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""Private: finds the rails of a deployment. Nodes are matched by shared subnet, never by interface or port name."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import Any

from ansible_collections.gb10.serving.plugins.plugin_utils import _rails_checks as checks
from ansible_collections.gb10.serving.plugins.plugin_utils._rails_types import (
    End,
    Member,
    Pairing,
    Problem,
    Rail,
    rail_order,
    show,
)

__all__ = ["Member", "Pairing", "Problem", "Rail", "pair_rails"]


def _ends(host: str, fabric: Mapping[str, Any], problems: list[Problem]) -> list[End]:
    """The usable addresses of one node."""
    ends = []
    for hca in fabric.get("hcas") or []:
        choices = list(hca.get("addresses") or [])
        if hca.get("ipv4") and not any(item.get("ipv4") == hca["ipv4"] for item in choices):
            choices.insert(0, {"ipv4": hca["ipv4"], "gid_index": hca.get("gid_index")})
        down = checks.check_link(host, hca, [item["ipv4"] for item in choices])
        problems += down
        for item in [] if down else choices:
            interface = ipaddress.IPv4Interface(item["ipv4"])
            member = Member(
                netdev=hca.get("netdev") or hca["name"],
                hca=hca["name"],
                address=str(interface.ip),
                gid_index=item.get("gid_index"),
                mtu=hca.get("netdev_mtu"),
            )
            ends.append(End(host, interface.network, member, item["ipv4"] == hca.get("ipv4")))
    return ends


def _build_rails(hosts: list[str], ends: list[End]) -> list[Rail]:
    """The subnets in which every host has exactly one interface; an interface belongs to one rail at most."""
    twins = {network for _host, network in checks.find_twins(ends)}

    def weight(network: ipaddress.IPv4Network) -> tuple[int, Any]:
        # subnets of first-choice addresses come first, so that a second address of an interface makes no second rail
        here = [end for end in ends if end.network == network]
        return -sum(end.primary for end in here), min(rail_order(end.member.netdev, network) for end in here)

    rails = []
    used: set[tuple[str, str]] = set()
    for network in sorted({end.network for end in ends} - twins, key=weight):
        members = {end.host: end.member for end in reversed(ends) if end.network == network}
        keys = {(host, member.netdev) for host, member in members.items()}
        if set(members) == set(hosts) and not keys & used:
            used |= keys
            rails.append(Rail(str(network), {host: members[host] for host in hosts}))
    rails.sort(
        key=lambda rail: min(
            rail_order(member.netdev, ipaddress.IPv4Network(rail.subnet)) for member in rail.members.values()
        )
    )
    return rails


def _no_address(host: str, fabric: Mapping[str, Any]) -> Problem:
    names = [str(hca.get("netdev") or hca["name"]) for hca in fabric.get("hcas") or []]
    seen = f"its interfaces are {', '.join(names)}" if names else (fabric.get("reason") or "it has no RDMA device")
    message = (
        f"No fabric interface with an IPv4 address and a link on {host}: {seen}. Expected one address on each "
        f"interface of the cabled port. Set them in /etc/netplan/40-cx7.yaml on {host}."
    )
    return Problem(message, "error", "no-fabric-address", [host])


def _one_rail(hosts: list[str], rail: Rail, ends: list[End]) -> Problem:
    rest = [end for end in ends if rail.members[end.host].netdev != end.member.netdev]
    inside = ", ".join(f"{host} {member.address}" for host, member in rail.members.items())
    message = (
        f"There is only one rail, {rail.subnet}: {inside}. Other addresses: {show(hosts, rest)}. Expected two; with "
        "one the link carries about half. Give the port's other interface an address in a second subnet, on every node."
    )
    return Problem(message, "warning", "one-rail", hosts)


def _no_rail(hosts: list[str], ends: list[End], ring: bool) -> Problem:
    if ring:
        message = (
            f"The {len(hosts)} nodes form a ring: each subnet joins two neighbours only ({show(hosts, ends)}). "
            "Expected subnets that reach every node. Connect the nodes through a switch."
        )
        return Problem(message, "error", "ring", hosts)
    message = (
        f"No subnet has exactly one interface of every node. Seen: {show(hosts, ends)}. Expected the same subnet on "
        "the cabled port of each node. Correct /etc/netplan/40-cx7.yaml or the cables."
    )
    return Problem(message, "error", "no-common-subnet", hosts)


def pair_rails(nodes: Mapping[str, Mapping[str, Any]]) -> Pairing:
    """Find the rails that join all nodes. nodes maps a host to its ansible_facts.gb10.fabric, in rank order."""
    hosts = list(nodes)
    problems: list[Problem] = []
    ends = [end for host in hosts for end in _ends(host, nodes[host], problems)]
    rails = _build_rails(hosts, ends)
    problems += checks.check_duplicates(ends)
    # twins in one subnet stop a deploy only when they leave no rail
    problems += checks.check_twins(ends, "warning" if rails else "error")
    problems += checks.check_prefixes(ends)
    problems += checks.check_rails(rails)
    if len(hosts) < 2:
        # one node needs no fabric: nothing about it can stop a deploy
        for problem in problems:
            problem.level = "warning"
        return Pairing(rails, problems, "single" if hosts else "none")
    bare = [host for host in hosts if not any(end.host == host for end in ends)]
    problems += [_no_address(host, nodes[host]) for host in bare]
    topology = "none"
    if rails:
        topology = "pair" if len(hosts) == 2 else "switch"
        if len(rails) == 1:
            problems.append(_one_rail(hosts, rails[0], ends))
    elif not bare:
        topology = "ring" if checks.is_ring(hosts, ends) else "none"
        problems.append(_no_rail(hosts, ends, topology == "ring"))
    return Pairing(rails, problems, topology)
