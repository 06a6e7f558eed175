# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
from __future__ import annotations

import fcntl
import json
import os
import pathlib
from collections.abc import Iterator
from typing import Any

import pytest

from ansible_collections.gb10.serving.plugins.module_utils import _disk, _model_fetch, _model_sources, _model_state
from ansible_collections.gb10.serving.plugins.module_utils._job import JobError, Progress
from ansible_collections.gb10.serving.tests.unit.plugins.module_utils.model_places import (
    RAILS,
    Place,
    tree,
)


@pytest.fixture
def place(request: Any, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    monkeypatch.setattr(_disk, "GIB", 0)  # the head-room of a test
    monkeypatch.setattr(_disk, "head_room", lambda _size: 0)
    found = Place(tmp_path, getattr(request, "param", "cache"))
    yield found
    found.end()


@pytest.mark.parametrize("place", ["plain", "downloaded", "cache", "shared"], indirect=True)
def test_a_new_copy_is_whole_marked_and_then_free(place: Place) -> None:
    assert place.wanted.observe()[0] == "incomplete"
    result = place.fetch()
    assert (result["moved_bytes"], result["resumed_bytes"], result["files_moved"]) == (place.total, 0, 7)
    assert (sum(result["rails"].values()), result["refetched"]) == (place.total, [])
    assert tree(place.path) == tree(place.source)
    assert not (place.path / "config.json").is_symlink()
    for name in place.wanted.sizes:
        assert (place.path / name).stat().st_mtime_ns == (place.source / name).stat().st_mtime_ns, name
    marker = json.loads((place.path / _model_state.MARKER).read_text())
    assert {key: marker[key] for key in ("digest", "bytes", "files")} == {
        "digest": place.wanted.digest,
        "bytes": place.total,
        "files": 7,
    }
    assert sorted(os.listdir(place.path.parent)) == ["m"]
    assert not [name for name in os.listdir(place.path) if name.startswith(".gb10-") and "json" not in name]
    assert place.wanted.observe() == ("ok", [])


@pytest.mark.parametrize(
    ("place", "known", "revision"),
    [("plain", None, None), ("downloaded", 7, "c" * 40), ("cache", 7, "c" * 40), ("shared", 7, "c" * 40)],
    indirect=["place"],
)
def test_what_the_hub_says_is_used(place: Place, known: int | None, revision: str | None) -> None:
    result = place.fetch()
    assert known is None or result["sha256_known"] == known
    assert json.loads((place.path / _model_state.MARKER).read_text()).get("revision") == revision
    # A plain folder without notes is read once; the second offer knows.
    assert (place.source / ".gb10-sha256.json").is_file() is (known is None)


@pytest.mark.parametrize("damage", ["truncate", "remove", "dangle", "header"])
def test_only_the_damaged_file_is_copied(place: Place, damage: str) -> None:
    place.fetch()
    (place.path / "mine.txt").write_text("the user's")
    victim = place.path / "m-1.safetensors"
    if damage == "truncate":
        os.truncate(victim, 500)
    elif damage == "header":
        (place.path / _model_state.MARKER).unlink()
        victim.write_bytes(victim.read_bytes().replace(b'"t1"', b'"t9"'))
    else:
        victim.unlink()
        if damage == "dangle":
            victim.symlink_to(place.path / "nowhere")
    assert place.wanted.observe()[0] == "incomplete"
    place.node.asked.clear()
    assert place.fetch()["moved_bytes"] == place.wanted.sizes["m-1.safetensors"]
    assert {name for name, _offset, _length in place.node.gets()} == {"m-1.safetensors"}
    assert tree(place.path) == {**tree(place.source), "mine.txt": b"the user's"}
    assert place.wanted.observe() == ("ok", [])
    assert sorted(os.listdir(place.path.parent)) == ["m"]


def test_a_directory_without_marker_is_recognised(place: Place) -> None:
    place.fetch()
    (place.path / _model_state.MARKER).unlink()
    assert place.wanted.observe() == ("unmarked", [])


@pytest.mark.parametrize("note", [True, False])
def test_a_full_verification_finds_a_flipped_bit_and_fetches_that_file(place: Place, note: bool) -> None:
    place.fetch()
    victim = place.path / "m-1.safetensors"
    stat = victim.stat()
    data = bytearray(victim.read_bytes())
    data[-7] ^= 4
    victim.write_bytes(data)
    os.utime(victim, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    if not note:
        (place.path / ".gb10-sha256.json").unlink()
    assert place.wanted.observe() == ("ok", [])  # sizes and heads are right
    sources = [] if note else [place.node.spec]
    run = _model_fetch.Fetch(place.wanted, sources, Progress(), lambda _path: None)
    assert run.verify([]) == ["m-1.safetensors"]
    assert place.fetch(bad=["m-1.safetensors"])["moved_bytes"] == place.wanted.sizes["m-1.safetensors"]
    assert tree(place.path) == tree(place.source)
    assert run.verify([]) == []


def test_a_full_verification_needs_something_to_compare_with(place: Place) -> None:
    place.fetch()
    (place.path / ".gb10-sha256.json").unlink()
    with pytest.raises(JobError, match=r"nothing says what 7 of 7 files should hold.*Give sources"):
        _model_fetch.Fetch(place.wanted, [], Progress(), lambda _path: None).verify([])


def test_a_source_that_changed_is_named_and_nothing_is_published(place: Place) -> None:
    shard = (place.source / "m-2.safetensors").resolve()
    shard.write_bytes(shard.read_bytes() + b"!")
    with pytest.raises(JobError, match=r"node-\d+: .*m-2\.safetensors.*changed"):
        place.fetch()
    assert not place.path.exists()


@pytest.mark.parametrize("place", ["cache", "downloaded"], indirect=True)
def test_a_file_that_was_damaged_on_the_source_is_named(place: Place) -> None:
    shard = (place.source / "m-2.safetensors").resolve()
    stat, data = shard.stat(), bytearray(shard.read_bytes())
    data[-1] ^= 1
    shard.write_bytes(data)
    os.utime(shard, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    with pytest.raises(JobError, match=r"m-2\.safetensors on the source is not what the hub's metadata there says"):
        place.fetch()
    assert not place.path.exists()


@pytest.mark.parametrize("place", ["plain"], indirect=True)
def test_content_that_is_not_the_expected_is_thrown_away(place: Place) -> None:
    shard = place.source / "m-2.safetensors"
    shard.write_bytes(shard.read_bytes().replace(b'"t2"', b'"t8"'))
    place.nodes[0].handler.sums = type(place.nodes[0].handler.sums)(str(place.source), place.wanted.sizes)
    with pytest.raises(JobError, match="digest"):
        place.fetch()
    assert os.listdir(place.path.parent) == []


def test_two_runs_at_once(place: Place) -> None:
    os.makedirs(place.wanted.staging)
    pathlib.Path(place.wanted.staging, ".gb10-staging.json").write_text('{"digest": "x", "pid": 4711, "since": 5}')
    held = os.open(place.wanted.staging, os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    with pytest.raises(JobError, match=r"another run is copying into .* right now \(process 4711, for \d+ s\)"):
        place.fetch()
    os.close(held)
    assert place.fetch()["files_moved"] == 7


def test_the_source_serves_only_what_it_offers(place: Place) -> None:
    (place.source / "secret").write_text("x")
    link = _model_sources.Link(_model_sources.Source(0, place.node.spec), RAILS[0])
    for name in ("secret", "../blobs/config.json", "/etc/hostname"):
        for operation in ("get", "sha", "sign"):
            with pytest.raises(_model_sources.Refused, match="not part of the offered model"):
                link.ask({"op": operation, "name": name})
    size = place.wanted.sizes["m-0.safetensors"]
    with pytest.raises(_model_sources.Refused, match=f"{size} were offered"):
        link.ask({"op": "get", "name": "m-0.safetensors", "offset": 1, "length": size})
    link.close()


def test_a_full_disk_is_found_before(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_disk, "head_room", lambda _size: 1 << 60)
    with pytest.raises(JobError, match="Not enough disk space on"):
        place.fetch()


@pytest.mark.parametrize("name", ["/etc/passwd", "../x", "a/../../x", "", ".gb10-model.json"])
def test_manifests_that_leave_the_directory_are_refused(name: str) -> None:
    with pytest.raises(JobError, match="plain names"):
        _model_state.check_manifest({"digest": "sha256:0", "files": [{"name": name, "size": 1}]})


@pytest.mark.parametrize(
    "manifest",
    [{}, {"digest": None, "files": []}, {"digest": "sha256:0", "files": [{"name": "a", "size": 1}], "files_count": 2}],
)
def test_manifests_that_say_too_little_are_refused(manifest: dict[str, Any]) -> None:
    with pytest.raises(JobError):
        _model_state.check_manifest(manifest)


def test_destinations_that_cannot_be(tmp_path: pathlib.Path) -> None:
    (tmp_path / "file").write_text("")
    manifest = {"digest": "sha256:0", "files": [{"name": "a", "size": 1}]}
    for path in ("/", str(tmp_path / "file")):
        with pytest.raises(JobError, match="cannot be a model directory"):
            _model_state.destination(path, manifest)


@pytest.mark.parametrize(
    ("size", "free", "fits"),
    [
        (100 << 30, 110 << 30, True),
        (100 << 30, (110 << 30) - 1, False),
        (1 << 30, 3 << 30, True),
        (1 << 30, (3 << 30) - 1, False),
    ],
)
def test_head_room(tmp_path: pathlib.Path, size: int, free: int, fits: bool) -> None:
    problem = _disk.lack_of_space(str(tmp_path / "not" / "there"), size, free, "spark-b")
    assert (problem is None) is fits
    if problem:
        assert f"spark-b at {tmp_path}/not/there:" in problem and "head-room" in problem
