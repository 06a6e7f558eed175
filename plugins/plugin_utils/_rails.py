# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""Private: finds the rails of a deployment. Nodes are matched by shared subnet, never by interface or port name."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.gb10.serving.plugins.module_utils._facts_fabric_remedy import (
    down_remedy,
    down_words,
    is_down,
    is_set_down,
    netdev_of,
    netplan_place,
)
from ansible_collections.gb10.serving.plugins.plugin_utils import _rails_checks as checks
from ansible_collections.gb10.serving.plugins.plugin_utils._rails_types import (
    Down,
    End,
    Member,
    Pairing,
    Problem,
    Rail,
    down_step,
    rail_order,
    show,
)

__all__ = ["Member", "Pairing", "Problem", "Rail", "pair_rails"]


def _ends(host: str, fabric: Mapping[str, Any], downs: list[Down]) -> list[End]:
    """The usable addresses of one node; those that carry nothing go to downs."""
    ends: list[End] = []
    for hca in fabric.get("hcas") or []:
        choices = list(hca.get("addresses") or [])
        if hca.get("ipv4") and not any(item.get("ipv4") == hca["ipv4"] for item in choices):
            choices.insert(0, {"ipv4": hca["ipv4"], "gid_index": hca.get("gid_index")})
        down = checks.find_down(host, hca, [item["ipv4"] for item in choices])
        downs += [down] if down else []
        for item in [] if down else choices:
            interface = ipaddress.IPv4Interface(item["ipv4"])
            netdev = hca.get("address_netdev") or hca.get("netdev") or hca["name"]
            if any((end.member.netdev, end.member.address) == (netdev, str(interface.ip)) for end in ends):
                continue  # a bond's address shows at each device below it
            member = Member(
                netdev=netdev,
                hca=hca["name"],
                address=str(interface.ip),
                gid_index=item.get("gid_index"),
                mtu=hca.get("netdev_mtu"),
                netplan=netplan_place(hca),
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
    """No usable address: because nothing is known of them, because nothing has a link, or because none was set."""
    hcas = list(fabric.get("hcas") or [])
    unknown = [hca for hca in hcas if not hca.get("ipv4_known", True) and not is_down(hca)]
    if unknown or (not hcas and "verdict" in fabric and fabric["verdict"] is None):
        seen = (
            f"the addresses of {', '.join(map(netdev_of, unknown))} could not be read" if unknown else fabric["reason"]
        )
        return Problem(
            f"It is not known which address the fabric interfaces of {host} have: {seen}",
            "one address on each interface of the cabled port",
            f"run the probe on {host} itself as root.",
            "error",
            "addresses-unknown",
            [host],
        )
    if hcas and all(map(is_down, hcas)):
        return Problem(
            f"No fabric interface of {host} has a link: " + ", ".join(f"{netdev_of(h)} {down_words(h)}" for h in hcas),
            "a link on each interface of the cabled port",
            _lower(down_remedy(hcas)),
            "error",
            "no-fabric-link",
            [host],
        )
    names = ", ".join(netdev_of(hca) for hca in hcas)
    reason, _dot, rest = str(fabric.get("reason") or "it has no RDMA device").partition(". ")
    port = max(fabric.get("ports") or [{}], key=lambda item: bool(item.get("link")))
    cabled = [hca for hca in hcas if hca["name"] in (port.get("hcas") or [])] or hcas
    step = (
        f"set them on {host} in {netplan_place(*cabled)}." if hcas else _lower(rest) or f"see what {host} says above."
    )
    return Problem(
        f"No fabric interface with an IPv4 address and a link on {host}: "
        + (f"its interfaces are {names}" if hcas else reason),
        "one address on each interface of the cabled port",
        step,
        "error",
        "no-fabric-address",
        [host],
    )


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:].rstrip(".") + "." if text else ""


def _no_link(host: str, downs: Sequence[Down]) -> Problem:
    """Addresses are there, and none of their interfaces carries anything."""
    mine = [down for down in downs if down.host == host]
    elsewhere = [down for down in downs if down.host != host and is_set_down(down.hca)]
    # an interface that is set down takes the carrier of the other end with it
    step = mine if any(is_set_down(down.hca) for down in mine) else [*elsewhere, *mine]
    return Problem(
        f"No fabric interface of {host} has a link: {', '.join(down.shown for down in mine)}",
        "a link on each interface of the cabled port",
        down_step(step),
        "error",
        "no-fabric-link",
        [host],
        [(down.host, down.netdev) for down in mine],
    )


def _one_rail(hosts: list[str], rail: Rail, ends: list[End], downs: Sequence[Down]) -> Problem:
    rest = [end for end in ends if rail.members[end.host].netdev != end.member.netdev]
    inside = ", ".join(f"{host} {member.address}" for host, member in rail.members.items())
    downs = _in_the_way(hosts, rail, ends, downs)
    if downs:
        seen = f"Cause: on {', on '.join(f'{down.host} {down.shown}' for down in downs)}"
        step = down_step(downs)
    else:
        seen = f"Other addresses: {show(hosts, rest)}"
        step = "give the port's other interface an address in a second subnet, the same on every node."
    return Problem(
        f"There is only one rail, {rail.subnet}: {inside}. {seen}",
        "two; with one the link carries about half",
        step,
        "warning",
        "one-rail",
        hosts,
    )


def _in_the_way(hosts: list[str], rail: Rail, ends: list[End], downs: Sequence[Down]) -> list[Down]:
    """The interfaces without a link that a second rail fails by: their subnet would reach every node."""
    found = []
    for down in downs:
        for subnet in {str(ipaddress.IPv4Interface(address).network) for address in down.addresses} - {rail.subnet}:
            there = {end.host for end in ends if str(end.network) == subnet}
            there |= {
                other.host
                for other in downs
                if subnet in {str(ipaddress.IPv4Interface(address).network) for address in other.addresses}
            }
            if there == set(hosts):
                found.append(down)
    return found


def _no_rail(hosts: list[str], ends: list[End], ring: bool) -> Problem:
    if ring:
        return Problem(
            f"The {len(hosts)} nodes form a ring: each subnet joins two neighbours only ({show(hosts, ends)})",
            "subnets that reach every node",
            "connect the nodes through a switch.",
            "error",
            "ring",
            hosts,
        )
    places = "; ".join(
        f"on {end.host} {end.member.netplan}" for end in {end.host: end for end in reversed(ends)}.values()
    )
    return Problem(
        f"No subnet has exactly one interface of every node. Seen: {show(hosts, ends)}",
        "the same subnet on the cabled port of each node",
        f"correct the addresses ({places}) or the cables.",
        "error",
        "no-common-subnet",
        hosts,
    )


def pair_rails(nodes: Mapping[str, Mapping[str, Any]]) -> Pairing:
    """Find the rails that join all nodes. nodes maps a host to its ansible_facts.gb10.fabric, in rank order."""
    hosts = list(nodes)
    downs: list[Down] = []
    ends = [end for host in hosts for end in _ends(host, nodes[host], downs)]
    problems = checks.check_down(downs) + checks.check_no_host(ends)
    ends = [end for end in ends if not checks.is_no_host(end)]
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
    dark = {down.host for down in downs}
    problems += [_no_link(host, downs) if host in dark else _no_address(host, nodes[host]) for host in bare]
    topology = "none"
    if rails:
        topology = "pair" if len(hosts) == 2 else "switch"
        if len(rails) == 1:
            problems.append(_one_rail(hosts, rails[0], ends, downs))
    elif not bare:
        topology = "ring" if checks.is_ring(hosts, ends) else "none"
        problems.append(_no_rail(hosts, ends, topology == "ring"))
    return Pairing(rails, problems, topology)
