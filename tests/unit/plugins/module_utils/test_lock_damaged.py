# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""A lock, and the folders of copies, as nobody who belongs here would have written them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ansible_collections.gb10.serving.plugins.module_utils import _lock
from ansible_collections.gb10.serving.plugins.plugin_utils import _lock_owner

ME = {"token": "me", "user": "me"}


@pytest.mark.parametrize(
    ("text", "damaged"),
    [
        (b"", True),
        (b"5", True),
        (b"null", True),
        (b"[1,2]", True),
        (b'"x"', True),
        (b"[" * 60_000, True),
        (b" " * 100_000 + b'{"token":"x"}', True),
        (b"\xff\0", True),
        (b'{"token":[1],"taken_at":5}', True),
        (b'{"user":"x"}', True),
        (b'{"token":"x","taken_at":Infinity}', False),
        (b'{"token":"x","taken_at":NaN}', False),
        (b'{"token":"x","taken_at":1' + b"0" * 400 + b"}", False),
        (b'{"token":"x","taken_at":true,"pid":[1],"user":{}}', False),
    ],
)
def test_a_damaged_lock_is_a_holder_until_it_is_stale(tmp_path: Path, text: bytes, damaged: bool) -> None:
    (tmp_path / _lock.FILE).write_bytes(text)
    holder = _lock.take(str(tmp_path), ME, 120)
    assert holder and bool(holder.get("damaged")) == damaged and holder["age"] == holder["silent"] == 0
    json.dumps(holder, allow_nan=False)
    said = _lock_owner.refusal("spark-a", holder, 120).seen
    assert said.startswith("somebody unknown") and ("the lock file is damaged" in said) == damaged
    os.utime(tmp_path / _lock.FILE, (1, 1))
    assert _lock.take(str(tmp_path), ME, 120) is None
    assert (_lock.read(str(tmp_path)) or {})["token"] == "me"


@pytest.mark.parametrize("kind", ["pipe", "folder", "link", "dangling"])
def test_what_is_no_file_holds_nobody_up_for_ever(tmp_path: Path, kind: str) -> None:
    path = tmp_path / _lock.FILE
    (tmp_path / "other").write_text('{"token": "x"}')
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to("other" if kind == "link" else "nowhere")
    holder = _lock.take(str(tmp_path), ME, 120)
    assert holder and holder["damaged"]
    os.utime(path, (1, 1), follow_symlinks=False)
    assert _lock.take(str(tmp_path), ME, 120) is None
    assert path.is_file() and not path.is_symlink() and (tmp_path / "other").read_text() == '{"token": "x"}'


def test_a_sign_of_life_from_the_future_is_none(tmp_path: Path) -> None:
    _lock.take(str(tmp_path), {"token": "x"}, 120)
    os.utime(tmp_path / _lock.FILE, (time.time() + 60,) * 2)
    assert _lock.take(str(tmp_path), ME, 120) is not None  # a clock that was set back a little
    os.utime(tmp_path / _lock.FILE, (time.time() + 1e6,) * 2)
    assert _lock.take(str(tmp_path), ME, 120) is None


def left(base: Path, name: str, pid: object = None) -> Path:
    folder = base / f"gb10-job-{name}"
    folder.mkdir()
    (folder / "progress.json").write_text(json.dumps({"pid": pid}))
    return folder


def test_a_pipe_in_the_place_of_the_progress_is_no_obstacle(tmp_path: Path) -> None:
    folder = left(tmp_path, "pipe")
    (folder / "progress.json").unlink()
    os.mkfifo(folder / "progress.json")
    begun = time.monotonic()
    assert _lock.clear([str(tmp_path)]) == [str(folder)] and not folder.exists()
    assert time.monotonic() - begun < 3


def test_an_alive_file_from_the_future_holds_it_up_for_seconds_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_lock, "FOLLOWED_SECONDS", 0.5)
    folder = left(tmp_path, "future")
    (folder / "alive").touch()
    os.utime(folder / "alive", (time.time() + 1e6,) * 2)
    assert _lock.clear([str(tmp_path)]) == [str(folder)]


def test_only_folders_of_this_user_are_cleared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = left(tmp_path, "theirs")
    (tmp_path / "precious").mkdir()
    (tmp_path / "gb10-job-link").symlink_to("precious")
    monkeypatch.setattr(os, "geteuid", lambda: 4_000_000)
    assert _lock.clear([str(tmp_path)]) == [] and folder.exists()
    monkeypatch.undo()
    assert _lock.clear([str(tmp_path)]) == [str(folder)]
    assert (tmp_path / "precious").exists() and (tmp_path / "gb10-job-link").is_symlink()


@pytest.mark.parametrize(
    ("euid", "asking", "owner", "ended"),
    [
        (0, "1000", 1000, True),  # sudo of the user whose copy it is
        (0, "1000", 0, True),
        (0, "1000", 1001, False),
        (0, None, 1000, False),
        (0, "me", 1000, False),
        (1001, "1000", 1000, False),  # what a user may put into his environment
        (1000, None, 1000, True),
    ],
)
def test_whose_copies_are_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, euid: int, asking: str | None, owner: int, ended: bool
) -> None:
    folder = left(tmp_path, "x")
    monkeypatch.setattr(_lock, "_owner", lambda _path: owner)
    monkeypatch.setattr(os, "geteuid", lambda: euid)
    monkeypatch.delenv("SUDO_UID", raising=False)
    if asking is not None:
        monkeypatch.setenv("SUDO_UID", asking)
    assert _lock.clear([str(tmp_path)]) == ([str(folder)] if ended else [])


@pytest.mark.parametrize("pid", [1, 0, -1, True, "5", [5], 10**30, None])
def test_a_number_that_is_no_worker_is_not_waited_for(tmp_path: Path, pid: object) -> None:
    assert _lock._worker(str(left(tmp_path, "x", pid))) is None


def test_a_worker_is_a_python_of_this_user_without_input(tmp_path: Path) -> None:
    for argv, stdin, worker in (
        ([sys.executable, "-c", "import time; time.sleep(9)"], subprocess.DEVNULL, True),
        ([sys.executable, "-c", "import time; time.sleep(9)"], subprocess.PIPE, False),
        (["sleep", "9"], subprocess.DEVNULL, False),
    ):
        with subprocess.Popen(argv, stdin=stdin) as process:
            time.sleep(0.3)
            found = _lock._worker(str(left(tmp_path, str(process.pid), process.pid)))
            assert found == (process.pid if worker else None)
            process.kill()
