# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
from __future__ import annotations

import json

import pytest

from ansible_collections.gb10.serving.plugins.plugin_utils import _watch
from ansible_collections.gb10.serving.plugins.plugin_utils._engines import vllm


def output(state: dict[str, object] | None, log: str) -> str:
    return f"{json.dumps(state) if state else ''}\n{_watch.SEPARATOR}\n{log}"


def test_running_rank() -> None:
    look = _watch.parse(output({"Running": True, "ExitCode": 0, "OOMKilled": False}, "one\n\n two \n"))
    assert (look.exists, look.running, look.exit_code) == (True, True, None)
    assert look.lines == ["one", " two"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (output(None, "Error: No such container: c"), "container c is gone"),
        (f"Error: No such container: c\n{_watch.SEPARATOR}\n", "container c is gone"),
        (f"Cannot connect to the Docker daemon\n{_watch.SEPARATOR}\n", "docker does not answer: Cannot connect"),
        (output({"Running": False, "ExitCode": 1, "OOMKilled": False}, "x"), "container c ended with exit code 1"),
        (
            output({"Running": False, "ExitCode": 137, "OOMKilled": True}, "x"),
            "killed for lack of memory (exit code 137)",
        ),
    ],
)
def test_dead_rank(text: str, words: str) -> None:
    look = _watch.parse(text)
    assert not look.running
    assert words in _watch.death(look, "c")


START = [
    "INFO 11-30 10:00:01 [utils.py:240] non-default args: {'model_tag': '/model'}",
    "(EngineCore pid=80) INFO 11-30 10:00:09 [core.py:95] Initializing a V1 LLM engine (v0.32.0+cpu) with config",
    "(Worker pid=90) INFO 11-30 10:00:12 world_size=2 rank=0 local_rank=0 distributed_init_method=tcp://192.168.200.11:29501",
    "(Worker pid=90) INFO 11-30 10:00:14 rank 0 in world size 2 is assigned as DP rank 0, PP rank 0",
    "(Worker pid=90) INFO 11-30 10:00:20 Loading weights took 0.31 seconds",
    "(EngineCore pid=80) INFO 11-30 10:00:25 CPU KV cache size: 174,720 tokens",
    "(EngineCore pid=80) INFO 11-30 10:00:25 Maximum concurrency for 512 tokens per request: 341.25x",
    "(APIServer pid=1) INFO:     Application startup complete.",
]


@pytest.mark.parametrize(
    ("seen", "phase"),
    [
        (0, "starting the container"),
        (1, "reading the configuration"),
        (2, "starting the engine"),
        (4, "ranks are connected"),
        (6, "KV cache is allocated"),
        (8, "ready"),
    ],
)
def test_phase(seen: int, phase: str) -> None:
    assert _watch.phase(vllm, START[:seen], "") == phase


def test_phase_never_goes_back() -> None:
    assert _watch.phase(vllm, START[:1], "weights are loaded") == "weights are loaded"


def test_numbers_that_the_engine_tells() -> None:
    assert _watch.told(vllm, START) == {"kv_cache_tokens": 174720, "max_concurrency": 341.25}


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["(Worker pid=9) ERROR ValueError: heads % 3", "RuntimeError: Engine core initialization failed. See"], 0),
        (["vllm: error: unrecognized arguments: --x", "  usage"], 0),
        (["INFO all is well", "WARNING error_prob=0.1"], None),
    ],
)
def test_evidence_is_not_the_generic_line(lines: list[str], expected: int | None) -> None:
    assert _watch.evidence(vllm, lines) == (None if expected is None else lines[expected])
