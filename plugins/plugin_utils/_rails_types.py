# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""Private: the values that the search for rails works with."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import asdict, dataclass, field
from typing import Any


class Problem(str):
    """One problem in words. level is "error" (cannot deploy) or "warning"; code names its kind."""

    __slots__ = ("code", "hosts", "level")

    level: str
    code: str
    hosts: list[str]

    def __new__(cls, message: str, level: str, code: str, hosts: list[str]) -> Problem:
        self = super().__new__(cls, message)
        self.level, self.code, self.hosts = level, code, hosts
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
