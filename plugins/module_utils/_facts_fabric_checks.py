# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 gb10.serving contributors
"""Private: what can be wrong with the devices of a QSFP port, beside their states and addresses. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

#: What Gen5 x4 carries, a little less for rounding. A GB10's NIC has two such links.
X4_GBPS, WIDTH, GENERATION = 126.0, 4, 5
#: The board of a GB10's NIC, and the PCI device of its GPU.
BOARD, GPU = "NVD0000000087", ("0x10de", "0x2e12")
MELLANOX = "0x15b3"

_STATES = {
    "linkup": "LinkUp",
    "disabled": "Disabled",
    "polling": "Polling",
    "sleep": "Sleep",
    "portconfigurationtraining": "PortConfigurationTraining",
    "linkerrorrecovery": "LinkErrorRecovery",
}

Hca = Mapping[str, Any]


def physical_state(text: str | None) -> str | None:
    """ "5: LinkUp", "LINK_UP (5)" and "LinkUp" are the same state; a word that is not known stays as it is."""
    bare = re.sub(r"^\d+:\s*|\s*\(\d+\)\s*$", "", (text or "").strip())
    return _STATES.get(re.sub(r"[ _-]", "", bare).lower(), bare) or None


def pcie_is_slow(pcie: Mapping[str, Any] | None) -> bool:
    """Is the PCIe link known to carry less than Gen5 x4, by its speed or by its lanes."""
    if not pcie:
        return False
    if pcie.get("gbps") is not None:
        return float(pcie["gbps"]) < X4_GBPS
    generation, width = pcie.get("generation"), pcie.get("width")
    return (width is not None and width < WIDTH) or (generation is not None and generation < GENERATION)


def pcie_words(pcie: Mapping[str, Any]) -> str:
    """A PCIe link in words: Gen1 x4."""
    generation, width = pcie.get("generation"), pcie.get("width")
    words = [f"Gen{generation}" if generation else str(pcie.get("speed") or ""), f"x{width}" if width else ""]
    return " ".join(word for word in words if word)


def without_twin(hcas: Sequence[Hca], functions: Mapping[str, tuple[str | None, str | None]]) -> set[str]:
    """Devices of a GB10 whose port has no function in another PCI domain. functions: (vendor, device) by PCI address.

    Empty when it is not known that this is a GB10, or when PCI does not show the device itself.
    """
    if GPU not in functions.values() and not any(hca.get("board_id") == BOARD for hca in hcas):
        return set()
    domains = {pci.partition(":")[0] for pci, (vendor, _device) in functions.items() if vendor == MELLANOX}
    return {str(hca["name"]) for hca in hcas if hca["pci"] and domains == {str(hca["pci"]).partition(":")[0]}}


def unite_by_place(hcas: Sequence[dict[str, Any]]) -> None:
    """A function without any id of its chip belongs to the one chip whose port lacks a function in its PCI domain."""

    def domain(hca: Hca) -> str:
        return str(hca["pci"] or "").partition(":")[0]

    bare = [hca for hca in hcas if not hca["chip"] and not hca["chip_guid"] and hca["port"] is not None and hca["pci"]]
    for hca in bare:
        alike = [other for other in bare if (other["port"], domain(other)) == (hca["port"], domain(hca))]
        fitting = []
        for chip in sorted({other["chip"] for other in hcas if other["chip"] and other["pci"]}):
            mine = [other for other in hcas if other["chip"] == chip and other["port"] == hca["port"]]
            if len(mine) == 1 and domain(mine[0]) != domain(hca):
                fitting.append(chip)
        if len(fitting) == 1 and len(alike) == 1:
            hca["chip"] = fitting[0]


def unread(hcas: Sequence[Hca]) -> list[str]:
    """What could not be read of the devices that have a link, in words."""
    active = [hca for hca in hcas if hca.get("state") == "ACTIVE"]
    absent = {
        "rate": [hca for hca in active if hca.get("rate_gbps") is None],
        "PCIe link": [hca for hca in active if pcie_words(hca.get("pcie") or {}).count(" ") != 1],
        "MTU": [hca for hca in active if hca.get("netdev_mtu") is None],
        "IPv4 addresses": [hca for hca in active if not hca.get("ipv4_known", True)],
        "GID table": [hca for hca in active if not hca.get("gid_known", True)],
    }
    words = []
    for what, bare in absent.items():
        names = " and ".join(str(hca.get("netdev") or hca["name"]) for hca in bare)
        if bare:
            words.append(what if len(bare) == len(active) else f"{what} of {names}")
    return words


def gid_owner(netdev: str | None, table: Sequence[Mapping[str, Any]] | None) -> str | None:
    """The interface that the RoCE v2 entries with an IPv4 address belong to, when it is another one than the port's."""
    owners = {
        str(entry["ndev"])
        for entry in table or []
        if entry.get("ndev")
        and str(entry.get("gid") or "").lower().startswith(("0000:0000:0000:0000:0000:ffff:", "::ffff"))
    }
    return owners.pop() if len(owners) == 1 and netdev not in owners else None


def is_bond(owner: str, netdev: str | None, shown_by_kernel: bool) -> bool:
    """Is the interface above the port's own a bond; a VLAN is called like the interface below it."""
    return shown_by_kernel or (owner.startswith("bond") and not owner.startswith(f"{netdev}."))


def master_in(texts: Sequence[str], netdev: str) -> str | None:
    """The interface above another one, in the outputs of `ip addr` or `ip link`."""
    name = re.escape(netdev)
    for text in texts:
        match = re.search(rf"^\d+: {name}(?:@\S+)?: <[^>\n]*>[^\n]*? master (\S+)", text, re.MULTILINE)
        match = match or re.search(
            rf'"ifname": ?"{name}"[^{{}}\[\]]*(?:\[[^\[\]]*\][^{{}}\[\]]*)?"master": ?"([^"]+)"', text
        )
        if match:
            return match.group(1)
    return None
