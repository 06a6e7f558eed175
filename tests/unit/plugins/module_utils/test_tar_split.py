# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
from __future__ import annotations

import gzip
import os
import pathlib
import random
import tarfile
from collections.abc import Callable
from typing import Any

import pytest

from ansible_collections.gb10.serving.plugins.module_utils._tar_split import LayerArchive, Unsuited
from ansible_collections.gb10.serving.plugins.module_utils._wire import CHUNK
from ansible_collections.gb10.serving.tests.unit.plugins.module_utils.docker_store import split, tar, write_split

RANDOM = random.Random(3)
ODD: list[dict[str, Any]] = [
    {"name": "etc", "type": tarfile.DIRTYPE, "mode": 0o755},
    {"name": "etc/one", "data": b"1", "mode": 0o4755, "uid": 1000, "uname": "me"},
    {"name": "etc/empty"},
    {"name": "etc/block", "data": RANDOM.randbytes(512)},
    {"name": "etc/deep/er/file", "data": RANDOM.randbytes(513)},
    {"name": "etc/deep/file", "data": b"back up one"},
    {"name": "etc/hard", "type": tarfile.LNKTYPE, "linkname": "etc/one"},
    {"name": "etc/link", "type": tarfile.SYMTYPE, "linkname": "/etc/passwd"},
    {"name": "etc/null", "type": tarfile.CHRTYPE, "devmajor": 1, "devminor": 3},
    {"name": "etc/.wh.gone"},
    {"name": "etc/.wh..wh..opq"},
    {"name": "etc/three", "data": RANDOM.randbytes(3 * CHUNK)},
    {"name": "etc/zeros", "data": bytes(CHUNK + 1)},
    {"name": "ünï-日本 <&>\u2028", "data": b"name"},
]
LONG: list[dict[str, Any]] = [
    {"name": "l" * 120 + "/" + "m" * 120, "data": b"long"},
    {"name": os.fsdecode(b"\xff\xfe/\xe4"), "data": b"raw"},
]
CAPABLE: dict[str, Any] = {"name": "cap", "data": b"x", "pax_headers": {"SCHILY.xattr.security.capability": "\x01\x02"}}


def archive(layer: bytes, tmp_path: pathlib.Path, change: Callable[[list[dict[str, Any]]], Any] = id) -> LayerArchive:
    entries = split(layer, tmp_path / "diff")
    change(entries)
    write_split(tmp_path / "split.gz", entries)
    return LayerArchive(str(tmp_path / "split.gz"), str(tmp_path / "diff"))


@pytest.mark.parametrize(
    "layer",
    [
        tar(*ODD, form=tarfile.USTAR_FORMAT),
        tar(*ODD, *LONG, form=tarfile.GNU_FORMAT),
        tar(*ODD, LONG[0], CAPABLE, form=tarfile.PAX_FORMAT),
        tar(),
        bytes(1024),
        tar({"name": "a", "data": b"a"}, padding=2 * CHUNK + 7),
        tar({"name": "a", "data": b"a" * 512})[:1024],
        tar(*({"name": f"many/{n}", "data": RANDOM.randbytes(n)} for n in range(2000))),
    ],
    ids=["ustar", "gnu", "pax", "none", "zeros", "padded", "no-end", "many"],
)
def test_the_archive_comes_out_byte_by_byte(layer: bytes, tmp_path: pathlib.Path) -> None:
    made = archive(layer, tmp_path)
    pieces = list(made.pieces())
    assert b"".join(pieces) == layer
    assert made.measure() == len(layer)
    assert max(map(len, pieces)) <= CHUNK


def test_other_spellings_of_the_same_entries_are_read(tmp_path: pathlib.Path) -> None:
    def respell(entries: list[dict[str, Any]]) -> None:
        for entry in entries:
            entry.update({"position": entry.pop("position"), "new": 1})  # docker's lines end with the position
            if entry.get("name"):
                entry["name"] = "./" + entry["name"].replace("/", "//")

    layer = tar(*ODD)
    assert b"".join(archive(layer, tmp_path, respell).pieces()) == layer


def test_a_file_that_docker_wrote_nothing_of_is_not_opened(tmp_path: pathlib.Path) -> None:
    made = archive(tar({"name": "a"}, {"name": "../b"}), tmp_path)
    assert made.measure() == tarfile.RECORDSIZE


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


PLAIN = tar({"name": "d/file", "data": b"content"})


def _link(diff: pathlib.Path) -> None:
    (diff / "d/file").rename(diff / "other")
    (diff / "d/file").symlink_to("../other")


def _folder_link(diff: pathlib.Path) -> None:
    (diff / "d").rename(diff.parent / "outside")
    (diff / "d").symlink_to("../outside")


def _fifo(diff: pathlib.Path) -> None:
    (diff / "d/file").unlink()
    os.mkfifo(diff / "d/file")


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (lambda diff: (diff / "d/file").unlink(), "No such file"),
        (lambda diff: (diff / "d/file").write_bytes(b"short"), "5 bytes, the layer had 7"),
        (lambda diff: (diff / "d/file").write_bytes(b"too long"), "8 bytes, the layer had 7"),
        (_link, "'d/file'|symbolic links"),
        (_folder_link, "Not a directory|symbolic links"),
        (_fifo, "'d/file'"),
        (lambda diff: (diff.parent / "split.gz").unlink(), "No such file"),
        (lambda diff: (diff.parent / "split.gz").write_bytes(b"no gzip"), "BadGzipFile"),
        (lambda diff: os.truncate(diff.parent / "split.gz", 60), "EOFError"),
        (lambda diff: (diff.parent / "split.gz").write_bytes(gzip.compress(b"{}\n")), "KeyError"),
        (lambda diff: (diff.parent / "split.gz").write_bytes(gzip.compress(b"[1]\n")), "TypeError"),
        (lambda diff: (diff.parent / "split.gz").write_bytes(gzip.compress(b"\xff\n")), "UnicodeDecodeError"),
        (lambda diff: diff.rename(diff.parent / "gone"), "No such file"),
    ],
)
def test_what_is_not_as_it_was_is_said(harm: Callable[[pathlib.Path], Any], said: str, tmp_path: pathlib.Path) -> None:
    made = archive(PLAIN, tmp_path)
    harm(tmp_path / "diff")
    before = open_files()
    for work in (made.measure, lambda: list(made.pieces())):
        with pytest.raises(Unsuited, match=said):
            work()
    assert open_files() == before


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda entries: entries[1].update(type=3), "unknown type 3"),
        (lambda entries: entries.pop(1), "entry 2 at place 1"),
        (lambda entries: entries.insert(1, entries[1]), "entry 1 at place 2"),
        (lambda entries: entries[1].update(name="../file"), "'..'"),
        (lambda entries: entries[1].update(name="d/.."), r"'d/\.\.'"),
        (lambda entries: entries[1].update(size="much"), "ValueError"),
        (lambda entries: entries[1].pop("name"), "KeyError"),
        (lambda entries: entries[1].update(name="\0"), "embedded null"),
        (lambda entries: entries[1].update(size=float("inf")), "OverflowError"),
        (lambda entries: entries[1].update(size=-5), "the layer had -5"),
        (lambda entries: entries[1].update(size=[1]), "TypeError"),
    ],
)
def test_an_unknown_list_of_parts_is_said(
    change: Callable[[list[dict[str, Any]]], Any], said: str, tmp_path: pathlib.Path
) -> None:
    made, before = archive(PLAIN, tmp_path, change), open_files()
    for work in (made.measure, lambda: list(made.pieces())):
        with pytest.raises(Unsuited, match=said):
            work()
    assert open_files() == before


def test_a_list_of_parts_that_is_nested_without_end_is_said(tmp_path: pathlib.Path) -> None:
    made = archive(PLAIN, tmp_path)
    with gzip.open(tmp_path / "split.gz", "wb") as stream:
        stream.write(b"[" * 100_000 + b"\n")
    for work in (made.measure, lambda: list(made.pieces())):
        with pytest.raises(Unsuited, match="RecursionError"):
            work()
