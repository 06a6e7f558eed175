# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 gb10.serving contributors
# Private to this collection: no stability promised.
"""Attempts that failed, remembered beside the releases of a deployment; and memory that a stopped rank gives back."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Mapping
from typing import Any

FILE = "failed.json"

#: Failures that are kept, the latest ones. Each is of one engine with one set of wishes.
KEPT = 8

#: Memory counts as back when this share of it is there; a page table or a log more must not cost a minute.
BACK = 0.98

POLL_SECONDS = 0.5

MEMINFO = "/proc/meminfo"


def read(directory: str) -> list[dict[str, Any]]:
    """The failures that are remembered, the latest last. A file that cannot be read is none."""
    try:
        with open(os.path.join(directory, FILE), encoding="utf-8") as stream:
            found = json.load(stream)
    except (OSError, ValueError):
        return []
    return [entry for entry in found if isinstance(entry, dict) and entry.get("key")] if isinstance(found, list) else []


def remember(directory: str, failure: Mapping[str, Any]) -> None:
    """Add a failure; one with the same key is replaced."""
    stamped = {**failure, "at": time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime())}
    others = [entry for entry in read(directory) if entry["key"] != failure["key"]]
    _write(directory, [*others, stamped][-KEPT:])


def forget(directory: str, key: str) -> None:
    """What failed once works now."""
    found = read(directory)
    others = [entry for entry in found if entry["key"] != key]
    if others != found:
        _write(directory, others)


def _write(directory: str, entries: list[dict[str, Any]]) -> None:
    path = os.path.join(directory, FILE)
    if not entries:
        if os.path.exists(path):
            os.unlink(path)
        return
    fresh = f"{path}.new"
    with open(fresh, "w", encoding="utf-8") as stream:
        json.dump(entries, stream, indent=2)
        stream.write("\n")
    os.replace(fresh, path)


def available_bytes(path: str = MEMINFO) -> int:
    """Memory that a new process could have, page cache included."""
    with open(path, encoding="ascii") as stream:
        found = re.search(r"^MemAvailable:\s+(\d+) kB", stream.read(), re.MULTILINE)
    return int(found[1]) * 1024 if found else 0


def wait_for_memory(
    wanted: int,
    timeout: float,
    look: Callable[[], int] = available_bytes,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> dict[str, Any]:
    """Wait until nearly ``wanted`` bytes are available, ``timeout`` seconds at most."""
    begun = clock()
    while (there := look()) < wanted * BACK and clock() - begun < timeout:
        sleep(POLL_SECONDS)
    return {
        "wanted_bytes": wanted,
        "available_bytes": there,
        "back": there >= wanted * BACK,
        "seconds": round(clock() - begun, 1),
    }
