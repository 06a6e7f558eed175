# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 gb10.serving contributors
"""Private: reads the PCI function of an RDMA device. Reading only."""

from __future__ import annotations

import re
from typing import Any

from . import _facts_fabric as logic
from ._facts_source import Source

INFINIBAND = "/sys/class/infiniband"
NET = "/sys/class/net"
PCI = "/sys/bus/pci/devices"


def folders(name: str, pci: str | None) -> list[str]:
    """Where the function's files are: below the device link, or on the PCI bus in trees without links."""
    return [INFINIBAND + "/" + name + "/device"] + ([PCI + "/" + pci] if pci else [])


def read_pcie(source: Source, name: str, pci: str | None) -> dict[str, Any] | None:
    """The PCIe link of one function: speed as the kernel writes it, lanes, and what they carry in Gb/s."""
    for folder in folders(name, pci):
        speed, width = source.value(folder + "/current_link_speed"), source.number(folder + "/current_link_width")
        if speed or width:
            lanes = width if width and 0 < width <= 32 else None
            return {
                "address": pci,
                "speed": speed,
                "width": lanes,
                "generation": logic.pcie_generation(speed),
                "gbps": logic.pcie_gbps(speed, lanes),
            }
    return None


def iommu_type(source: Source, name: str, pci: str | None) -> str | None:
    """The type of the function's IOMMU group: identity, DMA-FQ and others."""
    for folder in folders(name, pci):
        value = source.value(folder + "/iommu_group/type")
        group = source.link_name(folder + "/iommu_group") if value is None else None
        if group:
            value = source.value(f"/sys/kernel/iommu_groups/{group}/type")
        if value:
            return value
    return None


def temperature(source: Source, name: str, pci: str | None) -> float | None:
    """The temperature of the NIC in degrees Celsius."""
    for folder in folders(name, pci):
        for item in source.entries(folder + "/hwmon"):
            for place in (f"{folder}/hwmon/{item}", f"/sys/class/hwmon/{item}"):
                value = source.number(place + "/temp1_input")
                if value is not None and re.match(r"^hwmon\d+$", item):
                    return value / 1000
    for text in source.captured_texts(["sensors"]):
        from . import _facts_fabric_tools as tools

        value_c = tools.sensors_temperature(text, pci or "")
        if value_c is not None:
            return value_c
    return None
