# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from ansible_collections.gb10.serving.plugins.module_utils import _lock


def owner(token: str) -> dict[str, Any]:
    return {"token": token, "user": "me"}


def age(root: Path, seconds: float) -> None:
    then = time.time() - seconds
    os.utime(root / _lock.FILE, (then, then))


def test_the_second_is_told_who_is_first(tmp_path: Path) -> None:
    root = tmp_path / "new" / "root"
    assert _lock.take(str(root), owner("a"), 120) is None
    holder = _lock.take(str(root), owner("b"), 120)
    assert holder is not None and (holder["token"], holder["user"]) == ("a", "me")
    assert (holder["age"], holder["silent"], holder["path"]) == (0, 0, str(root / _lock.FILE))
    assert _lock.take(str(root), owner("a"), 120) is None  # its own is no obstacle


def test_a_silent_holder_is_replaced(tmp_path: Path) -> None:
    _lock.take(str(tmp_path), owner("a"), 120)
    age(tmp_path, 110)
    holder = _lock.take(str(tmp_path), owner("b"), 120)
    assert holder is not None and 109 <= holder["silent"] <= 112
    age(tmp_path, 130)
    assert _lock.take(str(tmp_path), owner("b"), 120) is None
    assert (_lock.read(str(tmp_path)) or {})["token"] == "b"
    # the one that was replaced takes nothing away when it wakes up
    assert not _lock.release(str(tmp_path), "a") and _lock.read(str(tmp_path))


def test_a_holder_that_is_known_to_have_ended_is_replaced(tmp_path: Path) -> None:
    _lock.take(str(tmp_path), owner("a"), 120)
    assert _lock.take(str(tmp_path), owner("b"), 120, gone="x") is not None
    assert _lock.take(str(tmp_path), owner("b"), 120, gone="a") is None


def test_what_cannot_be_read_is_a_holder_until_it_is_stale(tmp_path: Path) -> None:
    (tmp_path / _lock.FILE).write_text("{")
    assert _lock.take(str(tmp_path), owner("b"), 120) is not None
    age(tmp_path, 500)
    assert _lock.take(str(tmp_path), owner("b"), 120) is None


def test_release_takes_away_what_it_made_and_no_more(tmp_path: Path) -> None:
    root = tmp_path / "root"
    assert not _lock.release(str(root), "a")
    _lock.take(str(root), owner("a"), 120)
    assert _lock.release(str(root), "a") and not root.exists()
    root.mkdir()
    (root / "release").touch()
    _lock.take(str(root), owner("a"), 120)
    assert _lock.release(str(root), "a") and [path.name for path in root.iterdir()] == ["release"]


def test_only_one_of_many_gets_it(tmp_path: Path) -> None:
    root = str(tmp_path / "root")
    got: list[int] = []

    def take(number: int) -> None:
        if _lock.take(root, owner(str(number)), 120) is None:
            got.append(number)

    for _round in range(20):
        got.clear()
        threads = [threading.Thread(target=take, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(got) == 1
        assert _lock.release(root, str(got[0]))


def job(base: Path, name: str, seconds: float, pid: int | None = None) -> Path:
    folder = base / f"gb10-job-{name}"
    folder.mkdir()
    (folder / "alive").touch()
    os.utime(folder / "alive", (time.time() - seconds,) * 2)
    (folder / "progress.json").write_text(json.dumps({"pid": pid}))
    return folder


def test_a_copy_that_nobody_follows_is_ended(tmp_path: Path) -> None:
    worker = "import os, sys, time\nwhile os.path.isdir(sys.argv[1]): time.sleep(0.05)"
    left = job(tmp_path, "left", 30)
    # no child of this process, as a worker is none of the module run's
    pid = int(
        subprocess.check_output(
            ["sh", "-c", '"$0" -c "$1" "$2" >/dev/null 2>&1 & echo $!', sys.executable, worker, str(left)], text=True
        )
    )
    (left / "progress.json").write_text(json.dumps({"pid": pid}))
    (tmp_path / "gb10-offer-x").mkdir()
    assert _lock.clear([str(tmp_path), str(tmp_path / "none")]) == [str(left)]
    assert [path.name for path in tmp_path.iterdir()] == ["gb10-offer-x"]
    assert not Path(f"/proc/{pid}").exists()


def test_a_copy_that_somebody_follows_goes_on(tmp_path: Path) -> None:
    followed = job(tmp_path, "followed", 0.5)
    thread = threading.Timer(0.5, (followed / "alive").touch)
    thread.start()
    assert _lock.clear([str(tmp_path)]) == [] and followed.exists()
    thread.join()
