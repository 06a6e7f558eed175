# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""Rails are found by subnet; every problem names hosts and addresses."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ansible_collections.gb10.serving.plugins.plugin_utils._rails import Member, pair_rails

Fabric = dict[str, Any]


def hca(netdev: str, ipv4: str | None, **extra: Any) -> dict[str, Any]:
    name = netdev.replace("en", "roce", 1).rsplit("np", 1)[0]
    return {
        "name": name,
        "netdev": netdev,
        "state": "ACTIVE",
        "netdev_mtu": 9000,
        "ipv4": ipv4,
        "gid_index": 3 if ipv4 else None,
        **extra,
    }


def node(first: str | None, second: str | None, port: int = 0, **extra: Any) -> Fabric:
    """A node with the two interfaces of one cabled port."""
    return {"hcas": [hca(f"enP2p1s0f{port}np{port}", second, **extra), hca(f"enp1s0f{port}np{port}", first)]}


def codes(nodes: dict[str, Fabric]) -> list[tuple[str, str]]:
    return sorted((problem.code, problem.level) for problem in pair_rails(nodes).problems)


PAIR = {"a": node("10.7.1.1/24", "10.7.2.1/24"), "b": node("10.7.1.2/24", "10.7.2.2/24")}


def test_a_pair() -> None:
    found = pair_rails(PAIR)
    assert (found.problems, found.topology) == ([], "pair")
    assert [rail.subnet for rail in found.rails] == ["10.7.1.0/24", "10.7.2.0/24"]
    assert list(found.rails[0].members) == ["a", "b"]
    assert found.rails[1].members["b"] == Member("enP2p1s0f0np0", "roceP2p1s0f0", "10.7.2.2", 3, 9000)


def test_rail_0_is_the_one_on_the_first_pci_domain_even_with_the_higher_subnet() -> None:
    found = pair_rails({"a": node("10.9.1.1/24", "10.7.2.1/24"), "b": node("10.9.1.2/24", "10.7.2.2/24")})
    assert [rail.subnet for rail in found.rails] == ["10.9.1.0/24", "10.7.2.0/24"]


def test_port_numbers_may_differ_at_the_two_ends_and_gids_too() -> None:
    other = node("10.7.1.2/24", "10.7.2.2/24", port=1, gid_index=5)
    found = pair_rails({"a": PAIR["a"], "b": other})
    assert [rail.members["b"].netdev for rail in found.rails] == ["enp1s0f1np1", "enP2p1s0f1np1"]
    assert [found.rails[1].members[host].gid_index for host in ("a", "b")] == [3, 5]
    assert found.problems == []


def test_four_nodes_on_a_switch() -> None:
    found = pair_rails({f"n{i}": node(f"10.7.1.{i}/24", f"10.7.2.{i}/24") for i in range(1, 5)})
    assert (found.topology, len(found.rails), found.problems) == ("switch", 2, [])


@pytest.mark.parametrize("length", ["/30", "/31"])
def test_small_subnets(length: str) -> None:
    found = pair_rails(
        {"a": node(f"10.7.1.2{length}", f"10.7.2.2{length}"), "b": node(f"10.7.1.3{length}", f"10.7.2.3{length}")}
    )
    assert len(found.rails) == 2 or length == "/30"


def test_a_ring_is_recognised_and_refused() -> None:
    found = pair_rails(
        {
            "a": {"hcas": [hca("enp1s0f0np0", "10.0.0.1/24"), hca("enp1s0f1np1", "10.0.2.2/24")]},
            "b": {"hcas": [hca("enp1s0f0np0", "10.0.1.1/24"), hca("enp1s0f1np1", "10.0.0.2/24")]},
            "c": {"hcas": [hca("enp1s0f0np0", "10.0.2.1/24"), hca("enp1s0f1np1", "10.0.1.2/24")]},
        }
    )
    assert (found.topology, found.rails) == ("ring", [])
    assert [(problem.code, problem.level) for problem in found.problems] == [("ring", "error")]


CASES: dict[str, tuple[dict[str, Fabric], list[tuple[str, str]], list[str]]] = {
    "no address": ({"a": PAIR["a"], "b": node(None, None)}, [("no-fabric-address", "error")], ["on b", "enp1s0f0np0"]),
    "no device": (
        {"a": PAIR["a"], "b": {"hcas": [], "reason": "no ConnectX NIC is on PCI"}},
        [("no-fabric-address", "error")],
        ["on b", "no ConnectX NIC"],
    ),
    "one rail": (
        {"a": PAIR["a"], "b": node("10.7.1.2/24", None)},
        [("one-rail", "warning")],
        ["10.7.1.0/24", "a 10.7.1.1", "b 10.7.1.2", "10.7.2.1/24"],
    ),
    "swapped subnet": (
        {"a": PAIR["a"], "b": node("10.7.1.2/24", "10.7.9.2/24")},
        [("one-rail", "warning")],
        ["a enP2p1s0f0np0 10.7.2.1/24", "b enP2p1s0f0np0 10.7.9.2/24"],
    ),
    "nothing in common": (
        {"a": PAIR["a"], "b": node("10.8.1.2/24", "10.8.2.2/24")},
        [("no-common-subnet", "error")],
        ["a ", "10.7.1.1/24", "b ", "10.8.2.2/24"],
    ),
    "twins in one subnet": (
        {"a": node("10.7.1.1/24", "10.7.1.3/24"), "b": node("10.7.1.2/24", "10.7.1.4/24")},
        [("no-common-subnet", "error"), ("twins-in-one-subnet", "error"), ("twins-in-one-subnet", "error")],
        ["a has two interfaces", "10.7.1.1/24", "10.7.1.3/24"],
    ),
    "duplicate": (
        {"a": PAIR["a"], "b": node("10.7.1.1/24", "10.7.2.2/24")},
        [("duplicate-address", "error")],
        ["10.7.1.1", "a (enp1s0f0np0)", "b (enp1s0f0np0)"],
    ),
    "mtu": (
        {"a": PAIR["a"], "b": node("10.7.1.2/24", "10.7.2.2/24", netdev_mtu=1500)},
        [("mtu-differs", "warning")],
        ["a enP2p1s0f0np0 has 9000", "b enP2p1s0f0np0 has 1500"],
    ),
    "no gid": (
        {"a": PAIR["a"], "b": node("10.7.1.2/24", "10.7.2.2/24", gid_index=None)},
        [("no-roce-gid", "warning")],
        ["b: roceP2p1s0f0", "10.7.2.2"],
    ),
    "link down": (
        {"a": PAIR["a"], "b": node("10.7.1.2/24", "10.7.2.2/24", state="DOWN")},
        [("link-down", "warning"), ("one-rail", "warning")],
        ["b: enP2p1s0f0np0", "10.7.2.2/24", "DOWN"],
    ),
    "no carrier": (
        {"a": PAIR["a"], "b": node("10.7.1.2/24", "10.7.2.2/24", netdev_up=False)},
        [("link-down", "warning"), ("one-rail", "warning")],
        ["b: enP2p1s0f0np0", "no carrier"],
    ),
    "prefix": (
        {"a": PAIR["a"], "b": node("10.7.1.2/25", "10.7.2.2/24")},
        [("one-rail", "warning"), ("prefix-differs", "error")],
        ["10.7.1.1/24", "10.7.1.2/25"],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_problems(name: str) -> None:
    nodes, expected, words = CASES[name]
    assert codes(nodes) == expected
    text = "\n".join(pair_rails(nodes).problems)
    assert [word for word in words if word not in text] == []
    assert pair_rails(nodes).as_dict()["deployable"] is not any(level == "error" for _code, level in expected)


def test_twins_in_one_subnet_are_a_warning_when_a_rail_is_left() -> None:
    extra = hca("enp1s0f1np1", "10.7.2.9/24")
    nodes = {"a": {"hcas": [*PAIR["a"]["hcas"], extra]}, "b": PAIR["b"]}
    assert ("twins-in-one-subnet", "warning") in codes(nodes)
    assert [rail.subnet for rail in pair_rails(nodes).rails] == ["10.7.1.0/24"]


def test_a_second_address_of_an_interface_can_make_the_match_but_no_second_rail() -> None:
    both = [{"ipv4": "10.7.1.1/24", "gid_index": 3}, {"ipv4": "10.8.1.1/24", "gid_index": 5}]
    nodes = {
        "a": {"hcas": [hca("enp1s0f0np0", "10.7.1.1/24", addresses=both)]},
        "b": {"hcas": [hca("enp1s0f0np0", "10.8.1.2/24")]},
    }
    found = pair_rails(nodes)
    assert [(rail.subnet, rail.members["a"].address, rail.members["a"].gid_index) for rail in found.rails] == [
        ("10.8.1.0/24", "10.8.1.1", 5)
    ]
    same = {
        "a": nodes["a"],
        "b": {
            "hcas": [
                hca(
                    "enp1s0f0np0",
                    "10.7.1.2/24",
                    addresses=[{"ipv4": "10.7.1.2/24", "gid_index": 3}, {"ipv4": "10.8.1.2/24", "gid_index": 4}],
                )
            ]
        },
    }
    assert [rail.subnet for rail in pair_rails(same).rails] == ["10.7.1.0/24"]


def test_one_node_needs_no_fabric() -> None:
    found = pair_rails({"a": node("10.7.1.1/24", "10.7.1.2/24")})
    assert (found.topology, found.errors) == ("single", [])
    assert pair_rails({"a": {"hcas": []}}).problems == []


def test_plain_values() -> None:
    plain = pair_rails(CASES["mtu"][0]).as_dict()
    assert json.loads(json.dumps(plain)) == plain
    assert plain["rails"][0]["members"]["a"]["address"] == "10.7.1.1"
    assert plain["problems"][0]["hosts"] == ["a", "b"]
