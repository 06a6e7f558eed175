# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""RDMA devices and QSFP ports: trees with real links, trees without, and what tools print."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gb10.serving.plugins.module_utils._facts import gather

FUNCTIONS = [
    ("rocep1s0f0", "enp1s0f0np0", "0000:01:00.0", "p0", 0),
    ("rocep1s0f1", "enp1s0f1np1", "0000:01:00.1", "p1", 1),
    ("roceP2p1s0f0", "enP2p1s0f0np0", "0002:01:00.0", "p0", 4),
    ("roceP2p1s0f1", "enP2p1s0f1np1", "0002:01:00.1", "p1", 5),
]
SWITCH_ID = "0000005e000000aa"
LINK_LOCAL = "fe80:0000:0000:0000:0000:00ff:fe00:0007"
ZERO = ":".join(["0000"] * 8)


def mapped(address: str) -> str:
    a, b, c, d = (int(part) for part in address.split("."))
    return f"0000:0000:0000:0000:0000:ffff:{a:02x}{b:02x}:{c:02x}{d:02x}"


def gids(address: str | None, v2: int = 3) -> dict[int, tuple[str, str]]:
    table = {0: (LINK_LOCAL, "IB/RoCE v1"), 1: (LINK_LOCAL, "RoCE v2"), 7: (ZERO, "")}
    if address:
        table[2] = (mapped(address), "IB/RoCE v1")
        table[v2] = (mapped(address), "RoCE v2")
    return table


class Tree:
    """A sysfs tree. linked=True lays the links as the kernel does; False makes plain folders, as some captures do."""

    def __init__(self, root: Path, linked: bool = True) -> None:
        self.root, self.linked = root, linked

    def write(self, path: str, text: str) -> None:
        target = self.root / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text + "\n")

    def link(self, path: str, target: str) -> None:
        place = self.root / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(os.path.relpath(self.root / target.lstrip("/"), place.parent))

    def function(self, number: int, address: str | None, up: bool = True, names: bool = True, **extra: str) -> None:
        hca, netdev, pci, port, offset = FUNCTIONS[number]
        device = f"/sys/devices/pci{pci[:4]}:00/{pci[:4]}:00:00.0/{pci}"
        infiniband = f"{device}/infiniband/{hca}" if self.linked else f"/sys/class/infiniband/{hca}"
        net = f"{device}/net/{netdev}" if self.linked else f"/sys/class/net/{netdev}"
        bus = device if self.linked else f"/sys/bus/pci/devices/{pci}"
        self.write(f"{bus}/vendor", "0x15b3")
        self.write(f"{bus}/current_link_speed", "32.0 GT/s PCIe")
        self.write(f"{bus}/current_link_width", extra.get("width", "4"))
        self.write(f"{infiniband}/node_guid", f"0200:0003:0000:{0x40 + offset:04x}")
        self.write(f"{infiniband}/sys_image_guid", "0200:0003:0000:0040")
        self.write(f"{infiniband}/fw_ver", "28.45.4028")
        self.write(f"{infiniband}/ports/1/state", extra.get("state", "4: ACTIVE" if up else "1: DOWN"))
        self.write(
            f"{infiniband}/ports/1/rate", extra.get("rate", "200 Gb/sec (2X NDR)" if up else "40 Gb/sec (4X QDR)")
        )
        self.write(f"{infiniband}/ports/1/counters/port_rcv_data", "25")
        for index, (gid, kind) in gids(address, int(extra.get("v2", "3"))).items():
            self.write(f"{infiniband}/ports/1/gids/{index}", gid)
            if kind:
                self.write(f"{infiniband}/ports/1/gid_attrs/types/{index}", kind)
        self.write(f"{net}/mtu", extra.get("mtu", "9000"))
        self.write(f"{net}/carrier", extra.get("carrier", "1" if up else "0"))
        if "flags" in extra:
            self.write(f"{net}/flags", extra["flags"])
        if names:
            self.write(f"{net}/phys_port_name", port)
            self.write(f"{net}/phys_switch_id", SWITCH_ID)
        if self.linked:
            self.link(f"{infiniband}/device", device)
            self.link(f"{net}/device", device)
            self.link(f"/sys/class/infiniband/{hca}", infiniband)
            self.link(f"/sys/class/net/{netdev}", net)
            self.link(f"/sys/bus/pci/devices/{pci}", device)
        else:
            self.write(f"{net}/device@basename", pci)
            self.write(f"{infiniband}/device/net/{netdev}", "")

    def addresses(self, *pairs: tuple[str, str]) -> None:
        links = [
            {
                "ifname": name,
                "mtu": 9000,
                "flags": ["UP", "LOWER_UP"],
                "operstate": "UP",
                "addr_info": [
                    {"family": "inet", "local": part.split("/")[0], "prefixlen": int(part.split("/")[1])}
                    for part in text.split()
                ],
            }
            for name, text in pairs
        ]
        self.write("/commands/ip-j-addr.txt", json.dumps(links))

    def read(self) -> dict[str, Any]:
        return gather(["fabric"], str(self.root), [])


@pytest.fixture(params=[True, False], ids=["links", "plain"])
def tree(request: pytest.FixtureRequest, tmp_path: Path) -> Tree:
    return Tree(tmp_path, request.param)


@pytest.fixture
def cabled() -> Callable[[Tree], Tree]:
    """One cable in port 0, an address on both twins."""

    def build(tree: Tree, **extra: str) -> Tree:
        tree.function(0, "10.7.1.5", True, True, **extra)
        tree.function(1, None, up=False)
        tree.function(2, "10.7.2.5", True, True, **extra)
        tree.function(3, None, up=False)
        tree.addresses(("enp1s0f0np0", "10.7.1.5/24"), ("enP2p1s0f0np0", "10.7.2.5/24"), ("enP7s7", "10.0.0.9/8"))
        return tree

    return build


def by_name(facts: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {hca["name"]: hca for hca in facts["fabric"]["hcas"]}


def test_one_cable(tree: Tree, cabled: Callable[..., Tree]) -> None:
    facts = cabled(tree).read()
    found = by_name(facts)
    up, down = found["roceP2p1s0f0"], found["rocep1s0f1"]
    assert [hca["name"] for hca in facts["fabric"]["hcas"]] == [row[0] for row in FUNCTIONS]
    assert {name: hca["netdev"] for name, hca in found.items()} == {row[0]: row[1] for row in FUNCTIONS}
    assert (up["chip"], up["port"], up["state"], up["rate_gbps"]) == (SWITCH_ID, 0, "ACTIVE", 200)
    assert (up["netdev_mtu"], up["rdma_mtu"], up["ipv4"], up["gid_index"]) == (9000, 4096, "10.7.2.5/24", 3)
    assert (up["pcie"]["address"], up["pcie"]["width"], up["pcie"]["gbps"]) == ("0002:01:00.0", 4, 126.03)
    assert up["counters"] == {"received_bytes": 100}
    # 40 Gb/s on a port that is down is a default, not a speed
    assert (down["state"], down["rate_gbps"], down["ipv4"], down["gid_index"]) == ("DOWN", None, None, None)
    assert down["gid_reason"] == "enp1s0f1np1 has no IPv4 address"
    assert facts["missing"]["fabric.hcas.rocep1s0f1.rate_gbps"] == "the link is not active"
    assert [(port["port"], port["hcas"], port["verdict"]) for port in facts["fabric"]["ports"]] == [
        (0, ["rocep1s0f0", "roceP2p1s0f0"], "unmeasured"),
        (1, ["rocep1s0f1", "roceP2p1s0f1"], "no-link"),
    ]
    assert facts["fabric"]["verdict"] == "unmeasured"


def test_names_need_not_tell_anything(tmp_path: Path) -> None:
    """mlx5_N devices with renamed interfaces: only links tell what belongs together."""
    tree = Tree(tmp_path)
    for number, (name, port) in enumerate([("mlx5_0", "p0"), ("mlx5_2", "p0"), ("mlx5_1", "p1")]):
        device = f"/sys/devices/x/000{number}:01:00.0"
        tree.write(f"{device}/infiniband/{name}/ports/1/state", "4: ACTIVE")
        tree.write(f"{device}/net/wire{number}/phys_port_name", port)
        tree.write(f"{device}/net/wire{number}/phys_switch_id", SWITCH_ID)
        tree.link(f"{device}/infiniband/{name}/device", device)
        tree.link(f"/sys/class/infiniband/{name}", f"{device}/infiniband/{name}")
        tree.link(f"/sys/class/net/wire{number}", f"{device}/net/wire{number}")
    facts = tree.read()
    assert {name: hca["netdev"] for name, hca in by_name(facts).items()} == {
        "mlx5_0": "wire0",
        "mlx5_2": "wire1",
        "mlx5_1": "wire2",
    }
    assert [port["hcas"] for port in facts["fabric"]["ports"]] == [["mlx5_0", "mlx5_2"], ["mlx5_1"]]


def test_ports_by_guid_when_port_names_are_absent(tree: Tree) -> None:
    for number in range(4):
        tree.function(number, None, names=False)
    facts = tree.read()
    assert {hca["port_by"] for hca in facts["fabric"]["hcas"]} == {"GUID"}
    assert [port["hcas"] for port in facts["fabric"]["ports"]] == [
        ["rocep1s0f0", "roceP2p1s0f0"],
        ["rocep1s0f1", "roceP2p1s0f1"],
    ]


@pytest.mark.parametrize(
    ("changes", "verdict"),
    [
        ({"rate": "100 Gb/sec (2X HDR)"}, "link-below-200"),
        ({"width": "2"}, "pcie-degraded"),
        ({"state": "1: DOWN"}, "twin-down"),
        ({"carrier": "0"}, "twin-down"),
    ],
)
def test_port_verdicts(tmp_path: Path, changes: dict[str, str], verdict: str) -> None:
    tree = Tree(tmp_path)
    tree.function(0, "10.7.1.5")
    tree.function(2, "10.7.2.5", True, True, **changes)
    tree.addresses(("enp1s0f0np0", "10.7.1.5/24"), ("enP2p1s0f0np0", "10.7.2.5/24"))
    port = tree.read()["fabric"]["ports"][0]
    assert port["verdict"] == verdict
    assert port["remedy"]


@pytest.mark.parametrize(
    ("second", "verdict"),
    [("", "twin-without-ipv4"), ("10.7.1.6/24", "twins-share-subnet"), ("10.7.9.9/24", "gid-missing")],
)
def test_address_verdicts(tmp_path: Path, second: str, verdict: str) -> None:
    tree = Tree(tmp_path)
    tree.function(0, "10.7.1.5")
    tree.function(2, "10.7.1.6")
    tree.addresses(("enp1s0f0np0", "10.7.1.5/24"), ("enP2p1s0f0np0", second))
    assert tree.read()["fabric"]["verdict"] == verdict


def test_no_nic(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    tree.write("/sys/bus/pci/devices/000f:01:00.0/vendor", "0x10de")
    tree.write("/sys/module/mlx5_core/version", "1")
    tree.write("/etc/nvidia/cx7-hotplug-enabled", "")
    facts = tree.read()["fabric"]
    assert (facts["hcas"], facts["ports"], facts["verdict"]) == ([], [], "no-nic")
    assert "modules are loaded" in facts["reason"] and "hot-plug is on" in facts["reason"]


def test_nic_without_devices(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    tree.write("/sys/bus/pci/devices/0000:01:00.0/vendor", "0x15b3")
    assert tree.read()["fabric"]["verdict"] == "nic-without-devices"


@pytest.mark.parametrize(
    ("name", "text", "verdict"),
    [
        ("lspci.txt", "0007:01:00.0 Ethernet controller: Realtek RTL8127", "no-nic"),
        ("lspci-grep-Mellanox.txt", "", "no-nic"),
        ("lspci-grep-NVIDIA.txt", "000f:01:00.0 3D controller: NVIDIA GB10", None),
        ("lspci-nn.txt", "0000:01:00.0 Ethernet controller [0200]: [15b3:1021]", "nic-without-devices"),
    ],
)
def test_captured_pci_lists(tmp_path: Path, name: str, text: str, verdict: str | None) -> None:
    tree = Tree(tmp_path)
    tree.write("/commands/" + name, text)
    assert tree.read()["fabric"]["verdict"] == verdict


def test_nothing_captured_is_not_no_nic(tmp_path: Path) -> None:
    facts = Tree(tmp_path).read()
    assert facts["fabric"]["verdict"] is None
    assert "fabric.hcas" in facts["missing"]


TOOL_OUTPUTS = {
    "ibdev2netdev.txt": "roceP2p1s0f0 port 1 ==> enP2p1s0f0np0 (Up)\nrocep1s0f0 port 1 ==> enp1s0f0np0 (Up)\n"
    "rocep1s0f1 port 1 ==> enp1s0f1np1 (Down)\n",
    "rdma-link.txt": "link rocep1s0f0/1 state ACTIVE physical_state LINK_UP netdev enp1s0f0np0 \n"
    "link roceP2p1s0f0/1 state ACTIVE physical_state LINK_UP netdev enP2p1s0f0np0\n"
    "link rocep1s0f1/1 state DOWN physical_state DISABLED netdev enp1s0f1np1\n",
    "show_gids.txt": "DEV PORT INDEX GID IPv4 VER DEV\n--- --- --- --- --- --- ---\n"
    f"rocep1s0f0\t1\t2\t{mapped('10.7.1.5')}\t10.7.1.5\tv1\tenp1s0f0np0\n"
    f"rocep1s0f0   1  4  {mapped('10.7.1.5')} 10.7.1.5  v2  enp1s0f0np0\n"
    f"rocep1s0f1\t1\t1\t{LINK_LOCAL}\t\tv2\tenp1s0f1np1\nn_gids_found=3\n",
}


@pytest.mark.parametrize("name", ["ibdev2netdev.txt", "rdma-link.txt"])
def test_captured_tool_output(tmp_path: Path, name: str) -> None:
    tree = Tree(tmp_path)
    tree.write("/commands/" + name, TOOL_OUTPUTS[name])
    facts = tree.read()
    assert [(h["name"], h["netdev"], h["state"]) for h in facts["fabric"]["hcas"]] == [
        ("rocep1s0f0", "enp1s0f0np0", "ACTIVE"),
        ("rocep1s0f1", "enp1s0f1np1", "DOWN"),
        ("roceP2p1s0f0", "enP2p1s0f0np0", "ACTIVE"),
    ]
    assert facts["fabric"]["ports"][0]["hcas"] == ["rocep1s0f0", "roceP2p1s0f0"]


def test_show_gids(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    tree.write("/commands/show_gids.txt", TOOL_OUTPUTS["show_gids.txt"])
    found = by_name(tree.read())
    assert (found["rocep1s0f0"]["gid_index"], found["rocep1s0f0"]["gid_ipv4"]) == (4, "10.7.1.5")
    assert found["rocep1s0f1"]["gid_index"] is None


def test_listings_stand_for_a_tree(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    tree.write("/commands/sysfs-ls.txt", "/sys/class/infiniband/rocep1s0f1/device/net/wire9")
    tree.write(
        "/commands/sysfs-grep.txt",
        "/sys/class/infiniband/rocep1s0f1/ports/1/state:4: ACTIVE\n"
        "/sys/class/infiniband/rocep1s0f1/ports/1/rate:200 Gb/sec (2X NDR)",
    )
    hca = by_name(tree.read())["rocep1s0f1"]
    assert (hca["netdev"], hca["state"], hca["rate_gbps"]) == ("wire9", "ACTIVE", 200)


def test_an_interface_that_is_set_down_is_told_from_one_without_a_carrier(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    tree.function(0, "10.7.1.5", flags="0x1003")
    tree.function(2, "10.7.2.5", False, True, flags="0x1002", carrier="")
    tree.addresses(("enp1s0f0np0", "10.7.1.5/24"), ("enP2p1s0f0np0", "10.7.2.5/24"))
    facts = tree.read()
    assert [hca["netdev_enabled"] for hca in facts["fabric"]["hcas"]] == [True, False]
    port = facts["fabric"]["ports"][0]
    assert (port["name"], port["verdict"]) == ("p0", "twin-down")
    assert port["remedy"] == "Bring up: 'sudo ip link set dev enP2p1s0f0np0 up'."


@pytest.mark.parametrize(
    ("flags", "carrier", "operstate", "verdict", "remedy"),
    [
        (
            "0x1002",
            "",
            "down",
            "set-down",
            "'sudo ip link set dev enp1s0f0np0 up', 'sudo ip link set dev enP2p1s0f0np0",
        ),
        # the kernel gives no carrier of an interface that is set down
        ("", "", "down", "set-down", "'sudo ip link set dev enp1s0f0np0 up'"),
        ("0x1003", "0", "down", "no-link", "plug the cable in"),
        ("", "0", "down", "no-link", "plug the cable in"),
    ],
)
def test_a_port_that_is_set_down_is_not_one_without_a_cable(
    tmp_path: Path, flags: str, carrier: str, operstate: str, verdict: str, remedy: str
) -> None:
    tree = Tree(tmp_path)
    for number, netdev in ((0, "enp1s0f0np0"), (2, "enP2p1s0f0np0")):
        tree.function(number, None, False, True, flags=flags, carrier=carrier)
        (tmp_path / "sys/class/net" / netdev / "operstate").write_text(operstate)
    fabric = tree.read()["fabric"]
    assert (fabric["verdict"], fabric["ports"][0]["verdict"]) == (verdict, verdict)
    assert remedy in fabric["ports"][0]["remedy"]


def test_the_netplan_file_of_an_interface_is_named(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    for number in (0, 2):
        tree.function(number, None)
    tree.addresses(("enp1s0f0np0", ""), ("enP2p1s0f0np0", ""))
    assert (
        "the netplan file that configures enp1s0f0np0 and enP2p1s0f0np0" in tree.read()["fabric"]["ports"][0]["remedy"]
    )
    tree.write("/etc/netplan/01-lan.yaml", "network:\n  ethernets:\n    enP7s7:\n      dhcp4: true\n")
    facts = tree.read()
    assert "/etc/netplan/60-gb10-fabric.yaml (playbook configure_fabric.yml" in facts["fabric"]["ports"][0]["remedy"]
    assert facts["missing"]["fabric.hcas.rocep1s0f0.netplan_file"] == "no file in /etc/netplan names the interface"
    two = "".join(f"    {netdev}:\n      mtu: 9000\n" for netdev in ("enp1s0f0np0", "enP2p1s0f0np0"))
    tree.write("/etc/netplan/50-mine.yaml", f"network:\n  ethernets:\n{two}")
    facts = tree.read()
    assert {hca["netplan_file"] for hca in facts["fabric"]["hcas"]} == {"/etc/netplan/50-mine.yaml"}
    assert facts["fabric"]["ports"][0]["remedy"].endswith("in /etc/netplan/50-mine.yaml.")


def test_what_was_not_read_is_not_claimed(tmp_path: Path) -> None:
    facts = Tree(tmp_path).read()
    assert set(facts["fabric"]["hotplug"].values()) == {None}
    assert all("dmesg" in facts["missing"][f"fabric.hotplug.{key}"] for key in facts["fabric"]["hotplug"])
    tree = Tree(tmp_path)
    tree.function(0, None, True, True, state="unreadable")
    facts = tree.read()
    assert (facts["fabric"]["hotplug"]["nic_seen"], facts["fabric"]["hotplug"]["removed"]) == (True, None)
    missing = facts["missing"]
    assert missing["fabric.hcas.rocep1s0f0.rate_gbps"] == missing["fabric.hcas.rocep1s0f0.state"]
    tree.write("/commands/dmesg.txt", "[    0.0] Linux version 6.17.0")
    read = tree.read()["fabric"]["hotplug"]
    assert read == {
        "driver": False,
        "plugged_after_boot": [],
        "plugged_ports": [],
        "nic_seen": True,
        "removed": False,
    }


def test_missing_names_parts_of_lists_by_what_they_are(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    tree.write("/commands/ibdev2netdev.txt", "rocep1s0f1 port 1 ==> enp1s0f1np1 (Up)")
    tree.write("/etc/netplan/50-mine.yaml", "network:\n  ethernets:\n    enp1s0f1np1:\n      dhcp4: true\n")
    missing = tree.read()["missing"]
    assert "fabric.ports.p1.chip" in missing
    assert missing["network.netplan./etc/netplan/50-mine.yaml.interfaces.enp1s0f1np1.mtu"] == "the file does not set it"
    assert not [key for key in missing if any(part.isdigit() for part in key.split("."))]
    assert "not readable here" not in missing.values()


@pytest.mark.parametrize("file", ["dmesg.txt", "journalctl-k.txt", "journalctl-k-b.txt", "kern.log"])
def test_the_kernel_log_by_its_names(tmp_path: Path, file: str) -> None:
    tree = Tree(tmp_path)
    tree.write(f"commands/{file}", "Aug 07 03:13:00 spark-aaaa kernel: cx7-pcie-hotplug MTKP0001:00: Cable plugin")
    assert tree.read()["fabric"]["hotplug"]["plugged_after_boot"] == ["Aug 07 03:13:00"]


def test_a_cable_whose_line_has_no_time_is_told_and_not_dated(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    tree.write("commands/dmesg.txt", "cx7-pcie-hotplug MTKP0001:00: Cable plugin")
    facts = tree.read()
    assert facts["fabric"]["hotplug"]["driver"] is True
    assert facts["fabric"]["hotplug"]["plugged_after_boot"] is None
    assert "without a time" in facts["missing"]["fabric.hotplug.plugged_after_boot"]
    assert "without a time" in facts["fabric"]["notes"][0]
