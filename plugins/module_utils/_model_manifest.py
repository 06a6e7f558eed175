# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 gb10.serving contributors
# Private to gb10.serving: the SHA-256 of each file of a model, known or made.
"""What the hub or an earlier run says of a file costs nothing; the rest is read once and written down."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import queue
import re
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ansible_collections.gb10.serving.plugins.module_utils._job import write_json

#: Beside the files of a model; hidden, so that it is no part of the model.
STORE = ".gb10-sha256.json"
CHUNK = 1 << 20
#: Files up to this size that hold no tensors are read whenever a model is looked at, as long as they are few.
SMALL = 32 << 20
_SMALL_TOTAL = 256 << 20
_SHA256 = re.compile(r"[0-9a-f]{64}")
_COMMIT = re.compile(r"[0-9a-f]{40}")


def pool_size() -> int:
    """Hashing threads: hashlib lets go of the interpreter, so each takes a core."""
    return max(1, min(8, len(os.sched_getaffinity(0))))


def hash_range(hasher: Any, number: int, start: int, end: int, buffer: memoryview) -> None:
    """Feeds a range of an open file. OSError when the file ends before it."""
    while start < end:
        count = os.preadv(number, [buffer[: min(len(buffer), end - start)]], start)
        if not count:
            raise OSError(5, "the file is shorter than it was")
        hasher.update(buffer[:count])
        start += count


def hash_file(path: str, account: Callable[[int], object] = lambda _count: None) -> str:
    hasher, buffer = hashlib.sha256(), memoryview(bytearray(CHUNK))
    number = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        end = os.fstat(number).st_size
        for start in range(0, end, 16 * CHUNK):
            hash_range(hasher, number, start, min(end, start + 16 * CHUNK), buffer)
            account(min(end, start + 16 * CHUNK) - start)
    finally:
        os.close(number)
    return hasher.hexdigest()


def _downloaded(root: str, name: str) -> tuple[str | None, str | None]:
    """(SHA-256, commit) that the hub's tool noted beside a download into a plain folder, while the file is that one."""
    note = os.path.join(root, ".cache", "huggingface", "download", name + ".metadata")
    try:
        with open(note, encoding="utf-8") as stream:
            commit, etag, stamp = (stream.readline().strip() for _line in range(3))
        unchanged = os.stat(os.path.join(root, name)).st_mtime - 1 <= float(stamp)
    except (OSError, ValueError):
        return None, None
    etag = etag.strip('"')
    known = etag if unchanged and _SHA256.fullmatch(etag) else None
    return known, commit if _COMMIT.fullmatch(commit) else None


def _linked(path: str) -> str | None:
    """The SHA-256 by which a cache of the hub names the blob that this file is a link to."""
    for _step in range(8):
        if not os.path.islink(path):
            return None
        path = os.path.normpath(os.path.join(os.path.realpath(os.path.dirname(path)), os.readlink(path)))
        folder, base = os.path.split(path)
        if _SHA256.fullmatch(base) and "blobs" in folder.split(os.sep)[-3:]:
            return base
    return None


def revision(root: str, names: Iterable[str]) -> str | None:
    """The commit of the model on the hub, when its files agree on one."""
    folder, base = os.path.split(os.path.normpath(root))
    if os.path.basename(folder) == "snapshots" and _COMMIT.fullmatch(base):
        return base
    commits = {_downloaded(root, name)[1] for name in names} - {None}
    return commits.pop() if len(commits) == 1 else None


def read_store(root: str) -> dict[str, dict[str, Any]]:
    try:
        with open(os.path.join(root, STORE), encoding="utf-8") as stream:
            entries = json.load(stream)["files"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return {}
    return {
        name: entry
        for name, entry in (entries.items() if isinstance(entries, dict) else ())
        if isinstance(entry, dict) and _SHA256.fullmatch(str(entry.get("sha256")))
    }


def write_store(root: str, known: Mapping[str, str], own: Callable[[str], None] | None = None) -> None:
    """Notes what was read of the files in this folder. A folder that may not be written stays as it is."""
    entries = {}
    for name, digest in sorted(known.items()):
        with contextlib.suppress(OSError):
            stat = os.stat(os.path.join(root, name))
            entries[name] = {"size": stat.st_size, "mtime_ns": stat.st_mtime_ns, "sha256": digest}
    with contextlib.suppress(OSError):
        path = os.path.join(root, STORE)
        write_json(path, {"files": entries})
        if own:
            own(path)
        elif os.geteuid() == 0:
            stat = os.stat(root)
            os.chown(path, stat.st_uid, stat.st_gid)


def wanted_sums(root: str, sizes: Mapping[str, int]) -> dict[str, str]:
    """What the files should hold: as noted when they were written or downloaded, whatever became of them since."""
    noted = read_store(root)
    found: dict[str, str] = {}
    for name in sizes:
        digest = noted.get(name, {}).get("sha256") or _downloaded(root, name)[0] or _linked(os.path.join(root, name))
        if digest:
            found[name] = digest
    return found


@functools.lru_cache(maxsize=2048)
def _content(path: str, _stat: tuple[int, ...]) -> str:
    """For a process that looks again and again: read once while nothing about the file changes."""
    return hash_file(path)


def small_sums(root: str, sizes: Mapping[str, int]) -> dict[str, str]:
    """What the small files hold now. A user may edit one without a change of its size."""
    found: dict[str, str] = {}
    left = _SMALL_TOTAL
    for size, name in sorted((size, name) for name, size in sizes.items()):
        if size > min(SMALL, left) or name.endswith(".safetensors"):
            continue
        left -= size
        path = os.path.join(root, name)
        with contextlib.suppress(OSError):
            stat = os.stat(path)
            if stat.st_size == size:
                found[name] = _content(path, (stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns))
    return found


def present_sums(root: str, sizes: Mapping[str, int]) -> dict[str, str]:
    """The SHA-256 of what is there, as far as that costs nothing: small files are read, of the weights it is known."""
    sums = Sums(root, sizes)
    sums.look()
    return {**sums.known(), **small_sums(root, sizes)}


class Sums:
    """The SHA-256 of the files below a folder. get() gives what is known; want() has the rest read by a few threads."""

    def __init__(self, root: str, sizes: Mapping[str, int]) -> None:
        self.root, self.sizes = root, sizes
        self.read_bytes = 0
        self._known: dict[str, str] = {}
        self._read: dict[str, str] = {}
        self._asked: set[str] = set()
        self._todo: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._store_lock = threading.Lock()
        self._threads: list[threading.Thread] = []

    def look(self) -> None:
        """Takes over what is known without reading a file."""
        noted = read_store(self.root)
        for name, size in self.sizes.items():
            path = os.path.join(self.root, name)
            try:
                stat = os.stat(path)
            except OSError:
                continue
            entry = noted.get(name, {})
            if (entry.get("size"), entry.get("mtime_ns")) == (size, stat.st_mtime_ns) and stat.st_size == size:
                self._known[name] = self._read[name] = str(entry["sha256"])
                continue
            digest = _downloaded(self.root, name)[0] or _linked(path)
            if digest:
                self._known[name] = digest

    def get(self, name: str) -> str | None:
        return self._known.get(name)

    def known(self) -> dict[str, str]:
        with self._lock:
            return dict(self._known)

    def want(self, names: Iterable[str]) -> None:
        with self._lock:
            new = [name for name in names if name not in self._known and name not in self._asked]
            self._asked.update(new)
            for name in new:
                self._todo.put(name)
            while new and len(self._threads) < pool_size():
                thread = threading.Thread(target=self._work, daemon=True)
                self._threads.append(thread)
                thread.start()

    def reread(self, name: str) -> str:
        """What the file holds now, whatever is said of it."""
        return hash_file(os.path.join(self.root, name))

    def _count(self, count: int) -> None:
        with self._lock:
            self.read_bytes += count

    def _work(self) -> None:
        while True:
            name = self._todo.get()
            try:
                digest = hash_file(os.path.join(self.root, name), self._count)
            except OSError:
                with self._lock:
                    self._asked.discard(name)  # whoever fetches the file is told why
                continue
            with self._lock:
                self._known[name] = self._read[name] = digest
            if self._todo.empty():
                self._note()

    def _note(self) -> None:
        with self._store_lock:  # what is written last is what was known last
            with self._lock:
                read = dict(self._read)
            write_store(self.root, read)
