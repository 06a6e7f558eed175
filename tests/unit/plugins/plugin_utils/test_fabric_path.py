# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""What the nodes saw of each other, and the one line that has to come out of it."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from ansible_collections.gb10.serving.plugins.plugin_utils._fabric_path import judge_paths

HOSTS = ("a", "b")
NETDEVS = ("enp1s0f0np0", "enP2p1s0f0np0")
RAILS = [
    {
        "subnet": f"10.7.{rail}.0/24",
        "members": {host: {"netdev": NETDEVS[rail], "address": address(host, rail)} for host in HOSTS},
    }
    for rail in (0, 1)
    for address in [lambda host, rail: f"10.7.{rail}.{HOSTS.index(host) + 1}"]
]


def mac(host: str, rail: int) -> str:
    return f"02:00:00:00:0{HOSTS.index(host)}:0{rail}"


def healthy() -> dict[str, Any]:
    looks: dict[str, Any] = {}
    for host, other in (HOSTS, HOSTS[::-1]):
        own = {rail: RAILS[rail]["members"][host] for rail in (0, 1)}  # type: ignore[index]
        looks[host] = {
            "boot_id": "1",
            "rails": [
                {
                    "number": rail,
                    **own[rail],
                    "exists": True,
                    "up": True,
                    "enabled": True,
                    "state": "up",
                    "mtu": 9000,
                    "mac": mac(host, rail),
                    "address_on": own[rail]["netdev"],
                }
                for rail in (0, 1)
            ],
            "paths": [
                {
                    "host": other,
                    "number": rail,
                    "peer": RAILS[rail]["members"][other]["address"],  # type: ignore[index]
                    "source": own[rail]["address"],
                    "echo": "ok",
                    "tcp": "closed",
                    "large": "ok",
                    "packet": 9000,
                    "neighbour": mac(other, rail),
                }
                for rail in (0, 1)
            ],
        }
    return looks


SILENT = {"echo": "no answer", "tcp": "no answer", "large": None}
DOWN = {"up": False, "state": "down"}
#: Changes to ends and paths as (host, rail, values), the expected (code, level, rail), and words of the message.
CASES: dict[str, tuple[list[Any], list[Any], list[tuple[str, str, int]], list[str]]] = {
    "healthy": ([], [], [], []),
    "open port": ([], [("a", 0, {"tcp": "open"})], [], []),
    "set down": (
        [("b", 1, {**DOWN, "enabled": False})],
        [("a", 1, SILENT), ("b", 1, dict.fromkeys(SILENT))],
        [("down", "error", 1)],
        ["b: rail 1", "enP2p1s0f0np0 is set down", "ip link set dev enP2p1s0f0np0 up"],
    ),
    "no link": ([("b", 1, DOWN)], [], [("down", "error", 1)], ["b: rail 1", "no link", "cable"]),
    "interface gone": ([("a", 0, {"exists": False})], [], [("missing", "error", 0)], ["a: rail 0", "mlx5"]),
    "MTU on one side": (
        [("b", 0, {"mtu": 1500})],
        [("a", 0, {"large": "no answer"}), ("b", 0, {"packet": 1500})],
        [("mtu", "error", 0)],
        ["b: rail 0", "a enp1s0f0np0 has 9000", "b enp1s0f0np0 has 1500", "mtu 9000"],
    ),
    "MTU of the switch": (
        [],
        [("a", 1, {"large": "no answer"}), ("b", 1, {"large": "no answer"})],
        [("mtu", "error", 1)],
        ["a and b", "small packets pass", "switch", "ping -M do -s 8972 10.7.1.2"],
    ),
    "addresses swapped": (
        [("b", 0, {"address_on": NETDEVS[1]}), ("b", 1, {"address_on": NETDEVS[0]})],
        [("a", 0, SILENT), ("a", 1, SILENT)],
        [("swapped", "error", 0), ("swapped", "error", 1)],
        ["b: rail 0", "swapped", "10.7.0.2 on enp1s0f0np0", "netplan"],
    ),
    "cables crossed": (
        [],
        [("a", 0, {**SILENT, "neighbour": mac("b", 1)}), ("a", 1, {**SILENT, "neighbour": mac("b", 0)})],
        [("swapped", "error", 0), ("swapped", "error", 1)],
        ["a and b", "10.7.0.2 answers on enP2p1s0f0np0 of b", "cables"],
    ),
    "address moved": ([("b", 0, {"address_on": "wlan0"})], [], [("address", "error", 0)], ["b: rail 0", "on wlan0"]),
    "no address": ([("b", 0, {"address_on": None})], [], [("address", "error", 0)], ["b: rail 0", "no interface"]),
    "firewall drops": (
        [],
        [("a", 0, SILENT), ("b", 0, SILENT)],
        [("firewalled", "error", 0)],
        ["a and b", "answers ARP", "firewall drops", "enp1s0f0np0", "iptables"],
    ),
    "firewall drops TCP only": (
        [],
        [("a", 0, {"tcp": "no answer"})],
        [("firewalled", "error", 0)],
        ["answers ping", "TCP from a"],
    ),
    "firewall refuses": (
        [],
        [("a", 0, {"tcp": "refused"}), ("b", 0, {"tcp": "no answer"})],
        [("firewalled", "error", 0)],
        ["b: rail 0", "refuses TCP from a to 10.7.0.2"],
    ),
    "firewall refuses on the way out": (
        [],
        [("a", 0, {"echo": "refused here", "tcp": "no answer", "large": None})],
        [("firewalled", "error", 0)],
        ["a: rail 0", "refuses everything"],
    ),
    "nothing there": (
        [],
        [("a", 1, {**SILENT, "neighbour": None}), ("b", 1, {**SILENT, "neighbour": None})],
        [("no path", "error", 1)],
        ["a and b", "not even ARP", "VLAN"],
    ),
    "routed elsewhere": (
        [],
        [("a", 0, {"source": "10.0.0.21"})],
        [("route", "error", 0)],
        ["a: rail 0", "sends from 10.0.0.21", "ip route get 10.7.0.2"],
    ),
    "ping filtered": (
        [],
        [("a", 0, {"echo": "no answer", "large": None})],
        [("unproven", "warning", 0)],
        ["ping no answer, TCP closed"],
    ),
    "not asked": (
        [],
        [(host, 0, dict.fromkeys(SILENT)) for host in HOSTS],
        [("untested", "warning", 0)],
        ["no test was made"],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_case(name: str) -> None:
    ends, paths, codes, words = CASES[name]
    looks = copy.deepcopy(healthy())
    for kind, changes in (("rails", ends), ("paths", paths)):
        for host, rail, values in changes:
            looks[host][kind][rail].update(values)
    found = judge_paths(RAILS, looks)
    assert [(item.code, item.level, item.rail) for item in found] == codes
    message = " ".join(str(item) for item in found)
    assert [word for word in words if word not in message] == [], message
    assert all("Next step: " in str(item) and "Expected: " in str(item) for item in found)
