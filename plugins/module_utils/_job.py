# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 gb10.serving contributors
# Private to gb10.serving: long work on a node, watched, optionally detached from the module run.
"""A piece of work with progress, an idle time-out and, when detached, a life tied to the controller's interest."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

PREFIX = "gb10-job-"
ALIVE_SECONDS = 60.0
BEAT_SECONDS = 0.5


class JobError(Exception):
    """The work cannot be done; the text is for the user."""


class Progress:
    """What the work tells while it runs. Safe to use from several threads."""

    def __init__(self) -> None:
        self.stage = "start"
        self.bytes_done = 0
        self.bytes_total: int | None = None
        self.abort_reason: str | None = None
        self.signs: Callable[[], object] = lambda: None
        self.more: Callable[[], dict[str, Any]] = dict
        self._stoppers: list[Callable[[], None]] = []
        self._lock = threading.Lock()
        self._window: list[tuple[float, int]] = []

    def begin(self, stage: str, total: int | None = None) -> None:
        with self._lock:
            self.stage = stage
            if total is not None:
                self.bytes_total = total

    def add(self, count: int) -> None:
        with self._lock:
            self.bytes_done += count

    def on_abort(self, stop: Callable[[], None]) -> None:
        """stop() must make the work fail soon: close a socket, kill a process."""
        with self._lock:
            self._stoppers.append(stop)
        if self.abort_reason:
            stop()

    def abort(self, reason: str) -> None:
        with self._lock:
            self.abort_reason = self.abort_reason or reason
            stoppers = list(self._stoppers)
        for stop in stoppers:
            with contextlib.suppress(Exception):
                stop()

    def check(self) -> None:
        if self.abort_reason:
            raise JobError(self.abort_reason)

    def mark(self) -> tuple[object, ...]:
        """Changes whenever something moved."""
        return (self.stage, self.bytes_done, self.signs())

    def snapshot(self, now: float) -> dict[str, Any]:
        with self._lock:
            self._window = [entry for entry in self._window if now - entry[0] <= 10] + [(now, self.bytes_done)]
            (start, first), (end, last) = self._window[0], self._window[-1]
            rate = (last - first) / (end - start) if end > start else 0.0
            return {
                **self.more(),
                "stage": self.stage,
                "bytes_done": self.bytes_done,
                "bytes_total": self.bytes_total,
                "rate": round(rate),
            }


Work = Callable[[Progress], dict[str, Any]]


def write_json(path: str, value: dict[str, Any]) -> None:
    """Atomic for readers; the folder must exist."""
    temporary = f"{path}.{os.getpid()}.new"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(temporary)  # of a process that had this number before, or a link that leads elsewhere
    number = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    with open(number, "w", encoding="utf-8") as stream:
        json.dump(value, stream)
    os.replace(temporary, path)


def _watch(progress: Progress, idle_timeout: float, ended: threading.Event, beat: Callable[[], None]) -> None:
    last, since = progress.mark(), time.monotonic()
    while not ended.wait(BEAT_SECONDS):
        mark, now = progress.mark(), time.monotonic()
        if mark != last:
            last, since = mark, now
        elif now - since > idle_timeout and not progress.abort_reason:
            progress.abort(
                f"nothing moved for {idle_timeout:g} s in stage '{progress.stage}' after {progress.bytes_done} "
                "bytes. "
                "Look at the source node and the link, then run again; what came so far is kept where it can be "
                "resumed."
            )
        beat()


def run(work: Work, progress: Progress, idle_timeout: float, beat: Callable[[], None] = lambda: None) -> dict[str, Any]:
    """Runs the work under watch. Returns its result or {"error": text}; never raises an Exception."""
    ended = threading.Event()
    watcher = threading.Thread(target=_watch, args=(progress, idle_timeout, ended, beat), daemon=True)
    watcher.start()
    try:
        result = work(progress)
        return {"error": progress.abort_reason} if progress.abort_reason and result is None else result
    except JobError as error:
        return {"error": progress.abort_reason or str(error)}
    except Exception as error:
        return {"error": progress.abort_reason or f"{type(error).__name__}: {error}"}
    finally:
        ended.set()
        watcher.join()


def detach(work: Callable[[], None], keep_fds: Iterable[int] = ()) -> None:
    """Runs work in a process of its own session, no child of the caller's, holding only keep_fds and /dev/null."""
    keep = set(keep_fds)
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        return
    try:
        os.setsid()
        if os.fork():
            os._exit(0)
        os.chdir("/")
        null = os.open(os.devnull, os.O_RDWR)
        for number in (0, 1, 2):
            os.dup2(null, number)
        for name in os.listdir("/proc/self/fd"):
            if int(name) > 2 and int(name) not in keep:
                with contextlib.suppress(OSError):
                    os.close(int(name))
        sys.stdin = sys.stdout = sys.stderr = open(os.devnull, "r+", encoding="utf-8")  # noqa: SIM115
        work()
    finally:
        os._exit(0)


def private_dir(prefix: str) -> str:
    """A new folder, mode 0700, on a file system that forgets: /run for root, else the temporary folder."""
    base = "/run" if os.geteuid() == 0 and os.access("/run", os.W_OK) else tempfile.gettempdir()
    return tempfile.mkdtemp(prefix=prefix, dir=base)


def start(work: Work, progress: Progress, idle_timeout: float, alive_seconds: float | None = None) -> str:
    """Starts the work detached; returns its folder with progress.json (read) and alive (touch, or the work ends)."""
    seconds = ALIVE_SECONDS if alive_seconds is None else alive_seconds
    job = private_dir(PREFIX)
    with open(os.path.join(job, "alive"), "w", encoding="utf-8"):
        pass
    write_json(os.path.join(job, "progress.json"), dict(progress.snapshot(time.monotonic()), beat=0, done=False))
    detach(lambda: _detached(job, work, progress, idle_timeout, seconds))
    return job


def _interest(job: str, seconds: float) -> bool:
    try:
        return time.time() - os.stat(os.path.join(job, "alive")).st_mtime < seconds
    except OSError:
        return False


def _detached(job: str, work: Work, progress: Progress, idle_timeout: float, seconds: float) -> None:
    def end(_number: int, _frame: object) -> None:
        progress.abort("the worker was asked to end")

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    beats = [0, 0]
    target = os.path.join(job, "progress.json")

    def tell(**more: Any) -> None:
        beats[0] += 1
        with contextlib.suppress(OSError):
            write_json(target, dict(progress.snapshot(time.monotonic()), beat=beats[0], pid=os.getpid(), **more))

    def beat() -> None:
        if not _interest(job, seconds):
            progress.abort("the controller went away")
        tell(done=False)
        if progress.abort_reason:
            beats[1] += 1
            if beats[1] > 20:  # the work does not react; nothing may stay behind
                tell(done=True, result={"error": progress.abort_reason})
                if not _interest(job, seconds):
                    shutil.rmtree(job, ignore_errors=True)
                _end_group()

    result = run(work, progress, idle_timeout, beat)
    tell(done=True, result=result)
    while os.path.isdir(job) and _interest(job, seconds):
        time.sleep(0.1)
    shutil.rmtree(job, ignore_errors=True)
    _end_group()


def _end_group() -> None:
    """Ends this session's processes, this one (which handles SIGTERM) last. From any thread."""
    with contextlib.suppress(OSError):
        os.killpg(0, signal.SIGTERM)
    os._exit(0)
