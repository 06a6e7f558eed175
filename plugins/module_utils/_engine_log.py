# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 gb10.serving contributors
# Private to gb10.serving: what an engine's log says of its start. Pure.
"""Engine, phase, verdict and cause of a log. Consequences, of another rank's end or of a deeper cause, never win."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from ansible_collections.gb10.serving.plugins.module_utils import _engine_log_waits as waits
from ansible_collections.gb10.serving.plugins.module_utils import _redact
from ansible_collections.gb10.serving.plugins.module_utils._engine_log_causes import CAUSES
from ansible_collections.gb10.serving.plugins.module_utils._engine_log_ends import (
    fatal_lines,
    goes_on_from,
    proven_until,
    stopped_at,
)
from ansible_collections.gb10.serving.plugins.module_utils._engine_log_lines import TEXT, Line, split
from ansible_collections.gb10.serving.plugins.module_utils._engine_log_phases import (
    Progress,
    Step,
    engine_of,
    is_foreign,
    progress,
    start_of,
)
from ansible_collections.gb10.serving.plugins.module_utils._engine_log_places import place_of
from ansible_collections.gb10.serving.plugins.module_utils._engine_log_rule import LIKELY, ROOT, WEAK, Rule, looked_at
from ansible_collections.gb10.serving.plugins.module_utils._engine_log_rules_host import HOST
from ansible_collections.gb10.serving.plugins.module_utils._engine_log_rules_model import MODEL
from ansible_collections.gb10.serving.plugins.module_utils._engine_log_rules_network import NETWORK

RULES: tuple[Rule, ...] = (*NETWORK, *MODEL, *HOST)

#: Seconds without a line that a rendezvous may last.
SILENCE = 120.0

EVIDENCE_LINES = 6
EVIDENCE_LENGTH = 400

#: Causes that a rank names which only waits for, or notices the end of, another one.
OF_A_PEER = frozenset(
    {"rank_missing", "rendezvous_unreachable", "collective_timeout", "peer_died", "nccl_system_error"}
)

#: What the kernel says is believed at once.
OF_THE_KERNEL = frozenset({"host_oom_killed", "gpu_lost"})

#: The last line of a traceback, or a complaint of a program.
_ERROR = re.compile(
    r"^(?:[A-Za-z_][\w.]*\.)?\w*(?:Error|Exception|Interrupt)\b(?::|$)|\b(?:error|fatal)\b\s*:", re.IGNORECASE
)
_GENERIC = re.compile(
    r"Engine core initialization failed|WorkerProc initialization failed|WorkerProc failed to start|EngineCore failed"
    r"|EngineDeadError|See (?:root cause|stack trace)|Engine process failed|Received sigquit|Traceback \(most recent"
    r"|During handling of the above|direct cause of the following|see the stack trace|errors\.pydantic\.dev"
)
#: Something was raised; and what a parent raises for its child.
_RAISED = re.compile(r"(?:Error|Exception)\w*\s*(?::|$)")
_PARENT = re.compile(r"WorkerProc initialization failed|Engine core initialization failed")


class Hit(NamedTuple):
    """A rule that a line fits."""

    line: int
    rule: Rule


class Hits(NamedTuple):
    """Rules that fit. ``doubtful``: in lines after which nothing failed, as far as the log goes."""

    sure: list[Hit]
    doubtful: list[Hit]


class Reading(NamedTuple):
    """The last start in a log, taken apart.

    ``first``: the line from which it counts; ``fatal``: lines after which no start goes on.
    """

    engine: str
    lines: list[Line]
    seen: Progress
    first: int
    fatal: list[int]
    #: No start of an engine is told.
    foreign: bool = False


def read(text: str, engine: str = "", table: Sequence[Step] = ()) -> Reading:
    """Take a log's last start apart. Who knows the engine gives it, and its steps where they are not among TABLES."""
    whole = split(text)
    lines = whole[start_of(whole) :]
    given, engine = bool(engine), engine or engine_of(lines)
    if engine == "unknown" and len(lines) < len(whole):
        engine = engine_of(whole)
    seen = progress(engine, lines, table)
    first = 0 if seen.ready is None else seen.ready + 1
    fatal = fatal_lines(lines, seen.steps, first)
    return Reading(engine, lines, seen, first, fatal, not given and is_foreign(engine, lines))


def judge(reading: Reading, silent_seconds: float | None = None, ended: bool = False) -> dict[str, Any]:
    """What the log says.

    ``silent_seconds`` is how long no line has come, where that is known. Without it a log that ends between the begin
    and the end of the rendezvous is taken for one that stays there. ``ended``: the process is known to be gone, so that
    a complaint is believed after which the log went on.
    """
    engine, lines, seen, first, fatal, foreign = reading
    if foreign:
        return _answer("unknown", progress("unknown", ()), "unknown", None, lines[-2:], "low")
    hits, doubtful = _hits(reading)
    if ended:
        hits = hits or doubtful
    if hits and (seen.ready is None or fatal):
        return _failed(engine, lines, seen, hits, fatal)
    if fatal or (seen.ready is None and _ends_in_error(lines, seen)):
        guessed = _unknown(engine, seen, lines, first, fatal)
        # An error of which neither the program nor the place is known may be any program's.
        if fatal or engine != "unknown" or guessed["cause"] != "unknown":
            return guessed
    if (stopped := stopped_at(lines, first)) is not None:
        return _answer(engine, seen, "unknown", None, [lines[stopped], *lines[stopped + 1 :][-2:]], "medium")
    answer = _no_error(engine, lines, seen, silent_seconds)
    if answer["verdict"] == "stalled" and any(not lines[hit.line].logged for hit in doubtful):
        return _failed(engine, lines, seen, doubtful, fatal)
    return answer


def classify(text: str, silent_seconds: float | None = None) -> dict[str, Any]:
    """What a log says of which nothing else is known; see judge."""
    return judge(read(text), silent_seconds)


def of_all(results: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The answers for all ranks of one start: where one rank has a cause of its own, the others' are consequences."""
    own = [entry["verdict"] == "failed" and entry["cause"] not in OF_A_PEER for entry in results]
    answers = []
    for index, entry in enumerate(results):
        if any(own) and not own[index] and entry["cause"] in OF_A_PEER:
            entry = {**entry, "cause": "peer_died", "remedy": CAUSES["peer_died"].remedy, "confidence": "high"}
        answers.append(entry)
    return answers


def _hits(reading: Reading) -> Hits:
    """Rules that fit, without those that the start survived: it went on to a later step and nothing ended it."""
    engine, lines, seen, first, fatal, _foreign = reading
    hits = Hits([], [])
    proven, at_work = proven_until(lines, fatal), goes_on_from(lines)
    last_fatal = fatal[-1] if fatal else -1
    end = len(lines) - 1
    known: dict[str, tuple[Rule, ...]] = {}
    for index in range(first, len(lines)):
        line = lines[index]
        if line.kind != TEXT or (last_fatal < index and seen.step_at(index) != seen.step_at(end)):
            continue
        if line.text not in known:
            text = looked_at(line.text)
            small = text.lower()
            known[line.text] = tuple(rule for rule in RULES if rule.fits(text, small))
        for rule in known[line.text]:
            late = (rule.start_only and seen.ready is not None) or (rule.in_engine and engine == "unknown")
            elsewhere = rule.phases and seen.phase not in rule.phases
            if not (late or elsewhere or (line.quiet and not rule.quiet)):
                doubtful = index > proven and (line.logged or index < at_work) and rule.cause not in OF_THE_KERNEL
                (hits.doubtful if doubtful else hits.sure).append(Hit(index, rule))
    return hits


def _failed(
    engine: str, lines: Sequence[Line], seen: Progress, hits: Sequence[Hit], fatal: Sequence[int]
) -> dict[str, Any]:
    best = min(hits, key=lambda hit: (-hit.rule.weight, hit.line))
    weight = best.rule.weight
    if weight <= WEAK and seen.ready is None:
        return _unknown(engine, seen, lines, 0, fatal)
    confidence = "high" if weight >= ROOT else "medium" if weight >= LIKELY - 5 else "low"
    indexes = [best.line]
    for hit in sorted(hits, key=lambda hit: (-hit.rule.weight, hit.line)):
        if hit.line not in indexes and lines[hit.line].text not in {lines[known].text for known in indexes}:
            indexes.append(hit.line)
    evidence = [lines[index] for index in indexes[: EVIDENCE_LINES - 2]]
    return _answer(engine, seen, "failed", best.rule.cause, evidence, confidence)


def _unknown(engine: str, seen: Progress, lines: Sequence[Line], first: int, fatal: Sequence[int]) -> dict[str, Any]:
    """An error that no rule knows: guessed by where it was raised, as long as the start was going on.

    A parent that points to an error of its child which is nowhere had a child that was killed.
    """
    telling = _telling(lines[first:])
    guess = place_of(lines, lines.index(telling[0])) if telling and seen.ready is None else None
    raised = [line for line in lines[first:] if line.kind == TEXT and not line.quiet and _RAISED.search(line.text)]
    if guess is None and seen.ready is None and raised and all(_PARENT.search(line.text) for line in raised):
        guess, telling = "worker_died", raised
    decided = [lines[index] for index in fatal[:1] if not _GENERIC.search(lines[index].text)]
    shown = [line for line in telling if line not in decided][: EVIDENCE_LINES - 1]
    return _answer(engine, seen, "failed", guess or "unknown", [*shown, *decided], "low")


def _no_error(engine: str, lines: Sequence[Line], seen: Progress, silent_seconds: float | None) -> dict[str, Any]:
    wait = waits.repeated(lines, seen)
    if wait is None and (silent_seconds is None or silent_seconds > SILENCE):
        wait = waits.silent(engine, lines, seen)
    if wait is not None:
        shown = [lines[wait.index], *lines[max(wait.index + 1, len(lines) - 2) :]]
        return _answer(engine, seen, "stalled", wait.cause, shown, "medium" if wait.sure else "low")
    if seen.ready is not None and engine != "unknown":
        return _answer(engine, seen, "ready", None, [lines[seen.ready]], "high")
    if _headless_ready(lines, seen):
        return _answer(engine, seen, "ready", None, lines[-1:], "medium")
    known = engine != "unknown" and bool(lines)
    return _answer(engine, seen, "running" if known else "unknown", None, lines[-2:], "medium" if known else "low")


def _headless_ready(lines: Sequence[Line], seen: Progress) -> bool:
    """A rank without an endpoint prints no ready line: it is ready once its cache, and graphs if any, are there."""
    whole = [line.text for line in lines]
    if not any("headless multiproc executor" in text for text in whole) or seen.phase not in ("kv_cache", "graphs"):
        return False
    eager = any("Enforce eager set" in text for text in whole)
    return eager or any("Graph capturing finished" in text for text in whole)


def _ends_in_error(lines: Sequence[Line], seen: Progress) -> bool:
    """Whether an error stands among the last lines of the log, and no step of the start after it."""
    end = len(lines) - 1
    proven, at_work = proven_until(lines, ()), goes_on_from(lines)
    tail = (index for index in range(max(0, end - 7), end + 1) if seen.step_at(index) == seen.step_at(end))
    return any(
        lines[at].kind == TEXT
        and not lines[at].quiet
        and _ERROR.search(lines[at].text)
        and (at <= proven or not (lines[at].logged or at < at_work))
        for at in tail
    )


def _telling(lines: Sequence[Line]) -> list[Line]:
    """The lines that say most of an error that no rule knows: ends of tracebacks, first ones first."""
    errors = [line for line in lines if line.kind == TEXT and not line.quiet and _ERROR.search(line.text)]
    last = [line for line in lines if line.kind == TEXT][-EVIDENCE_LINES:]
    telling = [line for line in errors if not _GENERIC.search(line.text)] or errors or last
    return list({line.text: line for line in telling}.values())


def _shown(lines: Iterable[Line]) -> list[str]:
    texts = (f"({line.role}) {line.text}" if line.role else line.text for line in lines)
    return [_redact.text(text)[:EVIDENCE_LENGTH] for text in texts][:EVIDENCE_LINES]


def _answer(
    engine: str, seen: Progress, verdict: str, cause: str | None, evidence: Iterable[Line], confidence: str
) -> dict[str, Any]:
    return {
        "engine": engine,
        "phase": seen.phase,
        "percent": seen.percent,
        "verdict": verdict,
        "cause": cause,
        "remedy": CAUSES[cause].remedy if cause else None,
        "evidence": _shown(evidence),
        "confidence": confidence,
    }
