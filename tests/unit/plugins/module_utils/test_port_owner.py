# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
from __future__ import annotations

import json
import os
import socket
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gb10.serving.plugins.module_utils import _port_owner

HEAD = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
OLD = "0123456789abcdef" * 4


def row(port: int, inode: int, state: str = "0A") -> str:
    return f"   0: 0100007F:{port:04X} 00000000:0000 {state} 00000000:00000000 00:00000000 00000000 0 0 {inode} 1\n"


@pytest.fixture
def proc(tmp_path: Path) -> str:
    """Container 100 with its engine 101 listening on 8000; another one, 200 and 201, on 8001."""
    (tmp_path / "net").mkdir()
    (tmp_path / "net" / "tcp").write_text(HEAD + row(8000, 11) + row(8001, 22) + row(9000, 33, "01"))
    for pid, parent, name, inode in (
        (100, 1, "sh", 0),
        (101, 100, "vllm", 11),
        (200, 1, "sh", 0),
        (201, 200, "py", 22),
    ):
        (tmp_path / str(pid) / "fd").mkdir(parents=True)
        (tmp_path / str(pid) / "comm").write_text(f"{name}\n")
        (tmp_path / str(pid) / "stat").write_text(f"{pid} (a) b) S {parent} 1 1")
        (tmp_path / str(pid) / "cgroup").write_text(f"0::/system.slice/docker-{OLD}.scope\n" if pid > 199 else "0::/\n")
        if inode:
            os.symlink(f"socket:[{inode}]", tmp_path / str(pid) / "fd" / "3")
    return str(tmp_path)


def docker(**containers: Any) -> _port_owner.Runner:
    """Containers by name: the first process, whether it runs, and its release."""

    def run(argv: list[str]) -> tuple[int, str, str]:
        if argv[1] == "version":
            return 0, "28.0", ""
        found = containers.get(argv[-1])
        if found is None:
            return 1, "", "Error: No such container"
        pid, running, release, name = found
        state = {"Running": running, "Pid": pid, "StartedAt": "2026-11-30T10:00:00Z"}
        return 0, "[{},{},{}]".format(*map(json.dumps, (state, {"gb10.serving/release": release}, f"/{name}"))), ""

    return run


MINE = (100, True, "main-1", "mine")
STALE = (200, True, "main-0", "gb10-old-rank0")


def test_who_listens(proc: str) -> None:
    assert _port_owner.holders(proc) == {8000: [101], 8001: [201]}
    assert _port_owner.container_of(201, proc) == OLD and _port_owner.container_of(101, proc) is None


def test_a_container_in_a_container(tmp_path: Path) -> None:
    """A hierarchy that does not reach to the innermost, as the last line."""
    outer = "a" * 64
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "cgroup").write_text(f"4:memory:/docker/{outer}/docker/{OLD}\n0::/docker/{outer}\n")
    assert _port_owner.container_of(7, str(tmp_path)) == OLD


def test_the_right_container(proc: str) -> None:
    found = _port_owner.check(docker(mine=MINE), 8000, "mine", "main-1", proc)
    assert (found["own"], found["problem"], found["release"]) == (True, None, "main-1")
    assert found["started_at"] == "2026-11-30T10:00:00Z"


@pytest.mark.parametrize(
    ("port", "mine", "words", "held"),
    [
        (8001, MINE, "py (process 201) of container gb10-old-rank0, release main-0, listens on port 8001", True),
        (8000, (100, True, "main-0", "mine"), "container mine runs release main-0", False),
        (8001, (100, False, "main-1", "mine"), "does not run, but py (process 201)", True),
        (8001, None, "is not there, but py (process 201)", True),
        (7000, None, "container mine is not there", False),
    ],
)
def test_a_stale_container(proc: str, port: int, mine: Any, words: str, held: bool) -> None:
    found = _port_owner.check(docker(**{"mine": mine, OLD: STALE}), port, "mine", "main-1", proc)
    assert found["own"] is False and words in found["problem"]
    assert bool(found["holder"]) is held


def test_what_cannot_be_told_is_not_a_problem(proc: str) -> None:
    assert _port_owner.check(docker(mine=MINE), 7000, "mine", "main-1", proc)["own"] is None

    def absent(_argv: list[str]) -> tuple[int, str, str]:
        raise FileNotFoundError("docker")

    assert _port_owner.check(absent, 8000, "mine", "main-1", proc)["own"] is None


def test_a_real_listener_is_found() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert _port_owner.listeners(port) == [os.getpid()]
    assert _port_owner.is_below(os.getpid(), os.getppid()) and not _port_owner.is_below(os.getppid(), os.getpid())
