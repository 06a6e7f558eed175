# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""Whole trees: what is read, what is missing, and the promise never to raise or invent."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gb10.serving.plugins.module_utils import _facts_platform as platform
from ansible_collections.gb10.serving.plugins.module_utils._facts import QUIET, gather, wanted_subsets

SERIAL = "1234567890123"
TABLE = """
| NVIDIA-SMI 580.200.01             Driver Version: 580.200.01     CUDA Version: 13.1     |
|=========================================+========================+======================|
|   0  NVIDIA GB10                    On  |   0000000F:01:00.0 Off |                  N/A |
| N/A   33C    P8              4W /  N/A  | Not Supported          |      0%      Default |
| Processes:                                                                              |
|  GPU   GI   CI              PID   Type   Process name                        GPU Memory |
|    0   N/A  N/A            4711      G   /usr/lib/xorg/Xorg                       18MiB |
|    0   N/A  N/A            4712      C   VLLM::Worker_TP0                     90000MiB |
"""
FILES = {
    "sys/class/dmi/id/sys_vendor": "Some Maker",
    "sys/class/dmi/id/product_name": "Some Box 9",
    "sys/class/dmi/id/product_family": "DGX Spark",
    "sys/class/dmi/id/product_serial": SERIAL,
    "etc/dgx-release": f'DGX_NAME="DGX Spark"\nDGX_SERIAL_NUMBER="{SERIAL}"\nDGX_PLATFORM=HP ZGX Nano\n'
    'DGX_SWBUILD_VERSION="7.2.3"\nDGX_OTA_VERSION="7.3.1"\nDGX_OTA_DATE="x"\nDGX_OTA_VERSION="7.5.0"\n',
    "etc/os-release": 'PRETTY_NAME="Ubuntu 24.04.9 LTS"\nID=ubuntu\nVERSION_ID="24.04"\n',
    "proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  580.200.01\nGCC 13.3.0",
    "proc/sys/kernel/osrelease": "6.17.0-2000-nvidia",
    "proc/meminfo": "MemTotal: 127000000 kB\nMemFree: 110000000 kB\nMemAvailable: 115000000 kB\nBuffers: 1000 kB\n"
    "Cached: 6000000 kB\nSwapTotal: 16777212 kB\nSwapFree: 16777212 kB\nAnonPages: 900000 kB\nSUnreclaim: 99000 kB\n"
    "KReclaimable: 1000 kB\nHugePages_Total: 0\nHugePages_Free: 0\nHugepagesize: 2048 kB\nHugetlb: 0 kB\n",
    "commands/nvidia-smi.txt": TABLE,
    "commands/uname-a.txt": "Linux node 6.17.0-2000-nvidia #1 SMP aarch64 aarch64 aarch64 GNU/Linux",
    "commands/ibdev2netdev.txt": "rocep1s0f0 port 1 ==> enp1s0f0np0 (Up)",
    "commands/ip-addr-show.txt": "4: enp1s0f0np0: <BROADCAST,UP,LOWER_UP> mtu 9000\n"
    "    inet 10.7.1.5/24 scope link enp1s0f0np0",
}
CAPTURED = ["platform", "memory", "gpu", "fabric"]


def make_tree(root: Path, files: dict[str, Any]) -> str:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(root)


def test_a_whole_tree(tmp_path: Path) -> None:
    facts = gather(CAPTURED, make_tree(tmp_path, FILES), [])
    shown = facts["platform"]
    assert (shown["is_gb10"], shown["vendor"], shown["product"]) == (True, "Some Maker", "Some Box 9")
    assert (shown["driver"], shown["cuda"], shown["kernel"], shown["arch"]) == (
        "580.200.01",
        "13.1",
        "6.17.0-2000-nvidia",
        "aarch64",
    )
    assert (shown["dgx_version"], shown["dgx"]["platform"]) == ("7.5.0", "HP ZGX Nano")
    assert shown["os_release"] == "Ubuntu 24.04.9 LTS"
    assert [item["used_bytes"] for item in facts["gpu"]["processes"]] == [18 * 1024**2, 90000 * 1024**2]
    assert facts["memory"]["driver_held_bytes"] == (127000000 - 117001000) * 1024
    assert facts["memory"]["driver_pools_bytes"] == 0
    assert facts["network"]["interfaces"] == [
        {"name": "enp1s0f0np0", "ipv4": ["10.7.1.5/24"], "mtu": 9000, "up": True, "enabled": True}
    ]
    assert SERIAL not in json.dumps(facts)


def test_an_empty_tree_has_a_reason_for_every_null(tmp_path: Path) -> None:
    facts = gather(CAPTURED, str(tmp_path), [])
    assert facts["platform"]["is_gb10"] is None
    assert facts["memory"]["verdict"] is None
    for name in ("platform", "memory", "gpu"):
        for key, value in facts[name].items():
            if value is None and key not in QUIET:
                assert f"{name}.{key}" in facts["missing"]


def mangle(text: str, chance: random.Random) -> bytes:
    data = bytearray(text.encode())
    way = chance.randrange(6)
    if way == 0:
        return bytes(data[: chance.randrange(len(data) + 1)])
    if way == 1:
        lines = text.splitlines()
        chance.shuffle(lines)
        return "\n".join(lines).encode()
    if way == 2:
        for _ in range(1 + len(data) // 20):
            data[chance.randrange(len(data))] = chance.randrange(256)
        return bytes(data)
    if way == 3:
        return re.sub(rb"\d", lambda match: b"9" * chance.randrange(40), bytes(data))
    if way == 4:
        return bytes(chance.randrange(256) for _ in range(200))
    return b""


@pytest.mark.parametrize("seed", range(60))
def test_damaged_trees_never_raise(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    extra = {
        "sys/class/infiniband/rocep1s0f0/ports/1/state": "4: ACTIVE",
        "sys/class/infiniband/rocep1s0f0/ports/1/rate": "200 Gb/sec (2X NDR)",
        "sys/class/infiniband/rocep1s0f0/ports/1/gids/3": "0000:0000:0000:0000:0000:ffff:0a07:0105",
        "sys/class/infiniband/rocep1s0f0/ports/1/gid_attrs/types/3": "RoCE v2",
        "sys/class/infiniband/rocep1s0f0/ports/1/gid_attrs/ndevs/3": "enp1s0f0np0",
        "sys/class/infiniband/rocep1s0f0/device/current_link_width": "4",
        "sys/class/infiniband/rocep1s0f0/sys_image_guid": "0200:0003:0000:0040",
        "sys/class/net/enp1s0f0np0/mtu": "9000",
        "commands/ip-j-addr.txt": '[{"ifname":"enp1s0f0np0","mtu":9000,"flags":["UP"],"addr_info":[{"family":"inet",'
        '"local":"10.7.1.5","prefixlen":24}]}]',
        "commands/show_gids.txt": "rocep1s0f0 1 3 0000:0000:0000:0000:0000:ffff:0a07:0105 10.7.1.5 v2 enp1s0f0np0",
        "commands/ibv_devinfo.txt": "hca_id: rocep1s0f0\n  active_mtu: 4096 (5)\n  GID[  3]: ::ffff:10.7.1.5, RoCE v2",
        "commands/dmesg.txt": "[    5.40] cx7-pcie-hotplug MTKP0001:00: Cable plugin",
        "commands/free-h.txt": "   total used free shared buff/cache available\nMem: 119Gi 3.7Gi 116Gi 1Mi 2Mi 115Gi",
        "commands/sysfs.tsv": "/sys/class/net/enp1s0f0np0/device@basename\t0000:01:00.0",
        "commands/nvidia-smi-query-compute-apps.csv": "4712, VLLM::Worker_TP0, 90000 MiB",
    }
    files: dict[str, Any] = {
        name: mangle(text, chance) if chance.random() < 0.6 else text for name, text in {**FILES, **extra}.items()
    }
    facts = gather(CAPTURED, make_tree(tmp_path, files), [])
    for hca in facts["fabric"]["hcas"]:
        assert hca["rate_gbps"] is None or hca["state"] == "ACTIVE"
    json.dumps(facts)


EVIDENCE: list[tuple[dict[str, str | None], dict[str, str], str | None, list[str] | None, bool | None]] = [
    ({"product_family": "DGX Spark", "sys_vendor": "Dell  Inc."}, {}, None, None, True),
    ({}, {"DGX_NAME": "DGX Spark"}, None, None, True),
    ({}, {"DGX_NAME": "DGX-1"}, None, None, None),
    ({}, {}, "NVIDIA GB10", None, True),
    ({}, {}, "NVIDIA GeForce RTX 4090", [], False),
    ({}, {}, None, ["2e12"], True),
    # an N1X is no GB10, whatever its memory figures say
    ({"product_name": "Laptop"}, {}, "NVIDIA N1X", ["2e03"], False),
    ({"product_family": "DGX Spark"}, {}, None, ["2e06"], False),
    # though a list of PCI names or the GPU calls it so
    ({"product_family": "DGX Spark"}, {}, "NVIDIA GB10", ["2e03"], False),
    ({"product_name": "30KL0004FC", "product_version": "ThinkStation PGX"}, {}, None, None, True),
    ({"product_name": "30KL0004FC"}, {}, None, None, True),
    ({"product_name": "30KLS02X00"}, {}, None, None, True),
    ({"product_name": "GN100"}, {}, None, None, True),
    ({"product_name": "30KX0004FC"}, {}, None, None, None),
    ({"product_name": "GX10"}, {}, None, None, True),
    ({"product_name": "Some PC"}, {}, None, [], False),
    ({}, {}, None, None, None),
]


@pytest.mark.parametrize(("dmi", "dgx", "name", "pci", "expected"), EVIDENCE)
def test_is_it_a_gb10(
    dmi: dict[str, str | None], dgx: dict[str, str], name: str | None, pci: list[str] | None, expected: bool | None
) -> None:
    answer, evidence = platform.decide(dmi, dgx, name, pci)
    assert answer is expected
    assert (evidence is None) == (expected is None)


def test_no_devices_were_found(tmp_path: Path) -> None:
    facts = gather(["gpu"], make_tree(tmp_path, {"commands/nvidia-smi.txt": "No devices were found\n"}), [])
    assert facts["gpu"]["count"] == 0
    assert "could not bring the GPU up" in facts["missing"]["gpu.name"]


def test_subsets() -> None:
    assert wanted_subsets(["storage", "platform"]) == ["platform", "storage"]
    assert len(wanted_subsets(["all", "gpu"])) == 7
    assert set(gather(["storage"], "/", ["/"])) == {"storage", "missing"}
