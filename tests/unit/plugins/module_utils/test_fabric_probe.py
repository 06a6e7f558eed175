# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
from __future__ import annotations

import socket
import struct

import pytest

from ansible_collections.gb10.serving.plugins.module_utils import _fabric_probe as probe

ARP = """IP address       HW type     Flags       HW address            Mask     Device
10.7.0.2         0x1         0x2         4C:BB:47:00:00:05     *        enp1s0f0np0
10.7.0.2         0x1         0x2         4c:bb:47:00:00:06     *        enP2p1s0f0np0
10.7.0.3         0x1         0x0         00:00:00:00:00:00     *        enp1s0f0np0
"""


@pytest.mark.parametrize(
    ("address", "netdev", "mac"),
    [
        ("10.7.0.2", "enp1s0f0np0", "4c:bb:47:00:00:05"),
        ("10.7.0.2", "enP2p1s0f0np0", "4c:bb:47:00:00:06"),
        ("10.7.0.3", "enp1s0f0np0", None),
        ("10.7.0.9", "enp1s0f0np0", None),
    ],
)
def test_neighbour(address: str, netdev: str, mac: str | None) -> None:
    assert probe.neighbour(ARP, address, netdev) == mac


def test_no_table_no_neighbour() -> None:
    assert probe.neighbour("", "10.7.0.2", "enp1s0f0np0") is None


@pytest.mark.parametrize("size", [0, 1, 56, 8972])
def test_an_echo_request_has_its_size_and_a_valid_checksum(size: int) -> None:
    packet = probe.echo_request(0xABCD, 2, size)
    assert len(packet) == size + 8
    assert struct.unpack("!BBHHH", packet[:8])[3:] == (0xABCD, 2)
    assert probe.checksum(packet) == 0


def test_loopback_end() -> None:
    end = probe.local_rail({"number": 0, "netdev": "lo", "address": "127.0.0.1"})
    assert (end["exists"], end["address_on"], end["enabled"]) == (True, "lo", True)
    gone = probe.local_rail({"number": 1, "netdev": "gb10-none", "address": "192.0.2.77"})
    assert (gone["exists"], gone["up"], gone["mtu"], gone["address_on"]) == (False, False, None, None)


def test_tcp_tells_a_closed_port_from_an_open_one() -> None:
    rail = {"number": 0, "netdev": "lo", "address": "127.0.0.1"}
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert probe.tcp(rail, "127.0.0.1", port) == "open"
    assert probe.tcp(rail, "127.0.0.1", port) == "closed"


def test_an_address_that_is_not_here_is_unknown_not_a_path() -> None:
    answer = probe.tcp({"number": 0, "netdev": "lo", "address": "192.0.2.77"}, "127.0.0.1", 9)
    assert answer.startswith("unknown")
