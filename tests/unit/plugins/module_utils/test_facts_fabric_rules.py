# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""RDMA devices and QSFP ports: the rules and parsers one by one."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gb10.serving.plugins.module_utils import _facts_fabric as fabric
from ansible_collections.gb10.serving.plugins.module_utils import _facts_fabric_log as log_of
from ansible_collections.gb10.serving.plugins.module_utils import _facts_fabric_tools as tools
from ansible_collections.gb10.serving.plugins.module_utils._facts_captured import parse_listing

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


V1, V2 = "IB/RoCE v1", "RoCE v2"
TABLES: dict[str, tuple[list[str] | None, dict[int, tuple[str, str]] | None, str | None, int | None]] = {
    "usual": (["10.7.1.5/24"], gids("10.7.1.5"), "10.7.1.5/24", 3),
    "hole at 3": (["10.7.1.5/24"], {**gids("10.7.1.5", 4), 3: (ZERO, "")}, "10.7.1.5/24", 4),
    "drifted to 5": (["10.7.1.5/24"], gids("10.7.1.5", 5), "10.7.1.5/24", 5),
    "stale entry first": (
        ["10.7.1.5/24"],
        {3: (mapped("10.9.9.9"), V2), 5: (mapped("10.7.1.5"), V2)},
        "10.7.1.5/24",
        5,
    ),
    "v1 only": (["10.7.1.5/24"], {3: (mapped("10.7.1.5"), V1)}, "10.7.1.5/24", None),
    "two addresses": (["10.7.1.5/24", "10.8.1.5/24"], {5: (mapped("10.8.1.5"), V2)}, "10.8.1.5/24", 5),
    "link-local last": (
        ["169.254.3.4/16", "10.7.1.5/24"],
        {3: (mapped("169.254.3.4"), V2), 5: (mapped("10.7.1.5"), V2)},
        "10.7.1.5/24",
        5,
    ),
    "only link-local": (["169.254.3.4/16"], {3: (mapped("169.254.3.4"), V2)}, "169.254.3.4/16", 3),
    "all zero": (["10.7.1.5/24"], {}, "10.7.1.5/24", None),
    "no table": (["10.7.1.5/24"], None, "10.7.1.5/24", None),
    "no address": ([], gids("10.7.1.5"), None, None),
    "addresses unknown, one entry": (None, gids("10.7.1.5"), None, 3),
    "addresses unknown, two entries": (None, {3: (mapped("10.7.1.5"), V2), 5: (mapped("10.8.1.5"), V2)}, None, None),
}


@pytest.mark.parametrize("name", TABLES)
def test_gid_index(name: str) -> None:
    addresses, table, ipv4, index = TABLES[name]
    rows = None if table is None else [{"index": n, "gid": gid, "type": kind} for n, (gid, kind) in table.items()]
    found = fabric.choose_gid("enp1s0f0np0", addresses, rows)
    assert (found["ipv4"], found["gid_index"]) == (ipv4, index)
    assert (found["gid_reason"] is None) == (index is not None)


@pytest.mark.parametrize(
    ("name", "pci"),
    [
        ("rocep1s0f0", "0000:01:00.0"),
        ("roceP2p1s0f1", "0002:01:00.1"),
        ("enP2p1s0f1np1", "0002:01:00.1"),
        ("enP7s7", None),
        ("mlx5_0", None),
        ("eth0", None),
        (None, None),
    ],
)
def test_pci_from_name(name: str | None, pci: str | None) -> None:
    assert fabric.pci_from_name(name) == pci


@pytest.mark.parametrize(
    ("mtu", "rdma"), [(9000, 4096), (4192, 4096), (1500, 1024), (576, 256), (300, None), (None, None)]
)
def test_rdma_mtu(mtu: int | None, rdma: int | None) -> None:
    assert fabric.rdma_mtu_of(mtu) == rdma


def test_ibstat_block_that_ends_early_is_unknown_not_down() -> None:
    devices: dict[str, dict[str, Any]] = {}
    tools.parse_ibstat(
        "CA 'a'\n\tNode GUID: 0x0200000300000044\n\tPort 1:\n\t\tState: Active\n\t\tRate: 200\n"
        "CA 'b'\n\tSystem image GUID: 0x0200000300000040\n",
        devices,
    )
    assert devices["a"]["state"] == "Active"
    assert "state" not in devices["b"]


def test_ibv_devinfo() -> None:
    devices: dict[str, dict[str, Any]] = {}
    tools.parse_ibv_devinfo(
        "hca_id:\trocep1s0f0\n\tfw_ver:\t28.45.4028\n\t\tport:\t1\n\t\t\tstate:\tPORT_ACTIVE (4)\n"
        "\t\t\tmax_mtu:\t4096 (5)\n\t\t\tactive_mtu:\t1024 (3)\n\t\t\tGID[  3]:\t::ffff:10.7.1.5, RoCE v2\n",
        devices,
    )
    assert fabric.parse_state(devices["rocep1s0f0"]["state"]) == "ACTIVE"
    assert devices["rocep1s0f0"]["rdma_mtu"] == 1024
    assert fabric.roce_v2_addresses(devices["rocep1s0f0"]["gids"]) == [(3, "10.7.1.5")]


@pytest.mark.parametrize(
    ("log", "late"),
    [
        ("[    5.40] cx7-pcie-hotplug MTKP0001:00: Hotplug enabled", []),
        ("[    9.10] cx7-pcie-hotplug MTKP0001:00: Cable plugin", []),
        ("[ 8129.10] cx7-pcie-hotplug MTKP0001:00: Cable plugin", ["8129.10"]),
        ("[Mon Aug  3 01:02:03] cx7-pcie-hotplug MTKP0001:00: Cable plugin", ["Mon Aug  3 01:02:03"]),
        # the journal, ISO 8601, a line of grep -n, further fields
        ("Aug 03 01:02:03 spark-aaaa kernel: cx7-pcie-hotplug MTKP0001:00: Cable plugin", ["Aug 03 01:02:03"]),
        (
            "2026-08-03T01:02:03,123456+02:00 cx7-pcie-hotplug MTKP0001:00: Cable plugin",
            ["2026-08-03T01:02:03,123456+02:00"],
        ),
        ("2026-08-03T01:02:03+0200 h kernel: cx7-pcie-hotplug MTKP0001:00: Cable plugin", ["2026-08-03T01:02:03+0200"]),
        ("812:[ 9999.1] cx7-pcie-hotplug MTKP0001:00: Cable plugin", ["9999.1"]),
        ("812:Aug 03 01:02:03 h kernel: cx7-pcie-hotplug MTKP0001:00: Cable plugin", ["Aug 03 01:02:03"]),
        ("kern  :info  : [ 9999.1] cx7-pcie-hotplug MTKP0001:00: Cable plugin", ["9999.1"]),
        ("[ 9999.1] [  T312] cx7-pcie-hotplug MTKP0001:00: Cable plugin", ["9999.1"]),
        ("cx7-pcie-hotplug MTKP0001:00: Cable plugin", None),
        # a date says something beside the start of the machine, or of the driver where the log begins later
        (
            (
                "Aug 03 01:00:00 h kernel: Booting Linux on physical CPU 0\n"
                "Aug 03 01:00:06 h kernel: cx7-pcie-hotplug MTKP0001:00: Cable plugin"
            ),
            [],
        ),
        (
            (
                "[Mon Aug  3 01:02:02 2026] cx7-pcie-hotplug MTKP0001:00: PCIe hotplug driver initialized\n"
                "[Mon Aug  3 01:02:03 2026] cx7-pcie-hotplug MTKP0001:00: Cable plugin"
            ),
            [],
        ),
        (
            (
                "Aug 03 01:02:02 h kernel: cx7-pcie-hotplug MTKP0001:00: PCIe hotplug driver initialized successfully\n"
                "Aug 03 02:02:03 h kernel: cx7-pcie-hotplug MTKP0001:00: Cable plugin"
            ),
            ["Aug 03 02:02:03"],
        ),
        # of two runs of the machine the last counts
        (
            (
                "Aug 03 01:02:03 h kernel: cx7-pcie-hotplug MTKP0001:00: Cable plugin\n"
                "Aug 03 05:00:00 h kernel: Booting Linux on physical CPU 0"
            ),
            [],
        ),
        # started last year
        (
            (
                "Dec 31 01:00:00 h kernel: Linux version 6.17.0\n"
                "Jan 02 01:00:06 h kernel: cx7-pcie-hotplug MTKP0001:00: Cable plugin"
            ),
            ["Jan 02 01:00:06"],
        ),
    ],
)
def test_hotplug_in_the_kernel_log(log: str, late: list[str] | None) -> None:
    found = log_of.parse_hotplug(log)
    assert (found["driver"], found["plugged_after_boot"]) == (True, late)


@pytest.mark.parametrize(
    ("line", "path", "value"),
    [
        ("/sys/a/0000:01:00.1/state:4: ACTIVE", "/sys/a/0000:01:00.1/state", "4: ACTIVE"),
        ("/sys/a/types/3:IB/RoCE v1", "/sys/a/types/3", "IB/RoCE v1"),
        ("/sys/a/MTKP0001:00/enabled:1", "/sys/a/MTKP0001:00/enabled", "1"),
        ("/sys/class/infiniband/x/device/net/y", "/sys/class/infiniband/x/device/net/y", ""),
        ("/sys/a/mtu\t1500", "/sys/a/mtu", "1500"),
    ],
)
def test_listing_lines(line: str, path: str, value: str) -> None:
    assert parse_listing(line) == {path: value}
