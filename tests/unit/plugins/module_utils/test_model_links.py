# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
from __future__ import annotations

from pathlib import Path

from ansible_collections.gb10.serving.plugins.module_utils._model_links import directories_beside


def entry(tmp_path: Path) -> Path:
    """A cache entry: a snapshot whose files are links into blobs."""
    snapshot = tmp_path / "models--a--b" / "snapshots" / "c0ffee"
    (snapshot / "sub").mkdir(parents=True)
    blobs = tmp_path / "models--a--b" / "blobs"
    blobs.mkdir()
    (blobs / "1").write_text("x")
    (snapshot / "config.json").symlink_to("../../blobs/1")
    (snapshot / "sub" / "more.json").symlink_to("../../../blobs/1")
    return snapshot


def test_plain_files_need_nothing(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    assert directories_beside(str(tmp_path), ["config.json", "gone.json"], "/model") == {}


def test_snapshot_needs_its_blobs_where_the_links_look(tmp_path: Path) -> None:
    found = directories_beside(str(entry(tmp_path)), ["config.json", "sub/more.json"], "/model")
    assert found == {"/blobs": str(tmp_path / "models--a--b" / "blobs")}


def test_blobs_that_are_links_into_a_shared_store(tmp_path: Path) -> None:
    snapshot = entry(tmp_path)
    store = tmp_path / "store"
    store.mkdir()
    (store / "1").write_text("x")
    blob = tmp_path / "models--a--b" / "blobs" / "1"
    blob.unlink()
    blob.symlink_to("../../store/1")
    found = directories_beside(str(snapshot), ["config.json"], "/model")
    assert found == {"/blobs": str(blob.parent), "/store": str(store)}


def test_absolute_link(tmp_path: Path) -> None:
    (tmp_path / "m").mkdir()
    (tmp_path / "weights").write_text("x")
    (tmp_path / "m" / "w").symlink_to(tmp_path / "weights")
    assert directories_beside(str(tmp_path / "m"), ["w"], "/model") == {str(tmp_path): str(tmp_path)}


def test_link_within_the_directory_and_a_loop(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    (tmp_path / "b").symlink_to("a")
    (tmp_path / "c").symlink_to("c")
    assert directories_beside(str(tmp_path), ["b", "c"], "/model") == {}


def test_model_directory_that_is_a_link_into_the_cache(tmp_path: Path) -> None:
    (tmp_path / "model").symlink_to(entry(tmp_path))
    found = directories_beside(str(tmp_path / "model"), ["config.json"], "/model")
    assert found == {"/blobs": str(tmp_path / "models--a--b" / "blobs")}


def test_file_right_beside_the_directory_is_mounted_alone(tmp_path: Path) -> None:
    (tmp_path / "m").mkdir()
    (tmp_path / "w").write_text("x")
    (tmp_path / "m" / "w").symlink_to("../w")
    assert directories_beside(str(tmp_path / "m"), ["w"], "/model") == {"/w": str(tmp_path / "w")}
