# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
# Private to this collection: no stability promised.
"""Ends a rank of the collective test that waits for one which cannot come.

Ranks that have met tell each other over their store. One that fails before, for want of an image for instance, has no
way to: its action on the controller knows first. So each action has a process beside it, which looks whether another
rank has failed and then removes the container of its own; the module that waits for it comes back at once.
"""

from __future__ import annotations

import contextlib
import os
import select
import shlex
import signal
import time
from collections.abc import Callable, Mapping
from typing import Any

from ansible_collections.gb10.serving.plugins.module_utils._collective_words import STAGES
from ansible_collections.gb10.serving.plugins.module_utils._engine_log_causes import CAUSES

#: Seconds that others get after a failure, to tell what is wrong with themselves.
GRACE = 1.0
#: Seconds between two looks, and between two attempts: the container may not be there yet.
LOOK, AGAIN = 0.2, 1.0
#: Seconds that the process may take to end when its action has.
LAST = 6.0
#: Seconds that docker may take to remove the container before it is asked again; it goes on with it meanwhile.
REMOVE = 5
_ENDED = 10


class Remover:
    """Removes a container by ``ask``, which runs a command on the node and returns its exit code and what it said."""

    def __init__(self, name: str, ask: Callable[[str], tuple[int, str]]) -> None:
        self._name, self._ask, self._under_way = name, ask, False

    def __call__(self) -> bool | None:
        """Whether there was such a container, by what docker says; None when it does not say so in time."""
        code, said = self._ask(f"timeout -k 1 {REMOVE} docker rm --force --volumes {shlex.quote(self._name)} 2>&1")
        if code == 0 and self._name in said.split():
            return True
        # Of one that was not removed in time, the next answer tells that it was there.
        if "already in progress" in said or (self._under_way and "No such container" in said):
            return True
        late = code in (124, 137)
        self._under_way = self._under_way or late
        return None if late else False


class Ender:
    """``failed`` says whether another rank has failed; ``remove`` removes the container, and says if it was there.

    Where docker does not say, the rank counts as ended too: it would have waited for the one that has failed.
    """

    def __init__(self, failed: Callable[[], bool], remove: Callable[[], bool | None]) -> None:
        self._reader, self._writer = os.pipe()
        self._child = os.fork()
        if self._child == 0:
            code = 1
            try:
                os.close(self._writer)
                code = _ENDED if self._watch(failed, remove) else 0
            finally:
                os._exit(code)

    def _watch(self, failed: Callable[[], bool], remove: Callable[[], bool | None]) -> bool:
        """Until the action closes its end, or is gone."""
        due, under_way = None, False
        while not select.select([self._reader], [], [], LOOK)[0]:
            now = time.monotonic()
            if due is None and failed():
                due = now + GRACE
            if due is None or now < due:
                continue
            due = now + AGAIN
            with contextlib.suppress(Exception):  # the node may not answer this time
                removed = remove()
                if removed:
                    return True
                under_way = under_way or removed is None
        return under_way

    def close(self) -> bool:
        """Whether it ended the rank."""
        os.close(self._writer)
        os.close(self._reader)
        until = time.monotonic() + LAST
        while True:
            child, status = os.waitpid(self._child, os.WNOHANG)
            if child:
                return os.WIFEXITED(status) and os.WEXITSTATUS(status) == _ENDED
            if time.monotonic() > until:
                os.kill(self._child, signal.SIGKILL)
                os.waitpid(self._child, 0)
                return False
            time.sleep(0.02)


def ended(collective: Mapping[str, Any], first: Mapping[str, Any]) -> dict[str, Any]:
    """The answer of a rank that was ended because ``first``, with host and rank, had failed."""
    if collective["ok"]:
        return dict(collective)
    doing = STAGES.get(collective["stage"] or "", "starting")
    return {
        **collective,
        "skipped": False,
        "cause": "peer_died",
        "reason": f"rank {first['rank']} on {first['host']} did not take part, so this one was ended while {doing}",
        "remedy": CAUSES["peer_died"].remedy,
        "evidence": [],
    }
