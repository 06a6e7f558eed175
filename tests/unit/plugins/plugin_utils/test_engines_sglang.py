# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""SGLang's command line, environment and log lines; and what every engine's file must hold."""

from __future__ import annotations

import re
from typing import Any

import pytest

from ansible_collections.gb10.serving.plugins.module_utils._engine_log import read
from ansible_collections.gb10.serving.plugins.plugin_utils import _engines, _spec, _watch
from ansible_collections.gb10.serving.plugins.plugin_utils._engines import sglang

PLAN: dict[str, Any] = {
    "tp": 2,
    "context_length": 131072,
    "max_num_seqs": 16,
    "max_num_batched_tokens": 2048,
    "kv_cache_dtype": "auto",
    "kv_cache_bytes": 34 << 30,
    "gpu_memory_utilization": 0.815,
    "mem_fraction_static": 0.7654,
}
SETTINGS: dict[str, Any] = {
    "name": "main",
    "engine": "sglang",
    "image_ref": "sglang:x",
    "model_id": "a/b",
    "served_name": "",
    "args": ["--reasoning-parser", "qwen3"],
    "env": {},
    "secret_env": {},
    "bind": "127.0.0.1",
    "port": 8000,
    "api_key": "",
    "rendezvous_port": None,
    "gpus": "all",
    "rdma": True,
    "ulimits": {},
}
FOUND = {"name": "sglang", "version": "0.5.20", "reason": None, "image": {"ref": "sglang:x", "content": "sha256:aa"}}
HOSTS = {"spark-a": "192.168.200.12", "spark-b": "192.168.200.13"}


def build(plan: dict[str, Any] | None = None, hosts: int = 2, **changes: Any) -> dict[str, Any]:
    names = list(HOSTS)[:hosts]
    members = {
        host: {"netdev": "enp1s0f0np0", "hca": "rocep1s0f0", "address": address, "gid_index": 3, "mtu": 9000}
        for host, address in HOSTS.items()
    }
    places = {host: {"path": "/models/m", "mounts": []} for host in names}
    rails = [{"subnet": "192.168.200.0/24", "members": members}]
    model = {"digest": "sha256:bb"}
    return _spec.build({**SETTINGS, **changes}, names, rails, {**PLAN, **(plan or {})}, model, FOUND, places)


def argv(rank: int = 0, **changes: Any) -> str:
    return " ".join(build(**changes)["ranks"][rank]["argv"])


@pytest.mark.parametrize("rank", [0, 1])
def test_argv(rank: int) -> None:
    assert argv(rank) == (
        "-m sglang.launch_server --model-path /model --served-model-name a/b --host 127.0.0.1 --port 8000 --tp-size 2 "
        f"--nnodes 2 --node-rank {rank} --dist-init-addr 192.168.200.12:20000 --context-length 131072 "
        "--max-running-requests 16 --chunked-prefill-size 2048 --mem-fraction-static 0.765 --reasoning-parser qwen3"
    )
    assert build()["engine"]["entrypoint"] == "python3"


@pytest.mark.parametrize(
    ("changes", "there", "gone"),
    [
        ({"hosts": 1, "plan": {"tp": 1}}, "--tp-size 1 --context-length", "nnodes"),
        ({"plan": {"kv_cache_dtype": "fp8"}}, "--kv-cache-dtype fp8_e4m3", "fp8 "),
        ({"plan": {"max_num_batched_tokens": 0}}, "--max-running-requests 16 --mem", "chunked-prefill"),
        ({"rendezvous_port": 29501}, "--dist-init-addr 192.168.200.12:29501", "20000"),
        ({"api_key": "s3cret"}, f"--config {sglang.API_KEY_FILE}", "s3cret"),
        ({}, "--model-path", "--config"),
    ],
)
def test_argv_follows_spec(changes: dict[str, Any], there: str, gone: str) -> None:
    line = argv(**changes)
    assert there in line and gone not in line


def test_each_rank_advertises_its_own_address() -> None:
    ranks = build()["ranks"]
    assert [rank["env"]["SGLANG_HOST_IP"] for rank in ranks] == list(HOSTS.values())
    assert all(rank["env"]["NCCL_SOCKET_IFNAME"] == "=enp1s0f0np0" for rank in ranks)


def test_a_key_is_in_a_file_and_never_in_the_spec() -> None:
    spec = build(api_key="s3cret")
    assert spec["engine"]["api_key"] == {"variable": "", "file": sglang.API_KEY_FILE}
    assert "s3cret" not in str(spec)


def test_ports_of_every_rank() -> None:
    spec = build()
    assert sglang.ports(spec, 0) == {"endpoint": 8000, "rendezvous": 20000}
    assert sglang.ports(spec, 1) == {"endpoint": 8000}
    assert _engines.get("vllm").ports({**spec, "rendezvous": {"port": 29501}}, 1) == {}


#: (line of a log, phase that has begun with it): wording of 0.5.9, then of 0.5.23.
LINES = [
    ("[2026-02-11 08:58:40] server_args=ServerArgs(model_path='/model', tp_size=2)", "reading the configuration"),
    ("[2026-02-11 08:58:51 TP0] Init torch distributed begin.", "rendezvous of the ranks"),
    ("[2026-11-30 08:59:15 TP0] Init parallel begin.", "rendezvous of the ranks"),
    ("[2026-11-30 08:59:16 TP0] sglang is using nccl==2.28.9", "opening the collectives"),
    (
        "[TP0] Custom allreduce is disabled because this process group spans across nodes.",
        "opening the message queue",
    ),
    ("[TP0] CustomAllreduce is disabled because this process group spans across nodes.", "opening the message queue"),
    ("[TP0] Init torch distributed ends. [elapsed=2.10] mem usage=0.91 GB", "ranks are connected"),
    ("[TP0] Init parallel ends. elapsed=6.41 s", "ranks are connected"),
    ("[TP0] Load weight begin. avail mem=112.70 GB", "loading weights"),
    ("[TP0] Load weight end. elapsed=311.20 s, type=X, avail mem=53.10 GB, mem usage=59.60 GB.", "weights are loaded"),
    ("[TP0] KV Cache is allocated. #tokens: 412672, K size: 9.4 GB, V size: 9.4 GB", "KV cache is allocated"),
    ("[TP0] Capture cuda graph begin. This can take up to several minutes.", "capturing CUDA graphs"),
    ("[TP0] Capture decode CUDA graph begin.", "capturing CUDA graphs"),
    ("[TP0] max_total_num_tokens=412672, chunked_prefill_size=2048", "engine is ready"),
    ("Dummy health check server started in background thread at 127.0.0.1:8000", "loaded, follows rank 0"),
    ("INFO:     Application startup complete.", "starting the HTTP server"),
    ("[2026-11-30 09:05:11] The server is fired up and ready to roll!", "ready"),
]


def meaning(lines: list[str]) -> str:
    return read("\n".join(lines), "sglang", sglang.STEPS).seen.meaning


@pytest.mark.parametrize(("line", "phase"), LINES)
def test_step_of_a_line(line: str, phase: str) -> None:
    assert meaning([line]) == phase


def test_steps_never_go_back() -> None:
    lines = [line for line, _phase in LINES]
    assert [meaning(lines[: count + 1]) for count in range(len(lines))] == [phase for _line, phase in LINES]
    assert meaning([lines[-1], lines[3]]) == LINES[-1][1]


def test_what_the_engine_tells() -> None:
    lines = [line for line, _phase in LINES]
    assert _watch.told(sglang, lines) == {"weights_gib": 59.6, "kv_cache_tokens": 412672}


CONSTANTS: dict[str, type] = {
    "ENTRYPOINT": str,
    "SUBCOMMAND": tuple,
    "MIN_VERSION": tuple,
    "RENDEZVOUS_PORT": int,
    "HELP": tuple,
    "DISTRIBUTIONS": tuple,
    "UNDERSCORES": bool,
    "JSON_PATHS": bool,
    "LEVELS": tuple,
    "HIDDEN_FLAGS": tuple,
    "REPEATABLE": frozenset,
    "OWNED": dict,
    "OWNED_FLAGS": frozenset,
    "CONCEPTS": dict,
    "SWITCHES": dict,
    "REFUSED": dict,
    "CHANGED": dict,
    "ADDRESS_VARIABLE": str,
    "API_KEY_VARIABLE": str,
    "API_KEY_FILE": str,
    "STEPS": tuple,
    "TOLD": dict,
}


@pytest.mark.parametrize("name", _engines.ENGINES)
def test_every_engine_is_complete(name: str) -> None:
    engine = _engines.get(name)
    for constant, kind in CONSTANTS.items():
        assert isinstance(getattr(engine, constant), kind), constant
    assert bool(engine.API_KEY_VARIABLE) != bool(engine.API_KEY_FILE)
    assert engine.STEPS[-1][1] == "ready" and all(len(step) == 3 for step in engine.STEPS)
    assert all(isinstance(pattern, re.Pattern) for pattern in engine.TOLD.values())
    assert all(callable(getattr(engine, function)) for function in ("argv", "env", "ports"))
    assert all(callable(getattr(engine, function)) for function in ("layout_args", "memory_args", "wish_args"))


def test_engines_are_the_files() -> None:
    assert set(_engines.ENGINES) == {"vllm", "sglang"} == set(_engines.probes())
    with pytest.raises(ValueError, match="known engines: sglang, vllm"):
        _engines.get("vlm")
