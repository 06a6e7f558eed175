# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 gb10.serving contributors
"""Private: room and file system of the paths asked for, on the live machine."""

from __future__ import annotations

import os
import re
from typing import Any

from ._facts_source import Source


def unescape(text: str) -> str:
    """mountinfo writes blanks as octal escapes."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match.group(1), 8)), text)


def parse_mountinfo(text: str) -> list[tuple[str, str]]:
    """(mount point, file system type), in mount order."""
    mounts = []
    for line in text.splitlines():
        left, dash, right = line.partition(" - ")
        cells, tail = left.split(), right.split()
        if dash and len(cells) > 4 and tail:
            mounts.append((unescape(cells[4]), tail[0]))
    return mounts


def filesystem_of(path: str, mounts: list[tuple[str, str]]) -> str | None:
    """The type of the file system a real path lies on; of two mounts on one point the later one counts."""
    best: tuple[int, str] | None = None
    for point, kind in mounts:
        inside = path == point or path.startswith(point.rstrip("/") + "/")
        if inside and (best is None or len(point) >= best[0]):
            best = (len(point), kind)
    return best[1] if best else None


def nearest_parent(path: str) -> str:
    """The path itself when it exists, else its nearest parent that does."""
    while not os.path.exists(path) and os.path.dirname(path) != path:
        path = os.path.dirname(path)
    return path


def read_storage(paths: list[str], missing: dict[str, str]) -> list[dict[str, Any]]:
    """One entry for each path, in the order asked for."""
    mounts = parse_mountinfo(Source("/").read("/proc/self/mountinfo") or "")
    entries = []
    for path in paths:
        there = nearest_parent(os.path.abspath(os.path.expanduser(path)))
        entry: dict[str, Any] = {
            "path": path,
            "exists_path": there,
            "filesystem": filesystem_of(os.path.realpath(there), mounts),
            "free_bytes": None,
            "total_bytes": None,
            "writable": os.access(there, os.W_OK),
        }
        try:
            stats = os.statvfs(there)
            entry["free_bytes"], entry["total_bytes"] = stats.f_bavail * stats.f_frsize, stats.f_blocks * stats.f_frsize
        except OSError as error:
            missing[f"storage.{path}.free_bytes"] = "{}: {}".format(there, error.strerror or "not readable")
            missing[f"storage.{path}.total_bytes"] = missing[f"storage.{path}.free_bytes"]
        if entry["filesystem"] is None:
            missing[f"storage.{path}.filesystem"] = "/proc/self/mountinfo does not show it"
        entries.append(entry)
    return entries
