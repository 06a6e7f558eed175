#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""Make the captured tree of a GB10 (files a PC does not have) and join it to this node's real values.

Run it again after a change of addresses: `sudo gb10-sysroot`. What the tree shows live: all of /proc, and for the
cabled interfaces mtu, address, operstate and carrier.
"""

from __future__ import annotations

import ipaddress
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import _sysroot_data as data

TARGET = Path("/opt/gb10-sysroot")
CONFIG = Path("/etc/gb10-rehearsal.json")
LIVE = ("mtu", "address", "operstate", "carrier")
ZERO_GID = "0000:0000:0000:0000:0000:0000:0000:0000"


def gid_text(packed: bytes) -> str:
    """16 bytes as sysfs prints them; IPv6Address would write a mapped IPv4 address in its own way."""
    return packed.hex(":", 2)


def link_local_gid(mac: str) -> str:
    """The fe80 GID which a MAC address gives (EUI-64)."""
    octets = [int(part, 16) for part in mac.split(":")]
    eui = [octets[0] ^ 2, *octets[1:3], 0xFF, 0xFE, *octets[3:]]
    return gid_text(bytes([0xFE, 0x80, *[0] * 6, *eui]))


def ipv4_gid(address: str) -> str:
    return gid_text(bytes(10) + b"\xff\xff" + ipaddress.IPv4Address(address).packed)


def gid_table(mac: str, ipv4: list[str], v2_index: int) -> dict[int, tuple[str, str]]:
    """Index -> (GID, type). The first IPv4's v2 entry sits at v2_index; a larger index than 3 leaves a hole."""
    local = link_local_gid(mac)
    table = {0: (local, "IB/RoCE v1"), 1: (local, "RoCE v2")}
    for number, address in enumerate(ipv4):
        table[2 if number == 0 else v2_index + 2 * number - 1] = (ipv4_gid(address), "IB/RoCE v1")
        table[v2_index + 2 * number] = (ipv4_gid(address), "RoCE v2")
    return table


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text + "\n" if text else "")


def link(path: Path, target: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(target)


def make_function(root: Path, function: data.Function, node: int, mac: str, ipv4: list[str], v2_index: int) -> None:
    domain = function.bus.split(":")[0]
    pci = root / f"sys/devices/pci{domain}:00/{domain}:00:00.0/{function.bus}"
    up = function.cabled
    for name, text in data.PCI_FILES.items():
        write(pci / name, text)
    link(root / f"sys/bus/pci/devices/{function.bus}", os.path.relpath(pci, root / "sys/bus/pci/devices"))

    net = pci / "net" / function.netdev
    for name, text in (
        ("phys_port_name", function.port),
        ("phys_switch_id", f"0000005e000000{node + 1:02x}"),
        ("speed", "200000" if up else "-1"),
        ("dev_port", "0"),
    ):
        write(net / name, text)
    link(net / "device", os.path.relpath(pci, net))
    for name, text in (("mtu", "1500"), ("address", mac), ("operstate", "down"), ("carrier", "0")):
        if up:
            link(net / name, f"/sys/class/net/{function.netdev}/{name}")
        else:
            write(net / name, text)
    link(root / f"sys/class/net/{function.netdev}", os.path.relpath(net, root / "sys/class/net"))

    hca = pci / "infiniband" / function.hca
    base = 0x10 + 0x10 * node
    for name, text in data.HCA_FILES.items():
        write(hca / name, text)
    write(hca / "node_guid", f"0200:0003:0000:{base + function.guid_offset:04x}")
    write(hca / "sys_image_guid", f"0200:0003:0000:{base:04x}")
    link(hca / "device", os.path.relpath(pci, hca))
    port = hca / "ports/1"
    for name, text in (data.PORT_UP if up else data.PORT_DOWN).items():
        write(port / name, text)
    table = gid_table(mac, ipv4, v2_index)
    for index in range(data.GID_ENTRIES):
        gid, kind = table.get(index, (ZERO_GID, ""))
        write(port / f"gids/{index}", gid)
        if kind:
            write(port / f"gid_attrs/types/{index}", kind)
            write(port / f"gid_attrs/ndevs/{index}", function.netdev)
    link(root / f"sys/class/infiniband/{function.hca}", os.path.relpath(hca, root / "sys/class/infiniband"))


def make_proc(root: Path, names: list[str]) -> None:
    """proc is the real one, entry by entry, plus the NVIDIA driver's folder."""
    for name in names:
        if not name.isdigit() and name != "driver":
            link(root / "proc" / name, f"/proc/{name}")


def make(root: Path, config: dict[str, Any], links: list[dict[str, Any]], proc_names: list[str]) -> None:
    """Write the whole tree below root, which must not exist."""
    for name, text in data.FILES.items():
        write(root / name, text)
    # without it the probe keeps the links of a tree inside the tree
    write(root / ".gb10-live-links", "")
    make_proc(root, proc_names)
    by_name = {entry["ifname"]: entry for entry in links}
    node = int(config["index"])
    states = []
    for number, function in enumerate(data.FUNCTIONS):
        real = by_name.get(function.netdev, {}) if function.cabled else {}
        mac = str(real.get("address", f"02:00:5e:00:{node:02x}:{number:02x}"))
        ipv4 = [entry["local"] for entry in real.get("addr_info", []) if entry.get("family") == "inet"]
        make_function(root, function, node, mac, ipv4, int(config["gid_index"]))
        states.append(f"{function.hca} port 1 ==> {function.netdev} ({'Up' if function.cabled else 'Down'})")
    write(root / "commands/ibdev2netdev.txt", "\n".join(states))
    write(root / "commands/ip-j-addr.txt", json.dumps(links))


def main() -> int:
    if os.geteuid() != 0:
        print("gb10-sysroot must run as root: sudo gb10-sysroot", file=sys.stderr)
        return 1
    config = json.loads(CONFIG.read_text())
    links = json.loads(subprocess.run(["ip", "-j", "addr"], capture_output=True, check=True).stdout)
    fresh = TARGET.with_name(TARGET.name + ".new")
    shutil.rmtree(fresh, ignore_errors=True)
    make(fresh, config, links, os.listdir("/proc"))
    old = TARGET.with_name(TARGET.name + ".old")
    shutil.rmtree(old, ignore_errors=True)
    if TARGET.exists():
        TARGET.rename(old)
    fresh.rename(TARGET)
    shutil.rmtree(old, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
