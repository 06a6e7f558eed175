# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
# Private to this collection: no stability promised.
"""What is asked of a node about a starting rank, and how the answers are read. Pure."""

from __future__ import annotations

import calendar
import json
import re
import shlex
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from types import ModuleType
from typing import Any

from ansible_collections.gb10.serving.plugins.plugin_utils._watch_sockets import places

#: Between the state and the log in the answer of COMMAND, and between the parts of TRACES; never part of a log line.
SEPARATOR = "--- gb10 log ---"

#: Before the state in the answer of COMMAND: docker's client, sudo and others may say something of their own first.
STATE = "gb10-state"

#: At the end of a log that docker did not print to its end.
LATE = "--- gb10 late ---"

#: Seconds that docker may take for a state, and for a log.
STATE_SECONDS = 10
LOG_SECONDS = 20
#: Exit codes by which ``timeout`` says that it ended a program.
_TIMED_OUT = ("124", "137")

#: Bytes of a log that one answer carries at most: its begin, where it is read for the first time, and its end.
HEAD_BYTES = 128 * 1024
TAIL_BYTES = 256 * 1024

#: Connections that are shown, those without an answer first.
SOCKETS = 12

_STAMP = re.compile(r"(?P<stamp>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.(\d{1,9}))?(?:Z|([+-])(\d\d):(\d\d)))(?: |$)")
_STATE = re.compile(rf"{STATE} (?P<container>\S+) (?P<state>\{{.*\}})")
_GONE = re.compile(r"no such (?:container|object)", re.IGNORECASE)
_KERNEL_TIME = re.compile(r"\[ *(\d+\.\d+)\]")


@dataclass(frozen=True)
class Stamped:
    """A line of a log and when it was written, in nanoseconds since 1970 by the node's clock."""

    at: int
    text: str


@dataclass(frozen=True)
class Look:
    """One look at a rank."""

    exists: bool
    running: bool
    exit_code: int | None = None
    oom_killed: bool = False
    container: str = ""
    started_at: int = 0
    finished_at: int = 0
    lines: list[Stamped] = field(default_factory=list)
    #: The node's clock just before the lines were printed; 0 when it is not known.
    now: int = 0
    #: What docker said instead of a state, or why it could not start the container.
    problem: str = ""
    #: Docker neither knows the container nor says that it is gone; and whether it said nothing at all in time.
    unanswered: bool = False
    hangs: bool = False


@dataclass(frozen=True)
class Traces:
    """What else the node shows once a rank has failed."""

    kernel: list[str] = field(default_factory=list)
    #: Connections as they are shown, and all of them with what is listened on.
    sockets: list[str] = field(default_factory=list)
    connections: list[str] = field(default_factory=list)
    #: The interface of each address of the node.
    addresses: dict[str, str] = field(default_factory=dict)


def nanoseconds(text: str) -> int:
    """The time at the begin of ``text``, as docker writes it; 0 when there is none."""
    found = _STAMP.match(text)
    if not found:
        return 0
    fraction, sign, hours, minutes = found.groups()[-4:]
    try:
        seconds = calendar.timegm(datetime.fromisoformat(found["stamp"][:19]).timetuple())
    except ValueError:  # a month 13
        return 0
    if sign:
        seconds -= (1 if sign == "+" else -1) * (int(hours) * 3600 + int(minutes) * 60)
    return seconds * 10**9 + int((fraction or "").ljust(9, "0"))


def command(container: str, since: int) -> str:
    """A shell command that prints the container's state after its mark, the separator, and its log with times.

    The log is printed from ``since`` on, and only where there is a state. Nothing is waited for without limit.
    """
    name = shlex.quote(container)
    cut = f"tail -c {TAIL_BYTES}" if since else f"(head -c {HEAD_BYTES}; tail -c {TAIL_BYTES})"
    start = f"--since {since // 10**9}.{since % 10**9:09d} " if since else ""
    form = f"'{STATE} {{{{.Id}}}} {{{{json .State}}}}'"
    return (
        f"timeout -k 1 {STATE_SECONDS} docker container inspect --format {form} {name} 2>&1; "
        f'code=$?; echo "{SEPARATOR} $code $(date +%s%N)"; '
        f"[ $code -ne 0 ] || {{ timeout -k 1 {LOG_SECONDS} docker logs --timestamps {start}{name} 2>&1; "
        f"case $? in {'|'.join(_TIMED_OUT)}) echo '{LATE}';; esac; }} | {cut}"
    )


def parse(output: str) -> Look:
    """The answer of COMMAND. A container that is gone has no state line; what else was said counts only then."""
    said, _separator, rest = output.partition(SEPARATOR)
    words, _newline, log = rest.partition("\n")
    code, now, *_none = [*words.split(), "", ""]
    found = _STATE.search(said)
    state = _state(found["state"]) if found else {}
    if not found or not state:
        return _no_state(said.strip(), code in _TIMED_OUT)
    lines = _stamped(log.splitlines())
    if state["Running"] and not lines and LATE in log:
        return Look(False, False, problem=_late("docker logs", LOG_SECONDS), unanswered=True, hangs=True)
    running = bool(state["Running"])
    return Look(
        exists=True,
        running=running,
        exit_code=None if running else _exit_code(state),
        oom_killed=bool(state.get("OOMKilled")),
        container=found["container"],
        started_at=nanoseconds(str(state.get("StartedAt"))),
        finished_at=0 if running else nanoseconds(str(state.get("FinishedAt"))),
        lines=lines,
        now=int(now) if now.isdecimal() else 0,
        problem=str(state.get("Error") or ""),
    )


def _no_state(said: str, timed_out: bool) -> Look:
    if _GONE.search(said):
        return Look(False, False)
    if timed_out:
        said = f"{_late('docker container inspect', STATE_SECONDS)} {said}".strip()
    return Look(False, False, problem=said or "it says nothing", unanswered=True, hangs=timed_out)


def _late(asked: str, seconds: int) -> str:
    return f"`{asked}` did not end within {seconds} s"


def _state(text: str) -> dict[str, Any]:
    """Docker's state of a container; empty where it is none."""
    try:
        state = json.loads(text)
    except ValueError:
        return {}
    return state if isinstance(state, dict) and "Running" in state else {}


def _exit_code(state: dict[str, Any]) -> int | None:
    try:
        return int(state["ExitCode"])
    except (KeyError, TypeError, ValueError):
        return None


def _stamped(raw: Iterable[str]) -> list[Stamped]:
    """Lines with their times; one without a time, as after a cut, has that of the line before, or is left out."""
    lines: list[Stamped] = []
    for line in raw:
        if line == LATE:
            continue
        at = nanoseconds(line)
        text = line.partition(" ")[2] if at else line
        at = at or (lines[-1].at if lines else 0)
        if at and text.strip():
            lines.append(Stamped(at, text.rstrip()))
    return lines


def death(look: Look, container: str, host: str) -> str:
    """Why a rank that should run does not, in one sentence."""
    if look.unanswered:
        return f"docker on {host} does not answer: {look.problem[-300:]}"
    if not look.exists:
        return f"container {container} is gone"
    if look.oom_killed:
        return f"container {container} was killed for lack of memory (exit code {look.exit_code})"
    return f"container {container} ended {exit_words(look)}"


def exit_words(look: Look) -> str:
    return "without an exit code" if look.exit_code is None else f"with exit code {look.exit_code}"


def traces_command(container: str) -> str:
    """A shell command, run once when a rank has failed: the kernel's words on killed processes, sockets, addresses."""
    name = shlex.quote(container)
    return (
        "cut -d' ' -f1 /proc/uptime; date +%s; "
        "timeout 2 dmesg 2>/dev/null | grep -E 'oom-kill:|NVRM: Xid' | tail -n 20; "
        f"echo '{SEPARATOR}'; "
        f"pids=$(timeout -k 1 2 docker top {name} -eo pid 2>/dev/null | tail -n +2 | tr -d ' ' | paste -sd '|' -); "
        '[ -z "$pids" ] || { timeout 2 ss -Htnp; timeout 2 ss -Htlnp; } 2>/dev/null | '
        'grep -E "pid=($pids)," | head -n 200; '
        f"echo '{SEPARATOR}'; timeout 2 ip -o -4 addr show 2>/dev/null; "
        "timeout 2 ip -4 route show default 2>/dev/null; true"
    )


def traces(output: str, look: Look) -> Traces:
    """The answer of TRACES_COMMAND: of the kernel's words only those on this container, or on the GPU since it runs."""
    said, connections, addresses, *_none = [*output.split(SEPARATOR), "", ""]
    uptime, now, *words = [*said.splitlines(), "", ""]
    kernel = []
    for word in words:
        if "oom-kill:" in word and look.container and look.container in word:
            kernel.append(word.strip())
        elif "Xid" in word and (found := _KERNEL_TIME.search(word)) and look.started_at:
            try:
                age = float(uptime) - float(found[1])
                runs = float(now) - look.started_at / 1e9
            except ValueError:
                continue
            if age <= runs:
                kernel.append(word.strip())
    lines = [" ".join(line.split()) for line in connections.splitlines() if line.strip()]
    shown = sorted((line for line in lines if not line.startswith("LISTEN")), key=lambda line: line.startswith("ESTAB"))
    return Traces(kernel, shown[:SOCKETS], lines, places(addresses.splitlines()))


def told(engine: ModuleType, lines: Iterable[str]) -> dict[str, float]:
    """The numbers that the engine printed of itself, by the names of its table TOLD; the last one of each counts."""
    numbers = {}
    for line in lines:
        for name, pattern in engine.TOLD.items():
            if found := pattern.search(line):
                numbers[name] = float(found.group(1).replace(",", ""))
    return numbers
