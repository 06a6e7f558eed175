# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
from __future__ import annotations

import json
import os
import pathlib
import tempfile
import threading
import time
from typing import Any

import pytest

from ansible_collections.gb10.serving.plugins.module_utils import _job


@pytest.fixture(autouse=True)
def base(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    monkeypatch.setattr(_job, "private_dir", lambda prefix: tempfile.mkdtemp(prefix=prefix, dir=tmp_path))
    monkeypatch.setattr(_job, "BEAT_SECONDS", 0.05)
    return tmp_path


def until(condition: Any, seconds: float = 10) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.02)
    return False


def state(job: str) -> dict[str, Any]:
    return dict(json.loads(pathlib.Path(job, "progress.json").read_text()))


def test_result_and_errors() -> None:
    def broken(_progress: _job.Progress) -> dict[str, Any]:
        raise _job.JobError("disk is full")

    def bug(_progress: _job.Progress) -> dict[str, Any]:
        raise KeyError("x")

    assert _job.run(lambda _p: {"moved": 1}, _job.Progress(), 5) == {"moved": 1}
    assert _job.run(broken, _job.Progress(), 5) == {"error": "disk is full"}
    assert "KeyError" in _job.run(bug, _job.Progress(), 5)["error"]


def test_work_that_stalls_is_ended_and_named() -> None:
    stopped = threading.Event()

    def work(progress: _job.Progress) -> dict[str, Any]:
        progress.on_abort(stopped.set)
        progress.begin("copy")
        progress.add(5)
        assert stopped.wait(10)
        raise OSError("socket closed")

    error = _job.run(work, _job.Progress(), 0.2)["error"]
    assert "stage 'copy' after 5 bytes" in error and "socket closed" not in error


def test_work_that_moves_slowly_is_left_alone() -> None:
    def work(progress: _job.Progress) -> dict[str, Any]:
        for _ in range(8):
            time.sleep(0.1)
            progress.add(1)
        return {"ok": True}

    assert _job.run(work, _job.Progress(), 0.4) == {"ok": True}


def test_other_signs_of_life_count() -> None:
    progress = _job.Progress()
    progress.signs = time.monotonic

    def work(_progress: _job.Progress) -> dict[str, Any]:
        time.sleep(0.6)
        return {"ok": True}

    assert _job.run(work, progress, 0.2) == {"ok": True}


def test_rate_is_that_of_the_last_seconds() -> None:
    progress = _job.Progress()
    progress.snapshot(100.0)
    progress.add(1000)
    assert progress.snapshot(102.0)["rate"] == 500
    progress.snapshot(111.5)
    assert progress.snapshot(121.0)["rate"] == 0


def test_detached_work_tells_its_progress_and_its_result() -> None:
    def work(progress: _job.Progress) -> dict[str, Any]:
        progress.begin("copy", 10)
        progress.add(10)
        return {
            "sid": os.getsid(0),
            "pid": os.getpid(),
            "fds": len(os.listdir("/proc/self/fd")),
            "parent": os.getppid(),
        }

    job = _job.start(work, _job.Progress(), 5, alive_seconds=30)
    assert os.stat(job).st_mode & 0o777 == 0o700
    assert until(lambda: state(job)["done"])
    result = state(job)["result"]
    assert (state(job)["bytes_done"], state(job)["bytes_total"]) == (10, 10)
    assert result["sid"] not in (os.getsid(0), result["pid"]) and result["parent"] != os.getpid()
    assert result["fds"] <= 6
    pathlib.Path(job, "alive").unlink()  # nobody is interested any more
    assert until(lambda: not os.path.exists(job))


def test_detached_work_ends_when_nobody_asks() -> None:
    def work(progress: _job.Progress) -> dict[str, Any]:
        for _ in range(600):
            time.sleep(0.05)
            progress.add(1)
            progress.check()
        return {}

    job = _job.start(work, _job.Progress(), 60, alive_seconds=0.5)
    assert until(lambda: state(job).get("pid"))
    pid = state(job)["pid"]
    assert until(lambda: not os.path.exists(job))
    assert until(lambda: not os.path.exists(f"/proc/{pid}"))


def test_detached_work_that_does_not_react_is_ended_all_the_same() -> None:
    def work(_progress: _job.Progress) -> dict[str, Any]:
        time.sleep(600)
        return {}

    job = _job.start(work, _job.Progress(), 0.2, alive_seconds=60)
    assert until(lambda: state(job)["done"], 20)
    pid = state(job)["pid"]
    assert "nothing moved" in state(job)["result"]["error"]
    assert until(lambda: not os.path.exists(f"/proc/{pid}"))
