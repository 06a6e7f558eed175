# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""How a rank of the collective test is run, and what its output says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gb10.serving.plugins.module_utils import _collective, _collective_script
from ansible_collections.gb10.serving.tests.unit.plugins.module_utils import collective_outputs as out

SCRIPT = Path(_collective_script.__file__).read_text(encoding="utf-8")


def read(output: str, number: int = 0, code: int | None = 0, spec: dict[str, Any] | None = None) -> dict[str, Any]:
    return _collective.read(spec or out.spec(), number, output, code, 29501, 12.34)


def test_the_container_is_the_ranks_own_without_the_model() -> None:
    argv = _collective.command(out.spec(), 1, "/tmp/e", "SCRIPT", {"rank": 1})
    text = " ".join(argv)
    assert argv[:3] == ["docker", "run", "--rm"] and argv[-4:] == ["-u", "-c", "SCRIPT", '{"rank": 1}']
    for part in (
        "--name gb10-main-collective-rank1",
        "--network host --ipc host --gpus all --device /dev/infiniband",
        "--ulimit memlock=-1 --ulimit stack=67108864",
        "--env-file /tmp/e --entrypoint python3 example/vllm:1",
        "--pull never",
    ):
        assert part in text
    assert "--privileged" not in argv and "--volume" not in argv and "two words" not in text
    # found as a rank it would be taken for one that serves
    assert not any(word.startswith("gb10.serving/name=") for word in argv)


def test_without_gpu_and_rdma_nothing_is_asked_for() -> None:
    argv = _collective.command(out.spec(rdma=False, gpus=""), 0, "/tmp/e", "S", {})
    assert "--gpus" not in argv and "--device" not in argv


def test_the_environment_is_the_ranks_own() -> None:
    assert _collective.env_file(out.spec(), 1) == "NCCL_SOCKET_IFNAME==enp1s0f0np0\nSOME=two words\n"


def test_the_script_ends_before_its_container_does() -> None:
    told = _collective.settings(out.spec(), 1, 29501, 1000.0, 60)
    assert told["own"] == "10.99.7.2" and told["address"] == "10.99.7.1" and told["world"] == 2
    assert 1000 < told["arrive"] < told["end"] - 10 < 1060 - _collective.CONTAINER_GRACE


@pytest.mark.parametrize(
    ("text", "transport", "direct"),
    [
        (out.RDMA, "rdma", False),
        (out.SOCKETS, "sockets", False),
        ("x NCCL INFO Channel 00/0 : 1[0] -> 0[0] [receive] via NET/IBext_v10/0/GDRDMA\n", "rdma", True),
        ("x NCCL INFO Channel 00/0 : 0[0] -> 1[1] via SHM/direct/direct\n", "shared_memory", False),
        ("x NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM\n" + out.RDMA, "rdma", False),
        (out.RDMA + "x NCCL INFO Channel 01/0 : 1[0] -> 0[0] [receive] via NET/Socket/1\n", "sockets", False),
        ("x NCCL INFO NET/IB : No device found.\nx NCCL INFO Using network Socket\n", "sockets", False),
        ("x NCCL INFO Assigned NET plugin IB to comm\n", "rdma", False),
        ("x NCCL INFO Channel 00/0 : 1[0] -> 0[0] [receive] via NET/Other/0\n", None, False),
        ("x NCCL INFO NET/Socket : Using [0]eth0:10.0.0.1<0>\n", None, False),
        ("", None, False),
    ],
)
def test_transport(text: str, transport: str | None, direct: bool) -> None:
    assert _collective.transport_of(text) == (transport, direct)


@pytest.mark.parametrize(("world", "factor"), [(2, 1.0), (3, 4 / 3), (4, 1.5), (8, 1.75)])
def test_bandwidth_is_that_of_the_bus(world: int, factor: float) -> None:
    assert _collective.bandwidth(10**9, 1.0, world) == pytest.approx(8 * factor)


@pytest.mark.parametrize("gpu", [False, True])
def test_a_healthy_rank(gpu: bool) -> None:
    answer = read((out.RDMA if gpu else "") + out.until("end", gpu) + out.event(done=True))
    assert answer["ok"] and answer["arrived"] and not answer["skipped"] and answer["cause"] is None
    assert (answer["backend"], answer["transport"]) == (("nccl", "rdma") if gpu else ("gloo", "sockets"))
    assert answer["devices"] == (["roceP2p1s0f0", "rocep1s0f0"] if gpu else [])
    assert answer["bandwidth_gbps"] == pytest.approx((64 << 20) * 8 / 0.004 / 1e9, abs=0.01)
    assert [entry["bytes"] for entry in answer["sizes"]] == [1 << 20, 64 << 20]
    assert answer["warnings"] == [] and answer["seconds"] == 12.3


def test_a_line_of_nccl_in_the_same_line_does_not_matter() -> None:
    output = out.until("end").replace(_collective_script.MARK, f"a NCCL INFO b {_collective_script.MARK}")
    assert read(output)["ok"]


def test_sockets_where_rdma_is_wanted_are_a_warning() -> None:
    done = out.until("end", True) + out.event(done=True)
    (warning,) = read(out.SOCKETS + done)["warnings"]
    assert "TCP sockets" in warning and "rocep1s0f0, roceP2p1s0f0" in warning and "Next step:" in warning
    assert read(out.SOCKETS + done, spec=out.spec(rdma=False))["warnings"] == []
    assert read(out.until("end") + out.event(done=True))["warnings"] == []


def test_an_adapter_that_is_not_used_is_a_warning() -> None:
    half = out.RDMA.replace(" [1]roceP2p1s0f0:1/RoCE", "")
    (warning,) = read(half + out.until("end", True) + out.event(done=True))["warnings"]
    assert "does not use roceP2p1s0f0" in warning


OTHERS = [out.about(True), out.about(True, nccl="2.28.9")]
CPU = [out.about(True), out.about(False)]
FAILED: list[tuple[str, int, str, int | None, str, str]] = [
    # (what is shown, rank, output, exit code, cause, part of the reason)
    (
        "a rank is missing", 0,
        out.until("arrive") + out.event(failed="missing", stage="arrive", missing=[1]), 3,
        "rank_missing", "rank 1 did not arrive at the store 10.99.7.1:29501",
    ),
    (
        "two ranks are missing", 0,
        out.until("arrive") + out.event(failed="missing", stage="arrive", missing=[1, 2]), 3,
        "rank_missing", "ranks 1 and 2 did not arrive",
    ),
    (
        "the store is behind a firewall", 1,
        out.until("store") + out.STORE_NOISE + out.STORE_TIMEOUT + out.event(failed="error", stage="store"), 3,
        "rendezvous_unreachable", "the store of rank 0 at 10.99.7.1:29501 was not reached",
    ),
    (
        "the store does not answer", 1,
        out.until("store") + out.event(failed="hang", stage="store", silent=[], missing=[]), 4,
        "rendezvous_unreachable", "the store of rank 0 at 10.99.7.1:29501 was not reached",
    ),
    (
        "the port is taken", 0,
        out.until("store") + out.PORT_IN_USE + out.event(failed="error", stage="store"), 3,
        "port_in_use", "it failed while connecting to the store",
    ),
    (
        "gloo's interface is not there", 1,
        out.until("gloo") + out.NO_SUCH_INTERFACE + out.event(failed="error", stage="gloo"), 3,
        "interface_not_found", "it failed while connecting the ranks over gloo",
    ),
    (
        "NCCL's interface is not there", 1,
        out.until("nccl", True) + out.NCCL_NO_INTERFACE + out.event(failed="error", stage="nccl"), 3,
        "interface_not_found", "it failed while opening NCCL",
    ),
    (
        "the address is another node's", 1,
        out.until("address") + out.NOT_LOCAL + out.event(failed="error", stage="address"), 3,
        "address_not_local", "it failed while looking for its own address",
    ),
    (
        "NCCL hangs", 0,
        out.until("nccl", True) + out.event(failed="hang", stage="nccl", silent=[], missing=[]), 4,
        "nccl_init_hang", "it hung while opening NCCL between the ranks",
    ),
    (
        "NCCL hangs and holds the interpreter", 0,
        out.until("nccl", True) + "Timeout (0:00:55)!\nThread 0x7f (most recent call first):\n", 1,
        "nccl_init_hang", "it hung while opening NCCL between the ranks",
    ),
    (
        "NCCL hangs after a warning that says why", 0,
        out.until("nccl", True) + out.QP_FAILED.split("Traceback")[0] + out.event(failed="hang", stage="nccl"), 4,
        "rdma_failure", "it hung while opening NCCL",
    ),
    (
        "RDMA cannot be set up", 0,
        out.until("nccl", True) + out.QP_FAILED + out.event(failed="error", stage="nccl"), 3,
        "rdma_failure", "it failed while opening NCCL",
    ),
    (
        "only the store's port is open", 0,
        out.until("gloo") + out.event(failed="hang", stage="gloo", silent=[], missing=[]), 4,
        "nccl_init_hang", "it hung while connecting the ranks over gloo",
    ),
    (
        "gloo is sent to the loopback", 1,
        out.until("gloo") + out.MESH.format(peer="127.0.0.1") + out.event(failed="error", stage="gloo"), 3,
        "interface_not_found", "it failed while connecting the ranks over gloo",
    ),
    (
        "a firewall refuses free ports", 1,
        out.until("gloo") + out.MESH.format(peer="10.99.7.1") + out.event(failed="error", stage="gloo"), 3,
        "nccl_init_hang", "it failed while connecting the ranks over gloo",
    ),
    (
        "another rank froze", 0,
        out.until("reduce") + out.event(failed="hang", stage="reduce", silent=[1], missing=[]), 4,
        "collective_timeout", "it hung while adding up over all ranks; rank 1 gave no sign any more",
    ),
    ("it froze itself", 1, out.until("reduce"), None, "worker_died", "stopped giving signs of life while adding up"),
    ("it was killed", 1, out.until("reduce"), 137, "worker_died", "ended from outside (exit code 137) while adding up"),
    (
        "another rank failed", 0,
        out.until("gloo") + out.event(failed="peer", stage="gloo", peer=1, missing=[]), 5,
        "peer_died", "rank 1 failed, so this one ended while connecting",
    ),
    (
        "the sum is wrong", 0,
        out.until("reduce") + out.event(failed="sum", stage="reduce", bytes=1048576), 3,
        "unknown", "the sum that came back over all ranks is wrong",
    ),
    (
        "NCCL differs", 0,
        out.until("arrive", True) + out.event(ranks=OTHERS) + out.event(failed="versions", stage="arrive"), 3,
        "nccl_mismatch", "rank 0 PyTorch 2.11.0 with NCCL 2.29.3, rank 1 PyTorch 2.11.0 with NCCL 2.28.9",
    ),
    (
        "no GPU on this rank", 1,
        out.until("arrive") + out.event(ranks=CPU) + out.event(failed="versions", stage="arrive"), 3,
        "gpu_not_visible", "PyTorch sees no GPU here",
    ),
    (
        "no GPU on another rank", 0,
        out.until("arrive", True) + out.event(ranks=CPU) + out.event(failed="versions", stage="arrive"), 3,
        "ranks_disagree", "not on all ranks",
    ),
    (
        "Docker cannot give the GPU", 0,
        "docker: Error response from daemon: could not select device driver \"\" with capabilities: [[gpu]].\n", 125,
        "gpu_not_visible", "the container did not start (docker ended with 125)",
    ),
    (
        "an error that nobody knows", 0,
        out.until("gloo") + "RuntimeError: the moon is full\n" + out.event(failed="error", stage="gloo"), 3,
        "unknown", "it failed while connecting the ranks over gloo",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("shown", "number", "output", "code", "cause", "reason"), FAILED, ids=[c[0] for c in FAILED])
def test_causes(shown: str, number: int, output: str, code: int | None, cause: str, reason: str) -> None:
    answer = read(output, number, code)
    assert (answer["ok"], answer["skipped"]) == (False, False)
    assert answer["cause"] == cause
    assert reason in answer["reason"]
    assert answer["remedy"].rstrip().endswith(".")


def test_evidence_is_the_line_that_names_it() -> None:
    answer = read(out.until("gloo") + out.NO_SUCH_INTERFACE + out.event(failed="error", stage="gloo"), 1, 3)
    assert "Unable to find address for: eth9" in answer["evidence"][0]


@pytest.mark.parametrize(
    ("output", "code", "reason"),
    [
        (out.until("torch") + out.event(failed="torch", text="No module named 'torch'"), 3, "No module named 'torch'"),
        ('exec: "python3": executable file not found in $PATH: unknown.\n', 127, "no python3"),
        ("docker: ... unable to start container process: exec python3: not found\n", 127, "no python3"),
        (
            out.until("torch") + out.event(failed="hang", stage="torch", silent=[], missing=[]),
            4,
            "loading PyTorch took",
        ),
        (out.until("torch"), None, "loading PyTorch took"),
        ("", None, "did not start the container in time"),
    ],
)
def test_what_shows_nothing_is_skipped(output: str, code: int | None, reason: str) -> None:
    answer = read(output, 0, code)
    assert answer["skipped"] and not answer["ok"] and answer["cause"] is None
    assert reason in answer["reason"]


def run_script(**more: Any) -> tuple[str, int, float]:
    """The script as an image without PyTorch runs it."""
    now = time.time()
    told = {**_collective.settings(out.spec(), 0, 29501, now, 60), "own": "127.0.0.1", **more}
    done = subprocess.run(
        [sys.executable, "-S", "-u", "-c", SCRIPT, json.dumps(told)],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=30, check=False,
        env={"PATH": os.environ["PATH"]},
    )  # fmt: skip
    return done.stdout, done.returncode, time.time() - now


def test_the_script_says_that_there_is_no_pytorch() -> None:
    output, code, _seconds = run_script()
    answer = read(output, 0, code)
    assert answer["skipped"] and "No module named 'torch'" in answer["reason"] and answer["stage"] == "torch"


def test_the_script_says_that_its_address_is_not_local() -> None:
    output, code, _seconds = run_script(own="192.0.2.1")
    answer = read(output, 0, code)
    assert (answer["cause"], answer["stage"]) == ("address_not_local", "address")
