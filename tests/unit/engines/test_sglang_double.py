# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""The double of SGLang's model: it fails as it is told to, speaks as the engine does, and answers what is asked for."""

from __future__ import annotations

import importlib
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gb10.serving.plugins.module_utils import _engine_log
from ansible_collections.gb10.serving.plugins.plugin_utils._engines import sglang

ENGINES = Path(__file__).resolve().parents[2] / "engines"
sys.path.insert(0, str(ENGINES))

import sglang_double as double  # noqa: E402

START = "[2026-11-30 12:00:00 TP0] "
BEFORE = [f"{START}Init parallel begin.", f"{START}Init parallel ends. elapsed=6.4 s", f"{START}Load weight begin."]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", None),
        ("hang", ("hang", None, "loading")),
        ("die:1", ("die", 1, "loading")),
        ("oom:0", ("oom", 0, "loading")),
        ("hang@serving", ("hang", None, "serving")),
        ("die:1@serving", ("die", 1, "serving")),
    ],
)
def test_fault(text: str, fault: tuple[str, int | None, str] | None) -> None:
    assert double.parse_fault(text) == fault


@pytest.mark.parametrize("text", ["burn", "hang:", "hang:x", "die:1@never", "oom 1"])
def test_fault_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"expected hang\|die\|oom"):
        double.parse_fault(text)


def test_fault_hits_its_rank_and_place() -> None:
    one, everyone = double.Fault("die", 1, "loading"), double.Fault("die", None, "serving")
    assert one.hits(1, "loading")
    assert not one.hits(0, "loading")
    assert not one.hits(1, "serving")
    assert everyone.hits(0, "serving")
    assert everyone.hits(3, "serving")


@pytest.mark.parametrize(
    ("limit", "ignore_end", "ids", "kind"),
    [
        (None, False, [5, 6, 7, 1], "stop"),
        (4, False, [5, 6, 7, 1], "stop"),
        (2, False, [5, 6], "length"),
        (5, True, [5, 6, 7, 5, 6], "length"),
    ],
)
def test_answer(limit: int | None, ignore_end: bool, ids: list[int], kind: str) -> None:
    found, reason = double.answer([5, 6, 7], 1, limit, ignore_end)
    assert found == ids
    assert reason["type"] == kind


def test_answer_without_an_end_token() -> None:
    assert double.answer([5, 6], None, None, False) == ([5, 6], {"type": "stop", "matched": None})


def test_loading_is_watched_as_a_real_one() -> None:
    lines = [START + line for line in double.loading_lines(2048, "SomeForCausalLM", 2.0, 18.0)]
    steps = [next((means for text, _phase, means in sglang.STEPS if text in line), None) for line in lines]
    assert steps[:2] == ["weights are loaded", "KV cache is allocated"]
    assert "capturing CUDA graphs" in steps
    ready = [*BEFORE, *lines, f"{START}{sglang.STEPS[-1][0]}"]
    answer = _engine_log.classify("\n".join(ready))
    assert (answer["engine"], answer["verdict"], answer["cause"]) == ("sglang", "ready", None)


def test_out_of_memory_is_told_as_the_engine_tells_it(monkeypatch: pytest.MonkeyPatch) -> None:
    class Torch:
        class OutOfMemoryError(RuntimeError):
            pass

    monkeypatch.setitem(sys.modules, "torch", Torch)
    with pytest.raises(Torch.OutOfMemoryError) as raised:
        double.fail(double.Fault("oom", None, "loading"))
    log = [
        *BEFORE,
        f"{START}Scheduler hit an exception: Traceback (most recent call last):",
        f"torch.OutOfMemoryError: {raised.value}",
        "[2026-11-30 12:00:01] Received sigquit from a child process. It usually means the child failed.",
    ]
    assert _engine_log.classify("\n".join(log))["cause"] == "out_of_memory"


def test_nothing_is_changed_in_other_processes_than_the_schedulers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "sglang.srt.managers.scheduler", raising=False)
    double.install()
    assert "sglang.srt.model_executor.model_runner" not in sys.modules


def test_stand_ins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    stubs = importlib.import_module("sglang_stubs")
    monkeypatch.setattr(stubs, "PACKAGES", frozenset({"pretended_triton"}))
    language: Any = importlib.import_module("pretended_triton.language")
    kernel = types.new_class("Kernel", (language.KernelInterface,))
    assert language.jit(len)([7]) == 1
    assert language.autotune(configs=[])(len)([7]) == 1
    assert kernel.__bases__ == (object,)
    assert language.constexpr | None is not None
    assert not isinstance(7, language.tensor)
    with pytest.raises(AttributeError):
        _ = language.runtime.driver.active  # by this, one finds out that there is no GPU
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("pretended_triton2")
