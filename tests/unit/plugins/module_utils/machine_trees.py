# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""Builds the trees of tests/unit/fixtures/machines and names what was read from them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures" / "machines"
FUNCTIONS = [
    # device, interface, PCI function, port name, what its GUID adds
    ("rocep1s0f0", "enp1s0f0np0", "0000:01:00.0", "p0", 0),
    ("rocep1s0f1", "enp1s0f1np1", "0000:01:00.1", "p1", 1),
    ("roceP2p1s0f0", "enP2p1s0f0np0", "0002:01:00.0", "p0", 4),
    ("roceP2p1s0f1", "enP2p1s0f1np1", "0002:01:00.1", "p1", 5),
]
SWITCH_ID = "0000005e00000001"
LINK_LOCAL = "fe80:0000:0000:0000:0000:00ff:fe00:0001"
GIB = 1024**3
MIB = 1024**2


def mapped(address: str) -> str:
    a, b, c, d = (int(part) for part in address.split("."))
    prefix = "0000:0000:0000:0000:0000:" + ("0000" if address == "0.0.0.0" else "ffff")
    return f"{prefix}:{a:02x}{b:02x}:{c:02x}{d:02x}"


def function_files(n: int, up: bool = True, **more: Any) -> dict[str, str]:
    """The sysfs files of one PCI function, as `path: value`."""
    hca, netdev, pci, port, offset = FUNCTIONS[n]
    base, net, bus = f"sys/class/infiniband/{hca}", f"sys/class/net/{netdev}", f"sys/bus/pci/devices/{pci}"
    files = {
        f"{base}/ports/1/state": "4: ACTIVE" if up else "1: DOWN",
        f"{base}/ports/1/rate": more.get("rate", "200 Gb/sec (2X NDR)" if up else "40 Gb/sec (4X QDR)"),
        f"{net}/device@basename": pci,
        f"{net}/phys_port_name": port,
        f"{net}/phys_switch_id": SWITCH_ID,
        f"{net}/carrier": "1" if up else "0",
        f"{net}/mtu": str(more.get("mtu", 9000)),
        f"{net}/speed": more.get("speed", "200000" if up else "-1"),
        f"{bus}/current_link_speed": "32.0 GT/s PCIe",
        f"{bus}/current_link_width": str(more.get("width", 4)),
    }
    if more.get("guid", True):
        files[f"{base}/node_guid"] = f"0200:0003:0000:{0x10 + offset:04x}"
        files[f"{base}/sys_image_guid"] = "0200:0003:0000:0010"
    if more.get("iommu"):
        files[f"{bus}/iommu_group/type"] = more["iommu"]
    table = {0: (LINK_LOCAL, "IB/RoCE v1"), 1: (LINK_LOCAL, "RoCE v2")}
    for index, address in more.get("gids", {}).items():
        table.setdefault(2, (mapped(address), "IB/RoCE v1"))
        table[index] = (mapped(address), "RoCE v2")
    for index, (gid, kind) in table.items():
        files[f"{base}/ports/1/gids/{index}"] = gid
        files[f"{base}/ports/1/gid_attrs/types/{index}"] = kind
        files[f"{base}/ports/1/gid_attrs/ndevs/{index}"] = netdev
    return {path: value + "\n" for path, value in files.items()}


def build(root: Path, node: dict[str, Any]) -> Path:
    """Lay the files of a node below root."""
    files: dict[str, str] = {}
    for function in node.get("functions", []):
        files.update(function_files(**function))
    files.update(node.get("files", {}))
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    for name, mode in node.get("modes", {}).items():
        (root / name).chmod(int(mode, 8))
    return root


def cases() -> dict[str, dict[str, Any]]:
    """All nodes of all cases, by CASE/NODE."""
    found = {}
    for path in sorted(FIXTURES.glob("*.yml")):
        for name, node in yaml.safe_load(path.read_text()).items():
            found[f"{path.stem}/{name}"] = node
    return found


def _hcas(facts: dict[str, Any]) -> list[dict[str, Any]]:
    return list(facts["fabric"]["hcas"])


def _by_name(key: str) -> Callable[[dict[str, Any]], Any]:
    return lambda facts: {hca["name"]: hca[key] for hca in _hcas(facts)}


def _known(key: str, name: str = "name") -> Callable[[dict[str, Any]], Any]:
    return lambda facts: {hca[name]: hca[key] for hca in _hcas(facts) if hca[key] is not None}


def _the(key: str) -> Callable[[dict[str, Any]], Any]:
    """The one value that all devices have."""

    def read(facts: dict[str, Any]) -> Any:
        values = [hca[key] for hca in _hcas(facts)]
        assert all(value == values[0] for value in values), values
        return values[0]

    return read


def _with_state(*states: str | None) -> Callable[[dict[str, Any]], Any]:
    return lambda facts: [hca["name"] for hca in _hcas(facts) if hca["state"] in states]


def _twin_pairs(facts: dict[str, Any]) -> list[list[str]]:
    netdevs = _by_name("netdev")(facts)
    return [[netdevs[name] for name in port["hcas"]] for port in facts["fabric"]["ports"]]


def _planned(facts: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {name: entry for file in facts["network"]["netplan"] or [] for name, entry in file["interfaces"].items()}


READINGS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "hcas_up": _with_state("ACTIVE"),
    "hcas_down": _with_state("DOWN"),
    "hcas_unknown": _with_state(None),
    "active_ports": lambda facts: [port["port"] for port in facts["fabric"]["ports"] if port["link"]],
    "cables": lambda facts: facts["fabric"]["cables"],
    "twins": lambda facts: [port["hcas"] for port in facts["fabric"]["ports"]],
    "twin_pairs": _twin_pairs,
    "chips": lambda facts: sorted({hca["chip"] for hca in _hcas(facts)}),
    "rates": _by_name("rate_gbps"),
    "mtu": _known("netdev_mtu", "netdev"),
    "rdma_mtu": _known("rdma_mtu"),
    "ipv4": _known("ipv4", "netdev"),
    "ipv4_by": _known("ipv4_by", "netdev"),
    "gid_index": _by_name("gid_index"),
    "gid_ipv4": _known("gid_ipv4", "netdev"),
    "gid_link_local": _by_name("gid_index_link_local"),
    "gid_entries": _by_name("gid_entries"),
    "phys_state": lambda facts: {
        hca["name"]: hca["phys_state"] for hca in _hcas(facts) if hca["phys_state"] not in (None, "LinkUp")
    },
    "firmware": _the("firmware"),
    "board_id": _the("board_id"),
    "port_by": _the("port_by"),
    "netdev_by": _the("netdev_by"),
    "temperature": _known("temperature_c"),
    "iommu": _known("iommu"),
    "received": lambda facts: {hca["name"]: hca["counters"].get("received_bytes") for hca in _hcas(facts)},
    "pcie": lambda facts: next(
        {key: hca["pcie"][key] for key in ("generation", "width", "gbps")} for hca in _hcas(facts) if hca["state"]
    ),
    "verdicts": lambda facts: {port["port"]: port["verdict"] for port in facts["fabric"]["ports"]},
    "hotplug_driver": lambda facts: facts["fabric"]["hotplug"]["driver"],
    "plugged": lambda facts: facts["fabric"]["hotplug"]["plugged_after_boot"],
    "plugged_ports": lambda facts: facts["fabric"]["hotplug"]["plugged_ports"],
    "planned": lambda facts: {name: entry["ipv4"] for name, entry in _planned(facts).items()},
    "planned_link_local": lambda facts: sorted(n for n, entry in _planned(facts).items() if entry["link_local_ipv4"]),
    "netplan_modes": lambda facts: {entry["file"]: entry["mode"] for entry in facts["network"]["netplan"]},
    "default_interface": lambda facts: facts["network"]["default_interface"],
    "gpu_mib": lambda facts: {item["name"]: item["used_bytes"] / MIB for item in facts["gpu"]["processes"]},
    "rss_kib": lambda facts: {
        item["name"]: item["rss_bytes"] / 1024 for item in facts["gpu"]["processes"] if item["rss_bytes"]
    },
    "swap_kib": lambda facts: facts["memory"]["swap_total_bytes"] / 1024,
    "dgx": lambda facts: {k: v for k, v in facts["platform"]["dgx"].items() if k not in ("name", "pretty_name")},
}
