# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import _sysroot_data as data
import gb10_sysroot
import pytest

ZERO = gb10_sysroot.ZERO_GID
MAC = "02:42:c0:a8:c8:0c"
V4 = "0000:0000:0000:0000:0000:ffff:c0a8:c80c"


def links(netdevs: dict[str, str]) -> list[dict[str, Any]]:
    return [
        {"ifname": name, "address": MAC, "addr_info": [{"family": "inet", "local": ip, "prefixlen": 24}]}
        for name, ip in netdevs.items()
    ]


def make(root: Path, index: int, gid_index: int) -> Path:
    both = links({"enp1s0f0np0": "192.168.200.12", "enP2p1s0f0np0": "192.168.201.12"})
    gb10_sysroot.make(root, {"index": index, "gid_index": gid_index}, both, ["meminfo", "1", "4711", "driver", "net"])
    return root


def test_link_local_gid_is_eui64() -> None:
    assert gb10_sysroot.link_local_gid(MAC) == "fe80:0000:0000:0000:0042:c0ff:fea8:c80c"


@pytest.mark.parametrize(("v2_index", "hole"), [(3, None), (4, 3)])
def test_gid_table(v2_index: int, hole: int | None) -> None:
    table = gb10_sysroot.gid_table(MAC, ["192.168.200.12"], v2_index)
    assert table[2] == (V4, "IB/RoCE v1")
    assert table[v2_index] == (V4, "RoCE v2")
    assert hole not in table
    assert len(table) == 4


def test_further_addresses_do_not_overwrite_the_first() -> None:
    table = gb10_sysroot.gid_table(MAC, ["192.168.200.12", "10.0.0.1"], 4)
    assert table[4] == (V4, "RoCE v2")
    assert table[6] == (gb10_sysroot.ipv4_gid("10.0.0.1"), "RoCE v2")
    assert len(table) == 6


def test_tree_has_the_table_at_the_nodes_own_index(tmp_path: Path) -> None:
    root = make(tmp_path / "r", 1, 4)
    port = root / "sys/class/infiniband/rocep1s0f0/ports/1"
    assert (port / "gids/4").read_text().strip() == V4
    assert (port / "gid_attrs/types/4").read_text().strip() == "RoCE v2"
    assert (port / "gid_attrs/ndevs/4").read_text().strip() == "enp1s0f0np0"
    assert (port / "gids/3").read_text().strip() == ZERO
    assert not (port / "gid_attrs/types/3").exists()


def test_one_port_is_cabled_and_twins_share_port_and_switch(tmp_path: Path) -> None:
    root = make(tmp_path / "r", 0, 3)
    found = {}
    for hca in sorted((root / "sys/class/infiniband").iterdir()):
        (net,) = (hca / "device/net").iterdir()
        state = (hca / "ports/1/state").read_text().strip()
        found[hca.name] = (net.name, (net / "phys_port_name").read_text().strip(), state)
        assert (net / "phys_switch_id").read_text().strip() == "0000005e00000001"
    assert found == {
        "roceP2p1s0f0": ("enP2p1s0f0np0", "p0", "4: ACTIVE"),
        "roceP2p1s0f1": ("enP2p1s0f1np1", "p1", "1: DOWN"),
        "rocep1s0f0": ("enp1s0f0np0", "p0", "4: ACTIVE"),
        "rocep1s0f1": ("enp1s0f1np1", "p1", "1: DOWN"),
    }


def test_links_inside_the_tree_stay_inside(tmp_path: Path) -> None:
    root = make(tmp_path / "r", 0, 3)
    for folder in ("sys/class/net", "sys/class/infiniband", "sys/bus/pci/devices"):
        for entry in (root / folder).iterdir():
            assert entry.resolve().is_relative_to(root.resolve()), entry


def test_live_values_point_to_this_node(tmp_path: Path) -> None:
    root = make(tmp_path / "r", 0, 3)
    assert (root / "proc/meminfo").readlink() == Path("/proc/meminfo")
    assert (root / "sys/class/net/enp1s0f0np0/mtu").readlink() == Path("/sys/class/net/enp1s0f0np0/mtu")
    assert (root / "sys/class/net/enp1s0f1np1/mtu").read_text().strip() == "1500"
    assert sorted(p.name for p in (root / "proc").iterdir()) == ["driver", "meminfo", "net"]
    assert data.DRIVER in (root / "proc/driver/nvidia/version").read_text()
    assert len(json.loads((root / "commands/ip-j-addr.txt").read_text())) == 2


def test_template_holds_no_serial_number() -> None:
    everything = "\n".join([*data.FILES, *data.FILES.values()]).lower()
    assert "serial" not in everything


def test_the_tree_says_that_its_links_lead_to_the_live_machine(tmp_path: Path) -> None:
    from ansible_collections.gb10.serving.plugins.module_utils._facts_tree import LIVE_LINKS

    assert (make(tmp_path / "r", 1, 4) / LIVE_LINKS).is_file()
