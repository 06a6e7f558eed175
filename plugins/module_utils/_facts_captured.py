# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 gb10.serving contributors
"""Private: the forms in which people hand in what a machine printed. Pure; never used on a live machine."""

from __future__ import annotations

import re

TEXT_ENDS = (".txt", ".csv", ".tsv", ".json", ".yaml", ".yml", ".log")
_NODE = re.compile(r"-(?:node|host|spark|rank)-?([0-9a-z])(?=-|$)")
# further words by which people tell machines apart: roles, makers, and the host names that machines come with
_OWNER = re.compile(
    r"-(head|worker|master|slave|primary|secondary|nvidia|founders|dell|hp|asus|lenovo|gigabyte|msi|acer"
    r"|(?:spark|promaxgb10|aitopatom|edgexpert|gn100)-[0-9a-z]{4})(?:-?\d)?(?=-|$)"
)
# outputs that a machine has once: what follows their names is a host's name when there are several of them
_ONCE = re.compile(
    r"^(ibdev2netdev|ibstat|ibv-devinfo|rdma-link|show-gids|ip-br-addr|ip-o-4-addr|ip-j-addr)(?:-(.+))?$"
)
_OPTIONS = frozenset(["v", "before", "after", "old", "new"])
_PCI = r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]"
_TARGET = re.compile(rf"/({_PCI})/(infiniband|net)/([^\s/]+)\s*$")
_HCA_LINE = re.compile(
    r"^[ \t]*([A-Za-z]\w*):?[ \t]+(?:state=)?(\d: ?[A-Z_]+)[ \t]+rate=(\d+ Gb/sec(?: \([^)]*\))?)", re.MULTILINE
)
_NET_LINE = re.compile(
    r"^[ \t]*([A-Za-z]\w*):?[ \t]+((?:pci|phys_port_name|switch_id|phys_switch_id|carrier|mtu)=.*)$", re.MULTILINE
)
_PCI_LINE = re.compile(rf"({_PCI})[ \t]+(?:cur=)?([0-9.]+ GT/s(?: PCIe)?),? (?:x|width )(\d{{1,2}})\b")
_GID_LINE = re.compile(
    r"^[ \t]*(?:gid\[|GID[ \t]+)(\d{1,3})\]?[ \t]*[=:][ \t]*([0-9a-fA-F:.]+)[ \t]+(?:type=)?(\S.*?)[ \t]*$",
    re.MULTILINE,
)
_NET_KEYS = {"switch_id": "phys_switch_id", "pci": "device@basename"}


def text_name(file: str) -> str | None:
    """The name of a captured text without its end, in one spelling (show_gids.txt is show-gids), or None."""
    stem, dot, end = file.rpartition(".")
    return re.sub(r"[_ ]", "-", stem).lower() if dot and "." + end.lower() in TEXT_ENDS else None


def of_one_node(names: list[str]) -> list[str]:
    """Without the texts of further nodes: a tree is one machine, so of ...-node1 and ...-node2 the first counts."""
    for pattern in (_NODE, _OWNER):
        marks = {name: match.group(1) for name in names for match in (pattern.search(name),) if match}
        if len(set(marks.values())) > 1:
            names = [name for name in names if name not in marks or marks[name] == min(marks.values())]
    tails: dict[str, set[str]] = {}
    for match in filter(None, map(_ONCE.match, names)):
        if match.group(2) and match.group(2) not in _OPTIONS and not re.match(r"^(?:en|roce|mlx|\d)", match.group(2)):
            tails.setdefault(match.group(1), set()).add(match.group(2))
    hosts = {tail for found in tails.values() if len(found) > 1 for tail in found}
    strangers = tuple("-" + host for host in sorted(hosts)[1:])
    return [name for name in names if not strangers or not name.endswith(strangers)]


def parse_listing(text: str) -> dict[str, str]:
    """Lines of path TAB value, path:value (grep) or a bare path (ls), as a map from path to value."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        line = line.rstrip("\r")
        if not line.startswith(("/sys/", "/proc/")):
            continue
        path, tab, value = line.partition("\t")
        if not tab:
            # a path may hold colons (0000:01:00.1, MTKP0001:00): those are followed by two hex digits and one of : . /
            cut = re.search(r":(?![0-9a-f]{2}[:./])", line)
            path, value = (line[: cut.start()], line[cut.end() :]) if cut else (line, "")
        path = path.rstrip("/")
        several = path.startswith("/proc/") and found.get(path)
        found[path] = f"{several}\n{value}" if several else value
    return found


def parse_link_states(text: str) -> dict[str, str]:
    """The LnkSta line of each function in `lspci -vv`, as sysfs paths and values."""
    found: dict[str, str] = {}
    pci = None
    for line in text.splitlines():
        head = re.match(r"^((?:[0-9a-f]{4}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]) ", line)
        if head:
            pci = head.group(1) if head.group(1).count(":") == 2 else "0000:" + head.group(1)
        link = re.search(r"\bLnkSta:\s+Speed ([0-9.]+) ?GT/s[^,]*, Width x(\d{1,2})\b", line)
        if pci and link:
            found[f"/sys/bus/pci/devices/{pci}/current_link_speed"] = link.group(1) + " GT/s"
            found[f"/sys/bus/pci/devices/{pci}/current_link_width"] = link.group(2)
    return found


def parse_loops(name: str, text: str) -> dict[str, str]:
    """Readings that a shell loop or `ls -l` printed, one device a line, as sysfs paths and values."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        link, arrow, target = line.rpartition(" -> ")
        match = _TARGET.search(target) if arrow else None
        if match and re.split(r"[\s/]", link)[-1] == match.group(3):
            found[f"/sys/class/{match.group(2)}/{match.group(3)}/device@basename"] = match.group(1)
    for hca, state, rate in _HCA_LINE.findall(text):
        found[f"/sys/class/infiniband/{hca}/ports/1/state"] = state
        found[f"/sys/class/infiniband/{hca}/ports/1/rate"] = rate
    for netdev, rest in _NET_LINE.findall(text):
        for key, value in re.findall(r"(\w+)=(\S+)", rest):
            if key in ("pci", "switch_id", "phys_switch_id", "phys_port_name", "carrier", "mtu"):
                found[f"/sys/class/net/{netdev}/{_NET_KEYS.get(key, key)}"] = value
    if name.startswith("lspci"):
        found.update(parse_link_states(text))
    for pci, speed, width in _PCI_LINE.findall(text):
        found[f"/sys/bus/pci/devices/{pci}/current_link_speed"] = speed
        found[f"/sys/bus/pci/devices/{pci}/current_link_width"] = width
    hca_name = re.search(r"(?:^|-)(roce\w+|mlx5-\d+)$", name)
    if "gid" in name and hca_name:
        # names are in lower case here, but a domain is a capital P
        hca = re.sub(r"^rocep(?=\d+p\d)", "roceP", hca_name.group(1)).replace("mlx5-", "mlx5_")
        for index, gid, kind in _GID_LINE.findall(text):
            found[f"/sys/class/infiniband/{hca}/ports/1/gids/{index}"] = gid
            found[f"/sys/class/infiniband/{hca}/ports/1/gid_attrs/types/{index}"] = kind
    return found
