# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
# Private to this collection: no stability promised.
"""Which run of Ansible holds a lock, whether it still lives, and how to say so."""

from __future__ import annotations

import getpass
import os
import secrets
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible_collections.gb10.serving.plugins.plugin_utils._problems import Problem
from ansible_collections.gb10.serving.plugins.plugin_utils._progress import eta_text


def machine() -> str:
    """Names this machine since its start, with its space of process numbers; empty where that cannot be told."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""


def started(pid: int) -> str | None:
    """When the process began, in the kernel's own terms, so that a number that is used again is told apart."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    return None if fields[0] in ("Z", "X") else fields[19]


def owner(pid: int) -> dict[str, Any]:
    """This run, whose process has that number."""
    return {
        "token": secrets.token_hex(8),
        "user": getpass.getuser(),
        "controller": socket.gethostname(),
        "machine": machine(),
        "pid": pid,
        "started": started(pid),
    }


def has_ended(holder: Mapping[str, Any]) -> bool:
    """Whether the holder's run is known to be over: it ran on this very machine, and its process is not there."""
    pid = holder.get("pid")
    here = machine() and holder.get("machine") == machine() and holder.get("controller") == socket.gethostname()
    return bool(here and isinstance(pid, int) and holder.get("started") and started(pid) != holder["started"])


def refusal(host: str, holder: Mapping[str, Any], stale: float) -> Problem:
    who = (
        f"{holder['user']} on {holder.get('controller')} (process {holder.get('pid')})"
        if holder.get("user")
        else "somebody unknown, for the lock file is damaged,"
        if holder.get("damaged")
        else "somebody unknown"
    )
    return Problem(
        host,
        f"{who} has been deploying to these nodes for {eta_text(holder['age'])}; the last sign of life came "
        f"{eta_text(holder['silent'])} ago.",
        "one deploy at a time.",
        f"wait until it has ended and run again. A deploy that is gone is overtaken {eta_text(stale)} after its last "
        f"sign; to do so at once, 'sudo rm {holder['path']}' on {host}.",
    )
