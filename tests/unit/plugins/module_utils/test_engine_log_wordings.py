# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""Wordings of failures, short and in engines' own carriers, each with its cause."""

from __future__ import annotations

import pytest

from ansible_collections.gb10.serving.plugins.module_utils._engine_log import classify
from ansible_collections.gb10.serving.plugins.module_utils._engine_log_causes import CAUSES

SGLANG_LOAD = "[2026-01-02 10:00:00 TP0] Load weight begin. avail mem=112.10 GB\n"
VLLM_LOAD = "(Worker_TP0 pid=3) INFO 01-02 10:00:00 [x.py:1] Starting to load model /m\n"
ADVICE = " If exit code is -9 (SIGKILL), a common cause is the OS OOM killer. Run `dmesg -T | grep -i oom` to check."
KERNEL = "[ 4950.1] oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),task=python3,pid=7,uid=0\n"
CUDA = "(Worker_TP0 pid=3) ERROR 01-02 10:00:01 [x.py:1] torch.OutOfMemoryError: CUDA out of memory. Tried 2 GiB\n"

#: A process that a signal ended, and what else is known.
DIED = "RuntimeError: Rank 0 scheduler died during initialization (exit code: -9)." + ADVICE
CORE = "RuntimeError: Engine core initialization failed. See root cause above. "
CORE += "Failed core proc(s): {'EngineCore_DP0': -9}"
PROC = "ERROR 01-02 10:00:09 [a.py:1] Worker proc VllmWorker-0 died unexpectedly (exit code: -9)"
DEAD = "[10:00:09] Rank 0 scheduler is dead.\n[10:00:09] Exit code: -9\nEOFError"
ENDED = "vllm-rank0 exited with code 137"
UNIT = "systemd[1]: vllm.service: Main process exited, code=killed, status=9/KILL"
DOCKER = "\ndocker says OOMKilled: true of the container"
KILLED = [
    (SGLANG_LOAD + DIED, "worker_died"),
    (SGLANG_LOAD + DEAD, "worker_died"),
    (VLLM_LOAD + PROC, "worker_died"),
    (VLLM_LOAD + CORE, "worker_died"),
    (VLLM_LOAD + ENDED, "worker_died"),
    (VLLM_LOAD + UNIT, "worker_died"),
    (SGLANG_LOAD + KERNEL + DIED, "host_oom_killed"),
    (VLLM_LOAD + ENDED + DOCKER, "host_oom_killed"),
    (VLLM_LOAD + CUDA + ENDED, "out_of_memory"),
    (VLLM_LOAD + CUDA + CORE, "out_of_memory"),
]


@pytest.mark.parametrize(("text", "cause"), KILLED)
def test_a_signal_alone_proves_no_lack_of_memory(text: str, cause: str) -> None:
    answer = classify(text + "\n")
    assert (answer["verdict"], answer["cause"]) == ("failed", cause), answer


def test_what_to_do_about_a_killed_process_names_the_check() -> None:
    assert "dmesg" in CAUSES["worker_died"].remedy and "MemAvailable" in CAUSES["worker_died"].remedy
