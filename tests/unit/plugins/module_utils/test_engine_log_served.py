# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""Logs of servers that have been at work: what clients sent, starts anew, stops; and logs of other programs."""

from __future__ import annotations

import time

import pytest

from ansible_collections.gb10.serving.plugins.module_utils._engine_log import classify, judge, read

API = "(APIServer pid=1) "
VLLM_READY = (
    API + "INFO 01-01 10:00:00 [x.py:1] vLLM API server version 0.33.0\n"
    "(Worker_TP0 pid=9) INFO 01-01 10:00:05 [x.py:1] Starting to load model /m\n"
    "(APIServer pid=1) INFO:     Application startup complete.\n"
)
SGLANG_READY = (
    "[2026-01-01 10:00:00] server_args=ServerArgs(model_path='/m', tp_size=2, nnodes=2)\n"
    "[2026-01-01 10:00:05 TP0] Load weight begin. avail mem=10.00 GB\n"
    "[2026-01-01 10:00:09] The server is fired up and ready to roll!\n"
)
ANSWERED = 'INFO:     10.9.0.7:1 - "POST /v1/chat/completions HTTP/1.1" 200 OK\n'
PROMPT = "INFO 01-01 10:09:00 [logger.py:4] Received request c-1: prompt: 'Why {} ?', params: SamplingParams(n=1)\n"

WORDS = [
    "Segmentation fault (core dumped)",
    "Worker proc X died unexpectedly, and NCCL WARN Call to ibv_reg_mr failed",
    "kernel: Out of memory: Killed process 12 (python)",
    "NVRM: Xid (PCI:0000): 79, GPU has fallen off the bus",
    "non-default args: {}",
    "vLLM API server version 0.1",
    "server_args=ServerArgs()",
]


@pytest.mark.parametrize("words", WORDS)
@pytest.mark.parametrize(
    ("start", "form"),
    [
        (VLLM_READY, API + PROMPT),
        (VLLM_READY, API + PROMPT.replace("Why", "Fix\nTraceback (most recent call last):\nKilled\nOSError: No space")),
        (VLLM_READY, API + "INFO 01-01 10:09:00 [x.py:5] Request c-1 details: prompt: '{}', prompt_token_ids: [1]\n"),
        (VLLM_READY, 'INFO:     10.0.0.1:1 - "GET /x?{} HTTP/1.1" 404 Not Found\n'),
        (SGLANG_READY, '[2026-01-01 10:09:00] Receive: obj=GenerateReqInput(text="{}")\n'),
        (SGLANG_READY, "[2026-01-01 10:09:00] Finish: obj=GenerateReqInput(text='x'), out={{'text': '{}'}}\n"),
    ],
)
def test_what_clients_send_is_no_word_of_the_engine(start: str, form: str, words: str) -> None:
    answer = classify(start + form.format(words, "") + ANSWERED, 0.0)
    assert (answer["verdict"], answer["cause"], answer["phase"]) == ("ready", None, "ready"), answer


LOADS = VLLM_READY[: VLLM_READY.index("(APIServer pid=1) INFO:     App")]
CACHE = "(Worker_TP0 pid=9) INFO 01-01 10:08:20 [x.py:1] Available KV cache memory: 20.1 GiB\n"
WARNING = "(Worker_TP0 pid=9) WARNING 01-01 10:00:06 [x.py:1] "


@pytest.mark.parametrize(
    "line",
    [
        WARNING + "nvcc exited with code 1, falling back to the prebuilt kernels",
        "(EngineCore pid=5) INFO 01-01 10:00:06 [x.py:1] shm: previous worker died unexpectedly? cleaning up",
        WARNING + "Engine core: DeepGEMM warmup failed, skipping it",
        WARNING + "watchdog timeout set to 600 s",
        API + "INFO 01-01 10:00:06 [x.py:1] Using supplied chat template: 'If the tool exited with code 1, say so'",
        API + "INFO 01-01 10:00:06 [x.py:1] faulthandler enabled: prints on Segmentation fault",
    ],
)
def test_what_its_writer_takes_lightly_ends_no_start(line: str) -> None:
    for text in (LOADS + line + "\n", LOADS + line + "\n" + CACHE):
        reading = read(text)
        assert not reading.fatal and judge(reading, 0.0)["verdict"] == "running"


def test_a_start_that_goes_on_was_not_ended_by_a_helper() -> None:
    line = "(Worker_TP0 pid=9) nvcc died unexpectedly\n"
    assert read(LOADS + line).fatal and not read(LOADS + line + CACHE).fatal
    end = "(EngineCore pid=5) WARNING 01-01 10:00:06 [x.py:1] Worker proc VllmWorker-1 died unexpectedly\n"
    assert read(LOADS + end).fatal and read(LOADS + end + CACHE).fatal


def test_the_line_that_decided_is_shown() -> None:
    answer = classify(LOADS + "(Worker_TP0 pid=9) Fatal Python error: Aborted\n" + 9 * CACHE)
    assert answer["verdict"] == "failed"
    assert any("Fatal Python error" in line for line in answer["evidence"])
    answer = classify(VLLM_READY + "Watchdog caught something\n" + 9 * ANSWERED)
    assert answer["verdict"] == "failed" and any("Watchdog" in line for line in answer["evidence"])


FAILS = (
    "(Worker_TP0 pid=9) ERROR 01-01 10:00:09 [x.py:1] WorkerProc failed to start.\nOSError: No space left on device\n"
)
HEADLESS = (
    "(MainProcess pid=2) INFO 01-01 10:00:00 [serve.py:224] Launching vLLM (v0.33.0) headless multiproc executor\n"
)
EAGER = "(MainProcess pid=2) WARNING 01-01 10:00:00 [vllm.py:1] Enforce eager set\n"
LOGO = API + "INFO 01-01 10:00:00 [startup.py:38]  \u2584\u2584 \u2584\u2588 \u2588 \u2588  version 0.33.0\n"


@pytest.mark.parametrize(
    ("text", "verdict", "cause", "phase"),
    [
        (LOADS + FAILS + LOADS, "running", None, "weights"),
        (LOADS + FAILS + LOADS.split("\n")[0], "running", None, "starting"),
        (LOGO + LOADS + FAILS + LOGO, "running", None, "starting"),
        (LOADS + FAILS + VLLM_READY, "ready", None, "ready"),
        (VLLM_READY + LOADS, "running", None, "weights"),
        (LOADS + "OSError: [Errno 98] Address already in use\n" + LOADS + FAILS, "failed", "disk_full", "weights"),
        (HEADLESS + EAGER + CACHE, "ready", None, "kv_cache"),
        (HEADLESS + EAGER + CACHE + HEADLESS + EAGER, "running", None, "starting"),
        (SGLANG_READY + SGLANG_READY.split("\n")[0], "running", None, "starting"),
        (
            SGLANG_READY.split("\n")[0]
            + "\n[2026-01-01 10:00:02 TP0] Scheduler hit an exception: Traceback (most recent call last):\nOSError: x\n"
            + "[2026-01-01 10:00:03] Received sigquit from a child process. It usually means the child failed.\n"
            + "\n".join(SGLANG_READY.split("\n")[:2]),
            "running",
            None,
            "weights",
        ),
    ],
)
def test_the_last_start_of_a_log_counts(text: str, verdict: str, cause: str | None, phase: str) -> None:
    answer = classify(text, 0.0)
    assert (answer["verdict"], answer["cause"], answer["phase"]) == (verdict, cause, phase), answer


ARGS = SGLANG_READY.split("\n")[0] + "\n"
MAIN = "[2026-01-01 10:00:01] "


@pytest.mark.parametrize(
    "words",
    [
        "Port 30000 is already in use, trying port 30001",
        "rope_scaling missing 'factor', defaulting to 1.0. Check model accuracy.",
        "Finalize AR fusion unavailable: requires Blackwell TP4/EP4 without DP attention. Using separate finalize.",
        "SGLANG_OPT_GEMV is unused: it requires DeepGEMM JIT and a compatible GPU, not available for SM_121.",
        "KDA prefill needs SM100; falling back to Triton extend.",
        "FA3 is not supported on Blackwell GPU, using triton attention backend.",
        "Downloaded model files are corrupted for X. The corrupted files have been removed. Will retry download.",
        "ImportError: cannot import name 'mooncake' - PD disaggregation disabled",
        "JSON decode error: X",
        "WARNING server_args.py:812: Mixed chunk is not supported on sm_121",
    ],
)
def test_what_sglang_goes_on_after_is_no_failure(words: str) -> None:
    for text in (ARGS + MAIN + words, ARGS + MAIN + words + "\n" + MAIN + "Attention backend: triton"):
        assert classify(text, 0.0)["verdict"] == "running"
    # A complaint that something follows from is believed.
    ended = (
        ARGS + MAIN + "Failed to load: no kernel image is available\n" + MAIN + "Received sigquit from a child process."
    )
    assert classify(ended, 0.0)["cause"] == "kernel_unsupported"


BARE = [
    ("ModuleNotFoundError: No module named 'nixl'", "missing_dependency"),
    ("ldconfig: /usr/lib/libcuda.so.1: cannot open shared object file: No such file or directory", "gpu_not_visible"),
    ("sh: 1: cc: not found", "missing_dependency"),
    ("spark-a:1:1 [0] ibvwrap.cc:94 NCCL WARN Call to ibv_open_device failed", "rdma_failure"),
]


@pytest.mark.parametrize(("line", "cause"), BARE)
def test_a_complaint_of_a_library_counts_once_something_fails(line: str, cause: str) -> None:
    more = LOADS + line + "\n(EngineCore pid=5) INFO 01-01 10:00:07 [x.py:1] Memory profiling\n"
    assert classify(more, 0.0)["verdict"] == "running"
    assert judge(read(more), 0.0, ended=True)["cause"] == cause
    assert classify(more + "(EngineCore pid=5) ERROR 01-01 10:00:08 [x.py:1] It is over\n", 0.0)["cause"] == cause
    assert classify(LOADS + line, 0.0)["cause"] == cause


def test_a_complaint_of_a_library_explains_a_stall() -> None:
    begin = "(Worker pid=3) INFO 01-01 10:00:01 [x.py:1] world_size=2 rank=0 local_rank=0 "
    begin += "distributed_init_method=tcp://10.9.0.1:29501 backend=nccl\nINFO vLLM is using nccl==2.28.9\n"
    text = begin + BARE[3][0] + "\n(EngineCore pid=5) INFO 01-01 10:00:07 [x.py:1] Memory profiling\n"
    assert classify(text, 500.0)["cause"] == "rdma_failure"
    assert classify(text, 5.0)["verdict"] == "running"


def broadcast(stamp: str) -> str:
    words = "[shm_broadcast.py:500] No available shared memory broadcast block found in 60 seconds."
    return f"(Worker_TP0 pid=9) INFO {stamp} {words}\n"


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("".join(broadcast(f"01-02 10:0{minute}:00") for minute in range(3)), "stalled"),
        ("".join(broadcast(f"01-02 10:0{minute}:00") for minute in range(3)) + ANSWERED, "ready"),
        ("".join(broadcast(f"01-0{day} 10:00:00") + ANSWERED for day in range(2, 5)), "ready"),
        ("".join(broadcast(f"01-0{day} 10:00:00") for day in range(2, 5)), "ready"),
    ],
)
def test_a_server_that_answers_does_not_stand_still(text: str, verdict: str) -> None:
    assert classify(VLLM_READY + text, 0.0)["verdict"] == verdict


UVICORN = (
    "INFO:     Shutting down\nINFO:     Waiting for application shutdown.\nINFO:     Finished server process [1]\n"
)


@pytest.mark.parametrize(
    "text",
    [
        VLLM_READY + ANSWERED + UVICORN,
        VLLM_READY + API + "INFO 01-02 10:00:00 [launcher.py:1] Shutting down FastAPI HTTP server.\n",
        VLLM_READY + UVICORN + "ERROR 01-02 10:00:00 [x.py:1] Worker proc VllmWorker-0 died unexpectedly\n",
        SGLANG_READY + "[2026-01-01 18:00:00] SIGTERM received. signum=None frame=None. Draining requests\n",
    ],
)
def test_a_server_that_was_stopped_is_neither_ready_nor_failed(text: str) -> None:
    answer = classify(text, 0.0)
    assert (answer["verdict"], answer["cause"], answer["phase"]) == ("unknown", None, "ready")
    assert any(word in answer["evidence"][0] for word in ("Shutting down", "SIGTERM"))


def test_a_server_that_goes_down_by_a_failure_has_failed() -> None:
    dead = "(EngineCore pid=5) ERROR 01-02 10:00:00 [core.py:9] EngineCore encountered a fatal error.\n"
    assert classify(VLLM_READY + dead + UVICORN, 0.0)["verdict"] == "failed"
    assert classify(LOADS + "OSError: [Errno 98] Address already in use\n" + UVICORN, 0.0)["cause"] == "port_in_use"


@pytest.mark.parametrize("word", ["a", "aConfig", "1", "shard ", "'a", "a:", "Error: ", "model_"])
def test_long_lines_take_no_long_time(word: str) -> None:
    text = "".join((f"{number} " + word * 4000)[:4000] + " object has no attribute\n" for number in range(40))
    begun = time.process_time()
    classify(text, 0.0)
    assert time.process_time() - begun < 4


def test_the_end_of_a_long_line_is_read() -> None:
    assert classify("vLLM server\nOSError: " + "x" * 90000 + " No space left on device\n")["cause"] == "disk_full"


APP = "INFO:     Started server process [1]\nINFO:     Application startup complete.\nINFO:     Uvicorn running\n"
OPTIONS = "".join(f"  --option-{number} VALUE\n     requires Blackwell and a DCP group\n" for number in range(20))


@pytest.mark.parametrize(
    "text",
    [
        APP,
        "[TensorRT-LLM] TensorRT-LLM version: 1.0.0\n[11/30/2026-09:33:06] [TRT-LLM] [I] Loading weights\n" + APP,
        "Traceback (most recent call last):\n  File \"/app/x.py\", line 3, in <module>\n    foo()\nKeyError: 'model'\n",
        'Exception in thread "main" java.lang.OutOfMemoryError: Java heap space\n\tat com.x.Main.main(Main.java:3)\n',
        'llama_model_loader: - kv 3: general.tags arr[str,2] = ["vllm", "text-generation"]\nmain: listening\n',
        "usage: vllm serve [model_tag] [options]\n\noptions:\n" + OPTIONS,
        "usage: launch_server.py [-h]\n\noptions:\n" + OPTIONS + "     for sglang on SM100\n",
        "foo.c:3:1: error: expected ';' before '}' token\nmake: *** [foo.o] Error 1\n",
    ],
)
def test_other_programs_are_unknown(text: str) -> None:
    answer = classify(text)
    assert (answer["verdict"], answer["cause"]) == ("unknown", None), answer


def test_an_engine_that_names_another_program_is_read() -> None:
    assert classify(VLLM_READY + "ggml_init: no device\n")["verdict"] == "ready"
    refused = (
        "usage: vllm serve [model_tag]\n  [--model M] [--port P]\nvllm serve: error: unrecognized arguments: --x\n"
    )
    assert classify(refused)["cause"] == "bad_flag"
    known = read(APP, "vllm")
    assert judge(known, 0.0)["verdict"] == "ready"
