# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gb10.serving.plugins.module_utils._engine_log import read
from ansible_collections.gb10.serving.plugins.module_utils._engine_log_phases import PHASES, TABLES, Progress
from ansible_collections.gb10.serving.plugins.plugin_utils import _watch_stall
from ansible_collections.gb10.serving.plugins.plugin_utils._watch_stall import ALLOWANCES, ENDS, Clock

TESTS = Path(__file__).resolve().parents[3]


def seen(phase: str, meaning: str = "", percent: int | None = None) -> Progress:
    return Progress(phase, (), percent, None, meaning)


def test_each_phase_has_an_allowance() -> None:
    assert set(PHASES) - {"ready"} <= set(ALLOWANCES)
    assert set(ALLOWANCES) - set(PHASES) == set(ENDS.values())
    for table in TABLES.values():
        assert set(ENDS) <= {meaning for _text, _phase, meaning in table}


@pytest.mark.parametrize(
    ("engine", "line", "doing"),
    [
        ("vllm", "", "starting"),
        ("vllm", "vLLM is using nccl==2.30.7", "rendezvous"),
        ("vllm", "rank 0 in world size 2 is assigned as DP rank 0", "connected"),
        ("sglang", "Init parallel ends. elapsed=2 s", "connected"),
        ("sglang", "Load weight begin. avail mem=100 GB", "weights"),
        ("vllm", "Loading weights took 3 seconds", "profiling"),
        ("vllm", "Capturing CUDA graphs", "graphs"),
        ("vllm", "Application startup complete.", "ready"),
    ],
)
def test_which_allowance_counts(engine: str, line: str, doing: str) -> None:
    assert _watch_stall.doing(read(line, engine).seen) == doing


def test_ranks_are_compared_by_what_they_do() -> None:
    places = [_watch_stall.place(name) for name in (*ALLOWANCES, "ready")]
    assert places == sorted(places) and len(set(places)) == len(places)


@pytest.mark.parametrize(
    ("factor", "changes", "name", "seconds"),
    [
        (1, {}, "weights", 1800),
        (0.1, {}, "rendezvous", 12),
        (2, {"weights": "3600"}, "weights", 3600),
        (2, {"weights": 3600}, "graphs", 1800),
    ],
)
def test_allowances(factor: float, changes: dict[str, Any], name: str, seconds: float) -> None:
    assert _watch_stall.allowances(factor, changes)[name] == seconds


@pytest.mark.parametrize(
    ("factor", "changes", "words"),
    [
        (0, {}, "allowance_factor is 0"),
        (1, {"wieghts": 5}, "wieghts: 5. Expected: seconds above 0 for one of starting, rendezvous"),
        (1, {"weights": "soon"}, "weights: 'soon'"),
        (1, {"weights": -1}, "weights: -1"),
    ],
)
def test_wrong_allowances(factor: float, changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        _watch_stall.allowances(factor, changes)


def test_no_good_start_is_silent_for_long() -> None:
    """Not even for half of what is allowed, in any log that is known, and all that can take long is among them."""
    spec = importlib.util.spec_from_file_location("log_gaps", TESTS / "bench" / "log_gaps.py")
    assert spec is not None and spec.loader is not None
    bench = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(bench)
    logs = TESTS / "unit" / "fixtures" / "engine_logs"
    found = bench.gaps([*logs.glob("good-*.txt"), logs / "loading-half-way.txt"])
    assert set(found) == set(ALLOWANCES)
    assert found["weights"]["seconds"] >= 300 and found["starting"]["seconds"] >= 10
    for doing, entry in found.items():
        assert entry["seconds"] < entry["allowed"] / 2, (doing, entry)


WAIT = "INFO 11-30 10:00:{:02d} No available shared memory broadcast block found in 60 seconds"


@pytest.mark.parametrize(
    ("second", "place", "lines", "waits", "quiet"),
    [
        (60, seen("weights"), [], False, 60),
        (60, seen("kv_cache"), [], False, 0),
        (60, seen("weights", "weights are loaded"), [], False, 0),
        (60, seen("weights", "", 12), [], False, 0),
        (60, seen("weights"), ["something new"], False, 0),
        (60, seen("weights"), [WAIT.format(59)], False, 60),
        (60, seen("weights"), ["GET /health 503 from 10.0.0.1:41932"], False, 60),
        (60, seen("weights"), ["Capturing: 45%|####  | 9/20 [00:12<00:30]"], False, 60),
        (60, seen("weights"), ["Capturing: 50%|##### | 10/20 [00:12<00:30]"], False, 0),
        (60, seen("weights"), [], True, 0),
    ],
)
def test_progress(second: float, place: Progress, lines: list[str], waits: bool, quiet: float) -> None:
    clock = Clock(1000)
    before = [WAIT.format(1), "GET /health 503 from 10.0.0.1:51000", "Capturing: 45%|####  | 9/20 [00:10<00:30]"]
    assert clock.look(1000, seen("weights"), before, False) == 0
    assert clock.look(1000 + second, place, lines, waits) == quiet


@pytest.mark.parametrize(
    ("what", "other", "since"),
    [
        ("weights", {"place": _watch_stall.place("weights"), "since": 3}, 3),
        ("graphs", {"place": _watch_stall.place("graphs"), "since": 900}, 900),
        # One that is ahead is no proof that this one gets on, and ranks that look for each other wait together.
        ("weights", {"place": _watch_stall.place("graphs"), "since": 3}, 0),
        ("rendezvous", {"place": _watch_stall.place("rendezvous"), "since": 3}, 0),
    ],
)
def test_ranks_that_do_the_same_get_on_together(what: str, other: dict[str, float], since: float) -> None:
    assert _watch_stall.side_by_side(what, [other]) == since
    assert _watch_stall.side_by_side(what, []) == 0


def test_a_line_is_new_again_in_the_next_step() -> None:
    clock = Clock(0)
    clock.look(0, seen("weights"), ["hello"], False)
    assert clock.look(5, seen("kv_cache"), [], False) == 0
    assert clock.look(9, seen("kv_cache"), ["hello"], False) == 0
    assert clock.look(12, seen("kv_cache"), ["hello"], False) == 3
