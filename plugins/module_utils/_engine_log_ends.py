# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 gb10.serving contributors
# Private to gb10.serving: the lines that say that a process has ended, or is told to. Data.
"""After which lines a start does not go on, and after which ones a server was stopped from outside."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ansible_collections.gb10.serving.plugins.module_utils._engine_log_lines import TEXT, Line

#: The end of a process in the words of the engines themselves, of the kernel or of Docker: final on any level, and
#: whatever other processes still print.
_OWN = re.compile(
    r"WorkerProc (?:failed|hit|initialization failed)|EngineCore (?:failed|encountered)"
    r"|Engine core initialization failed|Engine process failed to start"
    r"|Scheduler hit an exception|Received sigquit from|Rank \d+ scheduler (?:is dead|died)|EngineDeadError"
    r"|Worker ?[Pp]roc \S+ died unexpectedly|Engine core proc \S+ died unexpectedly"
    r"|^Fatal Python error: |^Segmentation fault\b|^terminate called|^Killed$"
    r"|Error response from daemon|OCI runtime create failed"
    r"|OOMKilled|oom-kill:|Out of memory: Killed|GPU has fallen off"
)
#: The same in words that are also used of a helper that may fail: only where the writer does not take it lightly,
#: and until the start goes on.
_OTHER = re.compile(
    r"Engine (?:core|process)\b.*failed|Received sigquit|scheduler (?:is dead|died)|died unexpectedly"
    r"|Fatal Python error|Segmentation fault|terminate called|core dumped|^[\w.-]+ exited with code [1-9]"
    r"|error while attempting to bind|Watchdog caught|watchdog timeout"
)
#: A server that was told to stop, by a signal as a rule. Where it had failed before, that stands before.
_STOPPED = re.compile(
    r"^Shutting down$|Shutting down FastAPI HTTP server|^Application shutdown complete|^Finished server process"
    r"|^SIGTERM received|^Gracefully stopping|^Received SIG(?:TERM|INT)\b"
)


def stopped_at(lines: Sequence[Line], first: int) -> int | None:
    """The line from ``first`` on with which a server goes down that was told to."""
    rest = range(first, len(lines))
    return next((at for at in rest if lines[at].kind == TEXT and _STOPPED.search(lines[at].text)), None)


def fatal_lines(lines: Sequence[Line], steps: Sequence[int], first: int) -> list[int]:
    """The lines from ``first`` on after which no start goes on; ``steps`` is how far it is at each line.

    What its processes say of each other's end once a server was told to stop is none.
    """
    found: list[int] = []
    stopped = stopped_at(lines, first)
    for index in range(first, len(lines) if stopped is None else stopped):
        line = lines[index]
        if line.kind == TEXT and (
            _OWN.search(line.text) or (not line.quiet and steps[index] == steps[-1] and _OTHER.search(line.text))
        ):
            found.append(index)
    return found


#: Of a failure, whatever is said before: a traceback, an engine's or a program's error.
_PROOF = re.compile(r"Traceback \(most recent|^ERROR\b|^\S+: error: |^docker: ")
#: The words of a process that ends, on any level.
_LEAVING = re.compile(r"Parent process exited|[Ss]hutting down|[Ss]hutdown|[Tt]erminat|SIGTERM")


def proven_until(lines: Sequence[Line], fatal: Sequence[int]) -> int:
    """The last line that proves a failure; what is said up to there may be its cause."""
    last = fatal[-1] if fatal else -1
    for index in range(len(lines) - 1, last, -1):
        line = lines[index]
        error = line.level == "error" or (not line.quiet and _PROOF.search(line.text))
        if line.kind == TEXT and (error or (line.logged and _LEAVING.search(line.text))):
            return index
    return last


def goes_on_from(lines: Sequence[Line]) -> int:
    """The last line of an engine in which it is at work."""
    at_work = (index for index in range(len(lines) - 1, -1, -1) if lines[index].logged and lines[index].quiet)
    return next(at_work, -1)
