# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""Private: what can be wrong with the addresses of a set of nodes. Pure."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import Any

from ansible_collections.gb10.serving.plugins.plugin_utils._rails_types import End, Problem, Rail


def check_link(host: str, hca: Mapping[str, Any], addresses: list[str]) -> list[Problem]:
    """An address on an interface whose link is known to be down."""
    state = hca.get("state")
    if not addresses or (state in (None, "ACTIVE") and hca.get("netdev_up") is not False):
        return []
    seen = f"its link is {state}" if state not in (None, "ACTIVE") else "the interface has no carrier"
    message = (
        f"{host}: {hca.get('netdev') or hca['name']} ({hca['name']}) has the address {addresses[0]} but {seen}. "
        "Expected an active link. Check the cable, or take the address away."
    )
    return [Problem(message, "warning", "link-down", [host])]


def check_duplicates(ends: list[End]) -> list[Problem]:
    """One address on two interfaces."""
    owners: dict[str, list[End]] = {}
    for end in ends:
        owners.setdefault(end.member.address, []).append(end)
    problems = []
    for address, same in owners.items():
        if len(same) > 1:
            where = " and ".join(f"{end.host} ({end.member.netdev})" for end in same)
            message = (
                f"The address {address} is on {where}. Expected each address once. Give one of them another address in "
                "the same subnet."
            )
            problems.append(Problem(message, "error", "duplicate-address", sorted({end.host for end in same})))
    return problems


def find_twins(ends: list[End]) -> dict[tuple[str, ipaddress.IPv4Network], list[End]]:
    """Hosts with two interfaces in one subnet."""
    groups: dict[tuple[str, ipaddress.IPv4Network], list[End]] = {}
    for end in ends:
        groups.setdefault((end.host, end.network), []).append(end)
    return {key: same for key, same in groups.items() if len({end.member.netdev for end in same}) > 1}


def check_twins(ends: list[End], level: str) -> list[Problem]:
    """Two interfaces of one host in one subnet."""
    problems = []
    for (host, network), same in find_twins(ends).items():
        message = (
            f"{host} has two interfaces in the subnet {network}: {', '.join(end.shown for end in same)}. Expected one "
            "subnet per rail. Move one of them to another subnet, the same on all nodes."
        )
        problems.append(Problem(message, level, "twins-in-one-subnet", [host]))
    return problems


def check_prefixes(ends: list[End]) -> list[Problem]:
    """Subnets that overlap without being equal."""
    networks = sorted({end.network for end in ends})
    problems = []
    for index, wide in enumerate(networks):
        for narrow in networks[index + 1 :]:
            if wide.overlaps(narrow):
                one = next(end for end in ends if end.network == wide)
                two = next(end for end in ends if end.network == narrow)
                message = (
                    f"{one.host} has {one.shown} and {two.host} has {two.shown}: the subnets overlap but differ. "
                    "Expected the same prefix length on all nodes. Set it in /etc/netplan/40-cx7.yaml."
                )
                problems.append(Problem(message, "error", "prefix-differs", sorted({one.host, two.host})))
    return problems


def check_rails(rails: list[Rail]) -> list[Problem]:
    """Different MTUs in a rail, and ends that RDMA cannot use."""
    problems = []
    for number, rail in enumerate(rails):
        mtus = {host: member.mtu for host, member in rail.members.items() if member.mtu is not None}
        if len(set(mtus.values())) > 1:
            shown = ", ".join(f"{host} {rail.members[host].netdev} has {mtu}" for host, mtu in mtus.items())
            message = (
                f"Rail {number} ({rail.subnet}) has different MTUs: {shown}. Expected the same on all nodes. Set MTU "
                f"{max(mtus.values())} on each."
            )
            problems.append(Problem(message, "warning", "mtu-differs", list(mtus)))
        for host, member in rail.members.items():
            if member.gid_index is None:
                message = (
                    f"{host}: {member.hca} has no RoCE v2 GID for {member.address} on {member.netdev}, so RDMA cannot "
                    f"use rail {number}. Expected one in the GID table. Set the interface down and up again, or reboot "
                    "the node."
                )
                problems.append(Problem(message, "warning", "no-roce-gid", [host]))
    return problems


def is_ring(hosts: list[str], ends: list[End]) -> bool:
    """Each subnet joins two nodes, each node has two neighbours, and all hang together."""
    neighbours: dict[str, set[str]] = {host: set() for host in hosts}
    for network in {end.network for end in ends}:
        here = {end.host for end in ends if end.network == network}
        if len(here) == 2:
            one, two = here
            neighbours[one].add(two)
            neighbours[two].add(one)
    if len(hosts) < 3 or any(len(near) != 2 for near in neighbours.values()):
        return False
    seen: set[str] = set()
    todo = [hosts[0]]
    while todo:
        host = todo.pop()
        if host not in seen:
            seen.add(host)
            todo += neighbours[host]
    return len(seen) == len(hosts)
