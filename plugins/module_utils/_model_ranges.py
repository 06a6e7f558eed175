# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 gb10.serving contributors
# Private to gb10.serving: which part of which file comes next. Pure bookkeeping, not safe for threads by itself.
from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

MIB = 1 << 20
LONGEST = 64 * MIB
SHORTEST = MIB
#: In so many ranges a stream fetches its part of a file.
PIECES = 4
#: One file takes about so much a second, since a file system lets one writer at a time into a file.
FILE_RATE = 400_000_000

Span = tuple[int, int]


def order(sizes: Mapping[str, int]) -> list[str]:
    """Large files first, so that what comes last is small. The source hashes in the same order."""
    return sorted(sizes, key=lambda name: (-sizes[name], name))


def merge(spans: Iterable[Span]) -> list[Span]:
    """Disjoint spans in order; those that touch become one."""
    result: list[Span] = []
    for start, end in sorted(spans):
        if start >= end:
            continue
        if result and start <= result[-1][1]:
            result[-1] = (result[-1][0], max(end, result[-1][1]))
        else:
            result.append((start, end))
    return result


def gaps(done: Iterable[Span], size: int) -> list[Span]:
    """What of a file is not covered."""
    result, at = [], 0
    for start, end in merge(done):
        if start > at:
            result.append((at, min(start, size)))
        at = max(at, end)
    if at < size:
        result.append((at, size))
    return result


class File:
    """One file on its way."""

    def __init__(self, name: str, size: int, done: Iterable[Span] = ()) -> None:
        self.name, self.size = name, size
        self.refetched = 0
        self.refused: set[int] = set()  # sources from which it came damaged or not at all
        self.failures: dict[int, int] = {}
        self.reset(done)

    def reset(self, done: Iterable[Span] = ()) -> None:
        self.done = merge((start, min(end, self.size)) for start, end in done)
        self.pending = gaps(self.done, self.size)
        self.flying = 0
        self.hashed = 0
        self.hasher: Any = hashlib.sha256()
        self.hashing = False
        self.whole = False  # hashed to its end
        self.digest = ""

    @property
    def left(self) -> int:
        return sum(end - start for start, end in self.pending)

    @property
    def begun(self) -> bool:
        return bool(self.flying or self.done)

    def hashable(self) -> int:
        """Up to where the file is there without a gap."""
        return self.done[0][1] if self.done and self.done[0][0] == 0 else 0


class Ranges:
    """All files that have to come."""

    def __init__(self, files: Iterable[File], streams: int) -> None:
        self.files = {file.name: file for file in files}
        self.streams = max(1, streams)
        self.open = set(self.files)  # not yet verified

    def left(self) -> int:
        return sum(self.files[name].left for name in self.open)

    def take(self, may: Callable[[File], bool], rate: float) -> tuple[File, int, int] | None:
        """The next range of a file that may be fetched.

        Few files at a time, so that each is whole soon and can be handed on; more where the link is faster than the
        writing into one file. Ranges get shorter towards the end, so that all streams end together.
        """
        waiting = [file for file in (self.files[name] for name in self.open) if file.pending and may(file)]
        if not waiting:
            return None
        begun = [file for file in waiting if file.begun]
        together = min(self.streams, 1 + int(rate / FILE_RATE))
        if len(begun) < together:
            fresh = [file for file in waiting if not file.begun]
            begun = fresh or begun
        # Among begun files the one with the fewest streams; new ones come by size.
        file = min(begun, key=lambda item: (item.flying, -item.size if not item.begun else item.left, item.name))
        # Several pieces for each stream of a file, so that all are done with it at the same time.
        share = file.size // (PIECES * -(-self.streams // together))
        longest = min(LONGEST, max(SHORTEST, min(share, self.left() // (4 * self.streams))))
        start, end = file.pending[0]
        if end - start > longest + SHORTEST:
            end = start + longest
            file.pending[0] = (end, file.pending[0][1])
        else:
            file.pending.pop(0)
        file.flying += 1
        return file, start, end

    @staticmethod
    def give_back(file: File, start: int, came: int, end: int) -> None:
        """The stream is done with its range; what did not come is to be fetched again."""
        file.flying -= 1
        file.done = merge([*file.done, (start, came)])
        if came < end:
            file.pending = merge([*file.pending, (came, end)])

    def next_hash(self) -> tuple[File, int, int] | None:
        """A file that came further than it is hashed, the furthest first."""
        ready = [
            file
            for file in (self.files[name] for name in self.open)
            if not file.hashing and not file.whole and (file.hashable() > file.hashed or file.size == 0)
        ]
        if not ready:
            return None
        file = min(ready, key=lambda item: (item.size - item.hashed, item.name))
        file.hashing = True
        return file, file.hashed, file.hashable()
