# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
# Private to this collection: no stability promised.
"""How a starting rank is judged from its container's state and the end of its log. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import ModuleType

#: Between the state and the log in the answer of COMMAND; never part of a log line.
SEPARATOR = "--- gb10 log ---"

#: ``SomeError: what is wrong``, as Python ends a traceback, or an argument parser's complaint.
ERROR_NAME = re.compile(r"\b(\w*(?:Error|Exception)|error): \S")

#: Lines of a dead rank that are shown.
SHOWN_LINES = 25


@dataclass(frozen=True)
class Look:
    """One look at a rank."""

    exists: bool
    running: bool
    exit_code: int | None
    oom_killed: bool
    lines: list[str] = field(default_factory=list)
    #: What docker said instead of a state.
    problem: str = ""


def command(container: str, lines: int) -> str:
    """A shell command that prints the container's state as JSON, the separator, and the last lines of its log."""
    return (
        f"docker container inspect --format '{{{{json .State}}}}' {container} 2>&1; "
        f"echo '{SEPARATOR}'; docker logs --tail {lines} {container} 2>&1"
    )


def parse(output: str) -> Look:
    """The answer of COMMAND. A container that is gone has no state line."""
    state_text, _separator, log = output.partition(SEPARATOR)
    try:
        state = json.loads(state_text)
    except ValueError:
        return Look(False, False, None, False, problem=state_text.strip())
    running = bool(state["Running"])
    return Look(
        exists=True,
        running=running,
        exit_code=None if running else int(state["ExitCode"]),
        oom_killed=bool(state.get("OOMKilled")),
        lines=[line.rstrip() for line in log.splitlines() if line.strip()],
    )


def phase(engine: ModuleType, lines: Sequence[str], before: str) -> str:
    """The furthest phase that the lines show, never one earlier than ``before``."""
    names = [name for _text, name in engine.MILESTONES]
    reached = names.index(before) if before in names else -1
    for position, (text, _name) in enumerate(engine.MILESTONES):
        if position > reached and any(text in line for line in lines):
            reached = position
    return names[reached] if reached >= 0 else "starting the container"


def death(look: Look, container: str) -> str:
    """Why a rank that should run does not, in one sentence."""
    if not look.exists:
        known = not look.problem or "No such" in look.problem
        return f"container {container} is gone" if known else f"docker does not answer: {look.problem[-300:]}"
    if look.oom_killed:
        return f"container {container} was killed for lack of memory (exit code {look.exit_code})"
    return f"container {container} ended with exit code {look.exit_code}"


def evidence(engine: ModuleType, lines: Sequence[str]) -> str | None:
    """The line that most likely names the cause: the last one with an error's name that is not a generic one."""
    for line in reversed(lines):
        if ERROR_NAME.search(line) and not any(generic in line for generic in engine.GENERIC_ERRORS):
            return line.strip()
    return None


def told(engine: ModuleType, lines: Sequence[str]) -> dict[str, float]:
    """The numbers that the engine printed of itself, by the names of its table TOLD; the last one of each counts."""
    numbers = {}
    for name, pattern in engine.TOLD.items():
        for line in lines:
            if found := pattern.search(line):
                numbers[name] = float(found.group(1).replace(",", ""))
    return numbers
