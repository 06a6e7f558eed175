# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
from __future__ import annotations

from typing import Any

from ansible_collections.gb10.serving.plugins.action.fabric_test import own_rails, peers_of

RAILS: list[dict[str, Any]] = [
    {
        "subnet": f"10.7.{rail}.0/24",
        "members": {
            host: {
                "netdev": f"e{rail}",
                "hca": f"r{rail}",
                "address": f"10.7.{rail}.{last}",
                "gid_index": last,
                "mtu": 9,
            }
            for host, last in (("a", 1), ("b", 2), ("c", 3))
        },
    }
    for rail in (0, 1)
]


def test_own_ends_are_this_hosts_own() -> None:
    assert own_rails(RAILS, "b") == [
        {"number": 0, "netdev": "e0", "address": "10.7.0.2", "hca": "r0", "gid_index": 2},
        {"number": 1, "netdev": "e1", "address": "10.7.1.2", "hca": "r1", "gid_index": 2},
    ]
    assert own_rails(RAILS, "elsewhere") == []


def test_peers_are_all_others() -> None:
    peers = peers_of(RAILS, "b", ["a", "b", "c"])
    assert [peer["host"] for peer in peers] == ["a", "c"]
    assert peers[1]["rails"] == [{"number": 0, "address": "10.7.0.3"}, {"number": 1, "address": "10.7.1.3"}]
