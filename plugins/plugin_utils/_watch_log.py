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

#: Once a node's clock was set back, docker is asked for lines since so long before: more than since the last look.
SET_BACK = 30 * 10**9

#: Longer lines are cut, as they are where a log is read.
LONGEST = 4000


class Log:
    """Begin and end of a log. Docker is asked for more than is missing, and what is known is left out again."""

    def __init__(self) -> None:
        self.since = 0
        self._newest = 0
        self._is_cut = False
        self._head: list[Stamped] = []
        self._tail: deque[Stamped] = deque()
        self._head_room, self._tail_size = HEAD_BYTES, 0
        self._known: Counter[Stamped] = Counter()

    def add(self, answer: Sequence[Stamped], now: int = 0) -> list[str]:
        """Take what docker answered for ``since``; returns the lines that are new.

        ``now`` is the node's clock before it answered. When it is behind a line that is known, it was set back, and
        docker would keep back all lines until it has caught up.
        """
        was_set_back = 0 < now < self._newest
        seen: Counter[Stamped] = Counter()
        fresh = []
        for whole in answer:
            if self._is_cut and whole.at < self.since:
                continue  # it may be one of those that were let go
            line = Stamped(whole.at, whole.text[:LONGEST])
            seen[line] += 1
            if seen[line] > self._known[line]:
                fresh.append((line, whole.text))
        for line, _text in fresh:
            self._keep(line)
        if fresh:
            self._newest = max(self._newest, max(line.at for line, _text in fresh))
            self.since = max(self.since, self._newest - OVERLAP)
        if was_set_back:
            self.since = min(self.since, max(now - SET_BACK, 1))
            self._newest = 0
        return [text for _line, text in fresh]

    def _keep(self, line: Stamped) -> None:
        self._known[line] += 1
        if self._head_room > 0:
            self._head.append(line)
            self._head_room -= len(line.text)
            return
        self._tail.append(line)
        self._tail_size += len(line.text)
        while self._tail_size > TAIL_BYTES:
            oldest = self._tail.popleft()
            self._tail_size -= len(oldest.text)
            self._known[oldest] -= 1
            if not self._known[oldest]:
                del self._known[oldest]
            self._is_cut = True

    def lines(self) -> list[Stamped]:
        """All that is kept; of a log that is too long, the middle is missing."""
        return [*self._head, *self._tail]

    def last(self, count: int) -> list[str]:
        return [line.text for line in self.lines()[-count:]]
