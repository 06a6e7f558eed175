# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""Every recorded log has its cause, good starts raise no alarm, and consequences do not win."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gb10.serving.plugins.module_utils._engine_log import classify, of_all
from ansible_collections.gb10.serving.plugins.module_utils._engine_log_causes import CAUSES

TESTS = Path(__file__).resolve().parents[3]
LOGS = TESTS / "unit" / "fixtures" / "engine_logs"


def _bench() -> Any:
    spec = importlib.util.spec_from_file_location("log_causes", TESTS / "bench" / "log_causes.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


BENCH = _bench()
ROWS = BENCH.rows(LOGS)

MULTI = "(EngineCore pid=2) INFO 01-01 10:00:00 [multiproc_executor.py:1] DP group leader: node_rank=0, "
WORLD = "(Worker pid=3) INFO 01-01 10:00:01 [parallel_state.py:1] world_size=2 rank={rank} local_rank=0 "
WORLD += "distributed_init_method=tcp://10.9.0.1:29501 backend={backend}\n"
BROADCAST = (
    "(EngineCore pid=2) INFO 01-01 10:09:00 [shm_broadcast.py:1] No available shared memory broadcast block found"
)
READY = "INFO:     Application startup complete.\n"


def queue(address: str) -> str:
    return f"{MULTI}master_addr=10.9.0.1, mq_connect_ip={address} (local), world_size=2, local_world_size=1\n"


def read(name: str) -> str:
    return (LOGS / name).read_text(encoding="utf-8")


def test_index_and_files_agree() -> None:
    assert {row["file"] for row in ROWS} == {path.name for path in LOGS.glob("*.txt")}
    assert len(ROWS) > 100
    assert {cause for row in ROWS for cause in row["causes"]} <= {*CAUSES, "none"}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["file"])
def test_cause_of_each_log(row: dict[str, Any]) -> None:
    answer = of_all([classify(read(name)) for name in (row["file"], *row["peers"])])[0]
    assert (answer["cause"] or "none") in row["causes"], answer
    assert answer["verdict"] in (("ready", "running", "unknown") if answer["cause"] is None else ("failed", "stalled"))
    assert answer["evidence"]
    assert answer["remedy"] == (CAUSES[answer["cause"]].remedy if answer["cause"] else None)


@pytest.mark.parametrize("row", [row for row in ROWS if row["kind"] != "success"], ids=lambda row: row["file"])
def test_carriers_change_nothing(row: dict[str, Any]) -> None:
    """The same log as docker with time stamps, the journal, compose and a terminal in colours would show it."""
    text = "\n".join(line for line in read(row["file"]).split("\n") if not line.startswith("#"))
    plain = classify(text)
    for before, after in (
        ("2026-01-02T03:04:05.678901234Z ", ""),
        ("Jan 02 03:04:05 node-a docker[812]: ", ""),
        ("vllm-rank0-1  | ", ""),
        ("vllm.1.x8k2@node-a    | ", ""),
        ("[pod/vllm-0/vllm] ", ""),
        ("(RayWorkerWrapper pid=9, ip=10.9.0.2) ", ""),
        ("\x1b[0;36m", "\x1b[0m"),
        ("", "\r"),
    ):
        dressed = "\n".join(f"{before}{line}{after}" for line in text.split("\n"))
        answer = classify(dressed)
        for key in ("cause", "verdict", "engine"):
            assert answer[key] == plain[key], (before, after)


@pytest.mark.parametrize(
    ("name", "engine", "phase", "verdict"),
    [
        ("good-vllm-mp-2nodes-rank0.txt", "vllm", "ready", "ready"),
        ("good-vllm-mp-2nodes-rank1.txt", "vllm", "kv_cache", "ready"),
        ("good-sglang-noisy.txt", "sglang", "ready", "ready"),
        ("good-sglang-init-ends-rank0.txt", "sglang", "rendezvous", "running"),
        ("loading-half-way.txt", "vllm", "weights", "running"),
        ("vllm-missing-shard.txt", "vllm", "weights", "failed"),
        ("vllm-master-port-in-use.txt", "vllm", "rendezvous", "failed"),
        ("sglang-mq-hang-rank0.txt", "sglang", "rendezvous", "stalled"),
        ("sglang-graph-capture-oom.txt", "sglang", "graphs", "failed"),
        ("docker-permission-denied.txt", "unknown", "starting", "failed"),
    ],
)
def test_engine_phase_and_verdict(name: str, engine: str, phase: str, verdict: str) -> None:
    answer = classify(read(name))
    assert (answer["engine"], answer["phase"], answer["verdict"]) == (engine, phase, verdict)


def test_share_of_the_weights() -> None:
    assert classify(read("loading-half-way.txt"))["percent"] == 44
    assert classify(read("good-vllm-noisy.txt"))["percent"] is None


def test_root_cause_wins_over_what_follows_from_it() -> None:
    text = (
        "(Worker_TP1 pid=4) ERROR 01-01 10:00:00 [x.py:1] RuntimeError: [a.cc:1] Connection closed by peer [10.9.0.2]\n"
        "(Worker_TP0 pid=3) ERROR 01-01 10:00:01 [x.py:1] OSError: [Errno 28] No space left on device\n"
        "(EngineCore pid=2) ERROR 01-01 10:00:02 [x.py:1] Worker proc VllmWorker-1 died unexpectedly (exit code: 1)\n"
        "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}\n"
    )
    answer = classify(text)
    assert answer["cause"] == "disk_full"
    assert answer["evidence"][0].endswith("No space left on device")


def test_an_error_that_the_start_survived_is_none() -> None:
    text = (
        "(Worker pid=3) INFO 01-01 10:00:00 [x.py:1] Starting to load model /m\n"
        "RuntimeError: CUDA out of memory. Tried to allocate 1 GiB\n"
        "(Worker pid=3) INFO 01-01 10:00:09 [x.py:1] Available KV cache memory: 20 GiB\n"
    )
    assert classify(text)["cause"] is None
    assert classify(text + READY)["verdict"] == "ready"
    # Another process of the same log goes on printing after the end of this one.
    end = "ERROR 01-01 10:00:08 [x.py:1] WorkerProc failed to start.\nINFO 01-01 10:00:09"
    ended = text.replace("INFO 01-01 10:00:09", end)
    assert classify(ended)["cause"] == "out_of_memory"


def test_requests_that_fail_are_no_failed_start() -> None:
    late = "ValueError: max_model_len exceeds the maximum\n" + 'INFO: 1.2.3.4:5 - "POST /v1/x HTTP/1.1" 400 Bad\n'
    assert classify("vLLM server\n" + READY + late)["verdict"] == "ready"
    killed = "(MainProcess pid=1) ERROR 01-01 10:00:00 [x.py:1] Worker proc VllmWorker-0 died unexpectedly\n"
    assert classify("vLLM server\n" + READY + killed)["cause"] == "worker_died"


def test_a_second_start_in_one_log_counts_anew() -> None:
    args = "(APIServer pid=1) INFO 01-01 10:00:00 [x.py:1] non-default args: {}\n"
    text = args + READY + args + "OSError: [Errno 98] Address already in use\n"
    assert classify(text)["cause"] == "port_in_use"


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (queue("192.168.1.5") + WORLD.format(rank=0, backend="nccl"), "message_queue_address"),
        (queue("10.9.0.1") + WORLD.format(rank=0, backend="nccl"), "rank_missing"),
        (
            queue("10.9.0.1") + WORLD.format(rank=0, backend="nccl") + "INFO vLLM is using nccl==2.28.9\n",
            "nccl_init_hang",
        ),
        (WORLD.format(rank=1, backend="gloo"), "message_queue_address"),
        (WORLD.format(rank=1, backend="nccl"), "rank_missing"),
        (
            "[10:00:00 TP1] Init torch distributed begin.\n[10:00:09 TP1] sglang is using nccl==2.28.9\n",
            "nccl_init_hang",
        ),
        (
            "server_args=ServerArgs(device='cuda', nnodes=2)\n[10:00:00 TP0] Init torch distributed begin.\n",
            "rank_missing",
        ),
        (
            # It says so on any other device, too.
            "UserWarning: Only CUDA\nserver_args={'device': 'cpu', 'nnodes': 2}\n[10:00:00 TP1] Init parallel begin.\n",
            "message_queue_address",
        ),
        ("server_args=ServerArgs(nnodes=1)\n[10:00:00 TP0] Init torch distributed begin.\n", None),
        # Said of the custom collectives, which come after NCCL and before the queue.
        (
            "server_args=ServerArgs(device='cuda', nnodes=2)\n[10:00:09 TP0] Setup Custom allreduce failed with .\n",
            "message_queue_address",
        ),
        (
            WORLD.format(rank=0, backend="nccl") + "INFO vLLM is using nccl==2.30.7\n"
            "(Worker pid=3) WARNING 01-01 10:00:05 [symm_mem.py:67] SymmMemCommunicator: Device capability 12.1 not "
            "supported, communicator is not available.\n",
            "message_queue_address",
        ),
        (
            WORLD.format(rank=0, backend="nccl") + "INFO vLLM is using nccl==2.30.7\n"
            "(Worker pid=3) WARNING 01-01 10:00:05 [custom_all_reduce.py:235] Custom collectives are disabled because "
            "this multi-node group does not have MNNVL-capable GPUs on every rank.\n",
            "message_queue_address",
        ),
    ],
)
def test_where_a_silent_rendezvous_waits(text: str, cause: str | None) -> None:
    assert classify(text)["cause"] == cause
    assert classify(text, silent_seconds=5)["cause"] is None
    assert classify(text, silent_seconds=5)["verdict"] == "running"
    assert classify(text, silent_seconds=500)["cause"] == cause


def test_ranks_that_are_connected_do_not_hang() -> None:
    text = (
        queue("192.168.1.5")
        + WORLD.format(rank=0, backend="nccl")
        + "rank 0 in world size 2 is assigned as DP rank 0\n"
    )
    assert classify(text)["verdict"] == "running"


def test_repeated_wait_messages() -> None:
    connect = "[W101 10:00:00.0 socket.cpp:1] [c10d] The client socket has failed to connect to [node-a]:29501\n"
    world = WORLD.format(rank=1, backend="nccl")
    assert classify(world + 2 * connect, silent_seconds=1)["cause"] is None
    assert classify(world + 6 * connect, silent_seconds=1)["cause"] == "rendezvous_unreachable"
    warm = "vLLM server\nINFO 01-01 10:00:00 [x.py:1] GPU KV cache size: 1 tokens\n"
    assert classify(warm + 2 * (BROADCAST + "\n"))["verdict"] == "running"
    assert classify(warm + 3 * (BROADCAST + "\n"))["verdict"] == "stalled"
    load = "vLLM server\nINFO 01-01 10:00:00 [x.py:1] Starting to load model /m\n"
    assert classify(load + 9 * (BROADCAST + "\n"))["verdict"] == "running"


def test_unknown_failure_says_so_and_shows_its_lines() -> None:
    text = (
        "vLLM API server version 0.32.0\nTraceback (most recent call last):\n"
        '  File "/opt/own/plugin.py", line 3, in run\n    raise OddError("x")\nOddError: the moon is full\n'
        "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}\n"
    )
    answer = classify(text)
    assert (answer["verdict"], answer["cause"], answer["confidence"]) == ("failed", "unknown", "low")
    assert answer["evidence"] == ["OddError: the moon is full"]


def test_unknown_failure_is_guessed_by_its_place() -> None:
    text = (
        "vLLM API server version 0.32.0\nTraceback (most recent call last):\n"
        '  File "/opt/py/flashinfer/decode.py", line 3, in plan\n    raise OddError("x")\nOddError: the moon is full\n'
    )
    answer = classify(text)
    assert (answer["cause"], answer["confidence"]) == ("kernel_unsupported", "low")


@pytest.mark.parametrize("text", ["", "\n\n", "hello\n", "\x00\xff", "Traceback", '{"log":'])
def test_odd_texts_are_unknown(text: str) -> None:
    answer = classify(text)
    assert (answer["verdict"], answer["cause"], answer["engine"]) == ("unknown", None, "unknown")


def test_other_ranks_tell_consequences_from_causes() -> None:
    waited, failed = classify(read("sglang-diststore-1-of-2.txt")), classify(read("vllm-no-config-json.txt"))
    assert [answer["cause"] for answer in of_all([waited, failed])] == ["peer_died", failed["cause"]]
    assert [answer["cause"] for answer in of_all([waited])] == ["rank_missing"]
    assert [answer["cause"] for answer in of_all([waited, waited])] == ["rank_missing", "rank_missing"]
    assert [answer["cause"] for answer in of_all([failed, failed])] == [failed["cause"], failed["cause"]]


def test_bench_counts(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("OSError: [Errno 98] Address already in use\n", encoding="utf-8")
    (tmp_path / "b.txt").write_text("CUDA out of memory\n", encoding="utf-8")
    (tmp_path / "INDEX.md").write_text(
        "| file | kind | cause |\n|---|---|---|\n| a.txt | x | bad_flag\\|y |\n| a.txt | x | port_in_use |\n"
        "| b.txt | x | none |\n| b.txt | x | disk_full|out_of_memory |\n",
        encoding="utf-8",
    )
    result = BENCH.measure(tmp_path)
    assert (result["logs"], result["exact"], result["accepted"], result["false_alarms"]) == (3, 1, 2, ["b.txt"])
    assert result["confusion"]["none"] == {"out_of_memory": 1}
