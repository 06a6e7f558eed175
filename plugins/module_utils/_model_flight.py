# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 gb10.serving contributors
# Private to gb10.serving: how well a range comes that is on its way. Pure bookkeeping.
from __future__ import annotations

import time

from ansible_collections.gb10.serving.plugins.module_utils._model_ranges import File
from ansible_collections.gb10.serving.plugins.module_utils._model_sources import Link

#: A range is given to another rail when that one brings its rest in so small a part of the time ...
QUICKER = 4.0
#: ... and so many seconds are won by it. Its rate is measured over as many.
WORTH_SECONDS = 2.0


class Flight:
    """A range of a file that comes over a link."""

    def __init__(self, link: Link, file: File, start: int, end: int) -> None:
        self.link, self.file, self.start, self.end = link, file, start, end
        self.came = start
        self.begun = self._looked = self._measured = time.monotonic()
        self._seen = self._had = start
        self.relieved = False

    def rate(self) -> float:
        """Bytes a second since it began."""
        return (self.came - self.start) / max(time.monotonic() - self.begun, 1e-3)

    def late(self, pace: float) -> bool:
        """Whether one that brings pace bytes a second should bring the rest. Looked at now and then."""
        seconds = time.monotonic() - self._measured
        if self.relieved or not pace or seconds < WORTH_SECONDS:
            return False
        rate, left = (self.came - self._had) / seconds, self.end - self.came
        self._measured, self._had = time.monotonic(), self.came
        return left / max(rate, 1.0) > max(QUICKER * left / pace, left / pace + WORTH_SECONDS)

    def crawls(self, seconds: float, least: int) -> bool:
        """Whether less than that came in the last so many seconds."""
        now = time.monotonic()
        if now - self._looked < seconds:
            return False
        crawls = self.came - self._seen < least
        self._looked, self._seen = now, self.came
        return crawls
