# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""What is named of a port: a slow PCIe link, a missing function, a bond, what could not be read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gb10.serving.plugins.module_utils import _facts_fabric_checks as checks
from ansible_collections.gb10.serving.plugins.module_utils._facts import gather
from ansible_collections.gb10.serving.plugins.module_utils._facts_captured import of_one_node
from ansible_collections.gb10.serving.tests.unit.plugins.module_utils.machine_trees import (
    FUNCTIONS,
    function_files,
    mapped,
)

V4 = {"enp1s0f0np0": "10.7.1.5", "enP2p1s0f0np0": "10.7.2.5"}


def ip_json(addresses: dict[str, str], **more: dict[str, Any]) -> str:
    """`ip -j addr` of lo and interfaces."""
    links: list[dict[str, Any]] = [{"ifname": "lo", "flags": ["UP", "LOWER_UP"], "addr_info": []}]
    for name, address in addresses.items():
        infos = [{"family": "inet", "local": address, "prefixlen": 24}] if address else []
        links.append(
            {"ifname": name, "flags": ["UP", "LOWER_UP"], "mtu": 9000, "addr_info": infos, **more.get(name, {})}
        )
    return json.dumps(links)


def cabled(numbers: tuple[int, ...] = (0, 2)) -> dict[str, str]:
    """One cable in port 0; numbers are the functions that are there."""
    files: dict[str, str] = {}
    for number in numbers:
        netdev = FUNCTIONS[number][1]
        files |= function_files(number, True, gids={3: V4[netdev]})
        files[f"sys/bus/pci/devices/{FUNCTIONS[number][2]}/vendor"] = "0x15b3\n"
        files[f"sys/class/infiniband/{FUNCTIONS[number][0]}/board_id"] = "NVD0000000087\n"
    files["commands/ip-j-addr.txt"] = ip_json({FUNCTIONS[number][1]: V4[FUNCTIONS[number][1]] for number in numbers})
    return files


def read(root: Path, files: dict[str, str | None]) -> dict[str, Any]:
    for name, text in files.items():
        if text is not None:
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    return gather(["platform", "fabric"], str(root), [])


BUS, IB, NET = "sys/bus/pci/devices", "sys/class/infiniband", "sys/class/net"
FAR = "0002:01:00.0"
PORTS: dict[str, tuple[dict[str, str | None], list[str], str]] = {
    # what differs from a healthy port, findings, words of the remedy
    "healthy": ({}, ["unmeasured"], "All readings are fine, but"),
    "gen1": ({f"{BUS}/{FAR}/current_link_speed": "2.5 GT/s PCIe"}, ["pcie-degraded"], "enP2p1s0f0np0 runs Gen1 x4"),
    "gen4": ({f"{BUS}/{FAR}/current_link_speed": "16.0 GT/s PCIe"}, ["pcie-degraded"], "enP2p1s0f0np0 runs Gen4 x4"),
    "x2": ({f"{BUS}/{FAR}/current_link_width": "2"}, ["pcie-degraded"], "enP2p1s0f0np0 runs Gen5 x2"),
    "speed alone": (
        {f"{BUS}/{FAR}/current_link_speed": "8.0 GT/s PCIe", f"{BUS}/{FAR}/current_link_width": None},
        ["pcie-degraded"],
        "runs Gen3",
    ),
    "a wide link of an older generation": (
        {f"{BUS}/{FAR}/current_link_speed": "16.0 GT/s PCIe", f"{BUS}/{FAR}/current_link_width": "16"},
        ["unmeasured"],
        "All readings",
    ),
    "no carrier": ({f"{NET}/{name}/carrier": "0" for name in V4}, ["no-link"], "plug the cable in"),
    "InfiniBand": ({f"{IB}/rocep1s0f0/ports/1/link_layer": "InfiniBand"}, ["infiniband"], "as Ethernet"),
    "nothing of PCIe": (
        {f"{BUS}/{pci}/current_link_{what}": None for pci in ("0000:01:00.0", FAR) for what in ("speed", "width")},
        ["unmeasured"],
        "Not read: PCIe link. The rest is fine",
    ),
    "one MTU": (
        {f"{NET}/enP2p1s0f0np0/mtu": None, "commands/ip-j-addr.txt": None},
        ["unmeasured"],
        "MTU of enP2p1s0f0np0",
    ),
}


@pytest.mark.parametrize("name", PORTS)
def test_findings_of_a_port(tmp_path: Path, name: str) -> None:
    changes, findings, words = PORTS[name]
    port = read(tmp_path, {**cabled(), **changes})["fabric"]["ports"][0]
    assert (port["findings"], port["link"]) == (findings, findings != ["no-link"])
    assert words in port["remedy"], port["remedy"]


@pytest.mark.parametrize(
    ("changes", "missing"),
    [
        ({}, True),
        # the other function is on PCI, or nothing says that this is a GB10, or PCI could not be read
        ({f"{BUS}/{FAR}/vendor": "0x15b3"}, False),
        ({f"{IB}/rocep1s0f0/board_id": "MT_0000000838"}, False),
        ({f"{IB}/rocep1s0f0/board_id": None, f"{BUS}/000f:01:00.0/vendor": "0x10de",
          f"{BUS}/000f:01:00.0/device": "0x2e12"}, True),
        ({f"{BUS}/0000:01:00.0/vendor": None}, False),
    ],
)  # fmt: skip
def test_a_missing_twin_is_named(tmp_path: Path, changes: dict[str, str | None], missing: bool) -> None:
    port = read(tmp_path, {**cabled((0,)), **changes})["fabric"]["ports"][0]
    assert port["verdict"] == ("twin-missing" if missing else "unmeasured")
    assert not missing or "Only enp1s0f0np0 is on PCI" in port["remedy"]


def test_an_active_device_without_carrier_is_named(tmp_path: Path) -> None:
    fabric = read(tmp_path, {**cabled(), **{f"{NET}/{name}/carrier": "0" for name in V4}})["fabric"]
    assert (fabric["cables"], fabric["ports"][0]["link"]) == (0, False)
    assert "no carrier: the readings contradict" in fabric["ports"][0]["note"]


def above(names: dict[str, str], address: dict[str, str]) -> dict[str, str | None]:
    """Interfaces above the port's own: names is upper by lower, address the address of each upper."""
    files: dict[str, str | None] = {}
    for number in (0, 2):
        hca, netdev = FUNCTIONS[number][:2]
        for index in (2, 3):
            files[f"{IB}/{hca}/ports/1/gids/{index}"] = mapped(address[names[netdev]])
            files[f"{IB}/{hca}/ports/1/gid_attrs/ndevs/{index}"] = names[netdev]
    files["commands/ip-j-addr.txt"] = ip_json({**dict.fromkeys(V4, ""), **address})
    return files


def test_a_bond_is_named_and_its_address_used(tmp_path: Path) -> None:
    changes = above(dict.fromkeys(V4, "bond0"), {"bond0": "10.7.1.9"})
    facts = read(tmp_path, {**cabled(), **changes, f"{NET}/bond0/bonding/slaves": "enp1s0f0np0 enP2p1s0f0np0"})
    for hca in facts["fabric"]["hcas"]:
        assert (hca["address_netdev"], hca["bonded"]) == ("bond0", True)
        assert (hca["ipv4"], hca["gid_index"], hca["gid_reason"]) == ("10.7.1.9/24", 3, None)
    port = facts["fabric"]["ports"][0]
    assert port["findings"] == ["bonded"] and "RDMA over a bond" in port["remedy"]


def test_a_vlan_is_named_and_its_address_used(tmp_path: Path) -> None:
    names = {name: name + ".100" for name in V4}
    facts = read(tmp_path, {**cabled(), **above(names, {names[name]: V4[name] for name in V4})})
    assert {hca["address_netdev"]: hca["ipv4"] for hca in facts["fabric"]["hcas"]} == {
        "enp1s0f0np0.100": "10.7.1.5/24",
        "enP2p1s0f0np0.100": "10.7.2.5/24",
    }
    assert facts["fabric"]["ports"][0]["findings"] == ["unmeasured"]
    assert "those of enp1s0f0np0.100" in facts["fabric"]["notes"][0]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("ip-addr", "4: enp1s0f0np0: <BROADCAST,SLAVE,UP,LOWER_UP> mtu 9000 qdisc mq master bond0 state UP\n"),
        ("ip-j-link", '[{"ifname":"enp1s0f0np0","flags":["UP"],"mtu":9000,"master":"bond0"}]'),
    ],
)
def test_the_interface_above_in_outputs_of_ip(name: str, text: str) -> None:
    assert checks.master_in([text], "enp1s0f0np0") == "bond0"
    assert checks.master_in([text], "enp1s0f0") is None


def test_a_function_without_ids_belongs_to_the_port_that_lacks_one(tmp_path: Path) -> None:
    files = {name: text for name, text in cabled().items() if not name.endswith("_guid")}
    third = function_files(1, True, guid=False)
    own = {**files, f"{NET}/enP2p1s0f0np0/phys_switch_id": None}
    facts = read(tmp_path, own)["fabric"]
    assert [port["hcas"] for port in facts["ports"]] == [["rocep1s0f0", "roceP2p1s0f0"]] and facts["cables"] == 1
    # another NIC in a third domain stays by itself: the port has both of its functions
    other = {"commands/ibdev2netdev.txt": "mlx5_9 port 1 ==> enP5p1s0f0 (Up)\n"}
    facts = read(tmp_path / "other", {**files, **other, **{k: v for k, v in third.items() if "phys_" in k}})["fabric"]
    assert [port["hcas"] for port in facts["ports"]] == [["mlx5_9"], ["rocep1s0f0", "roceP2p1s0f0"]]


OUTPUTS: dict[str, tuple[dict[str, str], dict[str, Any]]] = {
    "ibdev2netdev -v": (
        {
            "ibdev2netdev-v": "0000:01:00.0 rocep1s0f0 (MT4129 - NVIDIA) NVIDIA ConnectX-7 fw 28.45.4028 port 1 "
            "(ACTIVE) ==> enp1s0f0np0 (Up)\n"
        },
        {"netdev": "enp1s0f0np0", "state": "ACTIVE"},
    ),
    "ibdev2netdev -v, down": (
        {"ibdev2netdev-v": "0000:01:00.0 rocep1s0f0 (MT4129 - X) Y fw 28 port 1 (DOWN  ) ==> enp1s0f0np0 (Down)\n"},
        {"netdev": "enp1s0f0np0", "state": "DOWN"},
    ),
    "ibv_devinfo -v": (
        {
            "ibv_devinfo-v": "hca_id:\trocep1s0f0\n\tport:\t1\n\tstate:\tPORT_ACTIVE (4)\n\tactive_width:\t2X (16)\n"
            "\tactive_speed:\t100.0 Gbps (128)\n\tphys_state:\tLINK_UP (5)\n"
        },
        {"rate_gbps": 200, "phys_state": "LinkUp"},
    ),
    "ibv_devinfo -v, 100G": (
        {
            "ibv_devinfo-v": "hca_id:\trocep1s0f0\n\tport:\t1\n\tstate:\tPORT_ACTIVE (4)\n\tactive_width:\t4X (2)\n"
            "\tactive_speed:\t25.0 Gbps (32)\n"
        },
        {"rate_gbps": 100},
    ),
}


@pytest.mark.parametrize("name", OUTPUTS)
def test_further_forms_of_outputs(tmp_path: Path, name: str) -> None:
    texts, wanted = OUTPUTS[name]
    (hca,) = read(tmp_path, {f"commands/{key}.txt": text for key, text in texts.items()})["fabric"]["hcas"]
    assert {key: hca[key] for key in wanted} == wanted


def test_a_downgraded_link_in_lspci(tmp_path: Path) -> None:
    facts = read(
        tmp_path,
        {
            "commands/ibdev2netdev.txt": "roceP2p1s0f0 port 1 ==> enP2p1s0f0np0 (Up)\n",
            "commands/lspci-vv.txt": "0002:01:00.0 Ethernet controller: Mellanox Technologies MT2910\n"
            "\t\tLnkCap:\tPort #0, Speed 32GT/s, Width x16\n\t\tLnkSta:\tSpeed 32GT/s, Width x2 (downgraded)\n",
        },
    )
    assert (facts["fabric"]["hcas"][0]["pcie"]["width"], facts["fabric"]["hcas"][0]["pcie"]["generation"]) == (2, 5)
    assert facts["fabric"]["ports"][0]["verdict"] == "pcie-degraded"


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("5: LinkUp", "LinkUp"),
        ("LINK_UP (5)", "LinkUp"),
        ("LinkUp", "LinkUp"),
        ("3: Disabled", "Disabled"),
        ("DISABLED", "Disabled"),
        ("Odd", "Odd"),
        ("", None),
        (None, None),
    ],
)
def test_physical_state(text: str | None, state: str | None) -> None:
    assert checks.physical_state(text) == state


@pytest.mark.parametrize(
    ("names", "kept"),
    [
        (["ibdev2netdev-node1", "ibdev2netdev-node2"], ["ibdev2netdev-node1"]),
        (
            ["ibdev2netdev-head", "ibdev2netdev-worker", "ip-br-addr-head", "ip-br-addr-worker", "dmesg"],
            ["ibdev2netdev-head", "ip-br-addr-head", "dmesg"],
        ),
        (["ip-o-4-addr-gigabyte", "ip-o-4-addr-msi"], ["ip-o-4-addr-gigabyte"]),
        (["free-h-spark-1a2b", "dmesg-spark-3c4d"], ["free-h-spark-1a2b"]),
        # names that nobody knows, of outputs that a machine has once; the others follow them
        (["ibstat-anna", "ibstat-otto", "free-h-anna", "free-h-otto"], ["ibstat-anna", "free-h-anna"]),
        # no further machine
        (["ibdev2netdev", "ibdev2netdev-v", "dmesg-head"], ["ibdev2netdev", "ibdev2netdev-v", "dmesg-head"]),
        (["ethtool-enp1s0f0np0", "ethtool-enp1s0f1np1"], ["ethtool-enp1s0f0np0", "ethtool-enp1s0f1np1"]),
    ],
)
def test_outputs_of_two_machines_are_not_mixed(names: list[str], kept: list[str]) -> None:
    assert sorted(of_one_node(names)) == sorted(kept)
