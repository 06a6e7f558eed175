# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 gb10.serving contributors
# Private to this collection: no stability promised.
"""Which netplan file a node's fabric port needs, and whether it may be written. Pure."""

from __future__ import annotations

import fnmatch
import ipaddress
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ._facts_fabric_remedy import OWN_FILE, port_remedy

#: The one file that this collection writes; netplan reads its folder in order of names, so it comes late.
FILE = OWN_FILE
NETPLAN = "/etc/netplan"
#: Below these NetworkManager keeps connections as key files.
KEYFILES = ("/etc/NetworkManager/system-connections", "/run/NetworkManager/system-connections")
KNOWN_FILES = {"40-cx7.yaml": "NVIDIA Sync, NVIDIA's playbooks, eugr's or sparkrun's scripts"}
HEAD = (
    "# Written by the Ansible collection gb10.serving, playbook configure_fabric.yml.\n"
    "# To undo: remove this file, then 'sudo netplan apply' while no rank runs.\n"
)

WRITE, PRESENT, FOREIGN, REFUSED = "write", "present", "foreign", "refused"


@dataclass(frozen=True)
class Wishes:
    """Host number in the subnets, the numbers of the other nodes, one subnet an interface, and which port."""

    number: int
    peers: Sequence[int]
    subnets: Sequence[str]
    mtu: int = 9000
    port: int | None = None


@dataclass(frozen=True)
class Seen:
    """What the node has: fabric and interfaces of the facts, netplan files and key files by path, management."""

    fabric: Mapping[str, Any]
    interfaces: Sequence[Mapping[str, Any]]
    files: Mapping[str, str] = field(default_factory=dict)
    keyfiles: Mapping[str, str] = field(default_factory=dict)
    #: interface to why it is the one that must not be touched
    management: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Decision:
    """``state`` says what to do; ``reason`` why not, in words; ``content`` is the whole file."""

    state: str
    reason: str = ""
    addresses: Mapping[str, str] = field(default_factory=dict)
    #: interface and address of each other node
    peers: Sequence[tuple[str, str]] = ()
    content: str = ""


def decide(seen: Seen, wishes: Wishes) -> Decision:
    """What to do on this node. A set-up by somebody else wins over everything: it is left alone."""
    netdevs, problem = cabled_interfaces(seen.fabric, wishes.port)
    if problem:
        return Decision(REFUSED, problem)
    networks, problem = check_subnets(wishes, len(netdevs))
    if problem:
        return Decision(REFUSED, problem)
    addresses = {
        netdev: f"{network[wishes.number]}/{network.prefixlen}"
        for netdev, network in zip(netdevs, networks, strict=True)
    }
    peers = [
        (netdev, str(network[number]))
        for netdev, network in zip(netdevs, networks, strict=True)
        for number in wishes.peers
    ]
    content = render(addresses, wishes.mtu)
    owner = owner_of(seen, netdevs, addresses)
    if owner:
        return Decision(FOREIGN, owner, addresses, peers)
    for netdev in netdevs:
        if netdev in seen.management:
            return Decision(
                REFUSED,
                f"{netdev} {seen.management[netdev]}. Expected: the fabric apart from the management network. "
                "Nothing is done to it. Next step: log in over another interface, or set addresses by hand.",
            )
    problem = overlap(seen, netdevs, networks)
    if problem:
        return Decision(REFUSED, problem)
    present = seen.files.get(FILE) == content and all(
        address in addresses_of(seen, netdev) for netdev, address in addresses.items()
    )
    return Decision(PRESENT if present else WRITE, "", addresses, peers, content)


def cabled_interfaces(fabric: Mapping[str, Any], wanted: int | None) -> tuple[list[str], str]:
    """The two interfaces of the port with the link, that of the lower PCI function first; or what is wrong."""
    without = ("no-link", "set-down", "unknown")
    ports = [port for port in fabric.get("ports") or [] if port["verdict"] not in without]
    linked = ", ".join(f"port {port['port']}" for port in ports) or "none"
    if wanted is not None:
        ports = [port for port in ports if port["port"] == wanted]
    if len(ports) != 1:
        expected = f"a link on port {wanted}" if wanted is not None else "exactly one"
        seen = f"QSFP ports with a link: {linked}"
        if not fabric.get("ports"):
            seen = str(fabric.get("reason") or "no QSFP port was found")
        switched = [
            port
            for port in fabric.get("ports") or []
            if port["verdict"] == "set-down" and wanted in (None, port["port"]) and not ports
        ]
        if switched:
            mine = [hca for hca in fabric["hcas"] if any(hca["name"] in port["hcas"] for port in switched)]
            names = ", ".join(str(hca["netdev"]) for hca in mine)
            step = port_remedy("set-down", mine)
            return [], (
                f"{seen}; set down: {names}. Expected: {expected}. Next step: {step[:1].lower()}{step[1:]} Then run "
                "this again."
            )
        return [], (
            f"{seen}. Expected: {expected}. Next step: with the nodes off, plug the cable in at both ends; with two "
            "cables, choose one port by gb10_fabric_port."
        )
    mine = [hca for hca in fabric["hcas"] if hca["name"] in ports[0]["hcas"]]
    netdevs = [str(hca["netdev"]) for hca in sorted(mine, key=lambda hca: hca.get("pci") or "~") if hca.get("netdev")]
    if len(netdevs) != 2:
        return [], (
            f"port {ports[0]['port']} has the interfaces {', '.join(netdevs) or 'none'}. Expected: two. "
            "Next step: reboot the node; 'ip link' must show both."
        )
    return netdevs, ""


def check_subnets(wishes: Wishes, count: int) -> tuple[list[ipaddress.IPv4Network], str]:
    """The subnets as networks, or what is wrong with them and the host numbers."""
    next_step = "Next step: correct gb10_fabric_subnets or gb10_fabric_first_host."
    try:
        networks = [ipaddress.IPv4Network(text) for text in wishes.subnets]
    except ValueError as error:
        return (
            [],
            f"the subnets are {', '.join(wishes.subnets)} ({error}). Expected: like 192.168.200.0/24. {next_step}",
        )
    if len(networks) != count or any(a.overlaps(b) for n, a in enumerate(networks) for b in networks[n + 1 :]):
        shown = ", ".join(map(str, networks))
        return [], f"the subnets are {shown}. Expected: {count}, apart from each other. {next_step}"
    for number in [wishes.number, *wishes.peers]:
        for network in networks:
            if not 0 < number < network.num_addresses - 1:
                return [], f"host number {number} is not in {network}. Expected: an address of it. {next_step}"
    return networks, ""


def render(addresses: Mapping[str, str], mtu: int) -> str:
    """The whole netplan file."""
    lines = ["network:", "  version: 2", "  ethernets:"]
    for netdev, address in addresses.items():
        lines += [
            f"    {netdev}:",
            f"      addresses: [{address}]",
            "      dhcp4: false",
            "      dhcp6: false",
            f"      mtu: {mtu}",
            "      optional: true",
        ]
    return HEAD + "\n".join(lines) + "\n"


def addresses_of(seen: Seen, netdev: str) -> list[str]:
    return [str(item) for entry in seen.interfaces if entry["name"] == netdev for item in entry.get("ipv4") or []]


def owner_of(seen: Seen, netdevs: Sequence[str], addresses: Mapping[str, str]) -> str:
    """Who has set these interfaces up already, in words; empty for nobody but this collection."""
    for path, text in sorted(seen.files.items()):
        name = path.rsplit("/", 1)[-1]
        found = [netdev for netdev in netdevs if names(text, netdev)]
        if path != FILE and found:
            by = f" (as {KNOWN_FILES[name]} write it)" if name in KNOWN_FILES else ""
            return f"{', '.join(found)} is set up by {path}{by}"
    for path, text in sorted(seen.keyfiles.items()):
        found = [netdev for netdev in netdevs if keyfile_addresses(text, netdev)]
        if found:
            return f"{', '.join(found)} is set up by the NetworkManager connection {path}"
    # Links that only name themselves (169.254.0.0/16) are what an interface without any set-up has.
    strange = {
        netdev: [item for item in addresses_of(seen, netdev) if item != addresses[netdev] and not link_local(item)]
        for netdev in netdevs
    }
    # With a file of this collection an older address of it may still be there.
    if FILE not in seen.files and any(strange.values()):
        shown = "; ".join(f"{netdev} has {', '.join(items)}" for netdev, items in strange.items() if items)
        return f"{shown}, and no file says who set it"
    return ""


def names(text: str, netdev: str) -> bool:
    """Does a netplan file speak of this interface, by its name or by a pattern."""
    for line in text.splitlines():
        line = re.sub(r"(^|\s)#.*$", "", line)
        for word in re.findall(r"[A-Za-z0-9_.*?\[\]-]+", line):
            if word == netdev or (re.search(r"[*?]", word) and word != "*" and fnmatch.fnmatchcase(netdev, word)):
                return True
    return False


def keyfile_addresses(text: str, netdev: str) -> bool:
    """Does a NetworkManager key file give this interface a fixed address. Plain DHCP profiles are everywhere."""
    section, name, fixed = "", None, False
    for line in text.splitlines():
        line = line.strip()
        key, _equals, value = line.partition("=")
        if line.startswith("["):
            section = line.strip("[]")
        elif section == "connection" and key == "interface-name":
            name = value.strip()
        elif section == "ipv4":
            fixed = fixed or bool(re.match(r"^address(?:es)?\d*$", key.strip())) or (key, value) == ("method", "shared")
    return name == netdev and fixed


def link_local(address: str) -> bool:
    return ipaddress.IPv4Interface(address).ip.is_link_local


def overlap(seen: Seen, netdevs: Sequence[str], networks: Sequence[ipaddress.IPv4Network]) -> str:
    """Another interface that is in one of the subnets already, as a problem; empty for none."""
    for entry in seen.interfaces:
        for item in [] if entry["name"] in netdevs else entry.get("ipv4") or []:
            for network in networks:
                if ipaddress.IPv4Interface(item).network.overlaps(network):
                    return (
                        f"{entry['name']} has {item}, which lies in {network}. Expected: a subnet that the node does "
                        "not use yet. Next step: choose others in gb10_fabric_subnets."
                    )
    return ""
