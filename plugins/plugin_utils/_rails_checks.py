# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""Private: what can be wrong with the addresses of a set of nodes. Pure."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import Any

from ansible_collections.gb10.serving.plugins.module_utils._facts_fabric_remedy import down_words, is_down
from ansible_collections.gb10.serving.plugins.plugin_utils._rails_types import Down, End, Problem, Rail, down_step


def find_down(host: str, hca: Mapping[str, Any], addresses: list[str]) -> Down | None:
    """An interface with an address whose link is known to be down."""
    return Down(host, hca, addresses) if addresses and is_down(hca) else None


def check_down(downs: list[Down]) -> list[Problem]:
    """One problem for each interface that has an address and no link."""
    return [
        Problem(
            f"{down.host}: {down.netdev} ({down.hca['name']}) has the address {down.addresses[0]} but "
            f"{down_words(down.hca)}",
            "an active link",
            down_step([down]),
            "warning",
            "link-down",
            [down.host],
            [(down.host, down.netdev)],
        )
        for down in downs
    ]


def is_no_host(end: End) -> bool:
    """Is the address the network's own or its broadcast; of /31 and /32 every address is a host's."""
    return end.network.prefixlen < 31 and end.member.address in map(
        str, (end.network.network_address, end.network.broadcast_address)
    )


def check_no_host(ends: list[End]) -> list[Problem]:
    """Addresses that cannot be the end of a rail."""
    return [
        Problem(
            f"{end.host} has {end.shown}, which is the {_kind(end)} address of its subnet",
            "the address of a host",
            f"give {end.member.netdev} another address of {end.network}, in {end.member.netplan} on {end.host}.",
            "error",
            "no-host-address",
            [end.host],
            [(end.host, end.member.netdev)],
        )
        for end in filter(is_no_host, ends)
    ]


def _kind(end: End) -> str:
    return "network" if end.member.address == str(end.network.network_address) else "broadcast"


def check_duplicates(ends: list[End]) -> list[Problem]:
    """One address on two interfaces."""
    owners: dict[str, list[End]] = {}
    for end in ends:
        owners.setdefault(end.member.address, []).append(end)
    return [
        Problem(
            f"The address {address} is on {' and '.join(f'{end.host} ({end.member.netdev})' for end in same)}",
            "each address once",
            f"give one of them another address in the same subnet, in {same[-1].member.netplan} on {same[-1].host}.",
            "error",
            "duplicate-address",
            sorted({end.host for end in same}),
        )
        for address, same in owners.items()
        if len(same) > 1
    ]


def find_twins(ends: list[End]) -> dict[tuple[str, ipaddress.IPv4Network], list[End]]:
    """Hosts with two interfaces in one subnet."""
    groups: dict[tuple[str, ipaddress.IPv4Network], list[End]] = {}
    for end in ends:
        groups.setdefault((end.host, end.network), []).append(end)
    return {key: same for key, same in groups.items() if len({end.member.netdev for end in same}) > 1}


def check_twins(ends: list[End], level: str) -> list[Problem]:
    """Two interfaces of one host in one subnet."""
    return [
        Problem(
            f"{host} has two interfaces in the subnet {network}: {', '.join(end.shown for end in same)}",
            "one subnet per rail",
            f"move one of them to another subnet, the same on all nodes; on {host} in {same[-1].member.netplan}.",
            level,
            "twins-in-one-subnet",
            [host],
        )
        for (host, network), same in find_twins(ends).items()
    ]


def check_prefixes(ends: list[End]) -> list[Problem]:
    """Subnets that overlap without being equal."""
    networks = sorted({end.network for end in ends})
    problems = []
    for index, wide in enumerate(networks):
        for narrow in networks[index + 1 :]:
            if wide.overlaps(narrow):
                one = next(end for end in ends if end.network == wide)
                two = next(end for end in ends if end.network == narrow)
                problems.append(
                    Problem(
                        f"{one.host} has {one.shown} and {two.host} has {two.shown}: the subnets overlap but differ",
                        "the same prefix length on all nodes",
                        f"correct it in {two.member.netplan} on {two.host}, or in {one.member.netplan} on {one.host}.",
                        "error",
                        "prefix-differs",
                        sorted({one.host, two.host}),
                    )
                )
    return problems


def check_rails(rails: list[Rail]) -> list[Problem]:
    """Different MTUs in a rail, and ends that RDMA cannot use."""
    problems = []
    for number, rail in enumerate(rails):
        mtus = {host: member.mtu for host, member in rail.members.items() if member.mtu is not None}
        if len(set(mtus.values())) > 1:
            most = max(mtus.values())
            shown = ", ".join(f"{host} {rail.members[host].netdev} has {mtu}" for host, mtu in mtus.items())
            small = [host for host, mtu in mtus.items() if mtu < most]
            places = "; ".join(f"on {host} in {rail.members[host].netplan}" for host in small)
            problems.append(
                Problem(
                    f"Rail {number} ({rail.subnet}) has different MTUs: {shown}",
                    "the same on all nodes",
                    f"set MTU {most}, {places}.",
                    "warning",
                    "mtu-differs",
                    list(mtus),
                    [(host, member.netdev) for host, member in rail.members.items()],
                    number,
                )
            )
        for host, member in rail.members.items():
            if member.gid_index is None:
                problems.append(
                    Problem(
                        f"{host}: {member.hca} has no RoCE v2 GID for {member.address} on {member.netdev}, so RDMA "
                        f"cannot use rail {number}",
                        "one in the GID table",
                        f"set {member.netdev} down and up again on {host}, or reboot the node.",
                        "warning",
                        "no-roce-gid",
                        [host],
                        [(host, member.netdev)],
                        number,
                    )
                )
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
