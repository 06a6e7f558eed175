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


def fatal_lines(lines: Sequence[Line], steps: Sequence[int], first: int) -> list[int]:
    """The lines from ``first`` on after which no start goes on; ``steps`` is how far it is at each line."""
    found = []
    for index in range(first, len(lines)):
        line = lines[index]
        if line.kind == TEXT and (
            _OWN.search(line.text)
            or (not line.quiet and steps[index] == steps[-1] and _OTHER.search(line.text))
        ):
            found.append(index)
    return found
