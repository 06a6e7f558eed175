# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 gb10.serving contributors
# Private to gb10.serving: whose process listens on a TCP port of this node.
"""Whether the container that is meant to answer on a port is the one that listens there."""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Callable, Iterator
from typing import Any

LABEL_RELEASE = "gb10.serving/release"
LISTEN = "0A"

#: (argv) -> (rc, stdout, stderr)
Runner = Callable[[list[str]], tuple[int, str, str]]

_CONTAINER = re.compile(r"[0-9a-f]{64}")
_FORM = "[{{json .State}},{{json .Config.Labels}},{{json .Name}}]"


def holders(proc: str = "/proc") -> dict[int, list[int]]:
    """The processes that listen, by TCP port. Those of other users cannot be seen without root and are left out."""
    ports: dict[str, int] = {}
    for table in ("tcp", "tcp6"):
        try:
            with open(f"{proc}/net/{table}", encoding="ascii") as stream:
                rows = [line.split() for line in stream.readlines()[1:]]
        except OSError:
            continue
        listening = (row for row in rows if len(row) > 9 and row[3] == LISTEN)
        ports.update({f"socket:[{row[9]}]": int(row[1].rpartition(":")[2], 16) for row in listening})
    found: dict[int, list[int]] = {}
    for name in sorted((name for name in os.listdir(proc) if name.isdigit()), key=int) if ports else []:
        for port in {ports[link] for link in _open_files(f"{proc}/{name}/fd") if link in ports}:
            found.setdefault(port, []).append(int(name))
    return found


def _open_files(folder: str) -> Iterator[str]:
    """What a process has open. It may end or close files meanwhile, or not be ours to look at."""
    with contextlib.suppress(OSError):
        for fd in os.listdir(folder):
            with contextlib.suppress(OSError):
                yield os.readlink(f"{folder}/{fd}")


def listeners(port: int, proc: str = "/proc") -> list[int]:
    """Processes that listen on the port; empty when none does or when they cannot be seen without root."""
    return holders(proc).get(port, [])


def name_of(pid: int, proc: str = "/proc") -> str | None:
    """The name of a process."""
    try:
        with open(f"{proc}/{pid}/comm", encoding="utf-8", errors="replace") as stream:
            return stream.read().strip()
    except OSError:
        return None


def is_below(pid: int, top: int, proc: str = "/proc") -> bool:
    """Whether a process is ``top`` or descends from it, as all processes of a container do from its first."""
    while pid > 1:
        if pid == top:
            return True
        try:
            with open(f"{proc}/{pid}/stat", encoding="utf-8", errors="replace") as stream:
                pid = int(stream.read().rpartition(")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            return False
    return False


def innermost(cgroup: str) -> str | None:
    """The id of the container that the text of /proc/PID/cgroup names.

    One line for each hierarchy; where containers run in containers, not all of them reach to the innermost.
    """
    ids = max((_CONTAINER.findall(line) for line in cgroup.splitlines()), key=len, default=[])
    return ids[-1] if ids else None


def container_of(pid: int, proc: str = "/proc") -> str | None:
    """The id of the container that a process runs in, by its control group."""
    try:
        with open(f"{proc}/{pid}/cgroup", encoding="utf-8") as stream:
            return innermost(stream.read())
    except OSError:
        return None


def inspect(run: Runner, container: str) -> dict[str, Any] | None:
    """State, labels and name of a container, or None when docker does not know it or does not answer."""
    try:
        code, out, _err = run(["docker", "container", "inspect", "--format", _FORM, container])
        state, labels, name = json.loads(out) if code == 0 else (None, None, None)
    except (OSError, ValueError):
        return None
    return {"state": state, "labels": labels or {}, "name": str(name).lstrip("/")} if state else None


def check(run: Runner, port: int, container: str, release: str | None, proc: str = "/proc") -> dict[str, Any]:
    """Who answers on the port.

    Returns:
        ``own``: True, False, or None when it cannot be told; ``started_at`` and ``release`` of the container;
        ``holder``, who listens instead, in words; ``problem``, what is wrong, or None.
    """
    answer: dict[str, Any] = {"own": None, "started_at": None, "release": None, "holder": None, "problem": None}
    seen = inspect(run, container)
    if seen is None or not seen["state"].get("Running"):
        pids = listeners(port, proc)
        answer["holder"] = _words(run, pids[0], proc) if pids else None
        if seen is not None or _docker_answers(run):
            what = "is not there" if seen is None else "does not run"
            by = f", but {answer['holder']} listens on port {port}" if pids else ""
            answer.update(own=False, problem=f"container {container} {what}{by}")
        return answer
    answer.update(started_at=seen["state"].get("StartedAt"), release=seen["labels"].get(LABEL_RELEASE))
    if release and answer["release"] != release:
        problem = f"container {container} runs release {answer['release'] or 'unknown'}"
        return {**answer, "own": False, "problem": problem}
    pids = listeners(port, proc)
    if not pids:
        return answer  # nothing listens, which the request will show; or it cannot be seen
    answer["own"] = any(is_below(pid, int(seen["state"].get("Pid") or 0), proc) for pid in pids)
    if not answer["own"]:
        answer["holder"] = _words(run, pids[0], proc)
        answer["problem"] = f"{answer['holder']} listens on port {port}, not container {container}"
    return answer


def _docker_answers(run: Runner) -> bool:
    try:
        return run(["docker", "version", "--format", "{{.Server.Version}}"])[0] == 0
    except OSError:
        return False


def _words(run: Runner, pid: int, proc: str) -> str:
    words = f"{name_of(pid, proc) or 'a process'} (process {pid})"
    container = container_of(pid, proc)
    seen = inspect(run, container) if container else None
    if seen is None:
        return words
    release = seen["labels"].get(LABEL_RELEASE)
    return f"{words} of container {seen['name']}" + (f", release {release}," if release else "")
