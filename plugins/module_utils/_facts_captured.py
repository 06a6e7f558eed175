# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 gb10.serving contributors
"""Private: the forms in which people hand in what a machine printed. Pure; never used on a live machine."""

from __future__ import annotations

import re

TEXT_ENDS = (".txt", ".csv", ".tsv", ".json", ".yaml", ".yml", ".log")
_NODE = re.compile(r"-(?:node|host|spark)-?([0-9a-z])(?=-|$)")
_PCI = r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]"
_LINK = re.compile(rf"(?:^|[\s/])(\S+) -> \S*/({_PCI})/(infiniband|net)/(\S+)\s*$", re.MULTILINE)
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
    marks = {name: match.group(1) for name in names for match in (_NODE.search(name),) if match}
    return [name for name in names if name not in marks or marks[name] == min(marks.values())]


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


def parse_loops(name: str, text: str) -> dict[str, str]:
    """Readings that a shell loop or `ls -l` printed, one device a line, as sysfs paths and values."""
    found: dict[str, str] = {}
    for link, pci, kind, target in _LINK.findall(text):
        if link == target:
            found[f"/sys/class/{kind}/{target}/device@basename"] = pci
    for hca, state, rate in _HCA_LINE.findall(text):
        found[f"/sys/class/infiniband/{hca}/ports/1/state"] = state
        found[f"/sys/class/infiniband/{hca}/ports/1/rate"] = rate
    for netdev, rest in _NET_LINE.findall(text):
        for key, value in re.findall(r"(\w+)=(\S+)", rest):
            if key in ("pci", "switch_id", "phys_switch_id", "phys_port_name", "carrier", "mtu"):
                found[f"/sys/class/net/{netdev}/{_NET_KEYS.get(key, key)}"] = value
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
