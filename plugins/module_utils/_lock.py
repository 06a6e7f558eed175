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
import tempfile
import time
from collections.abc import Iterable, Iterator
from typing import Any

from ansible_collections.gb10.serving.plugins.module_utils._job import PREFIX, write_json

FILE = ".deploy-lock.json"
#: A copy that somebody follows is told so every second.
FOLLOWED_SECONDS = 5.0
END_SECONDS = 20.0


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


def read(root: str) -> dict[str, Any] | None:
    """Who holds the lock, with since and silent in seconds; None when nobody does. What cannot be read is a holder."""
    path = os.path.join(root, FILE)
    try:
        beat = os.stat(path).st_mtime
        with open(path, encoding="utf-8") as stream:
            text = stream.read()
    except FileNotFoundError:
        return None
    try:
        holder = dict(json.loads(text))
    except ValueError:
        holder = {}
    now = time.time()
    taken = holder.get("taken_at")
    since = now - taken if isinstance(taken, (int, float)) else now - beat
    return {**holder, "path": path, "age": max(0, round(since)), "silent": max(0, round(now - beat))}


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

    For the holder of the lock only. A copy that somebody follows by hand goes on.
    """
    places = {"/run", tempfile.gettempdir()} if bases is None else set(bases)
    jobs = [
        entry.path
        for base in sorted(places)
        if os.path.isdir(base)
        for entry in os.scandir(base)
        if entry.name.startswith(PREFIX) and entry.is_dir(follow_symlinks=False)
    ]
    ended = [job for job in jobs if not _followed(job)]
    pids = [_worker(job) for job in ended]
    for job in ended:
        shutil.rmtree(job, ignore_errors=True)
    deadline = time.monotonic() + END_SECONDS
    while any(pid and os.path.isdir(f"/proc/{pid}") for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.1)
    return ended


def _followed(job: str) -> bool:
    """Whether somebody still looks at the job; waits until that can be told."""
    try:
        first = os.stat(os.path.join(job, "alive")).st_mtime
        while time.time() - first < FOLLOWED_SECONDS:
            time.sleep(0.2)
            if os.stat(os.path.join(job, "alive")).st_mtime != first:
                return True
    except OSError:
        pass
    return False


def _worker(job: str) -> int | None:
    try:
        with open(os.path.join(job, "progress.json"), encoding="utf-8") as stream:
            return int(json.load(stream)["pid"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
