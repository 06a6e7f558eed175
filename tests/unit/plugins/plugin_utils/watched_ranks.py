# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""Ranks whose logs come over time, watched side by side under a clock that jumps from one sleep to the next."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from pathlib import Path
from types import ModuleType
from typing import Any

from ansible_collections.gb10.serving.plugins.plugin_utils import _watch, _watch_stall
from ansible_collections.gb10.serving.plugins.plugin_utils._engines import vllm
from ansible_collections.gb10.serving.plugins.plugin_utils._watch_board import Board
from ansible_collections.gb10.serving.plugins.plugin_utils._watch_means import Limits, Means
from ansible_collections.gb10.serving.plugins.plugin_utils._watch_rank import Watch
from ansible_collections.gb10.serving.plugins.plugin_utils._watch_sockets import Network

LOGS = Path(__file__).resolve().parents[2] / "fixtures" / "engine_logs"
EPOCH = 1_700_000_000
#: What it takes to ask a node.
ASK_SECONDS = 0.3


def log_of(name: str) -> list[str]:
    return [line for line in (LOGS / name).read_text(encoding="utf-8").splitlines() if not line.startswith("# ")]


def spread(lines: list[str], begin: float = 1, seconds: float = 10) -> list[tuple[float, str]]:
    """Lines with the times at which they come."""
    return [(begin + seconds * at / len(lines), line) for at, line in enumerate(lines)]


class World:
    """Lets one thread run at a time, the one that wakes first."""

    def __init__(self) -> None:
        self.now = 0.0
        self._turn = threading.Condition()
        self._wake: dict[str, float] = {}
        self._running = ""

    def sleep(self, name: str, seconds: float) -> None:
        with self._turn:
            self._wake[name] = self.now + seconds
            self._next()
            assert self._turn.wait_for(lambda: self._running == name, 60)

    def _next(self) -> None:
        if self._wake:
            name = min(self._wake, key=lambda entry: (self._wake[entry], entry))
            self.now = max(self.now, self._wake.pop(name))
            self._running = name
            self._turn.notify_all()

    def run(self, work: dict[str, Callable[[], Any]]) -> dict[str, Any]:
        """The outcome of each piece of work and, as ``name at``, when it was there."""
        outcomes: dict[str, Any] = {}
        self._wake = dict.fromkeys(work, 0.0)

        def one(name: str) -> None:
            with self._turn:
                assert self._turn.wait_for(lambda: self._running == name, 60)
            try:
                outcomes[name] = work[name]()
            except Exception as error:  # handed to the test
                outcomes[name] = error
            outcomes[f"{name} at"] = self.now
            with self._turn:
                self._next()

        threads = [threading.Thread(target=one, args=(name,), daemon=True) for name in work]
        for thread in threads:
            thread.start()
        with self._turn:
            self._next()
        for thread in threads:
            thread.join(60)
        return outcomes


@dataclass
class Node:
    """A node with one container: its log over time and, maybe, when and how it ends."""

    log: list[tuple[float, str]]
    end: float | None = None
    exit_code: int = 0
    oom: bool = False
    sockets: str = ""
    #: What ``ip`` says of its addresses and routes.
    places: str = ""
    #: From then on the node does not answer.
    lost: float | None = None
    #: Between these docker says this instead of a state, or nothing at all until it is given up.
    away: tuple[float, float] = (0, 0)
    away_words: str = (
        "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?"
    )
    hangs: bool = False
    #: When its clock is set back, and by how many seconds.
    set_back: tuple[float, float] = (1e9, 0)
    asked: list[str] = field(default_factory=list)

    def answer(self, command: str, now: float) -> str:
        self.asked.append(command)
        if self.lost is not None and now >= self.lost:
            raise ConnectionError("no route")
        if "dmesg" in command:
            return f"1.0\n{EPOCH}\n{_watch.SEPARATOR}\n{self.sockets}{_watch.SEPARATOR}\n{self.places}"
        if self.away[0] <= now < self.away[1]:
            return f"{'' if self.hangs else self.away_words}\n{_watch.SEPARATOR} {124 if self.hangs else 1}\n"
        ended = self.end is not None and now >= self.end
        state = {"Running": not ended, "ExitCode": self.exit_code, "OOMKilled": self.oom and ended, "Error": ""}
        state |= {"StartedAt": stamp(0), "FinishedAt": stamp(self.end or 0)}
        found = re.search(r"--since ([\d.]+)", command)
        since = float(found[1]) - EPOCH if found else 0
        until = min(now, self.end) if self.end is not None else now
        written = [(self.clock(at), text) for at, text in self.log if at <= until]
        lines = [f"{stamp(at)} {text}\n" for at, text in written if since - 1e-6 <= at]
        nanoseconds = int((EPOCH + self.clock(now)) * 1e9)
        return f"{_watch.STATE} {'a' * 64} {json.dumps(state)}\n{_watch.SEPARATOR} 0 {nanoseconds}\n{''.join(lines)}"

    def clock(self, at: float) -> float:
        return at - self.set_back[1] if at >= self.set_back[0] else at


def stamp(at: float) -> str:
    """A time as docker writes it."""
    return (datetime.fromtimestamp(EPOCH, timezone.utc) + timedelta(seconds=at)).strftime("%Y-%m-%dT%H:%M:%S.%f000Z")


def watch(
    base: Path,
    nodes: list[Node],
    engine: ModuleType = vllm,
    factor: float = 1.0,
    timeout: float = 3600,
    net: Network | None = None,
) -> tuple[list[Any], list[float], list[str]]:
    """Watch all ranks to the end: their outcomes, when each was there, and the lines that were shown meanwhile."""
    world = World()
    told: list[str] = []
    limits = Limits(_watch_stall.allowances(factor, {}), timeout)

    def of(number: int, node: Node) -> Callable[[], Any]:
        name = f"node-{number}"

        def ask(command: str) -> str:
            hangs = node.hangs and node.away[0] <= world.now < node.away[1] and "dmesg" not in command
            world.sleep(name, _watch.STATE_SECONDS if hangs else ASK_SECONDS)
            return node.answer(command, world.now)

        def work() -> Any:
            rank = {"host": name, "rank": number, "container_name": f"c{number}"}
            means = Means(ask, lambda: world.now, lambda seconds: world.sleep(name, seconds), told.append)
            one = Watch(rank, engine, limits, means, Board(base, number), net)
            try:
                return one.until_end()
            except ConnectionError:
                one.lost()
                raise

        return work

    outcomes = world.run({f"node-{number}": of(number, node) for number, node in enumerate(nodes)})
    names = [f"node-{number}" for number in range(len(nodes))]
    return [outcomes[name] for name in names], [outcomes[f"{name} at"] for name in names], told
