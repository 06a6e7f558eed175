# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 gb10.serving contributors
# Private to gb10.serving: one deployment at a time.
"""A lock file on a node that says who deploys, since when, and when they last gave a sign.

The holder is a run of Ansible on some controller: it has no process here that could hold a lock of the kernel. Its sign
of life is the time of the file, which the controller renews as long as the run lives.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterable, Iterator
from typing import Any

from ansible_collections.gb10.serving.plugins.module_utils._job import PREFIX, write_json

FILE = ".deploy-lock.json"
#: A copy that somebody follows is told so every second.
FOLLOWED_SECONDS = 5.0
END_SECONDS = 20.0
#: Neither the lock nor what a worker tells is longer.
_MOST = 1 << 16
_PLAIN = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC


@contextlib.contextmanager
def _guarded(root: str, make: bool) -> Iterator[bool]:
    """Only one module run at a time looks at the lock and writes it. False when there is no such folder."""
    while True:
        if make:
            os.makedirs(root, mode=0o755, exist_ok=True)
        try:
            number = os.open(root, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            if make:
                continue
            yield False
            return
        try:
            fcntl.flock(number, fcntl.LOCK_EX)
            if not _same(number, root):
                continue  # the one before took the empty folder away
            yield True
            return
        finally:
            os.close(number)


def _same(number: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(number), os.stat(path))
    except FileNotFoundError:
        return False


def _object(path: str) -> dict[str, Any]:
    """What a file of JSON holds; nothing when it is no plain file, too long, or no object."""
    try:
        number = os.open(path, _PLAIN)
    except OSError:
        return {}
    try:
        info = os.fstat(number)
        if not stat.S_ISREG(info.st_mode) or info.st_size > _MOST:
            return {}
        found = json.loads(os.read(number, _MOST))
    except (OSError, ValueError, RecursionError):
        return {}
    finally:
        os.close(number)
    return found if isinstance(found, dict) else {}


def _is_time(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return abs(value) < 1e12  # neither of Infinity nor of NaN


def _holder(found: dict[str, Any]) -> dict[str, Any]:
    """What of the lock's text is what a holder writes; damaged when the token, which every holder has, is not."""
    holder = {key: value for key, value in found.items() if value is None or isinstance(value, str)}
    holder.update({key: found[key] for key in ("pid", "taken_at") if _is_time(found.get(key))})
    return holder if holder.get("token") else {"damaged": True}


def read(root: str) -> dict[str, Any] | None:
    """Who holds the lock, with since and silent in seconds; None when nobody does. What cannot be read is a holder."""
    path = os.path.join(root, FILE)
    try:
        beat = os.lstat(path).st_mtime
    except FileNotFoundError:
        return None
    holder, now = _holder(_object(path)), time.time()
    # A sign of life that lies ahead is as little one of now as one that is long ago.
    silent = round(abs(now - beat))
    since = now - holder["taken_at"] if "taken_at" in holder else silent
    return {**holder, "path": path, "age": max(0, round(since)), "silent": silent}


def take(root: str, owner: dict[str, Any], stale: float, gone: str | None = None) -> dict[str, Any] | None:
    """None when the lock is the owner's now, else who holds it.

    A holder that gave no sign for stale seconds is replaced, and so is the one whose token is gone: the caller knows
    that it has ended.
    """
    with _guarded(root, make=True):
        holder = read(root)
        replaced = {owner["token"]} | ({gone} if gone else set())
        if holder and holder.get("token") not in replaced and holder["silent"] <= stale:
            return holder
        with contextlib.suppress(OSError):
            os.rmdir(os.path.join(root, FILE))  # a folder in its place, which no file can replace
        write_json(os.path.join(root, FILE), {**owner, "taken_at": time.time()})
    return None


def release(root: str, token: str) -> bool:
    """Takes the lock away if it is this owner's; an empty folder goes with it. False when there was nothing to do."""
    with _guarded(root, make=False) as there:
        holder = read(root) if there else None
        if holder is None or holder.get("token") != token:
            return False
        os.unlink(os.path.join(root, FILE))
        with contextlib.suppress(OSError):
            os.rmdir(root)
    return True


def clear(bases: Iterable[str] | None = None) -> list[str]:
    """Ends the copies that an interrupted run left on this node, which would end by themselves a minute later.

    For the holder of the lock only. Ended are the copies of this user and, under sudo, of the one who asked for it.
    Those of others, and one that somebody follows by hand, go on.
    """
    places = {"/run", tempfile.gettempdir()} if bases is None else set(bases)
    jobs = [
        entry.path
        for base in sorted(places)
        if os.path.isdir(base)
        for entry in os.scandir(base)
        if entry.name.startswith(PREFIX) and entry.is_dir(follow_symlinks=False) and _mine(entry.path)
    ]
    ended = [job for job in jobs if not _followed(job)]
    pids = [_worker(job) for job in ended]
    for job in ended:
        shutil.rmtree(job, ignore_errors=True)
    deadline = time.monotonic() + END_SECONDS
    while any(pid and os.path.isdir(f"/proc/{pid}") for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.1)
    return ended


def _mine(path: str) -> bool:
    asking = os.environ.get("SUDO_UID", "") if os.geteuid() == 0 else ""
    return _owner(path) in {os.geteuid(), int(asking) if asking.isdecimal() else os.geteuid()}


def _owner(path: str) -> int | None:
    try:
        return os.lstat(path).st_uid
    except OSError:
        return None


def _followed(job: str) -> bool:
    """Whether somebody still looks at the job; waits until that can be told."""
    until = time.monotonic() + FOLLOWED_SECONDS
    try:
        first = os.lstat(os.path.join(job, "alive")).st_mtime
        while time.time() - first < FOLLOWED_SECONDS and time.monotonic() < until:
            time.sleep(0.2)
            if os.lstat(os.path.join(job, "alive")).st_mtime != first:
                return True
    except OSError:
        pass
    return False


def _worker(job: str) -> int | None:
    """The process of a job, if there is one of its owner that looks like a worker: Python, and no input."""
    pid = _object(os.path.join(job, "progress.json")).get("pid")
    if isinstance(pid, bool) or not isinstance(pid, int) or not 1 < pid < 1 << 31:
        return None
    try:
        python = os.path.basename(os.readlink(f"/proc/{pid}/exe")).startswith("python")
        nothing = os.readlink(f"/proc/{pid}/fd/0") == os.devnull
        return pid if python and nothing and os.stat(f"/proc/{pid}").st_uid == _owner(job) else None
    except OSError:
        return None
