# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 gb10.serving contributors
"""Private: what to do about a QSFP port, with the names of its own interfaces and files. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ._facts_fabric_checks import pcie_is_slow, pcie_words, unread

#: The file that the playbook configure_fabric.yml writes.
OWN_FILE = "/etc/netplan/60-gb10-fabric.yaml"

Hca = Mapping[str, Any]
Hcas = Sequence[Hca]


def netdev_of(hca: Hca) -> str:
    return str(hca.get("netdev") or hca["name"])


def netplan_place(*hcas: Hca) -> str:
    """Where address and MTU of interfaces are set: the file that names them, ours for bare ones, or in words."""
    files = {str(hca["netplan_file"]) for hca in hcas if hca.get("netplan_file")}
    if len(files) == 1:
        return files.pop()
    if not files and all(hca.get("netplan_known") and not hca.get("ipv4") for hca in hcas):
        return f"{OWN_FILE} (playbook configure_fabric.yml writes it)"
    return f"the netplan file that configures {' and '.join(netdev_of(hca) for hca in hcas)}"


def is_down(hca: Hca) -> bool:
    """Is the interface known to carry nothing."""
    return hca.get("state") not in (None, "ACTIVE") or hca.get("netdev_up") is False


def is_set_down(hca: Hca) -> bool:
    """Is it down because somebody set it down, so that nothing is known about the cable."""
    return is_down(hca) and hca.get("netdev_enabled") is False


def down_words(hca: Hca) -> str:
    """Why an interface carries nothing, told apart as far as it is known."""
    if is_set_down(hca):
        return "is set down"
    if hca.get("netdev_enabled"):
        return "has no carrier"
    return f"has the state {hca['state']}" if hca.get("state") not in (None, "ACTIVE") else "is down or has no carrier"


def down_remedy(hcas: Hcas, twin_has_link: bool = False) -> str:
    """What to do about interfaces that carry nothing, as one sentence or two."""
    switched = [netdev_of(hca) for hca in hcas if is_set_down(hca)]
    rest = [hca for hca in hcas if not is_set_down(hca)]
    words = []
    if switched:
        words.append("Bring up: " + ", ".join(f"'sudo ip link set dev {name} up'" for name in switched) + ".")
    unsure = [netdev_of(hca) for hca in rest if hca.get("netdev_enabled") is None]
    if unsure and twin_has_link:
        words.append("Try: " + ", ".join(f"'sudo ip link set dev {name} up'" for name in unsure) + ".")
    if rest and twin_has_link:
        names = ", ".join(netdev_of(hca) for hca in rest)
        words.append(f"If {names} stays without a link though the cable's other one has it, reboot both nodes with the")
        words.append("cable in.")
    elif rest:
        words.append("With the nodes off, plug the cable in at both ends, then start them.")
    return " ".join(words)


def port_remedy(verdict: str, hcas: Hcas) -> str:
    """What to do about the verdict of a port."""
    names = " and ".join(netdev_of(hca) for hca in hcas)
    if verdict in ("no-link", "set-down"):
        return down_remedy([hca for hca in hcas if is_down(hca)])
    if verdict == "twin-down":
        return down_remedy([hca for hca in hcas if is_down(hca)], twin_has_link=True)
    if verdict == "twin-without-ipv4":
        bare = [hca for hca in hcas if not hca.get("ipv4")]
        subnets = "in two subnets" if len(bare) > 1 else "in a subnet of its own"
        return f"Give {' and '.join(map(netdev_of, bare))} an IPv4 address, {subnets}, in {netplan_place(*bare)}."
    if verdict == "twins-share-subnet":
        return f"Put {names} in two different subnets, in {netplan_place(*hcas)}."
    if verdict == "gid-missing":
        bad = [netdev_of(hca) for hca in hcas if hca.get("ipv4") and hca.get("gid_index") is None] or [names]
        return f"The IPv4 address of {' and '.join(bad)} has no RoCE v2 GID. Set it down and up again, or reboot."
    if verdict == "unmeasured":
        not_read = ", ".join(unread(hcas))
        seen = f"Not read: {not_read}. The rest is fine" if not_read else "All readings are fine"
        return f"{seen}, but only a measurement shows the speed. Run the check playbook."
    if verdict == "bonded":
        bond = next((hca["address_netdev"] for hca in hcas if hca.get("bonded")), "a bond")
        return (
            f"{names}: {bond} has the address and the GIDs, and RDMA over a bond has failed on such machines. Take "
            "them out of the bond and give each a subnet of its own."
        )
    if verdict == "pcie-degraded":
        slow = [f"{netdev_of(hca)} runs {pcie_words(hca['pcie'])}" for hca in hcas if pcie_is_slow(hca.get("pcie"))]
        return (
            f"Its PCIe link is slower than Gen5 x4: {', '.join(slow)}. Shut the node down, take its power off for a "
            "minute, start it with the cable in; if it stays, update the firmware."
        )
    return {
        "infiniband": "The port runs InfiniBand. RoCE needs it as Ethernet: change its link type while no rank runs.",
        "twin-missing": (
            f"Only {names} is on PCI: the port's function in the other PCI domain is missing, and half of its speed. "
            "Shut the node down, take its power off for a minute, start it with the cable in; then update the firmware."
        ),
        "unknown": "The state of the link could not be read. Run the probe on the node itself as root.",
        "link-below-200": "The link runs below 200 Gb/s. On a switch, set the port to 200G; else check the cable.",
    }[verdict]
