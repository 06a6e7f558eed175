# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 gb10.serving contributors
# Private to gb10.serving: makes the archive of a layer again from its unpacked files.
"""Docker keeps of each layer's archive all bytes but those of files, as gzipped JSON lines in their order.

A line of type 2 carries raw bytes (headers and padding), one of type 1 names a file whose content stood there.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import gzip
import json
import os
import stat
import zlib
from collections.abc import Iterator

from ansible_collections.gb10.serving.plugins.module_utils._wire import CHUNK

_FILE, _RAW = 1, 2
_RAW_BEGIN, _RAW_END = b'{"type":2,"payload":"', b'","position":%d}\n'
#: A longer line is no part of a sound layer.
_MOST_LINE = 1 << 24
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_decode = json.JSONDecoder().decode
_REGULAR = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


#: An odd description can also be nested too deep, or be no object at all.
_MORE = (ValueError, AttributeError, RecursionError)


class Unsuited(Exception):
    """The archive cannot be made from what is here; the text says why."""


def parts(path: str) -> Iterator[bytes | tuple[bytes, int]]:
    """Raw bytes in Base64, or the name and size of a file, in the order of the archive."""
    with gzip.open(path) as lines:
        number = 0
        while line := lines.readline(_MOST_LINE):
            end = line.find(b'"', len(_RAW_BEGIN))
            if line.startswith(_RAW_BEGIN) and line[end:] == _RAW_END % number:  # as docker writes it: no need to parse
                yield line[len(_RAW_BEGIN) : end]
            else:
                entry = _decode(line.decode())
                if entry["position"] != number:
                    raise Unsuited(f"{path} has the entry {entry['position']} at place {number}")
                if entry["type"] == _RAW:
                    yield (entry["payload"] or "").encode()
                elif entry["type"] != _FILE:
                    raise Unsuited(f"{path} has an entry of the unknown type {entry['type']!r}")
                elif size := int(entry.get("size") or 0):
                    raw = entry.get("name_raw")  # a name that is not UTF-8
                    yield base64.b64decode(raw, validate=True) if raw else entry["name"].encode(), size
            number += 1


class _Tree:
    """Opens files below a folder. No link is followed: a layer may hold one that leads out of it."""

    def __init__(self, root: str) -> None:
        self._way: list[tuple[bytes, int]] = [(b"", os.open(root, _FOLDER))]
        self._last = b""  # files come folder by folder

    def _folder(self, name: bytes) -> tuple[int, bytes]:
        """The folder that holds the file, and the file's name there."""
        folder, _slash, last = name.rpartition(b"/")
        if folder != self._last:
            self._go([word for word in folder.split(b"/") if word not in (b"", b".")])
            self._last = folder
        if last in (b"", b".", b".."):
            raise Unsuited(f"the layer has a file of the name {os.fsdecode(name)!r}")
        return self._way[-1][1], last

    def _go(self, folders: list[bytes]) -> None:
        if b".." in folders:
            raise Unsuited(f"the layer has a file in the folder {os.fsdecode(b'/'.join(folders))!r}")
        same = 0
        while same < min(len(folders), len(self._way) - 1) and self._way[same + 1][0] == folders[same]:
            same += 1
        self._back(same + 1)
        for folder in folders[same:]:
            self._way.append((folder, os.open(folder, _FOLDER, dir_fd=self._way[-1][1])))

    def check(self, name: bytes, size: int) -> None:
        folder, last = self._folder(name)
        self._fits(os.stat(last, dir_fd=folder, follow_symlinks=False), name, size)

    def open(self, name: bytes, size: int) -> int:
        folder, last = self._folder(name)
        number = os.open(last, _REGULAR, dir_fd=folder)
        try:
            self._fits(os.fstat(number), name, size)
        except Unsuited:
            os.close(number)
            raise
        return number

    @staticmethod
    def _fits(info: os.stat_result, name: bytes, size: int) -> None:
        if not stat.S_ISREG(info.st_mode) or info.st_size != size:
            raise Unsuited(f"the file {os.fsdecode(name)!r} has {info.st_size} bytes, the layer had {size} there")

    def _back(self, length: int) -> None:
        while len(self._way) > length:
            os.close(self._way.pop()[1])

    def close(self) -> None:
        self._back(0)


class LayerArchive:
    """The archive of one layer, from its list of parts and the folder with its files."""

    def __init__(self, split: str, folder: str) -> None:
        self._split, self._folder = split, folder

    def measure(self) -> int:
        """Bytes of the archive. Every file is looked at, so that what is amiss shows before the first byte."""
        total = 0
        with self._guard() as tree:
            for part in parts(self._split):
                if isinstance(part, bytes):
                    total += len(part) // 4 * 3 - part[-2:].count(b"=")
                else:
                    tree.check(*part)
                    total += part[1]
        return total

    def pieces(self) -> Iterator[bytes]:
        """The archive in pieces of at most CHUNK bytes."""
        waiting = bytearray()
        with self._guard() as tree:
            for part in parts(self._split):
                if isinstance(part, bytes):
                    waiting += binascii.a2b_base64(part)
                    while len(waiting) >= CHUNK:
                        yield bytes(waiting[:CHUNK])
                        del waiting[:CHUNK]
                    continue
                name, left = part
                number = tree.open(name, left)
                try:
                    while left:
                        data = os.read(number, min(left, CHUNK - len(waiting)))
                        if not data:
                            raise Unsuited(f"the file {os.fsdecode(name)!r} became shorter")
                        left -= len(data)
                        if waiting or len(data) < CHUNK:
                            waiting += data
                            if len(waiting) < CHUNK:
                                continue
                            data = bytes(waiting)
                            waiting.clear()
                        yield data
                finally:
                    os.close(number)
        if waiting:
            yield bytes(waiting)

    @contextlib.contextmanager
    def _guard(self) -> Iterator[_Tree]:
        """All that can be wrong with what docker keeps is one kind of error."""
        tree: _Tree | None = None
        try:
            tree = _Tree(self._folder)
            yield tree
        except (OSError, EOFError, zlib.error, ArithmeticError, LookupError, TypeError, *_MORE) as error:
            where = os.path.dirname(self._split)
            raise Unsuited(f"the layer at {where} cannot be read: {type(error).__name__}: {error}") from error
        finally:
            if tree:
                tree.close()
