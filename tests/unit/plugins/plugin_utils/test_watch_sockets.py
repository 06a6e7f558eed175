# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gb10.serving.plugins.plugin_utils import _watch_sockets
from ansible_collections.gb10.serving.plugins.plugin_utils._engines import sglang, vllm
from ansible_collections.gb10.serving.plugins.plugin_utils._watch_sockets import Network
from ansible_collections.gb10.serving.tests.unit.plugins.plugin_utils.watched_ranks import Node, log_of, spread, watch

PLACES = [
    "1: lo    inet 127.0.0.1/8 scope host lo\\       valid_lft forever preferred_lft forever\n"
    f"2: wlP9s9    inet 192.168.1.{9 + rank}/24 brd 192.168.1.255 scope global wlP9s9\\       valid_lft forever\n"
    f"3: enp1s0f0np0    inet 10.9.0.{1 + rank}/24 scope global enp1s0f0np0\\       valid_lft forever\n"
    "default via 192.168.1.1 dev wlP9s9 proto dhcp metric 600\n"
    for rank in (0, 1)
]
WAITS = "LISTEN 0 100 192.168.1.9:41001 0.0.0.0:* users:((x,pid=1))\n"
WITHOUT = "and without it 10.9.0.1 on node-0, 10.9.0.2 on node-1."
ENV = {"NCCL_SOCKET_IFNAME": "=enp1s0f0np0", "GLOO_SOCKET_IFNAME": "enp1s0f0np0"}


def syn(address: str, port: int = 41001) -> str:
    return f"SYN-SENT 0 1 10.9.0.2:40000 {address}:{port} users:((x,pid=1))\n"


def net(variable: str = "SGLANG_HOST_IP", **env: str) -> Network:
    """Both ranks with this environment, in which "own" is each one's address, as the spec gives it."""
    ranks = []
    for rank in (0, 1):
        address = f"10.9.0.{1 + rank}"
        own = {name: address if value == "own" else value for name, value in env.items()}
        ranks.append({"host": f"node-{rank}", "rank": rank, "address": address, "env": {**ENV, **own}})
    spec = {"endpoint": {"port": 8000}, "ranks": ranks}
    return _watch_sockets.network(spec, vllm if variable.startswith("VLLM") else sglang)


def views(*connections: str, cause: str | None = "nccl_init_hang", verdict: str = "stalled") -> dict[int, Any]:
    said = {"verdict": verdict, "cause": cause, "phase": "rendezvous", "evidence": ["old"], "confidence": "low"}
    return {
        rank: {
            "answer": {**said, "remedy": "x"},
            "connections": text.splitlines(),
            "addresses": _watch_sockets.places(PLACES[rank].splitlines()),
        }
        for rank, text in enumerate(connections)
    }


def test_interfaces_of_addresses() -> None:
    found = _watch_sockets.places(PLACES[0].splitlines())
    assert found == {"127.0.0.1": "lo", "192.168.1.9": "wlP9s9 (default route)", "10.9.0.1": "enp1s0f0np0"}


def test_sockets_of_either_family() -> None:
    lines = [
        syn("192.168.1.9"),
        "ESTAB 0 0 [::ffff:10.9.0.1]:1 [::ffff:10.9.0.2]:2 x",
        "ESTAB 0 0 [fe80::1%e]:1 x:2",
        "",
    ]
    assert [tuple(one) for one in _watch_sockets.sockets(lines)] == [
        ("SYN-SENT", "10.9.0.2", 40000, "192.168.1.9", 41001),
        ("ESTAB", "10.9.0.1", 1, "10.9.0.2", 2),
    ]


@pytest.mark.parametrize(
    ("head", "other", "where"),
    [
        ("", syn("192.168.1.9"), [None, "node-1 connects to 192.168.1.9:41001 in vain: the address is that of wlP9s9"]),
        (WAITS, "", ["node-0 waits on 192.168.1.9:41001, where no rank has come: the address is that of wlP9s9", None]),
        ("", syn("172.16.3.4"), [None, "node-1 connects to 172.16.3.4:41001 in vain: the address is no rank's"]),
        # The peer has come, by an address that is no fabric's: slow, and no reason to stand still.
        (WAITS, "ESTAB 0 0 192.168.1.10:40000 192.168.1.9:41001 x\n", [None, None]),
        # The fabric itself, this node, the API, the hub.
        ("", syn("10.9.0.1"), [None, None]),
        ("", syn("127.0.0.1"), [None, None]),
        ("LISTEN 0 9 192.168.1.9:8000 0.0.0.0:* x\nLISTEN 0 9 0.0.0.0:29501 0.0.0.0:* x\n", "", [None, None]),
        ("", syn("18.1.2.3", 443), [None, None]),
    ],
)
def test_who_strays(head: str, other: str, where: list[str | None]) -> None:
    weighed = _watch_sockets.weigh(views(head, other), net())
    for rank, words in enumerate(where):
        said = weighed[rank]["answer"]
        assert said["cause"] == ("message_queue_address" if words else "nccl_init_hang")
        assert said["evidence"][0].startswith(words or "old") and said["evidence"][-1] == "old"


@pytest.mark.parametrize(
    ("env", "words"),
    [
        ({}, "On node-0 that is SGLANG_HOST_IP=10.9.0.1; it is not set there."),
        (
            {"SGLANG_HOST_IP": "192.168.1.9"},
            f"Take SGLANG_HOST_IP out of gb10_server_env: it is 192.168.1.9 there, {WITHOUT}",
        ),
        ({"SGLANG_HOST_IP": ""}, f"Take SGLANG_HOST_IP out of gb10_server_env: it is empty there, {WITHOUT}"),
        (
            {"SGLANG_HOST_IP": "own"},
            "node-0 was given SGLANG_HOST_IP=10.9.0.1; something in the image sets another one.",
        ),
    ],
)
def test_which_variable_on_which_node(env: dict[str, str], words: str) -> None:
    said = _watch_sockets.weigh(views("", syn("192.168.1.9")), net(**env))[1]["answer"]
    assert said["remedy"].endswith(words) and said["confidence"] == "high"


@pytest.mark.parametrize(
    ("cause", "verdict", "env"),
    [
        ("disk_full", "failed", {}),
        ("rendezvous_unreachable", "stalled", {}),
        # The collectives were told to use that interface: the queue may be well.
        ("nccl_init_hang", "stalled", {"NCCL_SOCKET_IFNAME": "=wlP9s9"}),
    ],
)
def test_other_causes_stay(cause: str, verdict: str, env: dict[str, str]) -> None:
    given = views("", syn("192.168.1.9"), cause=cause, verdict=verdict)
    assert _watch_sockets.weigh(given, net(**env))[1]["answer"]["cause"] == cause


@pytest.mark.parametrize(
    ("cause", "value", "taken_out"),
    [
        ("message_queue_address", "127.0.0.1", True),
        ("message_queue_address", "", True),
        ("address_not_local", "10.9.0.1", True),
        ("address_not_local", "", False),  # then the engine took one that the node has
        ("message_queue_address", None, False),
        ("message_queue_address", "own", False),
        ("disk_full", "127.0.0.1", False),
    ],
)
def test_a_replaced_address_is_to_be_taken_out(cause: str, value: str | None, taken_out: bool) -> None:
    """Whatever the sockets show: with 127.0.0.1 each rank waits on itself."""
    given = views("", "", cause=cause, verdict="failed")
    env = {} if value is None else {"SGLANG_HOST_IP": value}
    remedy = _watch_sockets.weigh(given, net(**env))[1]["answer"]["remedy"]
    assert remedy.startswith("Take SGLANG_HOST_IP out of gb10_server_env") == taken_out
    assert taken_out or remedy == "x"
    assert ("10.9.0.1 on node-0" in remedy) == (taken_out and value != "10.9.0.1")


def test_a_stall_names_the_address_its_interface_and_the_variable(tmp_path: Path) -> None:
    """Without a line of the queue in the log: these two wait after the collectives are open."""
    log = spread(log_of("sglang-stuck-after-nccl.txt"))
    nodes = [Node(log, sockets=WAITS, places=PLACES[0]), Node(log, sockets=syn("192.168.1.9"), places=PLACES[1])]
    outcomes, _at, _told = watch(tmp_path, nodes, sglang, net=net())
    (msg,) = [outcome["msg"] for outcome in outcomes if outcome.get("failed")]
    assert "did not start: message_queue_address (high confidence)" in msg
    assert "192.168.1.9:41001" in msg and "wlP9s9 (default route) on node-0" in msg
    assert "On node-0 that is SGLANG_HOST_IP=10.9.0.1; it is not set there. Then deploy again." in msg
    assert "ss -Htlnp" in "".join(nodes[0].asked)
    quiet, _at, _told = watch(tmp_path / "b", [Node(log), Node(log)], sglang, net=net())
    assert quiet[0]["cause"] == "nccl_init_hang"
