# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""The script of the collective test by several processes: who is missing, who failed, who froze.

PyTorch is a stand-in: its store is a folder, and its groups come about or not as a test wants. Nothing is added up.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gb10.serving.plugins.module_utils import _collective, _collective_script
from ansible_collections.gb10.serving.tests.unit.plugins.module_utils import collective_outputs as out

SCRIPT = Path(_collective_script.__file__).read_text(encoding="utf-8")
TORCH = """
import os
__version__ = os.environ["VERSION"]
class version: cuda = None
class cuda:
    @staticmethod
    def is_available(): return False
"""
DISTRIBUTED = """
import os, time
class TCPStore:
    def __init__(self, address, port, world, master, timeout, wait_for_workers):
        self.place = os.environ["STORE"]
    def path(self, key): return os.path.join(self.place, key.replace("/", "."))
    def set(self, key, value):
        new = f"{self.path(key)}.{os.getpid()}.{time.monotonic_ns()}"
        with open(new, "w") as stream: stream.write(value)
        os.replace(new, self.path(key))
    def check(self, keys): return all(os.path.exists(self.path(key)) for key in keys)
    def get(self, key):
        with open(self.path(key), "rb") as stream: return stream.read()
def PrefixStore(prefix, store): return store
def init_process_group(backend, store, rank, world_size, timeout):
    if os.environ["GROUP"] == "fails": raise RuntimeError("Unable to find address for: eth9")
    time.sleep(60)
"""

Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start(tmp_path: Path) -> Start:
    """Starts a rank: ``group`` says what comes of its groups."""
    (tmp_path / "torch").mkdir()
    (tmp_path / "store").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text(TORCH)
    (tmp_path / "torch" / "distributed.py").write_text(DISTRIBUTED)

    def begin(
        rank: int, arrive: float = 20, end: float = 30, group: str = "hangs", version: str = "2"
    ) -> subprocess.Popen[str]:
        told = _collective.settings(out.spec(), rank, 29501, 0, 60)
        told.update(own="127.0.0.1", arrive=time.time() + arrive, end=time.time() + end)
        env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(tmp_path), "STORE": str(tmp_path / "store")}
        return subprocess.Popen(
            [sys.executable, "-u", "-c", SCRIPT, json.dumps(told)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**env, "GROUP": group, "VERSION": version},
        )

    return begin


def answer(process: subprocess.Popen[str], rank: int) -> dict[str, Any]:
    with process:
        output, _none = process.communicate(timeout=50)
    return _collective.read(out.spec(), rank, output, process.returncode, 29501, 1.0)


def test_a_missing_rank_is_named(start: Start) -> None:
    found = answer(start(0, arrive=5), 0)
    assert (found["cause"], found["missing_ranks"], found["stage"]) == ("rank_missing", [1], "arrive")


def test_a_rank_that_fails_ends_the_others(start: Start) -> None:
    begun = time.monotonic()
    first, second = start(0), start(1, group="fails")
    assert answer(second, 1)["cause"] == "interface_not_found"
    found = answer(first, 0)
    assert (found["cause"], found["missing_ranks"]) == ("peer_died", [])
    assert found["stage"] in ("arrive", "gloo")  # how far it was by then
    assert "rank 1 failed" in found["reason"]
    assert time.monotonic() - begun < 20, "it waited for the end of the test"


def test_versions_that_differ_are_found_before_a_group_is_opened(start: Start) -> None:
    found = [answer(process, rank) for rank, process in enumerate([start(0), start(1, version="3")])]
    assert {"nccl_mismatch"} <= {entry["cause"] for entry in found} <= {"nccl_mismatch", "peer_died"}
    assert {entry["stage"] for entry in found} <= {"store", "arrive"}


def test_a_rank_that_froze_is_told_from_one_that_waits(start: Start, tmp_path: Path) -> None:
    first, second = start(0, end=9), start(1, end=30)
    until = time.monotonic() + 8
    while not (tmp_path / "store" / "sign.1").exists() and time.monotonic() < until:
        time.sleep(0.05)
    second.send_signal(signal.SIGSTOP)
    try:
        found = answer(first, 0)
    finally:
        second.kill()
        second.communicate()
    assert (found["cause"], found["silent_ranks"], found["missing_ranks"]) == ("nccl_init_hang", [1], [])
    assert "rank 1 gave no sign any more" in found["reason"]
