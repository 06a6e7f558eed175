# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""Private: the values that the search for rails works with."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from ansible_collections.gb10.serving.plugins.module_utils._facts_fabric_remedy import (
    down_words,
    is_set_down,
    netdev_of,
)


class Problem(str):
    """One problem in words: what was seen, what was expected, what to do next.

    level is "error" (cannot deploy) or "warning"; code names its kind. netdevs are the interfaces that it is about, as
    (host, interface), and rail is the number of the one that it is about, if it is about one.
    """

    __slots__ = ("code", "expected", "hosts", "level", "netdevs", "rail", "remedy", "seen")

    level: str
    code: str
    hosts: list[str]
    seen: str
    expected: str
    remedy: str
    netdevs: list[tuple[str, str]]
    rail: int | None

    def __new__(
        cls,
        seen: str,
        expected: str,
        remedy: str,
        level: str,
        code: str,
        hosts: list[str],
        netdevs: Iterable[tuple[str, str]] = (),
        rail: int | None = None,
    ) -> Problem:
        self = super().__new__(cls, f"{seen}. Expected: {expected}. Next step: {remedy}")
        self.seen, self.expected, self.remedy = seen, expected, remedy
        self.level, self.code, self.hosts = level, code, hosts
        self.netdevs, self.rail = list(netdevs), rail
        return self

    def as_dict(self) -> dict[str, Any]:
        return {"level": self.level, "code": self.code, "hosts": list(self.hosts), "message": str(self)}


@dataclass(frozen=True)
class Member:
    """One node's end of a rail. address has no prefix length."""

    netdev: str
    hca: str
    address: str
    gid_index: int | None
    mtu: int | None
    #: where its address is set, in words
    netplan: str = ""


@dataclass(frozen=True)
class Rail:
    """A subnet in which every node has exactly one address."""

    subnet: str
    members: dict[str, Member]


@dataclass
class Pairing:
    """The rails, rail 0 first, what is wrong, and the topology: single, pair, switch, ring or none."""

    rails: list[Rail] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    topology: str = "none"

    @property
    def errors(self) -> list[Problem]:
        return [problem for problem in self.problems if problem.level == "error"]

    def as_dict(self) -> dict[str, Any]:
        """Plain values for an Ansible result."""
        return {
            "rails": [asdict(rail) for rail in self.rails],
            "problems": [problem.as_dict() for problem in self.problems],
            "topology": self.topology,
            "deployable": not self.errors,
        }


@dataclass(frozen=True)
class Down:
    """An interface that has addresses and carries nothing."""

    host: str
    hca: Mapping[str, Any]
    addresses: list[str]

    @property
    def netdev(self) -> str:
        return netdev_of(self.hca)

    @property
    def shown(self) -> str:
        return f"{self.netdev} ({', '.join(self.addresses)}) {down_words(self.hca)}"


def down_step(downs: Sequence[Down]) -> str:
    """What to do about these interfaces, host by host; what was set down comes first, for it may be the cause."""
    hosts = list(dict.fromkeys(down.host for down in downs))
    switched = [down for down in downs if is_set_down(down.hca)]
    words = [
        "on " + host + ", " + ", ".join(f"'sudo ip link set dev {down.netdev} up'" for down in mine)
        for host in hosts
        if (mine := [down for down in switched if down.host == host])
    ]
    if len(switched) < len(downs):
        rest = ", ".join(f"{down.netdev} on {down.host}" for down in downs if not is_set_down(down.hca))
        words.append(f"{'then ' if words else ''}check the cable and the other end of {rest}")
    return "; ".join(words) + ", then run this again."


@dataclass(frozen=True)
class End:
    """One address of one interface of one node."""

    host: str
    network: ipaddress.IPv4Network
    member: Member
    primary: bool

    @property
    def shown(self) -> str:
        return f"{self.member.netdev} {self.member.address}/{self.network.prefixlen}"


def rail_order(netdev: str, network: ipaddress.IPv4Network) -> tuple[int, ipaddress.IPv4Network, str]:
    """enp1... (PCI domain 0) before enP2p1... (domain 2), then by subnet."""
    match = re.match(r"^[a-z]+P(\d+)p", netdev)
    return (int(match.group(1)) if match else 0), network, netdev


def show(hosts: list[str], ends: list[End]) -> str:
    """The addresses of each host in words."""
    words = []
    for host in hosts:
        mine = [end.shown for end in ends if end.host == host]
        words.append(f"{host} {', '.join(mine) or 'has none'}")
    return "; ".join(words)
