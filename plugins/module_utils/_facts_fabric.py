# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 gb10.serving contributors
"""Private: the logic of RDMA devices and QSFP ports. Pure: text and values in, values out."""

from __future__ import annotations

import ipaddress
import re
from typing import Any

from ._facts_fabric_checks import pcie_is_slow
from ._facts_fabric_remedy import port_remedy

LINK_GBPS = 200
PCI_ADDRESS = re.compile(r"^[0-9a-f]{4,5}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$")
_BY_PATH = re.compile(r"^(?:roce|ibp?|en|eth)(?:P(\d+))?p(\d+)s(\d+)(?:f(\d+))?(?:n(?:p)?\d+)?$")
_GT_PER_LANE = {
    "2.5": 2.0,
    "5.0": 4.0,
    "5": 4.0,
    "8.0": 8 * 128 / 130,
    "8": 8 * 128 / 130,
    "16.0": 16 * 128 / 130,
    "16": 16 * 128 / 130,
    "32.0": 32 * 128 / 130,
    "32": 32 * 128 / 130,
    "64.0": 64 * 242 / 256,
}

_GENERATIONS = {2.5: 1, 5.0: 2, 8.0: 3, 16.0: 4, 32.0: 5, 64.0: 6}

NO_TABLE = "the GID table could not be read"
# worst first: the first that applies is the port's verdict
PORT_ORDER = [
    "infiniband",
    "set-down",
    "no-link",
    "unknown",
    "twin-down",
    "twin-missing",
    "link-below-200",
    "pcie-degraded",
    "bonded",
    "twin-without-ipv4",
    "twins-share-subnet",
    "gid-missing",
    "unmeasured",
]


def parse_state(text: str | None) -> str | None:
    """ "4: ACTIVE", "PORT_ACTIVE (4)" or "Active" as ACTIVE."""
    match = re.search(r"(?:PORT_)?(ACTIVE_DEFER|ACTIVE|DOWN|INIT|ARMED|NOP)", (text or "").upper())
    return match.group(1) if match else None


def parse_rate(text: str | None) -> float | int | None:
    """ "200 Gb/sec (2X NDR)" or "200" as Gb/s."""
    match = re.match(r"^\s*([0-9]{1,4}(?:\.[0-9]{1,2})?)\s*(?:Gb/sec.*)?$", text or "")
    if not match:
        return None
    rate = float(match.group(1))
    return int(rate) if rate.is_integer() else rate


def pcie_gbps(speed: str | None, width: int | None) -> float | None:
    """What a PCIe link can carry in Gb/s."""
    match = re.match(r"^([0-9.]+) ?GT/s", speed or "")
    lane = _GT_PER_LANE.get(match.group(1)) if match else None
    return round(lane * width, 2) if lane and width else None


def pcie_generation(speed: str | None) -> int | None:
    """The generation of a PCIe link, by its speed."""
    match = re.match(r"^([0-9]+(?:\.[0-9])?) ?GT/s", speed or "")
    return _GENERATIONS.get(float(match.group(1))) if match else None


def rdma_mtu_of(netdev_mtu: int | None) -> int | None:
    """The RDMA MTU that the kernel uses for an Ethernet MTU: the largest step that fits with 96 bytes of headers."""
    room = (netdev_mtu or 0) - 96
    return next((step for step in (4096, 2048, 1024, 512, 256) if room >= step), None)


def pci_from_name(name: str | None) -> str | None:
    """The PCI address in a name given by PCI path: roceP2p1s0f1 and enP2p1s0f1np1 are 0002:01:00.1."""
    match = _BY_PATH.match(name or "")
    if not match:
        return None
    domain, bus, slot, function = (int(part or 0) for part in match.groups())
    return f"{domain:04x}:{bus:02x}:{slot:02x}.{function:x}"


def parse_guid(text: str | None) -> int | None:
    """A GUID as a number: 0200:0003:0000:0017 or 0x0200000300000017. All zero is None."""
    digits = (text or "").strip().lower().replace(":", "")
    digits = digits[2:] if digits.startswith("0x") else digits
    return (int(digits, 16) or None) if re.match(r"^[0-9a-f]{16}$", digits) else None


def port_number(
    port_name: str | None, node_guid: int | None, system_guid: int | None, pci: str | None
) -> tuple[int | None, str | None]:
    """The QSFP port and by which rule: port name, else GUID (N, N+4 are port 0; N+1, N+5 port 1), else PCI function."""
    match = re.match(r"^p(\d{1,2})$", port_name or "")
    if match:
        return int(match.group(1)), "phys_port_name"
    if node_guid is not None and system_guid is not None and node_guid - system_guid in (0, 1, 4, 5):
        return (node_guid - system_guid) & 1, "GUID"
    if pci and PCI_ADDRESS.match(pci):
        return int(pci[-1], 16), "PCI function"
    return None, None


def mapped_ipv4(gid: str | None) -> str | None:
    """The IPv4 address in an IPv4-mapped GID, also in one whose zeros a person left out; else None."""
    short = re.match(r"^0000:\.\.\.:ffff:([0-9a-f]{4}):([0-9a-f]{4})$", (gid or "").strip())
    if short:
        gid = "::ffff:" + ":".join(short.groups())
    elif (gid or "").strip().startswith("0000:") and not re.match(r"^(?:[0-9a-fA-F]{4}:){7}[0-9a-fA-F]{4}$", gid or ""):
        # the kernel writes all digits: this one was cut off
        return None
    try:
        mapped = ipaddress.IPv6Address((gid or "").strip()).ipv4_mapped
    except ValueError:
        return None
    return str(mapped) if mapped is not None and int(mapped) else None


def roce_v2_addresses(table: list[dict[str, Any]]) -> list[tuple[int, str]]:
    """(index, IPv4) of each RoCE v2 entry with an IPv4 address, lowest index first."""
    found = []
    for entry in sorted(table, key=lambda item: item["index"]):
        kind = (entry.get("type") or "").lower().replace(" ", "")
        address = mapped_ipv4(entry.get("gid"))
        if address and kind in ("rocev2", "v2"):
            found.append((entry["index"], address))
    return found


def link_local_index(table: list[dict[str, Any]]) -> int | None:
    """The lowest RoCE v2 entry of fe80::/10; there is one on ports that are down, too."""
    for entry in sorted(table, key=lambda item: item["index"]):
        kind = (entry.get("type") or "").lower().replace(" ", "")
        if kind in ("rocev2", "v2") and str(entry.get("gid") or "").lower().startswith("fe8"):
            return int(entry["index"])
    return None


def order_addresses(addresses: list[str]) -> list[str]:
    """Addresses of one interface, those of 169.254.0.0/16 last; otherwise as given."""
    return sorted(addresses, key=lambda item: ipaddress.IPv4Interface(item).ip.is_link_local)


def choose_gid(netdev: str | None, addresses: list[str] | None, table: list[dict[str, Any]] | None) -> dict[str, Any]:
    """Which address of the interface to use and its GID index: {ipv4, gid_index, gid_reason, addresses, gid_ipv4}."""
    entries = roce_v2_addresses(table or [])
    name = netdev or "its interface"
    if addresses is None:
        distinct = sorted({address for _index, address in entries})
        index = entries[0][0] if len(distinct) == 1 else None
        if index is not None:
            reason = None
        elif entries:
            reason = f"the addresses of {name} could not be read and there are several RoCE v2 entries"
        else:
            reason = NO_TABLE if table is None else "there is no RoCE v2 entry with an IPv4 address"
        return {
            "ipv4": None,
            "gid_index": index,
            "gid_reason": reason,
            "addresses": [],
            "gid_ipv4": distinct[0] if index is not None else None,
        }
    ordered = []
    for address in order_addresses(addresses):
        plain = address.partition("/")[0]
        ordered.append({"ipv4": address, "gid_index": next((n for n, value in entries if value == plain), None)})
    if not ordered:
        return {
            "ipv4": None,
            "gid_index": None,
            "gid_reason": f"{name} has no IPv4 address",
            "addresses": [],
            "gid_ipv4": None,
        }
    chosen = next((item for item in ordered if item["gid_index"] is not None), ordered[0])
    why: str | None = None
    if chosen["gid_index"] is None:
        seen = ", ".join(f"{number} is {value}" for number, value in entries)
        why = "no RoCE v2 entry of the GID table is {}".format(str(chosen["ipv4"]).partition("/")[0])
        why = NO_TABLE if table is None else why + (f" ({seen})" if seen else "")
    found: Any = chosen["gid_index"]
    return {
        "ipv4": chosen["ipv4"],
        "gid_index": found,
        "gid_reason": why,
        "addresses": ordered,
        "gid_ipv4": str(chosen["ipv4"]).partition("/")[0] if found is not None else None,
    }


def share_subnet(hcas: list[dict[str, Any]]) -> bool:
    """Are two of the devices in one subnet. Where only the GID tells an address, a prefix length of 24 is taken."""
    words = [hca["ipv4"] for hca in hcas if hca["ipv4"]]
    if not words:
        words = [hca["gid_ipv4"] + "/24" for hca in hcas if hca["gid_ipv4"]]
    networks = [ipaddress.IPv4Interface(word).network for word in dict.fromkeys(words)]
    return any(a.overlaps(b) for n, a in enumerate(networks) for b in networks[n + 1 :])


def has_link(hcas: list[dict[str, Any]]) -> bool | None:
    """Does one of the port's devices have a link; None when that could not be read."""
    if any(hca["state"] == "ACTIVE" and hca.get("netdev_up") is not False for hca in hcas):
        return True
    return None if any(hca["state"] is None for hca in hcas) else False


def port_findings(hcas: list[dict[str, Any]], twinless: bool = False) -> list[str]:
    """Everything that is wrong with one QSFP port, worst first; ["unmeasured"] when nothing is."""
    if any(str(hca.get("link_layer") or "").lower() == "infiniband" for hca in hcas):
        return ["infiniband"]
    active = [hca for hca in hcas if hca["state"] == "ACTIVE" and hca["netdev_up"] is not False]
    if not active:
        if any(hca["state"] is None for hca in hcas):
            return ["unknown"]
        switches = {hca["netdev_enabled"] for hca in hcas}
        # an interface that is set down shows nothing of the cable; one that is up and has no carrier does
        return ["set-down" if False in switches and True not in switches else "no-link"]
    found = {"twin-missing"} if twinless and len(hcas) == 1 else set()
    if any(hca["state"] not in (None, "ACTIVE") or hca["netdev_up"] is False for hca in hcas):
        found.add("twin-down")
    if any(hca["state"] is None for hca in hcas):
        found.add("unknown")
    if any(hca["rate_gbps"] is not None and hca["rate_gbps"] < LINK_GBPS for hca in active):
        found.add("link-below-200")
    if any(pcie_is_slow(hca["pcie"]) for hca in active):
        found.add("pcie-degraded")
    if any(hca.get("bonded") for hca in active):
        found.add("bonded")
    if any(hca["ipv4_known"] and hca["ipv4"] is None for hca in active):
        found.add("twin-without-ipv4")
    if share_subnet([hca for hca in active if not hca.get("bonded")]):
        found.add("twins-share-subnet")
    bare = [hca for hca in active if not hca.get("bonded")]
    if any(hca["ipv4"] and hca["gid_known"] and hca["gid_index"] is None for hca in bare):
        found.add("gid-missing")
    return [word for word in PORT_ORDER if word in found] or ["unmeasured"]


def unite_chips(hcas: list[dict[str, Any]]) -> None:
    """A function whose switch id could not be read belongs to the chip with the same system image GUID."""
    known = {hca["chip_guid"]: hca["chip"] for hca in hcas if hca["chip"] and not hca["chip"].startswith("guid-")}
    for hca in hcas:
        if hca["chip_guid"] is not None and (hca["chip"] or "guid-").startswith("guid-"):
            hca["chip"] = known.get(hca["chip_guid"], hca["chip"])


def group_ports(hcas: list[dict[str, Any]], twinless: set[str] | None = None) -> list[dict[str, Any]]:
    """The QSFP ports: functions with the same chip and port number. twinless: devices whose twin is missing."""
    groups: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for hca in hcas:
        if hca["port"] is not None:
            groups.setdefault((hca["chip"] or "", hca["port"]), []).append(hca)
    ports = []
    chips = {chip for chip, _port in groups}
    for (chip, port), members in sorted(groups.items(), key=lambda item: item[0]):
        findings = port_findings(members, bool(twinless) and members[0]["name"] in (twinless or ()))
        ports.append(
            {
                "name": f"p{port}" if len(chips) < 2 else f"{chip or 'unknown-chip'}-p{port}",
                "chip": chip or None,
                "port": port,
                "hcas": [hca["name"] for hca in members],
                "link": has_link(members),
                "verdict": findings[0],
                "findings": findings,
                "remedy": port_remedy(findings[0], members),
            }
        )
    return ports


def fabric_verdict(ports: list[dict[str, Any]]) -> str:
    """The worst of the ports that have a link; a port without cable does not count when another has one."""
    words = [port["verdict"] for port in ports]
    linked = [word for word in words if word not in ("no-link", "set-down")]
    known = [word for word in linked if word != "unknown"] or linked or words
    return next((word for word in PORT_ORDER if word in known), "unknown")
