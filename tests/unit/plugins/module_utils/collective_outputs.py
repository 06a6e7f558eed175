# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""What ranks of the collective test print: as PyTorch 2.13 does with gloo, and NCCL's lines around it."""

from __future__ import annotations

import json
from typing import Any

from ansible_collections.gb10.serving.plugins.module_utils._collective_script import MARK

STAGES = ("address", "torch", "store", "arrive", "gloo", "nccl", "reduce", "end")


def event(**told: Any) -> str:
    return f"\n{MARK}{json.dumps(told)}\n"


def about(gpu: bool = False, torch: str = "2.11.0", nccl: str = "2.29.3") -> dict[str, Any]:
    return {"torch": torch, "nccl": nccl if gpu else None, "cuda": "13.1" if gpu else None, "gpu": gpu}


def until(stage: str, gpu: bool = False, ranks: list[dict[str, Any]] | None = None) -> str:
    """All that a rank tells before and at a stage."""
    text = ""
    for name in STAGES[: STAGES.index(stage) + 1]:
        if name == "nccl" and not gpu:
            continue
        if name == "store":
            text += event(about=about(gpu))
        if name == "arrive":
            text += STORE_NOISE + event(arrived=True)
        if name == "gloo":
            text += event(ranks=ranks or [about(gpu), about(gpu)])
        if name == "end":
            text += event(reduced=1 << 20, count=20, seconds=0.0002)
            text += event(reduced=64 << 20, count=20, seconds=0.004)
        text += event(stage=name, at=1796056015.5)
    return text


STORE_NOISE = (
    "[W1130 16:27:01.392467409 socket.cpp:207] [c10d] The hostname of the client socket cannot be retrieved. err=-3\n"
)
TRACEBACK = """Traceback (most recent call last):
  File "<string>", line 237, in main
  File "<string>", line 137, in run
"""
STORE_TIMEOUT = (
    "[E1130 16:28:53.836104876 socket.cpp:1028] [c10d] The client socket has timed out after 10272ms while trying to "
    "connect to (10.99.7.1, 29501).\n"
    "[E1130 16:28:53.836624426 TCPStore.cpp:328] [c10d] TCP client failed to connect/validate to host 10.99.7.1:29501 "
    "- timed out (try=0, timeout=10272ms): The client socket has timed out after 10272ms while trying to connect to "
    "(10.99.7.1, 29501).\n" + TRACEBACK + "torch.distributed.DistNetworkError: The client socket has timed out after "
    "10272ms while trying to connect to (10.99.7.1, 29501).\n"
)
PORT_IN_USE = TRACEBACK + (
    "torch.distributed.DistNetworkError: The server socket has failed to listen on any local network address. port: "
    "29501, useIpv6: false, code: -98, name: EADDRINUSE, message: address already in use\n"
)
NO_SUCH_INTERFACE = TRACEBACK + (
    "RuntimeError: [enforce fail at /pytorch/third_party/gloo/gloo/transport/tcp/device.cc:84] ifa != nullptr. Unable "
    "to find address for: eth9\n"
)
MESH = (
    "[E1130 16:40:25.170992029 ProcessGroupGloo.cpp:67] Gloo connectFullMesh failed with [/pytorch/third_party/gloo/"
    "gloo/transport/tcp/pair.cc:152] timed out connecting: SO_ERROR: Connection refused, remote=[{peer}]:18831$1\n"
) + TRACEBACK  # fmt: skip
NOT_LOCAL = TRACEBACK + "OSError: [Errno 99] Cannot assign requested address\n"
NCCL_NO_INTERFACE = (
    "spark-a:412:412 [0] NCCL INFO NCCL_SOCKET_IFNAME set by environment to =eth9\n"
    "[2026-11-30 09:31:31] spark-a:412:412 [0] bootstrap.cc:126 (bootstrapNetInit) NCCL WARN Bootstrap : no socket "
    "interface found\n" + TRACEBACK + "torch.distributed.DistBackendError: NCCL error in: NCCLUtils.cpp:94, internal "
    "error - please report this issue to the NCCL developers, NCCL version 2.29.3\n"
)
QP_FAILED = (
    "spark-a:412:440 [0] ibvwrap.cc:365 NCCL WARN Call to ibv_modify_qp failed with 110 Connection timed out, on dev "
    "rocep1s0f0:1, curr state INIT, next state RTR, local GID index 3\n"
    + TRACEBACK
    + "torch.distributed.DistBackendError: NCCL error: unhandled system error (run with NCCL_DEBUG=INFO for details)\n"
)
RDMA = (
    "spark-a:412:412 [0] NCCL INFO Bootstrap: Using enp1s0f0np0:10.99.7.1<0>\n"
    "spark-a:412:412 [0] NCCL INFO NET/IB : Using [0]rocep1s0f0:1/RoCE [1]roceP2p1s0f0:1/RoCE [RO]; OOB "
    "enp1s0f0np0:10.99.7.1<0>\n"
    "spark-a:412:412 [0] NCCL INFO Initialized NET plugin IB\n"
    "spark-a:412:412 [0] NCCL INFO Assigned NET plugin IB to comm\n"
    "spark-a:412:412 [0] NCCL INFO Using network IB\n"
    "spark-a:412:440 [0] NCCL INFO Channel 00/0 : 1[0] -> 0[0] [receive] via NET/IB/0\n"
    "spark-a:412:440 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] [send] via NET/IB/0\n"
)
SOCKETS = (
    "spark-a:412:412 [0] NCCL INFO NET/IB : No device found.\n"
    "spark-a:412:412 [0] NCCL INFO Failed to initialize NET plugin IB\n"
    "spark-a:412:412 [0] NCCL INFO NET/Socket : Using [0]enp1s0f0np0:10.99.7.1<0>\n"
    "spark-a:412:412 [0] NCCL INFO Using network Socket\n"
    "spark-a:412:440 [0] NCCL INFO Channel 00/0 : 1[0] -> 0[0] [receive] via NET/Socket/0\n"
)


def spec(ranks: int = 2, rdma: bool = True, **container: Any) -> dict[str, Any]:
    """What the test needs of a deployment's spec."""
    return {
        "name": "main",
        "id": "main-0a1b2c3d4e5f",
        "world_size": ranks,
        "engine": {"image": {"ref": "example/vllm:1", "content": "sha256:ab"}},
        "rendezvous": {"address": "10.99.7.1", "port": 29501},
        "container": {
            "gpus": "all",
            "devices": ["/dev/infiniband"] if rdma else [],
            "ulimits": {"memlock": "-1", "stack": "67108864"},
            **container,
        },
        "ranks": [
            {
                "host": f"spark-{'abc'[number]}",
                "rank": number,
                "address": f"10.99.7.{number + 1}",
                "socket_ifname": "enp1s0f0np0",
                "hcas": ["rocep1s0f0", "roceP2p1s0f0"] if rdma else [],
                "gid_index": 3,
                "env": {"NCCL_SOCKET_IFNAME": "=enp1s0f0np0", "SOME": "two words"},
            }
            for number in range(ranks)
        ],
    }
