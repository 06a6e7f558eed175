# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 gb10.serving contributors
#
# Private to this collection: may change without notice.
"""Read the headers of safetensors files, and only the headers.

A file is 8 bytes with the length of the header (little endian), the header as JSON, then the tensors without a gap.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import struct
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from math import prod

_TYPES = (int, int, list, str)  # of begin, end, shape, dtype
_WHOLE = frozenset((int,))
HEADER_LIMIT = 100_000_000  # bytes; the reference implementation refuses longer ones too
LARGEST = 2**63 - 1  # of a size or an offset; file systems and engines count no further
MOST_DIMENSIONS = 64  # of a tensor, as in torch
# Without the interpreter's own limit, reading a number takes the square of its digits.
_LONG = None if hasattr(sys, "get_int_max_str_digits") else re.compile(rb"\d{4301}")

# Bits of one element, by the names that the format uses.
DTYPE_BITS = {
    "BOOL": 8,
    "U8": 8,
    "I8": 8,
    "F8_E5M2": 8,
    "F8_E4M3": 8,
    "F8_E8M0": 8,
    "F8_E4M3FNUZ": 8,
    "F8_E5M2FNUZ": 8,
    "F4": 4,
    "F6_E2M3": 6,
    "F6_E3M2": 6,
    "I16": 16,
    "U16": 16,
    "F16": 16,
    "BF16": 16,
    "I32": 32,
    "U32": 32,
    "F32": 32,
    "I64": 64,
    "U64": 64,
    "F64": 64,
    "C64": 64,
}


@dataclass
class Shard:
    """What one file holds: name -> (dtype, bytes), and everything that is wrong with it."""

    name: str
    size: int
    tensors: dict[str, tuple[str, int]] = field(default_factory=dict)
    header_sha256: str = ""
    problems: list[str] = field(default_factory=list)


def read_shard(directory: str, name: str) -> Shard:
    """Read the header of one file. Never raises for a bad file: the problems say what is wrong and what to do."""
    path = os.path.join(directory, name)
    try:
        with open(path, "rb") as stream:
            size = os.fstat(stream.fileno()).st_size

            def read(offset: int, length: int) -> bytes:
                stream.seek(offset)
                return stream.read(length)

            return read_header(name, size, read)
    except OSError as exc:
        problem = f"{name} cannot be read: {exc.strerror or exc}. Check its owner and permissions."
        return Shard(name, 0, problems=[problem])


def read_header(name: str, size: int, read: Callable[[int, int], bytes]) -> Shard:
    """Read a header through a function of offset and length, wherever the file is.

    Args:
        name: of the file, for messages.
        size: of the file in bytes.
        read: returns the bytes there are, fewer than asked for at the end of the file. What it raises is not caught.
    """
    shard = Shard(name, size)
    head = read(0, 8)
    if len(head) < 8:
        shard.problems.append(f"{name} is {size} bytes long, too short for a safetensors file. Fetch this file again.")
        return shard
    (length,) = struct.unpack("<Q", head)
    if length > HEADER_LIMIT:
        shard.problems.append(
            f"{name} is not a safetensors file: its first 8 bytes announce a header of {length} bytes, "
            f"at most {HEADER_LIMIT} are accepted. Fetch this file again"
            + (" (it is a Git LFS pointer: run `git lfs pull`)." if head.startswith(b"version ") else ".")
        )
        return shard
    raw = read(8, length)
    if len(raw) < length:
        shard.problems.append(
            f"{name} is truncated inside its header: {size} bytes are there, the header alone needs "
            f"{8 + length}. Fetch this file again."
        )
        return shard
    shard.header_sha256 = hashlib.sha256(raw).hexdigest()
    try:
        if _LONG is not None and _LONG.search(raw):
            raise ValueError("a number in it has more than 4300 digits")
        header = json.loads(str(raw, "utf-8"))
        if not isinstance(header, dict):
            raise ValueError("the header is not a JSON object")
        "".join(header).encode()
    except (ValueError, RecursionError) as exc:
        shard.problems.append(f"{name} has a header that is not valid JSON ({exc}). Fetch this file again.")
        return shard
    _check(shard, header, 8 + length)
    return shard


def _check(shard: Shard, header: dict[str, object], data_start: int) -> None:
    spans: list[tuple[int, int, str]] = []
    for tensor, entry in header.items():
        if tensor == "__metadata__":
            continue
        try:
            dtype = entry["dtype"]  # type: ignore[index]
            shape = entry["shape"]  # type: ignore[index]
            begin, end = entry["data_offsets"]  # type: ignore[index]
            # Exact types in one comparison: a model has 100,000 tensors, and a bool is an int for isinstance().
            if (type(begin), type(end), type(shape), type(dtype)) != _TYPES or not _WHOLE.issuperset(map(type, shape)):
                raise ValueError("a value has the wrong type")
            if begin < 0 or (shape and min(shape) < 0):
                raise ValueError("a value is negative")
            if end > LARGEST or begin > LARGEST or len(shape) > MOST_DIMENSIONS or (shape and max(shape) > LARGEST):
                raise ValueError(f"a number is above 2**63 or the shape has more than {MOST_DIMENSIONS} dimensions")
            elements = prod(shape)
        except (KeyError, TypeError, ValueError) as exc:
            shard.problems.append(
                f"{shard.name} describes tensor {tensor} wrongly ({type(exc).__name__}: {exc}); expected dtype, shape "
                "and data_offsets. Fetch this file again."
            )
            continue
        bits = DTYPE_BITS.get(dtype)
        if bits is None:
            shard.problems.append(
                f"{shard.name} gives tensor {tensor} the dtype {dtype[:40]!r}; known are {', '.join(DTYPE_BITS)}. "
                "Fetch this file again, or convert the model to one of these."
            )
            continue
        if end < begin or elements * bits != (end - begin) * 8:
            shard.problems.append(
                f"{shard.name} gives tensor {tensor} the bytes {begin} to {end}, which do not match its shape "
                f"{str(shape)[:200]} of {dtype}. Fetch this file again."
            )
            continue
        shard.tensors[tensor] = (dtype, end - begin)
        spans.append((begin, end, tensor))
    if shard.problems:
        return
    position, previous = 0, "the header"
    for begin, end, tensor in sorted(spans):
        if begin < position:
            shard.problems.append(
                f"{shard.name} has overlapping tensors: {tensor} starts at byte {begin}, but {previous} ends at "
                f"{position}. The file was written wrongly: fetch it again or convert the model again."
            )
            return
        if begin > position:
            shard.problems.append(
                f"{shard.name} has a hole of {begin - position} bytes before tensor {tensor}. The file was written "
                "wrongly: fetch it again or convert the model again."
            )
            return
        position, previous = end, tensor
    expected = data_start + position
    if shard.size < expected:
        shard.problems.append(
            f"{shard.name} is truncated: {shard.size} bytes are there, its header says {expected}. "
            "The copy or download was interrupted: fetch this file again."
        )
    elif shard.size > expected:
        shard.problems.append(
            f"{shard.name} is too long: {shard.size} bytes are there, its header says {expected}. "
            "Fetch this file again."
        )
