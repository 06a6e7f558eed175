# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 gb10.serving contributors
"""Private: what netplan files give the interfaces. Its few forms of YAML are read without a library."""

from __future__ import annotations

import contextlib
import os
import re
from typing import Any

from ._facts_source import Source, safe_name

FOLDER = "/etc/netplan"
NO_NETPLAN = "/etc/netplan holds no file that could be read"
_PAIR = re.compile(r"^([^\s:#][^:#]*):(?:\s+(.*))?$")
_YES = frozenset(["true", "yes", "on"])
_NO = frozenset(["false", "no", "off"])


def scalar(text: str) -> str:
    """A YAML scalar without its comment and quotes."""
    text = re.sub(r"\s+#.*$", "", text).strip()
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'" else text


def inline(text: str) -> list[str] | str:
    """`[a, b]` as a list, anything else as a scalar."""
    text = re.sub(r"\s+#.*$", "", text).strip()
    if text.startswith("[") and text.endswith("]"):
        return [scalar(part) for part in text[1:-1].split(",") if part.strip()]
    return scalar(text)


def parse_lines(text: str) -> dict[tuple[str, ...], list[str] | str]:
    """Block mappings as paths of keys, with scalars and lists of scalars as values."""
    found: dict[tuple[str, ...], list[str] | str] = {}
    above: list[tuple[int, str]] = []
    for line in text.splitlines():
        line = line.rstrip()
        bare = line.lstrip(" ")
        if not bare or bare.startswith(("#", "---", "\t")):
            continue
        depth = len(line) - len(bare)
        item = re.match(r"^-\s+(.*)$", bare)
        # a list may stand at the depth of its key
        while above and (above[-1][0] > depth or (above[-1][0] == depth and not item)):
            above.pop()
        path = tuple(key for _depth, key in above)
        pair = _PAIR.match(bare)
        if item:
            kept = found.setdefault(path, [])
            if isinstance(kept, list) and path:
                kept.append(scalar(item.group(1)))
        elif pair:
            path += (scalar(pair.group(1)),)
            above.append((depth, path[-1]))
            if pair.group(2) and not pair.group(2).startswith("#"):
                found[path] = inline(pair.group(2))
    return found


def switch(value: Any) -> bool | None:
    """A YAML truth value, in the spellings that netplan takes."""
    word = value.lower() if isinstance(value, str) else ""
    return True if word in _YES else False if word in _NO else None


def parse_netplan(text: str) -> dict[str, dict[str, Any]]:
    """The ethernets of one file: ipv4, mtu, dhcp4 and whether they take an address of 169.254.0.0/16."""
    found: dict[str, dict[str, Any]] = {}
    for path, value in parse_lines(text).items():
        if len(path) < 4 or path[:2] != ("network", "ethernets") or not safe_name(path[2]):
            continue
        entry = found.setdefault(path[2], {"ipv4": [], "mtu": None, "dhcp4": None, "link_local_ipv4": False})
        if path[3:] == ("addresses",) and isinstance(value, list):
            entry["ipv4"] += [item for item in value if re.match(r"^(?:\d{1,3}\.){3}\d{1,3}/\d{1,2}$", item)]
        elif path[3:] == ("mtu",) and isinstance(value, str) and re.match(r"^\d{2,5}$", value):
            entry["mtu"] = int(value)
        elif path[3:] == ("dhcp4",):
            entry["dhcp4"] = switch(value)
        elif path[3:] == ("link-local",):
            entry["link_local_ipv4"] = "ipv4" in value
    return found


def read_netplan(source: Source) -> list[dict[str, Any]] | None:
    """One entry for each file that configures an ethernet interface; None when no file can be read."""
    files = [f"{FOLDER}/{name}" for name in source.entries(FOLDER) if name.endswith((".yaml", ".yml"))]
    texts = [(path, text) for path in files for text in (source.read(path),) if text is not None]
    texts += source.captured_named(["netplan", "etc-netplan"])
    entries = []
    for path, text in texts:
        mode = None
        with contextlib.suppress(OSError):
            mode = format(os.stat(source.path(path)).st_mode & 0o777, "o") if path.startswith("/") else None
        interfaces = parse_netplan(text)
        if interfaces:
            entries.append({"file": path, "mode": mode, "interfaces": interfaces})
    return entries if texts else None


def planned(entries: list[dict[str, Any]] | None) -> dict[str, dict[str, Any]]:
    """What all files together give an interface; a later file wins."""
    found: dict[str, dict[str, Any]] = {}
    for entry in entries or []:
        found.update(entry["interfaces"])
    return found
