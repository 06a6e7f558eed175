# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""Wordings of failures, short and in engines' own carriers, each with its cause; and of lines that mean nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.gb10.serving.plugins.module_utils._engine_log import classify, judge, read
from ansible_collections.gb10.serving.plugins.module_utils._engine_log_causes import CAUSES
from ansible_collections.gb10.serving.plugins.plugin_utils import _engines

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


WORDINGS = Path(__file__).resolve().parents[2] / "fixtures" / "engine_wordings"


def lines_of(name: str) -> list[str]:
    lines = (WORDINGS / name).read_text(encoding="utf-8").splitlines()
    return [line.replace("\\n", "\n") for line in lines if not line.startswith("# ")]


FAILURES = [tuple(line.split("\t", 2)) for line in lines_of("failures.tsv")]

VLLM = [
    "(APIServer pid=1) INFO 01-02 10:00:00 [api_server.py:9] vLLM API server version 0.32.0",
    "(APIServer pid=1) INFO 01-02 10:00:00 [utils.py:1] non-default args: {'model_tag': '/m'}",
    "(EngineCore pid=5) INFO 01-02 10:00:09 [core.py:1] Initializing a V1 LLM engine (v0.32.0) with config: model='/m'",
    "(Worker pid=9) INFO 01-02 10:00:12 [p:1] world_size=2 rank=0 distributed_init_method=tcp://10.9.0.1 backend=nccl",
    "(Worker pid=9) INFO 01-02 10:00:13 [pynccl.py:1] vLLM is using nccl==2.30.7",
    "(Worker pid=9) INFO 01-02 10:00:15 [p.py:1] rank 0 in world size 2 is assigned as DP rank 0, PP rank 0",
    "(Worker_TP0 pid=9) INFO 01-02 10:00:16 [gpu_model_runner.py:1] Starting to load model /m...",
    "(Worker_TP0 pid=9) INFO 01-02 10:08:16 [default_loader.py:1] Loading weights took 480.1 seconds",
    "(Worker_TP0 pid=9) INFO 01-02 10:08:20 [gpu_worker.py:1] Available KV cache memory: 20.1 GiB",
    "(Worker_TP0 pid=9) INFO 01-02 10:08:21 [x.py:1] Capturing CUDA graphs",
    "(EngineCore pid=5) INFO 01-02 10:09:00 [core.py:1] init engine (profile, create kv cache, warmup) took 40.1 s",
    "(APIServer pid=1) INFO 01-02 10:09:01 [api_server.py:1] Starting vLLM server on http://127.0.0.1:8000",
    "(APIServer pid=1) INFO:     Application startup complete.",
]
SGLANG = [
    "[2026-01-02 10:00:00] server_args=ServerArgs(model_path='/m', nnodes=2, device='cuda')",
    "[2026-01-02 10:00:20 TP0] Init torch distributed begin.",
    "[2026-01-02 10:00:22 TP0] sglang is using nccl==2.30.7",
    "[2026-01-02 10:00:24 TP0] CustomAllreduce is disabled because this process group spans across nodes.",
    "[2026-01-02 10:00:25 TP0] Init torch distributed ends. [elapsed=5 s] mem usage=0.4 GB",
    "[2026-01-02 10:00:26 TP0] Load weight begin. avail mem=112 GB",
    "[2026-01-02 10:08:26 TP0] Load weight end. elapsed=480.1 s, type=X, avail mem=60 GB",
    "[2026-01-02 10:08:27 TP0] KV Cache is allocated. #tokens: 1000, K size: 1 GB",
    "[2026-01-02 10:08:28 TP0] Capture cuda graph begin. This can take up to several minutes.",
    "[2026-01-02 10:09:28 TP0] max_total_num_tokens=1000, chunked_prefill_size=8192",
    "[2026-01-02 10:09:29] INFO:     Application startup complete.",
    "[2026-01-02 10:09:40] The server is fired up and ready to roll!",
]
STARTS = {"vllm": VLLM, "sglang": SGLANG}


def traceback(before: str, frame: str, text: str) -> list[str]:
    head = ["Traceback (most recent call last):", f'  File "/opt/py/{frame}", line 7, in run', "    run(*args)"]
    return [before + line for line in [*head, *text.split("\n")]]


def carried(carrier: str, text: str) -> str:
    """A failure between the lines that stand around it in a log."""
    if carrier == "worker":
        worker = "(Worker pid=9) ERROR 01-02 10:01:00 [multiproc_executor.py:1] "
        core = "(EngineCore pid=5) ERROR 01-02 10:01:02 [core.py:1] "
        lines = [*VLLM[:3], worker + "WorkerProc failed to start."]
        lines += traceback(worker, "vllm/v1/executor/multiproc_executor.py", text)
        lines += [core + "Exception: WorkerProc initialization failed due to an exception in a background process."]
        lines += ["(APIServer pid=1) RuntimeError: Engine core initialization failed. Failed core proc(s): {}"]
    elif carrier == "config":
        lines = [*VLLM[:2], *traceback("(APIServer pid=1) ", "vllm/entrypoints/cli/main.py", text)]
    elif carrier == "scheduler":
        first, *more = traceback("", "sglang/srt/managers/scheduler.py", text)
        lines = [*SGLANG[:2], f"[2026-01-02 10:01:00 TP0] Scheduler hit an exception: {first}", *more, ""]
        lines += ["[2026-01-02 10:01:00] Received sigquit from a child process. It usually means the child failed."]
    else:
        lines = [text]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize(("cause", "carrier", "text"), FAILURES)
def test_cause_of_each_wording(cause: str, carrier: str, text: str) -> None:
    answer = classify(carried(carrier, text))
    assert answer["verdict"] == "failed" and answer["cause"] in cause.split("|"), answer


def test_wordings_stand_for_most_causes() -> None:
    assert len(FAILURES) > 200 and {carrier for _cause, carrier, _text in FAILURES} == {
        "worker", "config", "scheduler", "bare",
    }  # fmt: skip
    named = {name for cause, _carrier, _text in FAILURES for name in cause.split("|")}
    # Silence alone tells these two.
    assert set(CAUSES) - named == {"message_queue_address", "nccl_init_hang"}


@pytest.mark.parametrize("text", lines_of("harmless.txt"))
@pytest.mark.parametrize("engine", STARTS)
def test_harmless_lines_are_no_failure(engine: str, text: str) -> None:
    start = STARTS[engine]
    steps = _engines.get(engine).STEPS
    for at in range(1, len(start) + 1):
        assert classify("\n".join([*start[:at], text, *start[at:]]))["verdict"] == "ready", at
        reading = read("\n".join([*start[:at], text]), engine, steps)
        assert not reading.fatal and judge(reading, 5)["verdict"] != "failed", at
