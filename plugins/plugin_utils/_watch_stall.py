# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
# Private to this collection: no stability promised.
"""How long a start may show no progress, by what it is doing, and whether it shows any. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from ansible_collections.gb10.serving.plugins.module_utils._engine_log_phases import Progress

#: Seconds without progress, in the order of a start. A load of 120 GB says nothing for minutes and is well; ranks that
#: do not find each other within two minutes never do.
ALLOWANCES: dict[str, float] = {
    "starting": 300,
    "rendezvous": 120,
    "connected": 300,
    "weights": 1800,
    "profiling": 900,
    "kv_cache": 900,
    "graphs": 900,
}
ORDER = tuple(ALLOWANCES)

#: Steps that end what their phase is named for.
ENDS = {"ranks are connected": "connected", "weights are loaded": "profiling"}

#: What ranks do side by side, and of which one alone may tell how far it is: vLLM counts shards on rank 0 only.
TOGETHER = ("weights", "profiling", "kv_cache", "graphs")

#: Numbers that count something: 3/20, 45%. All others are times, sizes and names of processes.
_NUMBER = re.compile(r"\d+/\d+|\d+%|\d+")

#: Kinds of lines that are remembered within one phase.
KINDS = 5000


def doing(seen: Progress) -> str:
    """Which allowance counts."""
    return ENDS.get(seen.meaning, seen.phase)


def place(what: str) -> int:
    """How far a rank is, to be compared with others; one that is ready is behind none."""
    return ORDER.index(what) if what in ORDER else len(ORDER)


def side_by_side(what: str, others: Iterable[Mapping[str, float]]) -> float:
    """Since when no other rank that does the same shows progress; 0 where none does, or where that proves nothing."""
    if what not in TOGETHER:
        return 0.0
    return max((entry["since"] for entry in others if entry["place"] == place(what)), default=0.0)


def allowances(factor: float, changes: Mapping[str, object]) -> dict[str, float]:
    """The allowances of one wait.

    Raises:
        ValueError: the factor or a change is not usable; the text says which and what is.
    """
    if factor <= 0:
        raise ValueError(f"allowance_factor is {factor}. Expected: a number above 0. Next step: correct it.")
    table = {name: seconds * factor for name, seconds in ALLOWANCES.items()}
    for name, seconds in changes.items():
        try:
            number = float(str(seconds))
        except ValueError:
            number = 0
        if name not in ALLOWANCES or number <= 0:
            raise ValueError(
                f"allowances has {name}: {seconds!r}. Expected: seconds above 0 for one of {', '.join(ORDER)}. "
                "Next step: correct it."
            )
        table[name] = number
    return table


def kind(line: str) -> str:
    """A line without the numbers that differ each time it comes."""
    return _NUMBER.sub(lambda found: "#" if found[0].isdigit() else found[0], line)


class Clock:
    """Since when a rank shows no progress: no step, no share of the weights, no line that it had not said before."""

    def __init__(self, now: float) -> None:
        self.since = now
        self._place: tuple[str, str, int | None] = ("", "", None)
        self._kinds: set[str] = set()

    def look(self, now: float, seen: Progress, lines: Iterable[str], waits: bool) -> float:
        """Seconds without progress. ``waits``: another rank is not as far as this one, so that it has to wait."""
        here = (seen.phase, seen.meaning, seen.percent)
        if here != self._place:
            if here[:2] != self._place[:2]:
                self._kinds.clear()
            self._place = here
            self.since = now
        for line in lines:
            if (said := kind(line)) not in self._kinds and len(self._kinds) < KINDS:
                self._kinds.add(said)
                self.since = now
        if waits:
            self.since = now
        return now - self.since
