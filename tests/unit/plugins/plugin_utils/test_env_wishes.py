# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""gb10_server_env against what the spec gives to each of the two recorded Sparks of test_spec."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gb10.serving.plugins.plugin_utils import _env_wishes
from ansible_collections.gb10.serving.plugins.plugin_utils._rails import pair_rails
from ansible_collections.gb10.serving.tests.unit.plugins.plugin_utils.test_spec import SPARKS, settings

INTERFACES = "the spec sets it on each node: spark-a enp1s0f0np0, spark-b enp1s0f1np1."
EXACT = "the spec sets it on each node: spark-a =enp1s0f0np0, spark-b =enp1s0f1np1."
ADDRESSES = "the spec sets it on each node: spark-a 192.168.200.12, spark-b 192.168.200.13."
STORE = "192.168.200.12, where the spec puts the ranks' store."


def alike(gids: tuple[int, int] = (3, 3)) -> dict[str, Any]:
    """Both Sparks with the same port and the GID indexes of their two HCAs."""
    return {
        host: {
            "hcas": [
                {**entry, "ipv4": entry["ipv4"].replace(".12/", f".{12 + number}/"), "gid_index": gid}
                for entry, gid in zip(SPARKS["spark-a"]["hcas"][:2], gids, strict=True)
            ]
        }
        for number, host in enumerate(SPARKS)
    }


def check(env: dict[str, Any], fabric: dict[str, Any] | None = None, **changes: Any) -> list[Any]:
    rails = pair_rails(fabric or SPARKS).as_dict()["rails"]
    assert len(rails) == 2
    return _env_wishes.check(settings(env=env, **changes), list(SPARKS), rails)


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("GLOO_SOCKET_IFNAME", "eth0", INTERFACES),
        ("TP_SOCKET_IFNAME", "enp1s0f0np0", INTERFACES),  # right on one node only
        ("NCCL_SOCKET_IFNAME", "eth0", EXACT),
        ("NCCL_SOCKET_IFNAME", "^enp1s0f0np0", EXACT),
        ("NCCL_IB_HCA", "rocep1s0f0", "rocep1s0f0,roceP2p1s0f0, spark-b =rocep1s0f1,roceP2p1s0f1."),
        ("NCCL_IB_GID_INDEX", 3, "the spec sets it on each node: spark-a 3, spark-b 5."),
        ("VLLM_HOST_IP", "127.0.0.1", ADDRESSES),
        ("VLLM_HOST_IP", "", ADDRESSES),
        ("VLLM_HOST_IP", "192.168.200.12", ADDRESSES),
        ("MASTER_ADDR", "10.0.0.1", STORE),
        ("MASTER_PORT", 29500, "29501, where the spec puts the ranks' store."),
        ("UCX_NET_DEVICES", "eth0", "spark-b rocep1s0f1,roceP2p1s0f1,enp1s0f1np1,enP2p1s0f1np1."),
    ],
)
def test_what_contradicts_the_spec(name: str, value: Any, expected: str) -> None:
    (problem,) = check({name: value})
    said = str(problem)
    assert said.startswith(f"gb10_server_env: {name} is {str(value)!r}, for all nodes. Expected: ")
    assert problem.expected.endswith(expected)
    assert (
        f"Next step: take {name} out of gb10_server_env. If you mean it, set gb10_server_env_override to true." in said
    )
    assert f"{name} is {str(value)!r}" in _env_wishes.warning(problem) and "is used" in _env_wishes.warning(problem)


@pytest.mark.parametrize(
    "env",
    [
        {"GLOO_SOCKET_IFNAME": "enp1s0f0np0", "NCCL_SOCKET_IFNAME": "enp1s0f0np0"},
        {"NCCL_IB_HCA": "roceP2p1s0f0:1,rocep1s0f0:1", "NCCL_IB_GID_INDEX": 3},
        {"UCX_NET_DEVICES": "rocep1s0f0:1"},
        {"UCX_NET_DEVICES": "all"},
        {"MASTER_ADDR": "192.168.200.12", "MASTER_PORT": "29501"},
        # Of another engine, or no name of anything.
        {"SGLANG_HOST_IP": "127.0.0.1", "NCCL_DEBUG": "INFO", "NCCL_IB_MERGE_NICS": "0", "A": None},
    ],
)
def test_what_says_the_same_or_nothing_of_the_network(env: dict[str, Any]) -> None:
    assert check(env, alike()) == []


def test_all_of_them_are_said() -> None:
    env = {"GLOO_SOCKET_IFNAME": "eth0", "A": "1", "NCCL_SOCKET_IFNAME": "eth0", "SGLANG_HOST_IP": "10.0.0.1"}
    assert len(check(env)) == 2
    assert len(check(env, engine="sglang")) == 3


def test_one_gid_index_for_several_is_refused() -> None:
    (problem,) = check({"NCCL_IB_GID_INDEX": "3"}, alike((3, 4)))
    assert "spark-a left to NCCL" in problem.expected


def test_without_rdma_nothing_is_said_of_hcas() -> None:
    assert check({"NCCL_IB_HCA": "mlx5_0", "NCCL_IB_GID_INDEX": "1"}, rdma=False) == []


def test_what_cannot_be_judged_is_left_to_others() -> None:
    env = {"GLOO_SOCKET_IFNAME": "eth0"}
    assert _env_wishes.check(settings(env=env), list(SPARKS), []) == []
    assert check(env, engine="vlm") == []
