# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 gb10.serving contributors
# Private to gb10.serving: leaves members out of a tar stream. Pure, in bounded memory.
"""A filter for the stream of ``docker save``: what is kept passes byte by byte as it came."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

BLOCK = 512
#: Members that only describe the next one: long names of GNU and PAX headers.
_PREFIXES = frozenset(b"xLK")
#: More than this before a member's own header is no archive of images.
_MOST_PREFIX = 1 << 20
#: Members up to this size are handed to the one who decides, with their content.
SMALL = 1 << 18


class TarError(ValueError):
    """The stream is no tar archive."""


@dataclass(frozen=True)
class Member:
    name: str
    size: int
    kind: str


#: Says whether a member is left out, before its content came.
Drop = Callable[[Member], bool]
#: Gets the content of small members that are kept.
Note = Callable[[str, bytes], None]


def _number(field: bytes) -> int:
    if field[0] & 0x80:  # base 256, for sizes from 8 GiB on
        return int.from_bytes(bytes([field[0] & 0x7F]) + field[1:], "big")
    text = field.split(b"\0", 1)[0].strip()
    if text.strip(b"01234567"):
        raise TarError(f"a tar header has the number {field!r}")
    return int(text, 8) if text else 0


def _header_numbers(block: bytes) -> tuple[int, int]:
    """Size and type of the member."""
    if _number(block[148:156]) != sum(block[:148]) + 8 * 32 + sum(block[156:]):
        raise TarError("a tar header has a wrong checksum")
    return _number(block[124:136]), block[156]


def _text(field: bytes) -> str:
    return field.split(b"\0", 1)[0].decode("utf-8", "replace")


def _pax(data: bytes) -> dict[str, str]:
    found: dict[str, str] = {}
    while data:
        digits, _space, _rest = data.partition(b" ")
        length = int(digits) if digits.isdigit() and len(digits) < 10 else 0
        if not len(digits) + 2 < length <= len(data):
            raise TarError("a PAX header is damaged")
        record, data = data[len(digits) + 1 : length - 1], data[length:]
        key, _sep, value = record.decode("utf-8", "replace").partition("=")
        found[key] = value
    return found


class TarFilter:
    """feed() gives back what passes of each piece. Headers of a member wait until it is decided."""

    def __init__(self, drop: Drop, note: Note = lambda _name, _content: None) -> None:
        self._drop, self._note = drop, note
        self._waiting = bytearray()  # headers that wait for the decision, whole blocks only
        self._block = bytearray()  # an unfinished block of headers
        self._long: dict[str, str] = {}  # what prefix members said of the next one
        self._prefix = (0, 0)  # type and size of the prefix member whose content comes
        self._prefix_begin = self._prefix_left = 0  # where its content stands in _waiting, blocks still to come
        self._left = self._pad = 0  # content and padding still to come of the current member
        self._keep = True
        self._small: tuple[str, bytearray] | None = None
        self._ended = False
        self.dropped: dict[str, int] = {}

    def feed(self, data: bytes | memoryview) -> Iterator[memoryview | bytes]:
        view = memoryview(data)
        at = 0
        while at < len(view):
            if self._ended:
                yield view[at:]
                return
            if self._left + self._pad:
                part = view[at : at + self._left + self._pad]
                at += len(part)
                self._content(part)
                if self._keep:
                    yield part
                continue
            part = view[at : at + BLOCK - len(self._block)]
            at += len(part)
            self._block += part
            if len(self._block) == BLOCK:
                block, self._block = bytes(self._block), bytearray()
                yield from self._header(block)

    def finish(self) -> None:
        """After the last piece: an archive that stops in the middle is an error."""
        if not self._ended:
            raise TarError("the archive stops before its end")

    def _content(self, part: memoryview) -> None:
        mine = min(len(part), self._left)
        if self._small:
            self._small[1].extend(part[:mine])
        self._left -= mine
        self._pad -= len(part) - mine
        if self._small and not self._left:
            name, content = self._small
            self._small = None
            self._note(name, bytes(content))

    def _header(self, block: bytes) -> Iterator[bytes]:
        if self._prefix_left:
            self._waiting += block
            self._prefix_left -= 1
            if not self._prefix_left:
                self._learn(bytes(self._waiting[self._prefix_begin :]))
            return
        if not any(block):
            self._ended = True  # two of them end an archive; the rest passes as it is
            yield bytes(self._waiting) + block
            self._waiting.clear()
            return
        size, kind = _header_numbers(block)
        self._waiting += block
        if kind in _PREFIXES:
            if len(self._waiting) + size > _MOST_PREFIX:
                raise TarError(f"a header of {size} bytes stands before a member")
            self._prefix, self._prefix_begin, self._prefix_left = (kind, size), len(self._waiting), -(-size // BLOCK)
            return
        yield from self._member(block, size, chr(kind or 48))

    def _learn(self, content: bytes) -> None:
        kind, size = self._prefix
        content = content[:size]
        if kind == ord("x"):
            found = _pax(content)
            self._long.update({key: found[key] for key in ("path", "size") if key in found})
        elif kind == ord("L"):
            self._long["path"] = _text(content)

    def _size(self, size: int) -> int:
        told = self._long.get("size")
        if told is not None:
            if not (told.isascii() and told.isdigit()) or len(told) > 19:
                raise TarError(f"a PAX header has the size {told[:40]!r}")
            size = int(told)
        if size >> 62:
            raise TarError(f"a member claims to have {size} bytes")
        return size

    def _member(self, block: bytes, size: int, kind: str) -> Iterator[bytes]:
        prefix = _text(block[345:500]) if block[257:263] == b"ustar\0" else ""
        name = self._long.get("path") or (prefix + "/" if prefix else "") + _text(block[:100])
        size = self._size(size)
        if kind not in "07S":  # folders and links carry no content; anything else is passed with what it claims
            size = 0 if kind in "123456" else size
        member = Member(name.removeprefix("./"), size, kind)
        self._keep = not self._drop(member)
        self._left, self._pad = size, -size % BLOCK
        if self._keep:
            if kind == "0" and 0 < size <= SMALL:
                self._small = (member.name, bytearray())
            yield bytes(self._waiting)
        else:
            self.dropped[member.name] = size
        self._waiting.clear()
        self._long = {}
