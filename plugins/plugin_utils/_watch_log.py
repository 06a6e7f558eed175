# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
# Private to this collection: no stability promised.
"""The log of a rank, gathered in pieces. Pure."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence

from ansible_collections.gb10.serving.plugins.plugin_utils._watch import HEAD_BYTES, TAIL_BYTES, Stamped

#: Two streams are written by two hands: a line may come after one that is a little younger.
OVERLAP = 2 * 10**9

#: Longer lines are cut, as they are where a log is read.
LONGEST = 4000


class Log:
    """Begin and end of a log. Docker is asked for more than is missing, and what is known is left out again."""

    def __init__(self) -> None:
        self.since = 0
        self._head: list[Stamped] = []
        self._tail: deque[Stamped] = deque()
        self._head_room, self._tail_size = HEAD_BYTES, 0
        self._known: Counter[Stamped] = Counter()

    def add(self, answer: Sequence[Stamped]) -> list[str]:
        """Take what docker answered for ``since``; returns the lines that are new."""
        seen: Counter[Stamped] = Counter()
        fresh = []
        for line in answer:
            if line.at < self.since:
                continue
            seen[line] += 1
            if seen[line] > self._known[line]:
                fresh.append(line)
                self._keep(Stamped(line.at, line.text[:LONGEST]))
        if fresh:
            self.since = max(self.since, max(line.at for line in fresh) - OVERLAP)
        seen |= self._known
        self._known = Counter({line: count for line, count in seen.items() if line.at >= self.since})
        return [line.text for line in fresh]

    def _keep(self, line: Stamped) -> None:
        if self._head_room > 0:
            self._head.append(line)
            self._head_room -= len(line.text)
            return
        self._tail.append(line)
        self._tail_size += len(line.text)
        while self._tail_size > TAIL_BYTES:
            self._tail_size -= len(self._tail.popleft().text)

    def lines(self) -> list[Stamped]:
        """All that is kept; of a log that is too long, the middle is missing."""
        return [*self._head, *self._tail]

    def last(self, count: int) -> list[str]:
        return [line.text for line in self.lines()[-count:]]
