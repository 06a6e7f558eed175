# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 gb10.serving contributors
"""Private: reads RDMA devices and their PCI functions from sysfs. Reading only."""

from __future__ import annotations

import re
from typing import Any

from . import _facts_fabric as logic
from . import _facts_fabric_tools as tools
from ._facts_source import Source, safe_name

INFINIBAND = "/sys/class/infiniband"
NET = "/sys/class/net"
PCI = "/sys/bus/pci/devices"
HOTPLUG = "/sys/devices/platform/MTKP0001:00"
COUNTERS = {
    "counters/port_rcv_data": ("received_bytes", 4),
    "counters/port_xmit_data": ("sent_bytes", 4),
    "counters/port_rcv_errors": ("receive_errors", 1),
    "counters/port_xmit_discards": ("send_discards", 1),
    "counters/symbol_error": ("symbol_errors", 1),
    "counters/link_downed": ("link_downed", 1),
    "counters/link_error_recovery": ("link_error_recovery", 1),
    "hw_counters/np_cnp_sent": ("cnp_sent", 1),
    "hw_counters/rp_cnp_handled": ("cnp_handled", 1),
    "hw_counters/out_of_sequence": ("out_of_sequence", 1),
    "hw_counters/packet_seq_err": ("packet_sequence_errors", 1),
    "hw_counters/local_ack_timeout_err": ("ack_timeouts", 1),
}


def captured_tools(source: Source) -> dict[str, dict[str, Any]]:
    """What captured tools say about each device; empty on a live machine."""
    devices: dict[str, dict[str, Any]] = {}
    for prefixes, parse in (
        (["rdma-link"], tools.parse_rdma_link),
        (["ibv_devinfo"], tools.parse_ibv_devinfo),
        (["ibstat"], tools.parse_ibstat),
        (["show_gids", "show-gids"], tools.parse_show_gids),
    ):
        for text in source.captured_texts(prefixes):
            parse(text, devices)
    parse_first = source.command(["ibdev2netdev"])
    tools.parse_ibdev2netdev(parse_first.text, devices)
    return devices


def pci_address(source: Source, name: str, netdev: str | None) -> str | None:
    """The PCI function of an RDMA device, by links; by a name given from the PCI path only when there is no link."""
    base = INFINIBAND + "/" + name
    choices = [source.link_name(base + "/device")] + source.parent_names(base)
    if netdev:
        choices += [source.link_name(NET + "/" + netdev + "/device")]
    choices += [logic.pci_from_name(name), logic.pci_from_name(netdev)]
    return next((item for item in choices if item and logic.PCI_ADDRESS.match(item)), None)


def netdev_of(source: Source, name: str, port: str, tool: dict[str, Any]) -> tuple[str | None, str | None]:
    """The network interface of an RDMA device and how it was found."""
    base = INFINIBAND + "/" + name
    below = [item for item in source.entries(base + "/device/net") if safe_name(item)]
    # a function may carry representors too: the uplink is the one whose port name is p0, p1
    uplinks = [item for item in below if re.match(r"^p\d+$", source.value(f"{NET}/{item}/phys_port_name") or "")]
    if below:
        return (uplinks or below)[0], "device/net"
    pci = pci_address(source, name, None)
    if pci:
        same = [item for item in source.entries(NET) if source.link_name(f"{NET}/{item}/device") == pci]
        if len(same) == 1:
            return same[0], "PCI function"
    for index in source.entries(f"{base}/ports/{port}/gid_attrs/ndevs"):
        found = safe_name(source.value(f"{base}/ports/{port}/gid_attrs/ndevs/{index}"))
        if found:
            return found, "gid_attrs/ndevs"
    found = safe_name(tool.get("netdev"))
    return (found, "tool output") if found else (None, None)


def gid_table(source: Source, base: str, tool: dict[str, Any]) -> list[dict[str, Any]] | None:
    """The used entries of the GID table; None when it cannot be read."""
    names = [name for name in source.entries(base + "/gids") if re.match(r"^[0-9]{1,5}$", name)]
    if not names:
        return tool.get("gids")
    table = []
    for name in sorted(names, key=int):
        gid = source.value(base + "/gids/" + name)
        if gid and gid.strip("0:"):
            kind = source.value(base + "/gid_attrs/types/" + name)
            table.append({"index": int(name), "gid": gid, "type": kind})
    return table


def read_pcie(source: Source, name: str, pci: str | None) -> dict[str, Any] | None:
    """The PCIe link of one function: speed as the kernel writes it, lanes, and what they carry in Gb/s."""
    folders = [INFINIBAND + "/" + name + "/device"] + ([PCI + "/" + pci] if pci else [])
    for folder in folders:
        speed, width = source.value(folder + "/current_link_speed"), source.number(folder + "/current_link_width")
        if speed or width:
            lanes = width if width and width <= 32 else None
            return {"address": pci, "speed": speed, "width": lanes, "gbps": logic.pcie_gbps(speed, lanes)}
    return None


def netdev_up(source: Source, net: str) -> bool | None:
    """Does the interface have a carrier. An interface that is switched off has no carrier file to read."""
    carrier = source.value(net + "/carrier")
    if carrier in ("0", "1"):
        return carrier == "1"
    return False if source.value(net + "/operstate") == "down" else None


def read_hca(
    source: Source, name: str, tool: dict[str, Any], network: dict[str, Any], missing: dict[str, str]
) -> dict[str, Any]:
    """Everything about one RDMA device."""
    key = "fabric.hcas." + name
    base = INFINIBAND + "/" + name
    port = next((item for item in source.entries(base + "/ports") if item.isdigit()), "1")
    netdev, netdev_by = netdev_of(source, name, port, tool)
    pci = pci_address(source, name, netdev)
    ports = base + "/ports/" + port
    state = logic.parse_state(source.value(ports + "/state") or tool.get("state"))
    rate = logic.parse_rate(source.value(ports + "/rate") or tool.get("rate"))
    if rate is None and netdev:
        texts = source.captured_texts([f"ethtool-{netdev}", "ethtool-speed"])
        rate = next((speed for speed in map(tools.parse_ethtool_speed, texts) if speed), None)
    node_guid = logic.parse_guid(source.value(base + "/node_guid") or tool.get("node_guid"))
    system_guid = logic.parse_guid(source.value(base + "/sys_image_guid") or tool.get("sys_image_guid"))
    net = NET + "/" + (netdev or "-")
    chip = source.value(net + "/phys_switch_id") or (f"guid-{system_guid:016x}" if system_guid else None)
    number, port_by = logic.port_number(source.value(net + "/phys_port_name"), node_guid, system_guid, pci)
    shown = next((entry for entry in network["interfaces"] or [] if entry["name"] == netdev), None)
    addresses = shown["ipv4"] if shown else ([] if network["complete"] and netdev else None)
    netdev_mtu = source.number(net + "/mtu") or (shown["mtu"] if shown else None)
    rdma_mtu, rdma_mtu_by = tool.get("rdma_mtu"), "ibv_devinfo"
    if rdma_mtu is None and state == "ACTIVE":
        rdma_mtu, rdma_mtu_by = logic.rdma_mtu_of(netdev_mtu), "netdev MTU"
    table = gid_table(source, ports, tool)
    gid = logic.choose_gid(netdev, addresses, table)
    counters = {
        short: value * unit
        for path, (short, unit) in COUNTERS.items()
        for value in (source.number(ports + "/" + path),)
        if value is not None and value >= 0
    }
    facts: dict[str, Any] = {
        "name": name,
        "netdev": netdev,
        "netdev_by": netdev_by,
        "chip": chip,
        "chip_guid": f"{system_guid:016x}" if system_guid else None,
        "port": number,
        "port_by": port_by,
        "state": state,
        "netdev_up": netdev_up(source, net),
        "phys_state": re.sub(r"^\d+:\s*", "", source.value(ports + "/phys_state") or tool.get("phys_state") or "")
        or None,
        "rate_gbps": rate if state == "ACTIVE" else None,
        "netdev_mtu": netdev_mtu,
        "rdma_mtu": rdma_mtu,
        "rdma_mtu_by": rdma_mtu_by if rdma_mtu else None,
        "ipv4": gid["ipv4"],
        "addresses": gid["addresses"],
        "ipv4_known": addresses is not None,
        "gid_known": table is not None,
        "gid_index": gid["gid_index"],
        "gid_ipv4": gid["gid_ipv4"],
        "gid_reason": gid["gid_reason"],
        "pcie": read_pcie(source, name, pci),
        "pci": pci,
        "firmware": source.value(base + "/fw_ver") or tool.get("firmware"),
        "board_id": source.value(base + "/board_id") or tool.get("board_id"),
        "counters": counters,
    }
    reasons = {
        "chip_guid": "no system image GUID",
        "netdev": "no interface has the same PCI function",
        "chip": "no phys_switch_id and no system image GUID",
        "port": "no phys_port_name, no GUIDs and no PCI function",
        "state": f"ports/{port}/state could not be read",
        "rate_gbps": f"ports/{port}/rate could not be read" if state == "ACTIVE" else "the link is not active",
        "netdev_up": "the carrier of the interface could not be read",
        "netdev_mtu": "the MTU of the interface could not be read",
        "rdma_mtu": "the MTU of the interface is not known" if state == "ACTIVE" else "the link is not active",
        "ipv4": gid["gid_reason"] if addresses == [] else "the addresses of the interface could not be read",
        "gid_index": gid["gid_reason"],
        "pcie": "current_link_speed and current_link_width could not be read",
        "pci": "no device link",
        "firmware": "fw_ver could not be read",
    }
    missing.update({key + "." + item: why for item, why in reasons.items() if facts[item] is None and why})
    return facts


def why_empty(source: Source) -> tuple[str | None, str]:
    """(verdict, reason) when there is no RDMA device."""
    vendors = [source.value(f"{PCI}/{item}/vendor") for item in source.entries(PCI)]
    # a list that was searched for another word cannot show that there is no NIC
    lists = source.captured_texts(
        ["lspci.", "lspci-n", "lspci-D", "lspci-t", "lspci-v", "lspci-grep-Mell", "lspci-d-15b3"]
    )
    lspci = "\n".join(lists)
    on_pci = "0x15b3" in vendors or "Mellanox" in lspci or "[15b3:" in lspci
    modules = source.exists("/sys/module/mlx5_core") or any(
        re.search(r"^mlx5_(?:core|ib)\b", text, re.MULTILINE)
        for text in source.captured_texts(["lsmod"]) + [source.read("/proc/modules") or ""]
    )
    marker = source.exists("/etc/nvidia/cx7-hotplug-enabled") or source.exists(HOTPLUG)
    if on_pci:
        return (
            "nic-without-devices",
            "a ConnectX NIC is on PCI but /sys/class/infiniband has no device: load mlx5_ib, or reboot",
        )
    if any(vendors) or lists:
        reason = "no ConnectX NIC is on PCI"
        reason += "; the mlx5 modules are loaded without a device" if modules else ""
        reason += "; hot-plug is on: a NIC without cable is switched off" if marker else ""
        return "no-nic", reason + ". Power the node off, plug the cable in, start it again"
    if not source.captured:
        return "no-nic", "there is neither /sys/class/infiniband nor a PCI device to read"
    return None, "the tree holds nothing about RDMA devices or PCI"


def read_hotplug(source: Source) -> dict[str, Any]:
    """The hot-plug driver, and cables plugged in while the node ran: such links may be slow until a reboot."""
    texts = source.captured_texts(["dmesg"]) if source.captured else [source.command(["dmesg"], ["dmesg"]).text]
    found = tools.parse_hotplug("\n".join(texts))
    found["driver"] = found["driver"] or source.exists(HOTPLUG)
    return found


def read_fabric(source: Source, network: dict[str, Any], missing: dict[str, str]) -> dict[str, Any]:
    """hcas, ports and the verdict. network is what the network reader found."""
    tool = captured_tools(source)
    names = {name for name in source.entries(INFINIBAND) if safe_name(name)} | {
        name for name in tool if safe_name(name)
    }
    hcas = [read_hca(source, name, tool.get(name, {}), network, missing) for name in sorted(names)]
    hcas.sort(key=lambda hca: (hca["pci"] or "~", hca["name"]))
    if not hcas:
        verdict, reason = why_empty(source)
        missing["fabric.hcas"] = reason
        if verdict is None:
            missing["fabric.verdict"] = reason
        return {"hcas": [], "ports": [], "verdict": verdict, "reason": reason, "hotplug": read_hotplug(source)}
    logic.unite_chips(hcas)
    ports = logic.group_ports(hcas)
    return {
        "hcas": hcas,
        "ports": ports,
        "verdict": logic.fabric_verdict(ports),
        "reason": None,
        "hotplug": read_hotplug(source),
    }
