# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
# Private to this collection: no stability promised.
"""From what each node saw of its rails and its peers to what is wrong with the fabric. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

from ._fabric_types import Finding
from ._problems import Problem

#: TCP got an answer from the peer's kernel.
TCP_PASSES = ("open", "closed")

#: What state=reached of fabric_test returned, by host.
Looks = Mapping[str, Mapping[str, Any]]
Rails = Sequence[Mapping[str, Any]]


def judge_paths(rails: Rails, looks: Looks) -> list[Finding]:
    """Everything that is wrong, each thing once: first the ends, then the MTU, then the ways between sound ends."""
    findings: list[Finding] = []
    for number, rail in enumerate(rails):
        ends = {host: end for host in rail["members"] if (end := _end(looks.get(host, {}), number))}
        broken = {}
        for host, end in ends.items():
            if finding := _judge_end(host, number, end, rails):
                broken[host] = finding
        findings += broken.values()
        sound = {host: end for host, end in ends.items() if host not in broken}
        mtu = _judge_mtu(number, sound, rails)
        findings += [mtu] if mtu else []
        for one, two in combinations(sound, 2):
            ways = [(one, two, _way(looks[one], two, number)), (two, one, _way(looks[two], one, number))]
            if finding := _judge_ways(number, ways, looks, mtu is not None, rails):
                findings.append(finding)
    return findings


def _netplan(rails: Rails, number: int, host: str) -> str:
    """Where the address of this end is set, in words."""
    member = rails[number]["members"][host]
    return str(member.get("netplan") or f"the netplan file that configures {member['netdev']}")


def _end(look: Mapping[str, Any], number: int) -> Mapping[str, Any] | None:
    return next((end for end in look.get("rails") or [] if end["number"] == number), None)


def _way(look: Mapping[str, Any], peer: str, number: int) -> Mapping[str, Any]:
    return next((way for way in look.get("paths") or [] if way["host"] == peer and way["number"] == number), {})


def _error(code: str, rail: int, where: str, seen: str, expected: str, remedy: str, level: str = "error") -> Finding:
    return Finding(code, level, rail, Problem(where, seen, expected, remedy))


def _judge_end(host: str, number: int, end: Mapping[str, Any], rails: Rails) -> Finding | None:
    netdev, address, found = end["netdev"], end["address"], end["address_on"]
    if not end["exists"]:
        return _error(
            "missing",
            number,
            host,
            f"rail {number}: the interface {netdev} is gone.",
            f"{netdev} with {address}, as it was found at the start of this run.",
            f"look at 'ip -br link' and 'dmesg | grep mlx5' on {host}; a removed cable can take the NIC off the bus. "
            "Put the cable in and reboot.",
        )
    if not end["up"]:
        seen, remedy = f"{netdev} is set down.", f"run 'sudo ip link set dev {netdev} up' on {host}."
        if end["enabled"]:
            seen, remedy = f"{netdev} has no link.", "check the cable, and whether the other end is up."
        return _error("down", number, host, f"rail {number}: {seen}", "an interface that is up, with a link.", remedy)
    if found == netdev:
        return None
    others = [item for item, rail in enumerate(rails) if rail["members"][host]["netdev"] == found]
    if found and others:
        return _error(
            "swapped",
            number,
            host,
            f"rail {number}: its address {address} is on {found}, the interface of rail {others[0]}: the subnets are "
            "swapped.",
            f"{address} on {netdev}.",
            f"swap the addresses of {netdev} and {found} in {_netplan(rails, number, host)} on {host}, run "
            "'sudo netplan apply', then this again.",
        )
    return _error(
        "address",
        number,
        host,
        f"rail {number}: its address {address} is {'on ' + found if found else 'on no interface'}.",
        f"{address} on {netdev}.",
        f"correct {_netplan(rails, number, host)} on {host} and run 'sudo netplan apply'.",
    )


def _judge_mtu(number: int, ends: Mapping[str, Mapping[str, Any]], rails: Rails) -> Finding | None:
    mtus = {host: end["mtu"] for host, end in ends.items() if end["mtu"]}
    if len(set(mtus.values())) < 2:
        return None
    most = max(mtus.values())
    small = [host for host, mtu in mtus.items() if mtu < most]
    shown = ", ".join(f"{host} {ends[host]['netdev']} has {mtu}" for host, mtu in mtus.items())
    return _error(
        "mtu",
        number,
        " and ".join(small),
        f"rail {number}: the MTUs differ: {shown}. Packets of {most} bytes do not pass.",
        f"MTU {most} on every node.",
        "; ".join(
            f"run 'sudo ip link set dev {ends[host]['netdev']} mtu {most}' on {host}, and set 'mtu: {most}' in "
            f"{_netplan(rails, number, host)} so that it stays"
            for host in small
        )
        + ".",
    )


def _judge_ways(
    number: int, ways: list[tuple[str, str, Mapping[str, Any]]], looks: Looks, mtu_known: bool, rails: Rails
) -> Finding | None:
    """Both directions between two nodes; the first that tells something names it."""
    asked = [way for way in ways if way[2].get("echo") is not None or way[2].get("tcp") is not None]
    if not asked:
        names = " and ".join(way[0] for way in ways)
        return _error(
            "untested",
            number,
            names,
            f"rail {number}: no test was made between them.",
            "packets of every size pass.",
            "run this again; the nodes must both be asked.",
            "warning",
        )
    for one, two, way in asked:
        if finding := _crossed(number, one, two, way, looks, rails):
            return finding
    for judge in (_refused, _silent, _routed, _large, _half_silent):
        for one, two, way in asked:
            if finding := judge(number, one, two, way, looks, mtu_known):
                return finding
    return None


def _crossed(number: int, one: str, two: str, way: Mapping[str, Any], looks: Looks, rails: Rails) -> Finding | None:
    """The peer answered with the hardware address of another of its rails: the wire leads there."""
    mac = way.get("neighbour")
    other = next((end for end in looks[two]["rails"] if mac and end["mac"] == mac and end["number"] != number), None)
    own = _end(looks[two], number)
    if other is None or own is None or own["mac"] == mac:
        return None
    return _error(
        "swapped",
        number,
        f"{one} and {two}",
        f"rail {number}: {way['peer']} answers on {other['netdev']} of {two}, the interface of rail {other['number']}: "
        "cables or subnets are swapped.",
        f"{way['peer']} on the wire that leads to {own['netdev']} of {two}.",
        f"swap the addresses of {own['netdev']} and {other['netdev']} in {_netplan(rails, number, two)} on {two}, or "
        "swap the cables.",
    )


def _firewall(netdevs: str) -> str:
    return (
        "look at 'sudo nft list ruleset', 'sudo iptables -S' and 'sudo ufw status' on both; allow everything that "
        f"comes in on the fabric interfaces ({netdevs}), for example 'sudo ufw allow in on INTERFACE'."
    )


def _netdevs(number: int, hosts: tuple[str, str], looks: Looks) -> str:
    return ", ".join(sorted({str(end["netdev"]) for host in hosts if (end := _end(looks[host], number))}))


def _refused(number: int, one: str, two: str, way: Mapping[str, Any], looks: Looks, _mtu: bool) -> Finding | None:
    answers = (str(way.get("echo")), str(way.get("tcp")))
    if not any(answer.startswith("refused") for answer in answers):
        return None
    what = "everything" if answers[0].startswith("refused") else "TCP"
    return _error(
        "firewalled",
        number,
        one if "refused here" in answers else two,
        f"rail {number}: a firewall refuses {what} from {one} to {way['peer']}.",
        "no filter between the nodes on the fabric.",
        _firewall(_netdevs(number, (one, two), looks)),
    )


def _silent(number: int, one: str, two: str, way: Mapping[str, Any], looks: Looks, _mtu: bool) -> Finding | None:
    if way.get("echo") != "no answer" or way.get("tcp") in TCP_PASSES:
        return None
    if way.get("neighbour"):
        return _error(
            "firewalled",
            number,
            f"{one} and {two}",
            f"rail {number}: {way['peer']} of {two} has a link to {one} and answers ARP, but gives no answer to ping "
            "or TCP: a firewall drops them.",
            "no filter between the nodes on the fabric.",
            _firewall(_netdevs(number, (one, two), looks)),
        )
    return _error(
        "no path",
        number,
        f"{one} and {two}",
        f"rail {number}: nothing at {way['peer']} answers {one} on {_netdevs(number, (one, one), looks)}, not even "
        "ARP.",
        f"{two} on the same wire or switch.",
        "check that the cable joins these two ports, and on a switch that both ports are in one VLAN.",
    )


def _routed(number: int, one: str, two: str, way: Mapping[str, Any], looks: Looks, _mtu: bool) -> Finding | None:
    own = _end(looks[one], number)
    if own is None or way.get("source") in (own["address"], None):
        return None
    return _error(
        "route",
        number,
        one,
        f"rail {number}: its routing table sends from {way['source']} to {way['peer']}, so traffic leaves the rail.",
        f"from {own['address']} on {own['netdev']}.",
        f"look at 'ip route get {way['peer']}' on {one}; two interfaces in one subnet or a foreign route cause this.",
    )


def _large(number: int, one: str, two: str, way: Mapping[str, Any], _looks: Looks, mtu_known: bool) -> Finding | None:
    if mtu_known or way.get("large") not in ("no answer", "too big", "refused"):
        return None
    return _error(
        "mtu",
        number,
        f"{one} and {two}",
        f"rail {number}: small packets pass, but no packets of {way['packet']} bytes, though both ends have that MTU.",
        f"packets of {way['packet']} bytes pass unfragmented.",
        f"raise the MTU of the switch ports between them, or try 'ping -M do -s {way['packet'] - 28} {way['peer']}' on "
        f"{one} and set both ends to what passes.",
    )


def _half_silent(number: int, one: str, two: str, way: Mapping[str, Any], looks: Looks, _mtu: bool) -> Finding | None:
    echo, tcp = str(way.get("echo")), str(way.get("tcp"))
    if echo == "ok" and tcp == "no answer":
        return _error(
            "firewalled",
            number,
            f"{one} and {two}",
            f"rail {number}: {way['peer']} answers ping but gives no answer to TCP from {one}: a firewall drops it.",
            "no filter between the nodes on the fabric.",
            _firewall(_netdevs(number, (one, two), looks)),
        )
    if echo != "ok" or tcp not in TCP_PASSES:
        return _error(
            "unproven",
            number,
            f"{one} and {two}",
            f"rail {number}: not everything could be asked from {one} to {way['peer']}: ping {echo}, TCP {tcp}.",
            "an answer to both, so that path and MTU are proven.",
            "allow ICMP between the nodes on the fabric, and run the test as root.",
            "warning",
        )
    return None
