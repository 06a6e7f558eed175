# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors

from __future__ import annotations

import json
import struct
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
]


@pytest.mark.parametrize(("content", "words"), [row[1:] for row in BROKEN], ids=[row[0] for row in BROKEN])
def test_a_broken_file_is_named_with_its_fault(tmp_path: Path, content: bytes, words: str) -> None:
    (problem,) = problems(tmp_path, content)
    assert words in problem
    assert problem.startswith("x.safetensors ")
    assert problem.endswith(".")


def test_a_file_that_cannot_be_opened(tmp_path: Path) -> None:
    (tmp_path / "x.safetensors").mkdir()
    (problem,) = read_shard(str(tmp_path), "x.safetensors").problems
    assert "cannot be read" in problem
