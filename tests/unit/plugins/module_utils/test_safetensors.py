# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors

from __future__ import annotations

import json
import struct
import time
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gb10.serving.plugins.module_utils._safetensors import HEADER_LIMIT, read_shard

GOOD: dict[str, Any] = {
    "__metadata__": {"format": "pt"},
    "a": {"dtype": "BF16", "shape": [2, 3], "data_offsets": [0, 12]},
    "b": {"dtype": "F8_E4M3", "shape": [4], "data_offsets": [12, 16]},
    "empty": {"dtype": "F32", "shape": [0, 8], "data_offsets": [16, 16]},
}


def encode(header: Any, data: int) -> bytes:
    raw = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(raw)) + raw + bytes(data)


def problems(tmp_path: Path, content: bytes) -> list[str]:
    (tmp_path / "x.safetensors").write_bytes(content)
    return read_shard(str(tmp_path), "x.safetensors").problems


def test_a_whole_file(tmp_path: Path) -> None:
    (tmp_path / "x.safetensors").write_bytes(encode(GOOD, 16))
    shard = read_shard(str(tmp_path), "x.safetensors")
    assert shard.problems == []
    assert shard.tensors == {"a": ("BF16", 12), "b": ("F8_E4M3", 4), "empty": ("F32", 0)}
    assert len(shard.header_sha256) == 64


def test_the_data_is_not_read(tmp_path: Path) -> None:
    """Two files of equal header differ in their data only: the headers' hashes are equal."""
    first, second = encode(GOOD, 16), encode(GOOD, 0) + b"x" * 16
    hashes = set()
    for content in (first, second):
        (tmp_path / "x.safetensors").write_bytes(content)
        hashes.add(read_shard(str(tmp_path), "x.safetensors").header_sha256)
    assert len(hashes) == 1


def with_a(**changes: Any) -> dict[str, Any]:
    return {**GOOD, "a": {**GOOD["a"], **changes}}


BROKEN: list[tuple[str, bytes, str]] = [
    ("empty", b"", "0 bytes long, too short"),
    ("short", encode(GOOD, 9), "is truncated: "),
    ("header cut", encode(GOOD, 16)[:50], "truncated inside its header"),
    ("long", encode(GOOD, 17), "is too long"),
    ("no JSON", encode(b"{nope", 0), "not valid JSON"),
    ("no object", encode([1], 0), "not valid JSON"),
    ("deep", encode(b"[" * 200_000, 0), "not valid JSON"),
    ("giant", struct.pack("<Q", HEADER_LIMIT + 1) + bytes(8), "not a safetensors file"),
    ("pointer", b"version https://git-lfs.github.com/spec/v1\n", "git lfs pull"),
    ("overlap", encode({"a": GOOD["a"], "b": {**GOOD["b"], "data_offsets": [8, 12]}}, 12), "overlapping tensors: b"),
    ("hole", encode({"a": GOOD["a"], "b": {**GOOD["b"], "data_offsets": [20, 24]}}, 24), "hole of 8 bytes"),
    ("shape", encode(with_a(shape=[2, 4]), 16), "do not match its shape [2, 4] of BF16"),
    ("backwards", encode(with_a(data_offsets=[12, 0]), 16), "do not match"),
    ("negative", encode(with_a(data_offsets=[-12, 0]), 16), "describes tensor a wrongly"),
    ("no dtype", encode({**GOOD, "a": {"shape": [1]}}, 16), "describes tensor a wrongly"),
    ("shape of text", encode(with_a(shape=["2"]), 16), "describes tensor a wrongly"),
    ("a number", encode({**GOOD, "a": 3}, 16), "describes tensor a wrongly"),
    ("float in shape", encode(with_a(shape=[2.0, 3]), 16), "describes tensor a wrongly"),
    ("bool in shape", encode({**GOOD, "b": {**GOOD["b"], "shape": [True, 4]}}, 16), "describes tensor b wrongly"),
    ("unknown dtype", encode(with_a(dtype="ZZ9"), 16), "the dtype 'ZZ9'; known are BOOL, "),
    ("no name of a dtype", encode(with_a(dtype=""), 16), "the dtype ''; known are BOOL, "),
    ("large size", encode(with_a(shape=[2**63, 0]), 16), "is above 2**63"),
    ("large offset", encode(with_a(data_offsets=[0, 2**64]), 16), "is above 2**63"),
    ("many dimensions", encode(with_a(shape=[1] * 65), 16), "more than 64 dimensions"),
    ("not UTF-8", encode(b'{"\xff": 1}', 0), "not valid JSON"),
    ("UTF-16", encode(json.dumps(GOOD).encode("utf-16"), 16), "not valid JSON"),
    ("half a character", encode({"\ud800": GOOD["a"]}, 12), "not valid JSON"),
    ("too many digits", encode(b'{"a": {"dtype": "U8", "shape": [' + b"9" * 5000 + b"]}}", 0), "not valid JSON"),
]


@pytest.mark.parametrize(("content", "words"), [row[1:] for row in BROKEN], ids=[row[0] for row in BROKEN])
def test_a_broken_file_is_named_with_its_fault(tmp_path: Path, content: bytes, words: str) -> None:
    (problem,) = problems(tmp_path, content)
    assert words in problem
    assert problem.startswith("x.safetensors ")
    assert problem.endswith(".")


@pytest.mark.parametrize(("dtype", "shape", "size"), [("F4", [2, 8], 8), ("F6_E2M3", [4], 3), ("F8_E8M0", [5], 5)])
def test_small_numbers_are_known(tmp_path: Path, dtype: str, shape: list[int], size: int) -> None:
    entry = {"dtype": dtype, "shape": shape, "data_offsets": [0, size]}
    assert problems(tmp_path, encode({"a": entry}, size)) == []
    (problem,) = problems(tmp_path, encode({"a": {**entry, "data_offsets": [0, size + 1]}}, size + 1))
    assert "do not match its shape" in problem


def test_huge_numbers_are_refused_before_they_are_multiplied(tmp_path: Path) -> None:
    """Thousands of numbers of thousands of digits: their product alone would take minutes."""
    entry = f'{{"dtype": "U8", "shape": [{",".join(["9" * 4001] * 2000)}], "data_offsets": [0, 1]}}'
    started = time.monotonic()
    (problem,) = problems(tmp_path, encode(f'{{"a": {entry}}}'.encode(), 1))
    assert "is above 2**63" in problem
    assert len(problem) < 400
    assert time.monotonic() - started < 5


def test_a_file_that_cannot_be_opened(tmp_path: Path) -> None:
    (tmp_path / "x.safetensors").mkdir()
    (problem,) = read_shard(str(tmp_path), "x.safetensors").problems
    assert "cannot be read" in problem
