# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""Streams over the loopback interface: what arrives is counted, and nothing waits for ever."""

from __future__ import annotations

import pathlib
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from ansible_collections.gb10.serving.plugins.module_utils import _fabric_bench, _fabric_stream, _fabric_tools, _offer
from ansible_collections.gb10.serving.plugins.module_utils._wire import WireError

RAIL = {"number": 0, "netdev": "lo", "address": "127.0.0.1", "hca": None, "gid_index": None}


@pytest.fixture
def listener(tmp_path: pathlib.Path) -> Iterator[int]:
    sock = _offer.listen("127.0.0.1", 0, device="lo")
    server = _offer.Server(sock, str(tmp_path), "token", ["127.0.0.1"], 20, _fabric_bench.Answer(RAIL).handle)
    thread = threading.Thread(target=server.serve)
    thread.start()
    yield sock.getsockname()[1]
    server.ending = True
    thread.join(5)
    sock.close()


def end(port: int, token: str = "token") -> _fabric_stream.End:
    return _fabric_stream.End("lo", "127.0.0.1", "127.0.0.1", port, token)


@pytest.mark.parametrize("outward", [True, False])
def test_both_directions(listener: int, outward: bool) -> None:
    begun = time.monotonic()
    assert _fabric_stream.measure([end(listener)], outward, 0.1, streams=2) > 10_000_000
    assert time.monotonic() - begun < 3


def test_without_the_token_nothing_is_measured(listener: int) -> None:
    with pytest.raises(WireError, match="token"):
        _fabric_stream.measure([end(listener, "guess")], True, 0.1)


def test_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        port = sock.getsockname()[1]
    with pytest.raises(WireError, match=rf"127\.0\.0\.1 port {port} from 127\.0\.0\.1 on lo"):
        _fabric_stream.measure([end(port)], True, 0.1)


def test_a_pair_within_its_time(listener: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_fabric_bench, "STREAM_SECONDS", 0.1)
    results = _fabric_bench.Pair("b", {0: end(listener), 1: end(listener)}, ["sockets"], 10).run()
    assert [(item["rails"], item["direction"]) for item in results] == [
        ([0], "to"),
        ([0], "from"),
        ([1], "to"),
        ([1], "from"),
        ([0, 1], "to"),
        ([0, 1], "from"),
    ]
    assert all(item["bits_per_second"] > 0 and item["method"] == "sockets" for item in results)


def test_no_time_is_no_figure(listener: int) -> None:
    (first, second) = _fabric_bench.Pair("b", {0: end(listener)}, ["sockets"], 0.01).run()
    assert first["bits_per_second"] is second["bits_per_second"] is None
    assert "no time was left" in first["errors"]["sockets"]


def test_a_method_that_fails_gives_way_to_the_next(listener: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_row(_end: _fabric_stream.End, _tool: str, _outward: bool) -> int:
        raise WireError("header and no row")

    monkeypatch.setattr(_fabric_bench, "_with_tool", no_row)
    monkeypatch.setattr(_fabric_bench, "STREAM_SECONDS", 0.1)
    first = _fabric_bench.Pair("b", {0: end(listener)}, ["rdma", "sockets"], 10).run()[0]
    assert (first["method"], first["errors"]) == ("sockets", {"rdma": "header and no row"})
    assert first["bits_per_second"] > 0


def test_streams_of_one_test_share_a_clock() -> None:
    counts = [_fabric_stream.Count(1000, 10.0, 11.0), _fabric_stream.Count(3000, 10.5, 12.0), _fabric_stream.Count()]
    assert _fabric_stream.rate(counts) == 16000
    assert _fabric_stream.rate([_fabric_stream.Count()]) is None


@pytest.mark.parametrize(
    ("rdma", "here", "there", "methods"),
    [
        (True, {"perftest": True, "iperf3": True}, {"perftest": True, "iperf3": True}, ["rdma", "iperf3", "sockets"]),
        (False, {"perftest": True, "iperf3": True}, {"perftest": True, "iperf3": False}, ["sockets"]),
        (True, {"perftest": True, "iperf3": False}, {"perftest": False}, ["sockets"]),
        (True, {"perftest": False, "iperf3": False}, {}, ["sockets"]),
    ],
)
def test_methods(
    rdma: bool,
    here: dict[str, bool],
    there: dict[str, bool],
    methods: list[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: pathlib.Path,
) -> None:
    monkeypatch.setattr(_fabric_tools, "INFINIBAND", str(tmp_path))
    (tmp_path / "rocep1s0f0").mkdir()
    one = end(1)
    one.extra = {"hca": "rocep1s0f0", "gid_index": 3, "peer_hca": "rocep1s0f1"}
    assert _fabric_bench.methods_for({0: one}, rdma, here, there) == methods
    one.extra["peer_hca"] = None
    assert "rdma" not in _fabric_bench.methods_for({0: one}, rdma, here, there)
