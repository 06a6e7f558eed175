# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""The tables agree with each other, with the page of causes, and with the steps by which a start is watched."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ansible_collections.gb10.serving.plugins.module_utils._engine_log import OF_A_PEER, RULES
from ansible_collections.gb10.serving.plugins.module_utils._engine_log_causes import CAUSES
from ansible_collections.gb10.serving.plugins.module_utils._engine_log_lines import FRAME, split
from ansible_collections.gb10.serving.plugins.module_utils._engine_log_phases import PHASES, TABLES
from ansible_collections.gb10.serving.plugins.module_utils._engine_log_places import PLACES
from ansible_collections.gb10.serving.plugins.module_utils._engine_log_rule import (
    alternatives,
    longest_text,
    texts_of,
)
from ansible_collections.gb10.serving.plugins.module_utils._engine_log_waits import REPEATED

ROOT = Path(__file__).resolve().parents[4]
LOGS = ROOT / "tests" / "unit" / "fixtures" / "engine_logs"


def test_every_cause_is_named_by_something_and_explained() -> None:
    named = {rule.cause for rule in RULES} | {cause for _p, cause in PLACES} | {entry[1] for entry in REPEATED}
    # Only silence tells this one, and only the absence of a rule the other.
    assert named | {"nccl_init_hang", "unknown"} == set(CAUSES)
    assert set(CAUSES) >= OF_A_PEER


def test_explanations_are_short_sentences() -> None:
    for name, cause in CAUSES.items():
        for text in cause:
            assert text.endswith(".") and 8 < len(text) < 330 and "\n" not in text, (name, text)


def test_page_of_causes_is_current() -> None:
    script = ROOT / "tests" / "docs" / "causes.py"
    outcome = subprocess.run([sys.executable, str(script), "--check"], capture_output=True, text=True, check=False)
    assert outcome.returncode == 0, outcome.stderr


@pytest.mark.parametrize("engine", sorted(TABLES))
def test_phases_go_forward(engine: str) -> None:
    order = [PHASES.index(phase) for _text, phase, _meaning in TABLES[engine]]
    assert order == sorted(order)
    assert PHASES[order[-1]] == "ready"


@pytest.mark.parametrize(
    ("raw", "text", "role", "level"),
    [
        ("(Worker_TP1 pid=9) ERROR 01-31 10:00:00 [core.py:1] OSError: x", "OSError: x", "Worker_TP1", "error"),
        ("(RayWorkerWrapper pid=9, ip=10.0.0.2) hello", "hello", "RayWorkerWrapper", ""),
        ("(EngineCore pid=1) (Worker pid=2) INFO 01-31 10:00:00 [a.py:1] hello", "hello", "Worker", "info"),
        ("[2026-01-31 10:00:00 TP1 EP1] Load weight begin.", "Load weight begin.", "TP1 EP1", "info"),
        ("[2026-01-31 10:00:00 TP1] Scheduler hit an exception: x", "Scheduler hit an exception: x", "TP1", ""),
        ("ERROR 06-16 02:08:15 utils.py:238] Boom", "Boom", "", "error"),
        ("[E1130 09:40:58.1 socket.cpp:818] [c10d] The client", "[c10d] The client", "", "error"),
        ("2026-01-02 10:00:00,123 - WARNING - autotuner.py:496 - skipped", "autotuner.py:496 - skipped", "", "warning"),
        ("2026-01-02 10:00:00,1 - __main__ - INFO - [10:00:00 TP0] hello", "hello", "TP0", "info"),
        ("ERROR 2026-01-02T10:00:00.1Z [resource.labels.containerName: v] boom", "boom", "", ""),
        ("[TensorRT-LLM][WARNING] slow", "slow", "", "warning"),
        ("[rank0]:[W1130 09:40:58.1 socket.cpp:818] slow", "slow", "", "warning"),
        ("2026-01-31T10:00:00.123Z vllm failed", "vllm failed", "", ""),
        ("vllm-1  | Jan 31 10:00:00 node-a docker[8]: hello", "hello", "", ""),
        ("\x1b[32mINFO\x1b[0m 01-31 10:00:00 [a.py:1] green", "green", "", "info"),
        ('{"log":"OSError: x\\n","stream":"stderr","time":"2026-01-31T10:00:00Z"}', "OSError: x", "", ""),
        ("node:1:1 [0] NCCL INFO Bootstrap", "node:1:1 [0] NCCL INFO Bootstrap", "", "info"),
        ("x.py:1: UserWarning: no module named y", "x.py:1: UserWarning: no module named y", "", "info"),
    ],
)
def test_what_carriers_put_before_a_line(raw: str, text: str, role: str, level: str) -> None:
    (line,) = split(raw)
    assert (line.text, line.role, line.level) == (text, role, level)


def test_frames_are_told_from_messages() -> None:
    source = '  File "a.py", line 1, in f\n    raise OSError("no space left on device")\n    ^^^^^\n'
    raw = source + '  File "z.pyx", line 1, in g\nOSError: x\n'
    assert [line.kind == FRAME for line in split(raw)] == [True, True, True, True, False]


def test_a_traceback_that_python_ignores_is_no_error() -> None:
    text = 'Exception ignored in: <f>\nTraceback (most recent call last):\n  File "a.py", line 1\n    x()\nOSError: a\n'
    assert [line.level for line in split(text + "OSError: b")] == ["info"] * 5 + [""]


def test_progress_bars_are_lines_and_remarks_are_none() -> None:
    assert [line.text for line in split("# cause: x\n### cut ###\na 1%|\ra 2%|\n")] == ["a 1%|", "a 2%|"]


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (r"no space left on device", "no space left on device"),
        (r"Call to ibv_\w+ (?:\S+ )?failed", "call to ibv_"),
        (r"colou?rs (?:a|b) matter", " matter"),
        (r"[Kk]ill\.d+ x{2,3}yz", "ill.d"),
        (r"^KeyError: '[a-z]+'$", "keyerror: '"),
        (r"\w+", ""),
    ],
)
def test_text_that_each_fitting_line_contains(pattern: str, text: str) -> None:
    assert longest_text(pattern) == text


def test_group_is_taken_apart() -> None:
    assert texts_of(r"(?:exit|halt)ed? (?:-9|137)") == ["exit", "halt"]
    assert texts_of(r"(?:exit|halt)? \d (?:a|b)") == [""]


def test_alternatives_outside_groups() -> None:
    assert alternatives(r"a(?:b|c)|[|]d|\|e") == [r"a(?:b|c)", "[|]d", r"\|e"]


def test_texts_leave_no_line_out() -> None:
    """The quick search for texts finds what the patterns find, in every line of the recorded logs."""
    lines = {line.text for path in LOGS.glob("*.txt") for line in split(path.read_text(encoding="utf-8"))}
    assert len(lines) > 400
    found = 0
    for rule in RULES:
        for text in lines:
            fits = rule.pattern.search(text) is not None
            assert rule.fits(text, text.lower()) == fits, (rule.cause, text)
            found += fits
    assert found > 100


def test_most_rules_are_quick() -> None:
    assert sum(not rule.texts for rule in RULES) <= len(RULES) // 4
