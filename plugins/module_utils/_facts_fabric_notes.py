# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 gb10.serving contributors
"""Private: what a person should know about the links beside the verdicts. Pure."""

from __future__ import annotations

from typing import Any

MANY_BYTES = 10**9


def port_note(port: dict[str, Any], hcas: list[dict[str, Any]], hotplug: dict[str, Any]) -> str | None:
    """A note about one port, or None."""
    torn = [hca["netdev"] for hca in hcas if hca.get("state") == "ACTIVE" and hca.get("netdev_up") is False]
    if torn:
        names = " and ".join(map(str, torn))
        return f"RDMA calls {names} active, but there is no carrier: the readings contradict each other."
    if not port["link"]:
        return None
    plugged = hotplug["plugged_after_boot"]
    if plugged and port["port"] in (hotplug["plugged_ports"] or [port["port"]]):
        return (
            f"The cable was plugged in while the node ran ({plugged[-1]}). Such a link may carry only 13 Gb/s: measure "
            "it, or reboot both nodes with the cable in."
        )
    if "twins-share-subnet" in port["findings"] and not any(hca["ipv4"] for hca in hcas):
        return "The prefix lengths are not known; 24 is taken."
    received = {hca["name"]: hca["counters"].get("received_bytes") for hca in hcas}
    figures = {name: value for name, value in received.items() if value is not None}
    if len(figures) > 1 and max(figures.values()) > MANY_BYTES and min(figures.values()) * 1000 < max(figures.values()):
        idle = min(figures, key=lambda name: figures[name])
        return (
            f"RDMA traffic came in through only one of the port's two devices: {idle} received {figures[idle]} bytes. "
            "Half of the port is not used."
        )
    return None


def fabric_notes(hcas: list[dict[str, Any]], ports: list[dict[str, Any]], hotplug: dict[str, Any]) -> list[str]:
    """Notes about all links."""
    notes = [f"Port {port['port']}: {port['note']}" for port in ports if port["note"]]
    if sum(port["link"] is True for port in ports) > 1:
        notes.append(
            "Two ports have a link: a ring of three nodes, or two nodes with two cables. One node alone cannot tell "
            "which."
        )
    notes += [
        f"The addresses and GIDs of {hca['netdev']} are those of {hca['address_netdev']}."
        for hca in hcas
        if hca.get("address_netdev") and not hca.get("bonded")
    ]
    slow = sorted({str(hca["iommu"]) for hca in hcas if (hca["iommu"] or "").upper().startswith("DMA")})
    if slow:
        notes.append(
            f"The IOMMU translates for the NIC (type {', '.join(slow)}). That has capped reads at 13 Gb/s on some "
            "machines: if a measurement is that low, start the node with iommu.passthrough=1."
        )
    if hotplug["plugged_after_boot"] and not any(port["note"] for port in ports):
        notes.append(f"A cable was plugged in while the node ran ({hotplug['plugged_after_boot'][-1]}).")
    if hotplug["plugged_after_boot"] is None and hotplug["driver"] is not None and hotplug["removed"] is not None:
        notes.append(
            "The kernel log says that a cable was plugged in, without a time. If the node was running, the link may "
            "carry only 13 Gb/s: measure it, or reboot both nodes with the cable in."
        )
    return notes
