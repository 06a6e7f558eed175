# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
# Private to this collection: no stability promised.
"""What a watch is given, and how long it bears with a docker that does not answer. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ansible_collections.gb10.serving.plugins.plugin_utils._watch import Look

#: Seconds for which a docker is asked again that refuses, as one that is restarted does, and one that hangs: a node
#: whose memory is nearly full may take long to answer.
REFUSES_SECONDS = 10.0
HANGS_SECONDS = 60.0


@dataclass(frozen=True)
class Means:
    """How a watch reaches the world."""

    ask: Callable[[str], str]
    clock: Callable[[], float]
    sleep: Callable[[float], None]
    tell: Callable[[str], None]


@dataclass(frozen=True)
class Limits:
    """Seconds: without progress by what is done, and in all."""

    allowances: Mapping[str, float]
    timeout: float


class Patience:
    """Since when docker does not answer."""

    def __init__(self) -> None:
        self.since: float | None = None

    def bears(self, look: Look, asked: float, now: float) -> bool:
        """Whether docker does not answer, and may still come to."""
        if not look.unanswered:
            self.since = None
            return False
        if self.since is None:
            self.since = asked
        return now - self.since <= (HANGS_SECONDS if look.hangs else REFUSES_SECONDS)
