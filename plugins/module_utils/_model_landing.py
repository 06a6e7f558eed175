# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 gb10.serving contributors
# Private to gb10.serving: files that have come are hashed, compared, moved to their place and written out.
from __future__ import annotations

import contextlib
import os
import queue
import threading
from collections.abc import Callable, Sequence

from ansible_collections.gb10.serving.plugins.module_utils import _model_inside
from ansible_collections.gb10.serving.plugins.module_utils._job import JobError, Progress
from ansible_collections.gb10.serving.plugins.module_utils._model_journal import PARTS, Journal
from ansible_collections.gb10.serving.plugins.module_utils._model_manifest import CHUNK, hash_range, pool_size
from ansible_collections.gb10.serving.plugins.module_utils._model_ranges import File, Ranges
from ansible_collections.gb10.serving.plugins.module_utils._model_sources import Source, ask_any

#: How often one file is fetched again when it is not what the source says.
REFETCHES = 2
#: The source may have to read a large file from its disk before it answers.
REREAD_SECONDS = 180
_STEP = 16 * CHUNK
_SYNCERS = 2


class Landing:
    """Threads that take care of what has come. Files are shared with the streams; change guards them."""

    def __init__(
        self,
        staging: str,
        ranges: Ranges,
        sums: dict[str, str],
        sources: Sequence[Source],
        progress: Progress,
        fail: Callable[[Exception, str], None],
    ) -> None:
        self.staging, self.ranges, self.sums, self.sources = staging, ranges, sums, sources
        self.progress, self.fail = progress, fail
        self.change = threading.Condition()
        self.journal = Journal(staging)
        self.refetched: list[str] = []
        self.hashed_bytes = 0
        self.mtimes: dict[str, int] = {}
        self.came_from: dict[str, set[int]] = {}
        self.unsafe = len(ranges.files)
        self.ending = False
        self._open: dict[str, int] = {}
        self._sync: queue.SimpleQueue[tuple[File, int] | None] = queue.SimpleQueue()

    def threads(self) -> list[threading.Thread]:
        hashers = [threading.Thread(target=self._hash, daemon=True) for _number in range(pool_size())]
        return hashers + [threading.Thread(target=self._write_out, daemon=True) for _number in range(_SYNCERS)]

    def end(self) -> None:
        with self.change:
            self.ending = True
            self.change.notify_all()
        for _number in range(_SYNCERS):
            self._sync.put(None)

    def close(self) -> None:
        """After the threads have ended."""
        for number in self._open.values():
            os.close(number)
        self._open.clear()
        self.journal.close()

    def target(self, file: File) -> int:
        """The open file that ranges are written into. Called with change held."""
        if file.name not in self._open:
            number = _model_inside.opened(self.staging, f"{PARTS}/{file.name}", os.O_RDWR)
            self._open[file.name] = number
            if os.fstat(number).st_size != file.size:
                os.ftruncate(number, file.size)
        return self._open[file.name]

    def _hash(self) -> None:
        buffer = memoryview(bytearray(CHUNK))
        file: File | None = None
        try:
            while True:
                with self.change:
                    job = None if self.ending else self.ranges.next_hash()
                    while job is None:
                        if self.ending:
                            return
                        self.change.wait(0.5)
                        job = None if self.ending else self.ranges.next_hash()
                    file, start, end = job
                    number = self.target(file)
                for at in range(start, end, _STEP):
                    if self.ending:
                        return
                    hash_range(file.hasher, number, at, min(end, at + _STEP), buffer)
                    self.hashed_bytes += min(end, at + _STEP) - at
                with self.change:
                    file.hashed, file.hashing = end, False
                    if end == file.size:
                        file.whole, file.digest = True, file.hasher.hexdigest()
                if file.whole:
                    self.settle(file)
        except Exception as error:
            self.fail(error, file.name if file else "the first file")

    def settle(self, file: File) -> None:
        """Decides over a file that is hashed, when it is known what it should be."""
        with self.change:
            wanted = self.sums.get(file.name)
            if not wanted or not file.whole or file.name not in self.ranges.open:
                return
            if file.digest == wanted:
                self._accept(file)
                self.change.notify_all()
                return
            file.whole = False  # decided, once
        self._reject(file, wanted)

    def _accept(self, file: File) -> None:
        number = self.target(file)
        if file.name not in self.mtimes:  # all of it came in an earlier run, or it is empty
            with contextlib.suppress(JobError):
                request = {"op": "get", "name": file.name, "offset": 0, "length": 0}
                self.mtimes[file.name] = int(ask_any(self.sources, [request], "for a time")[0]["mtime_ns"])
        if file.name in self.mtimes:
            os.utime(number, ns=(self.mtimes[file.name], self.mtimes[file.name]))
        _model_inside.move(self.staging, f"{PARTS}/{file.name}", file.name)
        self.journal.add(file.name, "in", file.digest)
        self.ranges.open.discard(file.name)
        self._sync.put((file, self._open.pop(file.name)))

    def _reject(self, file: File, wanted: str) -> None:
        name = file.name
        self.journal.add(name, "new")  # whatever follows, it is of no use any more
        self.refetched.append(name)
        file.refetched += 1
        authority = sorted(self.sources, key=lambda source: not source.origin)
        try:
            answer = ask_any(authority, [{"op": "sha", "name": name, "reread": True}], "for a sum", REREAD_SECONDS)[0]
        except JobError:
            answer = {}
        if answer.get("sha256") == file.digest:
            raise JobError(
                f"{name} on the source is not what the hub's metadata there says: its SHA-256 is {file.digest}, "
                f"expected {wanted}. It was damaged on the source's disk or changed after the download. Remove this "
                f"file on the source, download it again, and run again; what came so far is kept in {self.staging}."
            )
        if file.refetched > REFETCHES:
            raise JobError(
                f"{name} came damaged {file.refetched} times: the last time its SHA-256 was {file.digest}, expected "
                f"{wanted}. Look at the memory and disk of this node and of the source, and at the error counters "
                f"of the rails (ethtool -S), then run again; what came right is kept in {self.staging}."
            )
        with self.change:
            self.progress.add(-file.size)
            others = {source.number for source in self.sources} - file.refused - self.came_from.get(name, set())
            if others:
                file.refused |= self.came_from.get(name, set())
            file.reset()
            os.ftruncate(self.target(file), 0)
            os.ftruncate(self.target(file), file.size)
            self.change.notify_all()

    def _write_out(self) -> None:
        while True:
            item = self._sync.get()
            if item is None:
                return
            file, number = item
            try:
                os.fsync(number)
                self.journal.add(file.name, "ok")
            except OSError as error:
                self.fail(error, file.name)
            finally:
                os.close(number)
            with self.change:
                self.unsafe -= 1
                self.change.notify_all()

    def missing_sums(self) -> list[str]:
        """Files that wait for the source to say what they should be."""
        with self.change:
            return [name for name in self.ranges.open if self.ranges.files[name].whole and name not in self.sums]


def disk_problem(error: OSError, name: str, done: int, staging: str) -> JobError:
    what = "the disk is full" if error.errno in (28, 122) else "the disk failed"
    todo = "Free space" if error.errno in (28, 122) else "Look at the disk (dmesg)"
    return JobError(
        f"{what} during {name} after {done} bytes: {error}. {todo} and run again; what came so far is kept in "
        f"{staging}."
    )
