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
    """Lines `HCA port 1 ==> NETDEV (Up)`."""
    for match in re.finditer(r"^\s*(\S+) port (\d+) ==> (\S+) \((Up|Down)\)", text, re.MULTILINE):
        state = "ACTIVE" if match.group(4) == "Up" else "DOWN"
        _put(devices, match.group(1), netdev=match.group(3), state=state)


def parse_rdma_link(text: str, devices: dict[str, dict[str, Any]]) -> None:
    """Lines `link HCA/1 state ACTIVE physical_state LINK_UP netdev NETDEV`."""
    for match in re.finditer(r"^\s*(?:\d+:\s+)?link (\S+?)/\d+:? (.*)$", text, re.MULTILINE):
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
        r"^\s*(\S+)\s+(\d+)\s+(\d{1,5})\s+([0-9a-fx:]{15,})\s+(?:[0-9.x]+\s+)?(v1|v2)\s*(\S*)\s*$", re.MULTILINE
    )
    for name, _port, index, gid, version, netdev in pattern.findall(text):
        _put(devices, name, netdev=netdev or None)
        table = devices[name].setdefault("gids", [])
        table.append({"index": int(index), "gid": gid, "type": "RoCE v2" if version == "v2" else "IB/RoCE v1"})


def parse_ibstat(text: str, devices: dict[str, dict[str, Any]]) -> None:
    """The blocks of ibstat. A block that ends early leaves its later fields unknown."""
    fields = {
        "Firmware version": "firmware",
        "Node GUID": "node_guid",
        "System image GUID": "sys_image_guid",
        "State": "state",
        "Physical state": "phys_state",
        "Rate": "rate",
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
    }
    name: str | None = None
    for line in text.splitlines():
        key, colon, value = line.strip().partition(":")
        value = value.strip()
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


def parse_hotplug(text: str) -> dict[str, Any]:
    """What the kernel log says about cables: is the hot-plug driver there, and which cables were plugged after boot."""
    plugs = re.findall(r"^\[\s*([^\]]+)\] cx7-pcie-hotplug \S+ Cable plugin", text, re.MULTILINE)
    # a stamp is seconds since boot, or a date in a log that a person printed
    late = [stamp for stamp in plugs if not re.match(r"^[0-9]{1,12}(?:\.[0-9]+)?$", stamp) or float(stamp) > 120]
    return {"driver": "cx7-pcie-hotplug" in text, "plugged_after_boot": late}


def parse_ethtool_speed(text: str) -> int | None:
    """The Speed line of ethtool in Gb/s; None for `Unknown!`."""
    match = re.search(r"^\s*Speed:\s*(\d{1,7})Mb/s", text, re.MULTILINE)
    return int(match.group(1)) // 1000 if match else None
