# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""The measuring and the listening side agree on who runs ib_write_bw; a stand-in of that name prints what it would."""

from __future__ import annotations

import os
import pathlib
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from ansible_collections.gb10.serving.plugins.module_utils import (
    _fabric_bench,
    _fabric_stream,
    _fabric_tools,
    _offer,
)

# Listens like perftest without a peer, else connects; then both print a row, or none for the GID index 9.
TOOL = """#!{python}
import socket, sys
argv = sys.argv[1:]
port = int(argv[argv.index("-p") + 1])
if argv[-2] == "-p":
    server = socket.create_server(("", port))
    server.settimeout(5)
    server.accept()
else:
    socket.create_connection((argv[-1], port), timeout=5)
print(" #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]")
if argv[argv.index("-x") + 1] != "9":
    print(" 1048576    11688            0.00               98.04              0.011687")
"""
RAIL = {"number": 0, "netdev": "lo", "address": "127.0.0.1", "hca": "rocep1s0f0", "gid_index": 3}


@pytest.fixture
def listener(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    tool = tmp_path / "ib_write_bw"
    tool.write_text(TOOL.format(python=sys.executable))
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(_fabric_tools, "INFINIBAND", str(tmp_path))
    (tmp_path / "rocep1s0f0").mkdir()
    sock = _offer.listen("127.0.0.1", 0)
    server = _offer.Server(sock, str(tmp_path), "token", ["127.0.0.1"], 20, _fabric_bench.Answer(RAIL).handle)
    thread = threading.Thread(target=server.serve)
    thread.start()
    yield sock.getsockname()[1]
    server.ending = True
    thread.join(5)
    sock.close()


def end(port: int, gid_index: int = 3) -> _fabric_stream.End:
    extra = {**RAIL, "gid_index": gid_index, "peer_hca": "rocep1s0f0"}
    return _fabric_stream.End("lo", "127.0.0.1", "127.0.0.1", port, "token", extra)


@pytest.mark.parametrize("outward", [True, False])
def test_either_side_sends(listener: int, outward: bool) -> None:
    assert _fabric_bench.run_once([end(listener)], "rdma", outward) == 98_040_000_000


def test_rails_together_are_added_up(listener: int) -> None:
    assert _fabric_bench.run_once([end(listener), end(listener)], "rdma", True) == 2 * 98_040_000_000


def test_a_wrong_gid_index_is_no_figure_and_streams_take_over(listener: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_fabric_bench, "STREAM_SECONDS", 0.1)
    rail = {**RAIL, "gid_index": 9}
    peer = {
        "host": "b",
        "listeners": [{"number": 0, "address": "127.0.0.1", "port": listener, "token": "token", "hca": "rocep1s0f0"}],
        "tools": {"perftest": True, "iperf3": False},
    }
    results = _fabric_bench.measure([rail], [peer], True, 10)
    assert results[0]["method"] == "sockets"
    assert "GID index" in results[0]["errors"]["rdma"]


def test_a_tool_that_hangs_is_ended(listener: int, tmp_path: pathlib.Path) -> None:
    (tmp_path / "ib_write_bw").write_text("#!/bin/sh\nexec sleep 60\n")
    begun = time.monotonic()
    with pytest.raises(_fabric_tools.ToolError, match="did not start to listen"):
        _fabric_bench.run_once([end(listener)], "rdma", True)
    assert time.monotonic() - begun < 6
