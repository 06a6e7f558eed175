# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 gb10.serving contributors
"""Private: addresses of interfaces, and the TCP ports somebody listens on."""

from __future__ import annotations

import ipaddress
import json
import re
from typing import Any

from . import _port_owner
from ._facts_netplan import NO_NETPLAN, planned, read_netplan
from ._facts_source import Source, safe_name

ADDRESSES = ["ip", "-j", "addr"]
_HEAD = re.compile(r"^\s*\d+:\s+([^\s:@]+)(?:@\S+)?:\s+<([^>]*)>\s*(?:.*?\bmtu\s+(\d{1,6}))?")
_ONE_LINE = re.compile(r"^\s*\d+:\s+([^\s:@]+)(?:@\S+)?\s+inet\s+(\S+)")
_INET = re.compile(r"^\s*inet\s+(\S+)\s*(.*)$")
_BRIEF = re.compile(r"^(\S+?)(?:@\S+)?\s+(UP|DOWN|UNKNOWN)\s*(.*)$")


def ipv4_interface(text: str) -> str | None:
    """ "a.b.c.d/len" when the text is an IPv4 address with prefix length, else None."""
    try:
        return str(ipaddress.IPv4Interface(text)) if "/" in text else None
    except ValueError:
        return None


def _entry(found: dict[str, dict[str, Any]], name: str) -> dict[str, Any]:
    return found.setdefault(name, {"name": name, "ipv4": [], "mtu": None, "up": None, "enabled": None})


def _add(entry: dict[str, Any], address: str | None) -> None:
    if address and address not in entry["ipv4"]:
        entry["ipv4"].append(address)


def parse_ip_json(text: str) -> list[dict[str, Any]]:
    """The output of `ip -j addr`."""
    try:
        links = json.loads(text)
    except (ValueError, RecursionError):
        return []
    found: dict[str, dict[str, Any]] = {}
    for link in links if isinstance(links, list) else []:
        name = safe_name(link.get("ifname")) if isinstance(link, dict) and isinstance(link.get("ifname"), str) else None
        if name is None:
            continue
        entry = _entry(found, name)
        mtu = link.get("mtu")
        entry["mtu"] = mtu if isinstance(mtu, int) else None
        flags = link.get("flags")
        if isinstance(flags, list):
            entry["enabled"] = "UP" in flags
            entry["up"] = "UP" in flags and ("LOWER_UP" in flags or link.get("operstate") == "UP")
        infos = link.get("addr_info")
        ready = [info for info in infos if isinstance(info, dict)] if isinstance(infos, list) else []
        for info in sorted(ready, key=lambda item: bool(item.get("secondary"))):
            if info.get("family") == "inet":
                _add(entry, ipv4_interface("{}/{}".format(info.get("local"), info.get("prefixlen"))))
    return [found[name] for name in found]


def parse_ip_text(text: str) -> list[dict[str, Any]]:
    """The output of `ip addr`, `ip -o -4 addr`, `ip -br addr`, or lines of them."""
    found: dict[str, dict[str, Any]] = {}
    current: str | None = None
    for line in text.splitlines():
        head, one, inet, brief = (pattern.match(line) for pattern in (_HEAD, _ONE_LINE, _INET, _BRIEF))
        if head:
            current = safe_name(head.group(1))
            if current:
                entry = _entry(found, current)
                flags = head.group(2).split(",")
                entry["up"] = "UP" in flags and "LOWER_UP" in flags
                entry["enabled"] = "UP" in flags
                entry["mtu"] = int(head.group(3)) if head.group(3) else entry["mtu"]
        elif one and safe_name(one.group(1)):
            _add(_entry(found, one.group(1)), ipv4_interface(one.group(2)))
        elif inet:
            # a whole line ends with the interface's label, which an alias makes longer
            label = inet.group(2).split()[-1:] if "scope" in inet.group(2) else []
            name = safe_name(label[0].partition(":")[0]) if label else current
            if name:
                _add(_entry(found, name), ipv4_interface(inet.group(1)))
        elif brief and safe_name(brief.group(1)):
            entry = _entry(found, brief.group(1))
            # an interface without a link of its own, such as lo, is UNKNOWN while it is up, else DOWN
            entry["up"] = brief.group(2) in ("UP", "UNKNOWN")
            flags = re.search(r"<([^>]*)>", brief.group(3))
            if entry["up"] or flags:
                entry["enabled"] = entry["up"] or "UP" in str(flags and flags.group(1)).split(",")
            for word in brief.group(3).split():
                _add(entry, ipv4_interface(word))
    return [found[name] for name in found]


def parse_listening(text: str) -> set[int]:
    """Ports in state LISTEN of a /proc/net/tcp or tcp6 table."""
    ports = set()
    for line in text.splitlines():
        cells = line.split()
        if len(cells) > 3 and cells[3] == "0A":
            match = re.match(r"^[0-9A-Fa-f]{8,32}:([0-9A-Fa-f]{4})$", cells[1])
            if match:
                ports.add(int(match.group(1), 16))
    return ports


def merge(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One entry for each interface out of several outputs."""
    found: dict[str, dict[str, Any]] = {}
    for item in entries:
        entry = _entry(found, item["name"])
        for address in item["ipv4"]:
            _add(entry, address)
        for key in ("mtu", "up", "enabled"):
            entry[key] = item[key] if entry[key] is None else entry[key]
    return list(found.values())


def default_interface(source: Source) -> str | None:
    """The interface of the default route with the lowest metric."""
    routes = []
    for line in (source.read("/proc/net/route") or "").splitlines():
        cells = line.split()
        if len(cells) > 7 and cells[1] == "00000000" and cells[7] == "00000000" and cells[6].isdecimal():
            routes.append((int(cells[6]), cells[0]))
    for text in source.captured_texts(["ip-route", "ip-r", "ip-4-route"]):
        for line in text.splitlines():
            match = re.match(r"^\s*default\s.*\bdev (\S+)(?:.*\bmetric (\d{1,9}))?", line)
            if match:
                routes.append((int(match.group(2) or 0), match.group(1)))
    return safe_name(min(routes)[1]) if routes else None


def captured_interfaces(source: Source, files: list[dict[str, Any]] | None) -> list[dict[str, Any]] | None:
    """Interfaces out of whatever a captured tree shows of them."""
    others = (
        "ip-link",
        "ip-j-link",
        "ip-d-link",
        "ip-br-link",
        "ip-brief-link",
        "ip-s-link",
        "ip-route",
        "ip-r",
        "ip-neigh",
        "ip-n",
        "ip-rule",
        "ip-4-route",
    )
    texts = {name: text for name, text in source.captured_named(["ip"]) if not name.startswith(others)}
    found = merge([entry for text in texts.values() for entry in parse_ip_json(text) or parse_ip_text(text)])
    names = {entry["name"] for entry in found}
    plan = planned(files)
    for name in sorted(set(plan) - names):
        entry = plan[name]
        # an address that the network or the interface itself gives is not written there
        known = bool(entry["ipv4"]) or not (entry["dhcp4"] or entry["link_local_ipv4"])
        found.append(_entry({}, name) | {"ipv4": entry["ipv4"] if known else None, "mtu": entry["mtu"]})
        found[-1]["from_netplan"] = True
    # `ip link` shows no addresses: they stay unknown, which is not the same as having none
    links = source.captured_texts(["ip-link", "ip-j-link", "ip-d-link", "ip-s-link", "ip-br-link", "ip-brief-link"])
    for entry in (entry for text in links for entry in parse_ip_json(text) or parse_ip_text(text)):
        same = next((item for item in found if item["name"] == entry["name"]), None)
        if same is None:
            found.append(dict(entry, ipv4=None))
        else:
            same.update({key: entry[key] for key in ("mtu", "up", "enabled") if entry[key] is not None})
    return found or None


def read_listeners() -> list[dict[str, Any]]:
    """Who listens on which TCP port of the live machine, as far as this user may see it."""
    return [
        {"port": port, "pid": pid, "name": name, "container_id": _port_owner.container_of(pid)}
        for port, pids in sorted(_port_owner.holders().items())
        for pid in pids[:1]
        if (name := _port_owner.name_of(pid))
    ]


def read_network(source: Source, missing: dict[str, str]) -> dict[str, Any]:
    """interfaces (null when they cannot be read); the ports and who listens there always come from the live machine."""
    files = read_netplan(source)
    if files is None:
        missing["network.netplan"] = NO_NETPLAN
    output = source.command(["ip-j-addr", "ip-j-a", "ip-j-address"], ADDRESSES)
    interfaces: list[dict[str, Any]] | None = parse_ip_json(output.text) or None
    # a part of the list cannot show that an interface has no address
    complete = interfaces is not None and ("lo" in {entry["name"] for entry in interfaces} or len(interfaces) > 1)
    if not complete and source.captured:
        interfaces = captured_interfaces(source, files)
    if interfaces is None:
        missing["network.interfaces"] = output.reason or "`ip -j addr` printed nothing that could be read"
    route = default_interface(source)
    if route is None:
        missing["network.default_interface"] = "no default route could be read"
    live = Source("/")
    tables = [live.read("/proc/net/" + name) for name in ("tcp", "tcp6")]
    ports: list[int] | None = None
    if all(table is None for table in tables):
        missing["network.listening_tcp_ports"] = "/proc/net/tcp could not be read"
    else:
        ports = sorted(set().union(*(parse_listening(table) for table in tables if table is not None)))
    for entry in interfaces or []:
        for key in ("ipv4", "mtu", "up", "enabled"):
            if entry[key] is None:
                missing["network.interfaces.{}.{}".format(entry["name"], key)] = "`ip addr` does not show it"
    return {
        "interfaces": interfaces,
        "complete": complete,
        "default_interface": route,
        "netplan": files,
        "listening_tcp_ports": ports,
        "listeners": read_listeners(),
    }
