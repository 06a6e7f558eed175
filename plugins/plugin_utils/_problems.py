# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
# Private to this collection: no stability promised.
"""One shape for everything that stops a deployment: who, what was seen, what was expected, what to do next."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Problem:
    """A reason not to go on. ``where`` is a host name, or a name for the whole inventory.

    ``cause`` is one of the identifiers of docs/causes.md, where one of them says what it is.
    """

    where: str
    seen: str
    expected: str
    remedy: str
    cause: str | None = None

    def __str__(self) -> str:
        seen = f"{self.seen.removesuffix('.')} ({self.cause})." if self.cause else self.seen
        return f"{self.where}: {seen} Expected: {self.expected} Next step: {self.remedy}"


def refusal(problems: Iterable[Problem | str]) -> dict[str, Any]:
    """``cause``, ``remedy`` and ``first`` (where) of the first problem that has a cause; each is None without one."""
    named = next((problem for problem in problems if isinstance(problem, Problem) and problem.cause), None)
    if named is None:
        return {"cause": None, "remedy": None, "first": None}
    return {"cause": named.cause, "remedy": named.remedy, "first": {"host": named.where}}


def message(problems: Iterable[Problem | str]) -> str:
    """All problems as one message, each on its own line, with the promise that holds whenever it is shown."""
    lines = [str(problem) for problem in problems]
    count = "1 problem" if len(lines) == 1 else f"{len(lines)} problems"
    return "\n".join([f"{count} found; nothing has been changed.", *(f"  - {line}" for line in lines)])
