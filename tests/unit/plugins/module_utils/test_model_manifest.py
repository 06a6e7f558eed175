# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
from __future__ import annotations

import hashlib
import json
import os
import pathlib
import time

import pytest

from ansible_collections.gb10.serving.plugins.module_utils import _model_manifest
from ansible_collections.gb10.serving.plugins.module_utils._model_directory import list_files
from ansible_collections.gb10.serving.tests.unit.plugins.module_utils.model_places import make_model

FILES = {"config.json": b"{}", "sub/a.bin": b"a" * 3_000_000}
SUMS = {name: hashlib.sha256(data).hexdigest() for name, data in FILES.items()}
SIZES = {name: len(data) for name, data in FILES.items()}


def known(root: pathlib.Path) -> dict[str, str]:
    sums = _model_manifest.Sums(str(root), SIZES)
    sums.look()
    return sums.known()


@pytest.mark.parametrize(
    ("layout", "expected", "commit"),
    [("plain", {}, None), ("downloaded", SUMS, "c" * 40), ("cache", SUMS, "c" * 40), ("shared", SUMS, "c" * 40)],
)
def test_layouts(tmp_path: pathlib.Path, layout: str, expected: dict[str, str], commit: str | None) -> None:
    root = make_model(tmp_path, FILES, layout)
    assert known(root) == expected
    assert _model_manifest.revision(str(root), SIZES) == commit


@pytest.mark.parametrize(
    ("note", "trusted"),
    [
        ("{commit}\n{sum}\n{later}\n", True),
        ('{commit}\n"{sum}"\n{later}\n', True),
        ("{commit}\n{sum}\n{earlier}\n", False),  # the file was changed after the download
        ("{commit}\n" + "a" * 40 + "\n{later}\n", False),  # git's own name of a small file
        ("{commit}\n{sum}\n", False),
        ("", False),
    ],
)
def test_notes_of_a_download(tmp_path: pathlib.Path, note: str, trusted: bool) -> None:
    root = make_model(tmp_path, FILES, "downloaded")
    now = time.time()
    text = note.format(commit="c" * 40, sum=SUMS["config.json"], later=now + 9, earlier=now - 900)
    (root / ".cache/huggingface/download/config.json.metadata").write_text(text)
    assert ("config.json" in known(root)) is trusted


def test_a_link_to_a_file_that_is_not_named_by_its_sum_says_nothing(tmp_path: pathlib.Path) -> None:
    root = make_model(tmp_path, FILES, "cache")
    (root / "config.json").unlink()
    (tmp_path / ("f" * 64)).write_bytes(b"{}")
    (root / "config.json").symlink_to(tmp_path / ("f" * 64))  # not in a blob store
    assert set(known(root)) == {"sub/a.bin"}


def test_what_was_read_is_noted_hidden_and_used_while_the_file_is_the_same(tmp_path: pathlib.Path) -> None:
    root = make_model(tmp_path, FILES, "plain")
    before = list_files(str(root))
    sums = _model_manifest.Sums(str(root), SIZES)
    sums.look()
    sums.want(SIZES)
    deadline = time.monotonic() + 10
    while known(root) != SUMS:  # each thread that finds nothing more to do writes down what is known by then
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert (sums.known(), sums.read_bytes) == (SUMS, sum(SIZES.values()))
    assert known(root) == SUMS
    assert list_files(str(root)) == before
    os.utime(root / "sub/a.bin", ns=(1, 1))
    assert set(known(root)) == {"config.json"}
    assert _model_manifest.wanted_sums(str(root), SIZES) == SUMS  # what it should be, whatever it is now


@pytest.mark.parametrize("text", ["", "[]", '{"files": []}', '{"files": {"a": {"sha256": "no"}}}'])
def test_a_damaged_note_is_no_note(tmp_path: pathlib.Path, text: str) -> None:
    (tmp_path / _model_manifest.STORE).write_text(text)
    assert _model_manifest.read_store(str(tmp_path)) == {}


def test_a_folder_that_may_not_be_written_stays_as_it_is(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_path: str, _value: object) -> None:
        raise PermissionError(13, "Permission denied")

    (tmp_path / "a").write_text("x")
    monkeypatch.setattr(_model_manifest, "write_json", refuse)
    _model_manifest.write_store(str(tmp_path), {"a": "0" * 64})
    assert os.listdir(tmp_path) == ["a"]


def test_the_note_holds_size_and_time(tmp_path: pathlib.Path) -> None:
    (tmp_path / "a").write_text("xyz")
    _model_manifest.write_store(str(tmp_path), {"a": "0" * 64, "gone": "1" * 64})
    entry = json.loads((tmp_path / _model_manifest.STORE).read_text())["files"]
    assert entry == {"a": {"size": 3, "mtime_ns": (tmp_path / "a").stat().st_mtime_ns, "sha256": "0" * 64}}


@pytest.mark.parametrize("text", ["[" * 200_000, "[1]", '{"files": {"config.json": {"sha256": 5}}}', '{"files": []}'])
def test_a_damaged_store_says_nothing(tmp_path: pathlib.Path, text: str) -> None:
    root = make_model(tmp_path, FILES, "plain")
    (root / _model_manifest.STORE).write_text(text)
    assert known(root) == {}
    assert _model_manifest.wanted_sums(str(root), SIZES) == {}


def test_small_files_are_read_and_weights_never(tmp_path: pathlib.Path) -> None:
    files = {**FILES, "w.safetensors": b"w" * 100}
    root = make_model(tmp_path, files, "plain")
    sizes = {name: len(data) for name, data in files.items()}
    assert _model_manifest.present_sums(str(root), sizes) == SUMS
    assert _model_manifest.present_sums(str(root), {**sizes, "config.json": 7}) == {"sub/a.bin": SUMS["sub/a.bin"]}
    stat = (root / "config.json").stat()
    (root / "config.json").write_bytes(b"[]")
    os.utime(root / "config.json", ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert _model_manifest.present_sums(str(root), sizes)["config.json"] == hashlib.sha256(b"[]").hexdigest()
