# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 gb10.serving contributors
"""Private: the whole fabric of a node: its RDMA devices, its ports, or why there are none. Reading only."""

from __future__ import annotations

import re
from typing import Any

from . import _facts_fabric as logic
from ._facts_fabric_checks import unite_by_place, without_twin
from ._facts_fabric_hca import captured_tools, read_hca
from ._facts_fabric_log import NO_STAMP, parse_hotplug
from ._facts_fabric_notes import fabric_notes, port_note
from ._facts_fabric_pci import INFINIBAND, PCI
from ._facts_source import Source, safe_name

KERNEL_LOG = ["dmesg"]
#: What people call the kernel's log when they hand it in.
LOGS = ["dmesg", "journalctl-k", "journalctl-b-k", "journalctl-kb", "journalctl-dmesg", "kern", "kernel-log"]
PLATFORM = "/sys/devices/platform"
HOTPLUG = "MTKP0001:00"
HOTPLUG_MARKER = "/etc/nvidia/cx7-hotplug-enabled"
EJECTED = (
    ". Power the node off, seat the plug anew, start it again; if the NIC goes away again with the cable in, move "
    "{marker} aside and start once more"
)


def why_empty(source: Source, hotplug: dict[str, Any]) -> tuple[str | None, str]:
    """(verdict, reason) when there is no RDMA device."""
    vendors = [source.value(f"{PCI}/{item}/vendor") for item in source.entries(PCI)]
    # a list that was searched for another word cannot show that there is no NIC
    searched = re.compile(r"-(?:grep|d)-(?!.*(?:mell|connectx|mlx|15b3))")
    lists = [text for name, text in source.captured_named(["lspci"]) if not searched.search(name)]
    on_pci = "0x15b3" in vendors or any(re.search(r"Mellanox|ConnectX|\b15b3:", text) for text in lists)
    modules = source.exists("/sys/module/mlx5_core") or any(
        re.search(r"^mlx5_(?:core|ib)\b", text, re.MULTILINE)
        for text in source.captured_texts(["lsmod"]) + [source.read("/proc/modules") or ""]
    )
    marker = source.exists(HOTPLUG_MARKER) or hotplug["driver"]
    if on_pci:
        return (
            "nic-without-devices",
            "a ConnectX NIC is on PCI but /sys/class/infiniband has no device: load mlx5_ib, or reboot",
        )
    if any(vendors) or lists:
        reason = "no ConnectX NIC is on PCI"
        reason += "; the mlx5 modules are loaded without a device" if modules else ""
        reason += "; hot-plug is on: a NIC without cable is switched off" if marker else ""
        if hotplug["nic_seen"] or hotplug["removed"]:
            reason += "; the kernel log shows that it was there and was removed"
            return "no-nic", reason + EJECTED.format(marker=HOTPLUG_MARKER)
        return "no-nic", reason + ". Power the node off, plug the cable in, start it again"
    if not source.captured:
        return "no-nic", "there is neither /sys/class/infiniband nor a PCI device to read"
    if any("No IB devices found" in text for text in source.captured_texts(["ibv_devinfo", "ibv_devices", "ibstat"])):
        return None, "there is no RDMA device; the tree does not show whether a NIC is on PCI"
    return None, "the tree holds nothing about RDMA devices or PCI"


def read_hotplug(source: Source, missing: dict[str, str]) -> dict[str, Any]:
    """The hot-plug driver, and cables plugged in while the node ran: such links may be slow until a reboot."""
    output = source.command(["dmesg"], KERNEL_LOG)
    texts = source.captured_texts(LOGS) if source.captured else [output.text]
    found = parse_hotplug(*texts)
    timeless = found["driver"] is not None and found["plugged_after_boot"] is None
    devices = source.entries(PLATFORM)
    if not found["driver"] and HOTPLUG in devices:
        found["driver"] = True
    elif found["driver"] is None and devices and not source.captured:
        # a captured tree may hold a part of the folder only
        found["driver"] = False
    vendors = [source.value(f"{PCI}/{item}/vendor") for item in source.entries(PCI)]
    if not found["nic_seen"] and ("0x15b3" in vendors or source.entries(INFINIBAND)):
        found["nic_seen"] = True
    why = "the kernel log could not be read: " + (output.reason or "dmesg printed nothing")
    why = NO_STAMP if timeless else why
    missing.update({f"fabric.hotplug.{key}": why for key, value in found.items() if value is None})
    return found


def pci_functions(source: Source) -> dict[str, tuple[str | None, str | None]]:
    """(vendor, device) of the functions on PCI, by address."""
    names = [name for name in source.entries(PCI) if logic.PCI_ADDRESS.match(name)]
    return {name: (source.value(f"{PCI}/{name}/vendor"), source.value(f"{PCI}/{name}/device")) for name in names}


def read_fabric(source: Source, network: dict[str, Any], missing: dict[str, str]) -> dict[str, Any]:
    """hcas, ports and the verdict. network is what the network reader found."""
    tool = captured_tools(source)
    names = {name for name in source.entries(INFINIBAND) if safe_name(name)} | {
        name for name in tool if safe_name(name)
    }
    hcas = [read_hca(source, name, tool.get(name, {}), network, missing) for name in sorted(names)]
    hcas.sort(key=lambda hca: (hca["pci"] or "~", hca["name"]))
    hotplug = read_hotplug(source, missing)
    if hcas:
        hotplug["nic_seen"] = True
        missing.pop("fabric.hotplug.nic_seen", None)
    if not hcas:
        verdict, reason = why_empty(source, hotplug)
        missing["fabric.hcas"] = missing["fabric.cables"] = reason
        if verdict is None:
            missing["fabric.verdict"] = reason
        empty: dict[str, Any] = {"hcas": [], "ports": [], "cables": 0 if verdict == "no-nic" else None}
        notes = fabric_notes([], [], hotplug)
        return {**empty, "verdict": verdict, "reason": reason, "notes": notes, "hotplug": hotplug}
    logic.unite_chips(hcas)
    unite_by_place(hcas)
    ports = logic.group_ports(hcas, without_twin(hcas, pci_functions(source)))
    for port in ports:
        for key, why in (("chip", "no phys_switch_id and no system image GUID"), ("link", "no state could be read")):
            if port[key] is None:
                missing[f"fabric.ports.{port['name']}.{key}"] = why
        port["note"] = port_note(port, [hca for hca in hcas if hca["name"] in port["hcas"]], hotplug)
    return {
        "hcas": hcas,
        "ports": ports,
        "cables": sum(port["link"] is True for port in ports),
        "verdict": logic.fabric_verdict(ports),
        "reason": None,
        "notes": fabric_notes(hcas, ports, hotplug),
        "hotplug": hotplug,
    }
