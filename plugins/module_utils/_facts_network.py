# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 gb10.serving contributors
"""Private: addresses of interfaces, and the TCP ports somebody listens on."""

from __future__ import annotations

import ipaddress
import json
import re
from typing import Any

from ._facts_source import Source, safe_name

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
    return found.setdefault(name, {"name": name, "ipv4": [], "mtu": None, "up": None})


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
                entry["mtu"] = int(head.group(3)) if head.group(3) else entry["mtu"]
        elif one and safe_name(one.group(1)):
            _add(_entry(found, one.group(1)), ipv4_interface(one.group(2)))
        elif inet:
            last = inet.group(2).split()[-1:]
            name = current or safe_name(last[0] if last else None)
            if name:
                _add(_entry(found, name), ipv4_interface(inet.group(1)))
        elif brief and safe_name(brief.group(1)):
            entry = _entry(found, brief.group(1))
            entry["up"] = brief.group(2) == "UP"
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


def read_network(source: Source, missing: dict[str, str]) -> dict[str, Any]:
    """interfaces (null when they cannot be read) and listening_tcp_ports, which always come from the live machine."""
    output = source.command(["ip-j-addr", "ip-j-a"], ["ip", "-j", "addr"])
    interfaces: list[dict[str, Any]] | None = parse_ip_json(output.text) or None
    # a part of the list cannot show that an interface has no address
    complete = interfaces is not None
    if interfaces is None:
        texts = source.captured_texts(["ip-addr", "ip-a.", "ip-a-", "ip-o-", "ip-br", "ip-4-"])
        found = parse_ip_text("\n".join(texts))
        names = {entry["name"] for entry in found}
        # `ip link` shows no addresses: they stay unknown, which is not the same as having none
        links = parse_ip_text("\n".join(source.captured_texts(["ip-link", "ip-j-link"])))
        interfaces = found + [dict(entry, ipv4=None) for entry in links if entry["name"] not in names] or None
    if interfaces is None:
        missing["network.interfaces"] = output.reason or "`ip -j addr` printed nothing that could be read"
    live = Source("/")
    tables = [live.read("/proc/net/" + name) for name in ("tcp", "tcp6")]
    ports: list[int] | None = None
    if all(table is None for table in tables):
        missing["network.listening_tcp_ports"] = "/proc/net/tcp could not be read"
    else:
        ports = sorted(set().union(*(parse_listening(table) for table in tables if table is not None)))
    for entry in interfaces or []:
        for key in ("mtu", "up"):
            if entry[key] is None:
                missing["network.interfaces.{}.{}".format(entry["name"], key)] = "`ip addr` does not show it"
    return {"interfaces": interfaces, "complete": complete, "listening_tcp_ports": ports}
