# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 gb10.serving contributors
"""Private: what RDMA tools print, for captured trees whose sysfs is incomplete. Pure."""

from __future__ import annotations

import re
from typing import Any


def _put(devices: dict[str, dict[str, Any]], name: str, **values: Any) -> None:
    entry = devices.setdefault(name, {})
    for key, value in values.items():
        if value is not None:
            entry.setdefault(key, value)


def parse_ibdev2netdev(text: str, devices: dict[str, dict[str, Any]]) -> None:
    """Lines `HCA port 1 ==> NETDEV (Up)`, and those of -v: `PCI HCA (MODEL) WORDS port 1 (ACTIVE) ==> NETDEV (Up)`."""
    for match in re.finditer(
        r"^[ \t]*(?:[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7][ \t]+)?(\S+)[ \t]+(?:\([^\n]{0,300}?[ \t])?"
        r"port[ \t]+(\d+)[ \t]+(?:\([A-Z_ ]+\)[ \t]+)?==>[ \t]+(\S+)[ \t]+\((Up|Down)\)",
        text,
        re.MULTILINE,
    ):
        state = "ACTIVE" if match.group(4) == "Up" else "DOWN"
        _put(devices, match.group(1), netdev=match.group(3), state=state)


def parse_rdma_link(text: str, devices: dict[str, dict[str, Any]]) -> None:
    """Lines `link HCA/1 state ACTIVE physical_state LINK_UP netdev NETDEV`."""
    for match in re.finditer(r"^[ \t]*(?:\d+:[ \t]+)?link (\S+?)/\d+:? (.*)$", text, re.MULTILINE):
        words = match.group(2).split()
        pairs = dict(zip(words[::2], words[1::2], strict=False))
        _put(
            devices,
            match.group(1),
            netdev=pairs.get("netdev"),
            state=pairs.get("state"),
            phys_state=pairs.get("physical_state"),
        )


def parse_show_gids(text: str, devices: dict[str, dict[str, Any]]) -> None:
    """The table of show_gids. Columns may be tabs or spaces; the IPv4 column may be empty."""
    pattern = re.compile(
        r"^[ \t]*(\S+)[ \t]+(\d+)[ \t]+(\d{1,5})[ \t]+([0-9a-fx:]{15,})[ \t]+"
        r"(?:[0-9.x]+[ \t]+)?(v1|v2)\b[ \t]*(\S*)[ \t\r]*$",
        re.MULTILINE,
    )
    for name, _port, index, gid, version, netdev in pattern.findall(text):
        _put(devices, name, netdev=netdev or None)
        table = devices[name].setdefault("gids", [])
        kind = "RoCE v2" if version == "v2" else "IB/RoCE v1"
        table.append({"index": int(index), "gid": gid, "type": kind, "ndev": netdev or None})


def parse_ibstat(text: str, devices: dict[str, dict[str, Any]]) -> None:
    """The blocks of ibstat. A block that ends early leaves its later fields unknown."""
    fields = {
        "Firmware version": "firmware",
        "Node GUID": "node_guid",
        "System image GUID": "sys_image_guid",
        "State": "state",
        "Physical state": "phys_state",
        "Rate": "rate",
        "Link layer": "link_layer",
    }
    name: str | None = None
    for line in text.splitlines():
        head = re.match(r"^\s*CA '([^']+)'", line)
        if head:
            name = head.group(1)
            _put(devices, name)
            continue
        key, colon, value = line.strip().partition(":")
        if name and colon and key in fields and value.strip():
            _put(devices, name, **{fields[key]: value.strip()})


def parse_ibv_devinfo(text: str, devices: dict[str, dict[str, Any]]) -> None:
    """The blocks of ibv_devinfo, with or without -v."""
    fields = {
        "fw_ver": "firmware",
        "node_guid": "node_guid",
        "sys_image_guid": "sys_image_guid",
        "state": "state",
        "board_id": "board_id",
        "phys_state": "phys_state",
        "link_layer": "link_layer",
    }
    name: str | None = None
    lanes: int | None = None
    for line in text.splitlines():
        key, colon, value = line.strip().partition(":")
        value = value.strip()
        width = re.match(r"^(\d{1,2})X\b", value) if key == "active_width" else None
        speed = re.match(r"^(\d{1,3}(?:\.\d)?) ?Gbps\b", value) if key == "active_speed" else None
        lanes = int(width.group(1)) if width else None if key == "hca_id" else lanes
        if name and speed and lanes:
            _put(devices, name, rate=f"{float(speed.group(1)) * lanes:g}")
        if key == "hca_id" and value:
            name = value
            _put(devices, name)
        elif name and colon and value and key == "active_mtu":
            match = re.match(r"^(\d{1,5})\b", value)
            _put(devices, name, rdma_mtu=int(match.group(1)) if match else None)
        elif name and colon and value and key in fields:
            _put(devices, name, **{fields[key]: value})
        gid = re.match(r"^\s*GID\[\s*(\d{1,5})\]:\s+([0-9a-fA-F:.]+)(?:,\s*(\S.*))?$", line)
        if gid and name:
            table = devices[name].setdefault("gids", [])
            table.append({"index": int(gid.group(1)), "gid": gid.group(2), "type": (gid.group(3) or "").strip()})


def parse_ibstatus(text: str, devices: dict[str, dict[str, Any]]) -> None:
    """The blocks of ibstatus."""
    name: str | None = None
    fields = {"state": "state", "phys state": "phys_state", "rate": "rate"}
    for line in text.splitlines():
        head = re.match(r"^\s*Infiniband device '([^']+)'", line)
        key, colon, value = line.strip().partition(":")
        if head:
            name = head.group(1)
            _put(devices, name)
        elif name and colon and key in fields and value.strip():
            _put(devices, name, **{fields[key]: value.strip()})


def parse_names(text: str, devices: dict[str, dict[str, Any]]) -> None:
    """Names, with a GUID or not, as ibv_devices and `ls /sys/class/infiniband` print them."""
    for line in text.splitlines():
        for name, guid in re.findall(r"(?:^|\s)((?:roce|mlx5_)\w+)(?:\s+([0-9a-f]{16})\b)?(?=\s|$)", line):
            _put(devices, name, node_guid=guid or None)


def parse_ib_write_bw(text: str, devices: dict[str, dict[str, Any]]) -> None:
    """The MTU of the device that ib_write_bw ran on. The table of two runs in one text says nothing."""
    names, sizes = (
        re.findall(r"\bDevice\s*:\s*(\S+)", text),
        re.findall(r"^[ \t]*Mtu[ \t]*:[ \t]*(\d{3,5})\[B\]", text, re.MULTILINE),
    )
    if len(names) == 1 and len(sizes) == 1:
        _put(devices, names[0], rdma_mtu=int(sizes[0]))


def ethtool_speed(texts: list[tuple[str, str]], netdev: str) -> tuple[int | None, str | None]:
    """(Gb/s, reason) of the Speed line for an interface, out of named outputs of ethtool."""
    found = set()
    for name, text in texts:
        parts = re.split(r"^[ \t]*Settings for ([^\s:]+):", text, flags=re.MULTILINE)
        own = [body for head, body in zip(parts[1::2], parts[2::2], strict=True) if head == netdev]
        named = name.startswith("ethtool-" + netdev.lower())
        anybody = name.startswith("ethtool-speed") and not re.search(r"-en\w+$", name)
        if not own and len(parts) == 1 and (named or anybody or name.endswith("-" + netdev.lower())):
            own = [text]
        found |= {speed for speed in map(parse_ethtool_speed, own) if speed}
    if len(found) > 1:
        speeds = " and ".join(str(speed) for speed in sorted(found))
        return None, f"the captured outputs of ethtool differ: {speeds} Gb/s"
    return (found.pop(), None) if found else (None, None)


def ethtool_rdma_bytes(texts: list[tuple[str, str]], netdev: str) -> int | None:
    """rx_vport_rdma_unicast_bytes of `ethtool -S` for an interface."""
    for name, text in texts:
        match = re.search(r"^[ \t]*rx_vport_rdma_unicast_bytes:[ \t]*(\d{1,19})[ \t\r]*$", text, re.MULTILINE)
        if match and name.endswith(netdev.lower()):
            return int(match.group(1))
    return None


def sensors_temperature(text: str, pci: str) -> float | None:
    """The temperature that `sensors` shows for a PCI function: mlx5-pci-20101 is 0002:01:00.1."""
    for bus, rest in re.findall(r"^mlx5-pci-([0-9a-f]{3,6})\n((?:.+\n?)*)", text, re.MULTILINE):
        number = int(bus, 16)
        address = f"{number >> 16:04x}:{number >> 8 & 255:02x}:{number >> 3 & 31:02x}.{number & 7}"
        match = re.search(r"^asic:\s+\+?([0-9]{1,3}\.[0-9])", rest, re.MULTILINE)
        if address == pci and match:
            return float(match.group(1))
    return None


def parse_ethtool_speed(text: str) -> int | None:
    """The Speed line of ethtool in Gb/s; None for `Unknown!`."""
    match = re.search(r"^[ \t]*Speed:[ \t]*(\d{1,7})Mb/s", text, re.MULTILINE)
    return int(match.group(1)) // 1000 if match else None
