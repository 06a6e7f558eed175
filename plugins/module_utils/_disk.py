# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 gb10.serving contributors
# Private to gb10.serving: is there room?
from __future__ import annotations

import os
import socket

GIB = 1 << 30


def nearest_existing(path: str) -> str:
    """The path itself or its nearest parent that exists."""
    path = os.path.abspath(path)
    while not os.path.exists(path):
        path = os.path.dirname(path)
    return path


def head_room(size: int) -> int:
    """What stays free after a copy of this size: a tenth of it, at least 2 GiB."""
    return max(size // 10, 2 * GIB)


def free_bytes(path: str) -> int:
    """What a user may still write where this path is or would be."""
    stat = os.statvfs(nearest_existing(path))
    return stat.f_bavail * stat.f_frsize


def may_write(path: str) -> bool:
    """Whether this user could make or change the path."""
    return os.access(nearest_existing(path), os.W_OK | os.X_OK)


def lack_of_space(path: str, size: int, free: int | None = None, host: str | None = None) -> str | None:
    """Why a copy of this size must not begin, or None."""
    if free is None:
        path = nearest_existing(path)
        free = free_bytes(path)
    need = size + head_room(size)
    if free >= need:
        return None
    return (
        f"Not enough disk space on {host or socket.gethostname()} at {path}: {free / 1e9:.1f} GB are free, "
        f"{need / 1e9:.1f} GB are needed "
        f"({size / 1e9:.1f} GB to write and {head_room(size) / 1e9:.1f} GB head-room). Free space there, or choose "
        "another path, and run again."
    )
