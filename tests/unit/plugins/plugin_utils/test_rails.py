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
    assert found.rails[1].members["b"] == Member(
        "enP2p1s0f0np0", "roceP2p1s0f0", "10.7.2.2", 3, 9000, found.rails[1].members["b"].netplan
    )


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


def test_every_problem_says_what_was_expected_and_the_next_step() -> None:
    for nodes, _codes, _words in CASES.values():
        for problem in pair_rails(nodes).problems:
            assert ". Expected: " in problem and ". Next step: " in problem and problem.endswith(".")
            assert str(problem) == f"{problem.seen}. Expected: {problem.expected}. Next step: {problem.remedy}"


def test_an_interface_that_is_set_down_is_the_cause_and_its_name_is_in_the_remedy() -> None:
    off = {"netdev_up": False, "netdev_enabled": False}
    problems = {
        item.code: item
        for item in pair_rails({"a": PAIR["a"], "b": node("10.7.1.2/24", "10.7.2.2/24", **off)}).problems
    }
    step = "on b, 'sudo ip link set dev enP2p1s0f0np0 up', then run this again."
    assert problems["link-down"].remedy == problems["one-rail"].remedy == step
    assert "Cause: on b enP2p1s0f0np0 (10.7.2.2/24) is set down" in problems["one-rail"]
    assert "has none" not in problems["one-rail"] and "cable" not in step


def test_an_interface_without_a_carrier_is_about_the_cable() -> None:
    off = {"netdev_up": False, "netdev_enabled": True}
    (_down, one) = pair_rails({"a": PAIR["a"], "b": node("10.7.1.2/24", "10.7.2.2/24", **off)}).problems
    assert "has no carrier" in one and "check the cable" in one.remedy and "ip link set" not in one


def test_a_link_that_is_down_elsewhere_is_not_the_cause() -> None:
    spare = hca("enp1s0f1np1", "10.99.1.1/24", netdev_up=False, netdev_enabled=False)
    nodes = {"a": {"hcas": [*node("10.7.1.1/24", None)["hcas"], spare]}, "b": node("10.7.1.2/24", None)}
    found = {item.code: item for item in pair_rails(nodes).problems}
    assert "Cause" not in found["one-rail"] and "give the port's other interface" in found["one-rail"].remedy


def test_addresses_without_any_link_are_not_missing_addresses() -> None:
    off = {"netdev_up": False, "netdev_enabled": False}
    dark = {"hcas": [hca("enp1s0f0np0", "10.7.1.2/24", **off), hca("enP2p1s0f0np0", "10.7.2.2/24", **off)]}
    # the other end of a cable loses its carrier with it
    lost = {"netdev_up": False, "netdev_enabled": True}
    other = {"hcas": [hca("enp1s0f0np0", "10.7.1.1/24", **lost), hca("enP2p1s0f0np0", "10.7.2.1/24", **lost)]}
    for first, hosts in ((PAIR["a"], ["b"]), (other, ["a", "b"])):
        errors = pair_rails({"a": first, "b": dark}).errors
        assert [(item.code, item.hosts) for item in errors] == [("no-fabric-link", [host]) for host in hosts]
        for item in errors:
            assert "on b, 'sudo ip link set dev enp1s0f0np0 up', 'sudo ip link set dev enP2p1s0f0np0 up'" in item.remedy
        assert "cable" not in errors[-1].remedy


@pytest.mark.parametrize(
    ("known", "place"),
    [
        ({"netplan_file": "/etc/netplan/50-mine.yaml", "netplan_known": True}, "/etc/netplan/50-mine.yaml"),
        ({"netplan_file": None, "netplan_known": True}, "/etc/netplan/60-gb10-fabric.yaml (playbook configure_fabric"),
        ({}, "the netplan file that configures enp1s0f0np0 and enP2p1s0f0np0"),
    ],
)
def test_the_file_to_change_is_the_one_that_is_there(known: dict[str, Any], place: str) -> None:
    bare = {"hcas": [hca("enp1s0f0np0", None, **known), hca("enP2p1s0f0np0", None, **known)]}
    (problem,) = pair_rails({"a": PAIR["a"], "b": bare}).errors
    assert f"set them on b in {place}" in problem.remedy


def test_plain_values() -> None:
    plain = pair_rails(CASES["mtu"][0]).as_dict()
    assert json.loads(json.dumps(plain)) == plain
    assert plain["rails"][0]["members"]["a"]["address"] == "10.7.1.1"
    assert plain["problems"][0]["hosts"] == ["a", "b"]


def bare(**extra: Any) -> Fabric:
    """A node whose two interfaces have no address."""
    return {"hcas": [hca("enp1s0f0np0", None, **extra), hca("enP2p1s0f0np0", None, **extra)]}


NO_ADDRESS: dict[str, tuple[Fabric, str, str]] = {
    # fabric of b, code, words of the remedy
    "no NIC": (
        {"hcas": [], "verdict": "no-nic", "reason": "no ConnectX NIC is on PCI. Power the node off, plug the cable in"},
        "no-fabric-address",
        "power the node off, plug the cable in",
    ),
    "ports down": (bare(state="DOWN"), "no-fabric-link", "plug the cable in at both ends"),
    "set down": (bare(state="DOWN", netdev_enabled=False), "no-fabric-link", "ip link set dev"),
    "addresses unknown": (bare(ipv4_known=False), "addresses-unknown", "run the probe on b itself"),
    "nothing read": (
        {"hcas": [], "verdict": None, "reason": "nothing"},
        "addresses-unknown",
        "run the probe on b itself",
    ),
    "none set": (bare(ipv4_known=True), "no-fabric-address", "set them on b in"),
}


@pytest.mark.parametrize("name", NO_ADDRESS)
def test_the_remedy_for_a_node_without_a_rail_fits_its_cause(name: str) -> None:
    fabric, code, words = NO_ADDRESS[name]
    (problem,) = pair_rails({"a": PAIR["a"], "b": fabric}).errors
    assert (problem.code, problem.hosts) == (code, ["b"])
    assert words in problem.remedy
    assert ("netplan" in problem.remedy) == (name == "none set")


def test_a_bond_is_one_end_with_the_name_of_the_bond() -> None:
    bond = {"address_netdev": "bond0", "bonded": True}
    found = pair_rails({"a": node("10.7.1.1/24", "10.7.1.1/24"), "b": PAIR["b"]})
    assert any(problem.code == "duplicate-address" for problem in found.problems)
    fabric = {"hcas": [hca("enP2p1s0f0np0", "10.7.1.1/24", **bond), hca("enp1s0f0np0", "10.7.1.1/24", **bond)]}
    found = pair_rails({"a": fabric, "b": PAIR["b"]})
    assert [problem.code for problem in found.problems] == ["one-rail"]
    assert found.rails[0].members["a"].netdev == "bond0"


@pytest.mark.parametrize(
    ("address", "kind"),
    [("10.7.1.0/24", "network"), ("10.7.1.255/24", "broadcast"), ("10.7.1.3/30", "broadcast"), ("10.7.1.0/31", None)],
)
def test_an_address_that_no_host_can_have_is_no_end(address: str, kind: str | None) -> None:
    found = pair_rails({"a": node(address, "10.7.2.1/24"), "b": PAIR["b"]})
    told = [problem for problem in found.errors if problem.code == "no-host-address"]
    assert [f"{kind} address of its subnet" in problem.seen for problem in told] == ([True] if kind else [])
    assert not kind or [rail.subnet for rail in found.rails] == ["10.7.2.0/24"]
