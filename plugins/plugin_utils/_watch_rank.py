# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
# Private to this collection: no stability promised.
"""One rank under watch, from its start until the start of all is over. Asks, sleeps and tells by what it is given."""

from __future__ import annotations

from dataclasses import replace
from types import ModuleType
from typing import Any

from ansible_collections.gb10.serving.plugins.module_utils._engine_log import SILENCE, Reading, read
from ansible_collections.gb10.serving.plugins.plugin_utils import _watch, _watch_sockets, _watch_stall, _watch_verdict
from ansible_collections.gb10.serving.plugins.plugin_utils._watch_board import Board
from ansible_collections.gb10.serving.plugins.plugin_utils._watch_log import Log
from ansible_collections.gb10.serving.plugins.plugin_utils._watch_means import Limits, Means, Patience
from ansible_collections.gb10.serving.plugins.plugin_utils._watch_sockets import Network

POLL_SECONDS = 1.0
#: How often the board is read between two looks at the node.
GLANCE_SECONDS = 0.2
#: How long the first rank to fail waits for the views of the others, and these for something to be seen.
SETTLE_SECONDS = 2.0
LATE_SECONDS = 1.4
#: How long the others then wait for what it makes of them.
DECISION_SECONDS = 3.0
#: How long a rank with a fatal line may go on whose cause is not certain, or is another rank: it may be about to end.
LINGER_SECONDS = 10.0
#: A long log takes long to read; this much of the time at most is spent with it.
READING_SHARE = 0.25
#: Per cent of the weights, after which it is told again how many there are.
PERCENT_STEP = 10


class Watch:
    """One rank under watch."""

    def __init__(
        self,
        rank: dict[str, Any],
        engine: ModuleType,
        limits: Limits,
        means: Means,
        board: Board,
        net: Network | None = None,
    ) -> None:
        self.rank, self.engine, self.limits, self.means, self.board = rank, engine, limits, means, board
        self.net = net
        self.started = means.clock()
        self.log = Log()
        self.look = _watch.Look(True, True)
        self.patience = Patience()
        self.reading: Reading = read("", "unknown", engine.STEPS)
        self._judged: dict[tuple[bool, ...], dict[str, Any]] = {}
        self.answer = _watch_verdict.answer(self.reading, self.look, 0)
        self.stall = _watch_stall.Clock(self.started)
        self.quiet = 0.0
        self._beside = self.started
        self.told: dict[str, float] = {}
        self._unread: list[str] = []
        self._read_next = self.started
        self._fatal_since: float | None = None
        self._traces: _watch.Traces | None = None
        self._shown: tuple[str, int] = ("", -1)

    def until_end(self) -> dict[str, Any]:
        """Look until this rank is ready, has failed or stands still, or another one has failed."""
        while True:
            self.poll()
            if (failure := self.failure()) is not None:
                kind, reason = failure
                if self.board.claim_failure({"host": self.rank["host"], "rank": self.rank["rank"], "kind": kind}):
                    return self._first(reason, kind)
                return self._follow(reason)
            if self.board.failure() is not None:
                return self._follow("")
            if self.rank["rank"] == 0 and self.answer["verdict"] == "ready":
                self.board.announce_ready()
            if self.board.is_ready():
                return {**self._end("ready"), "ready": True, "verdict": "ready", "confidence": "high"}
            self._rest(POLL_SECONDS)

    def poll(self) -> None:
        """One look at the node, and what it means."""
        name = self.rank["container_name"]
        asked = self.means.clock()
        look = _watch.parse(self.means.ask(_watch.command(name, self.log.since)))
        now = self.means.clock()
        known = self.patience.since is not None
        if self.patience.bears(look, asked, now) and now - self.started <= self.limits.timeout:
            if not known:
                self._tell(f"docker does not answer, it is asked again  {self._seconds():.0f} s")
            return
        fresh = self.log.add(look.lines, look.now)
        if look.exists or not self.look.exists:
            self.look = look
        else:
            self.look = replace(look, container=self.look.container, started_at=self.look.started_at)
        self.told.update(_watch.told(self.engine, fresh))
        self._unread += fresh
        if self._unread and (now >= self._read_next or not look.running):
            self.read()
        self.quiet = self.stall.look(now, self.reading.seen, fresh, self._waits())
        self.board.post("place", {"place": self._place(), "since": self.stall.since})
        doing = _watch_stall.doing(self.reading.seen)
        self._beside = max(self._beside, _watch_stall.side_by_side(doing, self._others()))
        self._show()

    def read(self, *more: str) -> None:
        """Read the whole log anew, with lines from elsewhere at its end."""
        begun = self.means.clock()
        texts = [*(line.text for line in self.log.lines()), *more]
        self.reading = read("\n".join(texts), self.engine.__name__.rpartition(".")[2], self.engine.STEPS)
        self._judged.clear()
        self.answer = self._judge(0)
        self._unread.clear()
        now = self.means.clock()
        self._read_next = now + (now - begun) / READING_SHARE

    def failure(self) -> tuple[str, str] | None:
        """How and why this rank has failed: dead, fatal or stalled. None while it has not."""
        look, now = self.look, self.means.clock()
        if not look.running:
            return "lost" if look.unanswered else "dead", self._death()
        if self.patience.since is not None:
            return None  # nothing is known of it
        if self.answer["verdict"] == "failed" and self.reading.fatal:
            self._fatal_since = now if self._fatal_since is None else self._fatal_since
            if _watch_verdict.is_certain(self.answer) or now - self._fatal_since > LINGER_SECONDS:
                return "fatal", "its log says that it cannot go on, though its container still runs"
        else:
            self._fatal_since = None
        doing = _watch_stall.doing(self.reading.seen)
        allowed = self.limits.allowances.get(doing)
        if allowed is not None and min(self.quiet, now - self._beside) > allowed:
            return "stalled", f"no progress for {allowed:.0f} s while {self._words()}"
        if now - self.started > self.limits.timeout:
            return "stalled", f"not ready after {self.limits.timeout:.0f} s; last phase: {self._words()}"
        return None

    def phases(self) -> list[dict[str, Any]]:
        """The phases that were reached, with their seconds by the node's clock; the last one's up to the last line."""
        lines = self.log.lines()
        begun = [("starting", self.look.started_at or (lines[0].at if lines else 0))]
        for phase, index in self.reading.seen.begun:
            number = self.reading.lines[index].number - 1
            if phase != "starting" and number < len(lines):
                begun.append((phase, lines[number].at))
        until = [*(at for _phase, at in begun[1:]), max(self.look.finished_at, lines[-1].at if lines else 0)]
        return [
            {"name": phase, "seconds": round(max(0, end - at) / 1e9, 1)}
            for (phase, at), end in zip(begun, until, strict=True)
        ]

    def _death(self) -> str:
        return _watch.death(self.look, self.rank["container_name"], self.rank["host"])

    def _judge(self, silent: float | None) -> dict[str, Any]:
        """What that means which was read last, worked out once: a long log takes a while."""
        key = (self.look.running, self.look.unanswered, silent is None or silent > SILENCE)
        if key not in self._judged:
            self._judged[key] = _watch_verdict.answer(self.reading, self.look, silent)
        return self._judged[key]

    def _place(self) -> int:
        """How far this rank is; one that has nothing left to do but to follow rank 0 is ahead of all."""
        follows = self.answer["verdict"] == "ready" and self.rank["rank"] > 0
        return _watch_stall.place("" if follows else _watch_stall.doing(self.reading.seen))

    def _waits(self) -> bool:
        return any(entry["place"] < self._place() for entry in self._others())

    def _others(self) -> list[dict[str, Any]]:
        return [entry for rank, entry in self.board.posted("place").items() if rank != self.rank["rank"]]

    def _rest(self, seconds: float) -> None:
        end = self.means.clock() + seconds
        while self.means.clock() < end and self.board.failure() is None:
            self.means.sleep(GLANCE_SECONDS)

    def _words(self) -> str:
        seen = self.reading.seen
        meaning = seen.meaning or "starting the container"
        return seen.phase if meaning == seen.phase else f"{seen.phase} ({meaning})"

    def _show(self) -> None:
        percent = self.reading.seen.percent
        words = self._words()
        before, shown = self._shown
        if words == before and (percent is None or percent < shown + PERCENT_STEP):
            return
        self._shown = (words, -1 if percent is None else percent)
        share = "" if percent is None else f"  {percent} %"
        self._tell(f"{words}{share}  {self._seconds():.0f} s")

    def _tell(self, words: str) -> None:
        self.means.tell(f"{self.rank['host']}  rank {self.rank['rank']}  {words}")

    def _seconds(self) -> float:
        return self.means.clock() - self.started

    def lost(self) -> None:
        """The node does not answer any more: the others must not wait until their own time is over."""
        if self.board.claim_failure({"host": self.rank["host"], "rank": self.rank["rank"], "kind": "lost"}):
            self.board.decide(_watch_verdict.lost(self.rank["host"], self.rank["rank"]))

    def _view(self, reason: str, silent: float | None, traced: bool) -> dict[str, Any]:
        """What this rank has to say of a failed start."""
        if traced and self._traces is None:
            answer = self.means.ask(_watch.traces_command(self.rank["container_name"]))
            self._traces = _watch.traces(answer, self.look)
        seen = self._traces or _watch.Traces()
        problem = "" if self.look.unanswered else self.look.problem
        if self._unread or seen.kernel or problem:
            self.read(*seen.kernel, problem)
        return {
            "host": self.rank["host"],
            "rank": self.rank["rank"],
            "reason": reason,
            "ended": not self.look.running,
            "answer": self._judge(silent),
            "log": self.log.last(_watch_verdict.SHOWN_LINES),
            "kernel": seen.kernel,
            "sockets": seen.sockets if self.look.running else [],
            "connections": seen.connections if self.look.running else [],
            "addresses": seen.addresses,
        }

    def _first(self, reason: str, kind: str) -> dict[str, Any]:
        """This rank has failed first: gather all views, and say what they mean."""
        silent = None if kind == "stalled" else 0
        self.board.post("view", self._view(reason, silent, traced=True))
        end = self.means.clock() + SETTLE_SECONDS
        others = set(self.board.posted("place")) - {self.rank["rank"]}
        while self.means.clock() < end:
            settled = {rank for rank, view in self.board.posted("view").items() if view.get("settled")}
            if others <= settled:
                break
            self.means.sleep(GLANCE_SECONDS)
        if self.look.running:
            self.poll()  # it may have been in the midst of its last words
        mine = self._view(reason, silent, traced=True)
        views = {**self.board.posted("view"), self.rank["rank"]: mine}
        views = _watch_sockets.weigh(views, self.net) if self.net else views
        decision = _watch_verdict.decide(views, self.rank["rank"])
        self.board.decide(decision)
        outcome = {**self._end(reason), **_watch_verdict.result_of(decision), "log": mine["log"]}
        return {**outcome, "failed": True, "msg": _watch_verdict.message(decision)}

    def _follow(self, reason: str) -> dict[str, Any]:
        """Another rank has failed first: tell it what is to be seen here, and take over what it says."""
        first = self.board.failure() or {}
        begun = self.means.clock()
        silent = None if first.get("kind") == "stalled" else self.quiet
        traced = first.get("kind") == "stalled"
        while True:
            view = self._view(reason or "its container still runs", silent, traced)
            claim = self.board.posted("view").get(first.get("rank", -1))
            # As long as the first one may only have noticed this one's end, it may still come.
            certain = first.get("kind") not in ("dead", "fatal") or bool(
                claim and _watch_verdict.is_certain(claim["answer"])
            )
            late = self.means.clock() - begun > LATE_SECONDS
            away = self.patience.since is not None
            view["settled"] = certain or late or away or view["answer"]["verdict"] == "failed"
            self.board.post("view", view)
            if view["settled"]:
                break
            self.means.sleep(GLANCE_SECONDS)
            self.poll()
            if not self.look.running:
                reason = reason or self._death()
        while (decision := self.board.decision()) is None and self.means.clock() - begun < DECISION_SECONDS:
            self.means.sleep(GLANCE_SECONDS)
        words = f"stopped waiting: rank {first.get('rank')} on {first.get('host')} failed"
        outcome = {**self._end(reason or words), "log": view["log"] if view["answer"]["verdict"] == "failed" else []}
        return {**outcome, **(_watch_verdict.result_of(decision) if decision else {"first": first or None})}

    def _end(self, reason: str) -> dict[str, Any]:
        return {
            "ready": False,
            "reason": reason,
            "phase": self.reading.seen.phase,
            "phases": self.phases(),
            "seconds": round(self._seconds(), 1),
            "told": self.told,
            "log": [],
            "verdict": self.answer["verdict"],
            "cause": None,
            "remedy": None,
            "evidence": [],
            "confidence": self.answer["confidence"],
            "first": None,
        }
