# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""What stands in the way of a copy: links, folders and files of others, other file systems, damaged notes."""

from __future__ import annotations

import json
import os
import pathlib
from collections.abc import Iterator
from typing import Any

import pytest

from ansible_collections.gb10.serving.plugins.module_utils import (
    _disk,
    _model_inside,
    _model_journal,
    _model_stage,
    _model_state,
    _sync,
)
from ansible_collections.gb10.serving.plugins.module_utils._job import JobError, write_json
from ansible_collections.gb10.serving.tests.unit.plugins.module_utils.model_places import Place, tree


@pytest.fixture
def place(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    monkeypatch.setattr(_disk, "GIB", 0)
    monkeypatch.setattr(_disk, "head_room", lambda _size: 0)
    found = Place(tmp_path)
    yield found
    found.end()


def victim(place: Place) -> pathlib.Path:
    folder = place.base / "victim"
    folder.mkdir()
    (folder / "precious").write_text("x" * 70)
    return folder


def staging(place: Place) -> pathlib.Path:
    """As an interrupted copy of this model leaves it."""
    folder = pathlib.Path(place.wanted.staging)
    (folder / _model_journal.PARTS).mkdir(parents=True)
    (folder / _model_journal.NOTE).write_text(json.dumps({"digest": place.wanted.digest}))
    return folder


@pytest.mark.parametrize("what", ["link", "dangling", "file", "foreign"])
def test_what_no_copy_made_is_refused_and_left_alone(place: Place, what: str) -> None:
    there, folder = victim(place), pathlib.Path(place.wanted.staging)
    folder.parent.mkdir()
    if what == "link":
        folder.symlink_to(there)
    elif what == "dangling":
        folder.symlink_to(place.base / "nowhere")
    elif what == "file":
        folder.write_text("mine")
    else:
        folder.mkdir()
        (folder / "precious").write_text("x")
    seen = {"file": "is a file", "foreign": "holds 1 entries, for example precious"}.get(what, "is a link to")
    with pytest.raises(JobError, match=rf"gb10-partial {seen}.*; expected a folder of an earlier copy.*move it away"):
        place.fetch()
    assert os.listdir(there) == ["precious"] and os.path.lexists(folder)
    assert what != "foreign" or os.listdir(folder) == ["precious"]
    assert not (place.base / "nowhere").exists() and not place.path.exists()


@pytest.mark.parametrize("left", [[], [".gb10-staging.json.77.new"], [".gb10-staging.json"]])
def test_what_a_kill_leaves_is_ours(place: Place, left: list[str]) -> None:
    folder = pathlib.Path(place.wanted.staging)
    folder.mkdir(parents=True)
    for name in left:
        (folder / name).write_text("")
    place.fetch()
    assert tree(place.path) == tree(place.source)
    assert sorted(os.listdir(place.path.parent)) == ["m"]


@pytest.mark.parametrize(
    "link",
    [
        ".gb10-parts/config.json",
        ".gb10-parts/sub",
        ".gb10-parts",
        ".gb10-ranges.new",
        ".gb10-ranges",
        ".gb10-view",
        ".gb10-staging.json.{pid}.new",
        "config.json",
        "sub",
        "more/of/it",
    ],
)
@pytest.mark.parametrize("late", [False, True])
def test_links_in_the_staging_folder_lead_nowhere(
    place: Place, link: str, late: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also of one that is put there when the folder has been looked through."""
    there, path = victim(place), staging(place) / link.format(pid=os.getpid())
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.name == ".gb10-parts":
        path.rmdir()
    folder = path.name in ("sub", ".gb10-parts", ".gb10-view", "it")
    path.symlink_to(there if folder else there / "precious")
    if late:
        monkeypatch.setattr(_model_inside, "drop_links", lambda _root: None)
    place.fetch()
    assert os.listdir(there) == ["precious"] and (there / "precious").read_text() == "x" * 70
    assert tree(place.path) == tree(place.source)
    assert not any(found.is_symlink() for found in place.path.rglob("*"))


def test_a_folder_where_a_file_belongs_makes_place(place: Place) -> None:
    (staging(place) / "config.json" / "x").mkdir(parents=True)
    place.fetch()
    assert tree(place.path) == tree(place.source)


def test_a_file_behind_a_link_does_not_count_as_come(place: Place) -> None:
    there, folder = victim(place), staging(place)
    (there / "notes.txt").write_text("hello")
    (folder / "sub").symlink_to(there)
    (folder / _model_journal.JOURNAL).write_text(json.dumps(["sub/notes.txt", "in", "0" * 64]) + "\n")
    assert place.wanted.staged_bytes(["sub/notes.txt"]) == 0


def test_a_note_is_not_written_through_a_link(tmp_path: pathlib.Path) -> None:
    (tmp_path / "victim").write_text("x")
    (tmp_path / f"note.{os.getpid()}.new").symlink_to(tmp_path / "victim")
    write_json(str(tmp_path / "note"), {"a": 1})
    assert (tmp_path / "victim").read_text() == "x" and json.loads((tmp_path / "note").read_text()) == {"a": 1}


def test_an_owner_is_given_to_a_link_itself(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[object] = []
    monkeypatch.setattr(os, "chown", lambda _path, _uid, _gid, follow_symlinks=True: seen.append(follow_symlinks))
    _sync.owner_setter("0", "0", str(tmp_path))("x")
    assert seen == [False]


@pytest.mark.parametrize(
    "line",
    [
        '["config.json",-5,70]',
        '["config.json",0,Infinity]',
        '["config.json",0,1e9]',
        '["config.json",true,70]',
        '["config.json",9,3]',
        "[" * 200_000,
        '[[1],"new"]',
        '[{},"in","x"]',
        '["config.json","in",5]',
        '["config.json","in","x"]',
        '["config.json","in"]',
        '["config.json",0,' + "9" * 5000 + "]",
        '{"a": 1}',
    ],
)
def test_a_damaged_line_of_the_journal_is_passed_over(tmp_path: pathlib.Path, line: str) -> None:
    (tmp_path / _model_journal.JOURNAL).write_text(f'{line}\n["a",0,5]\n')
    came = _model_journal.read(str(tmp_path))
    assert (came.spans, came.sums) == ({"a": [(0, 5)]}, {})


@pytest.mark.parametrize(
    ("there", "words"),
    [
        ("config.json/", r"m/config\.json is a folder; the model has a file of that name"),
        ("sub", r"m/sub is no folder; the model has a folder of that name"),
    ],
)
def test_what_stands_where_a_file_belongs_is_found_before_the_copy(place: Place, there: str, words: str) -> None:
    if there.endswith("/"):
        (place.path / there).mkdir(parents=True)
    else:
        place.path.mkdir(parents=True)
        (place.path / there).write_text("mine")
    with pytest.raises(JobError, match=words):
        place.fetch()
    assert place.node.gets() == [] and os.listdir(place.path.parent) == ["m"]


@pytest.mark.parametrize("where", ["m", "m/sub"])
def test_another_file_system_is_found_before_the_copy(
    place: Place, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (place.path / "sub").mkdir(parents=True)
    other, real = str(place.path.parent / where), os.stat

    def stat(path: Any, **more: Any) -> os.stat_result:
        found = real(path, **more)
        if path != other:
            return found
        values = list(found)
        values[2] += 1  # st_dev
        return os.stat_result(values)

    monkeypatch.setattr(os, "stat", stat)
    with pytest.raises(JobError, match=rf"{where} .*: another file system than .*/models, .*expected one file system"):
        place.fetch()
    assert place.node.gets() == []


def test_a_mount_of_the_same_disk_is_found_before_the_copy(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.path.mkdir(parents=True)
    real = os.replace

    def replace(old: str, new: str, **more: int) -> None:
        if str(new).startswith(f"{place.path}/"):
            raise OSError(18, "Invalid cross-device link")
        real(old, new, **more)

    monkeypatch.setattr(os, "replace", replace)
    with pytest.raises(JobError, match=r"cannot be put into .* by a rename: Invalid cross-device link"):
        place.fetch()
    assert place.node.gets() == [] and os.listdir(place.path) == []


def test_every_new_folder_gets_the_owner(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "m"
    path.mkdir()
    wanted = _model_state.Destination(str(path), {"a/b/c/x.json": 2}, "sha256:0")
    inner = pathlib.Path(wanted.staging, "a/b/c")
    inner.mkdir(parents=True)
    (inner / "x.json").write_text("{}")
    owned: list[str] = []
    _model_stage.publish(wanted, ["a/b/c/x.json"], {}, None, owned.append)
    assert {str(path / name) for name in ("a", "a/b", "a/b/c")} <= set(owned)
    assert (path / "a/b/c/x.json").read_text() == "{}" and not os.path.exists(wanted.staging)
