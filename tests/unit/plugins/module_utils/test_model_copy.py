# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
from __future__ import annotations

import fcntl
import json
import os
import pathlib
import socket
import struct
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from ansible_collections.gb10.serving.plugins.module_utils import (
    _disk,
    _model,
    _model_copy,
    _model_state,
    _offer,
    _wire,
)
from ansible_collections.gb10.serving.plugins.module_utils._job import JobError, Progress

SHARD = 40_000


def make_model(root: pathlib.Path) -> None:
    """A snapshot of links into a blob folder beside it."""
    blobs = root / "blobs"
    snapshot = root / "snapshot"
    blobs.mkdir(parents=True)
    (snapshot / "sub").mkdir(parents=True)
    files: dict[str, bytes] = {"config.json": b'{"model_type": "x", "architectures": ["X"]}', "sub/notes.txt": b"hello"}
    weights = {}
    for number in range(3):
        header = json.dumps({f"t{number}": {"dtype": "U8", "shape": [SHARD], "data_offsets": [0, SHARD]}}).encode()
        files[f"m-{number}.safetensors"] = struct.pack("<Q", len(header)) + header + os.urandom(SHARD)
        weights[f"t{number}"] = f"m-{number}.safetensors"
    files["model.safetensors.index.json"] = json.dumps({"weight_map": weights}).encode()
    for name, data in files.items():
        blob = blobs / name.replace("/", "_")
        blob.write_bytes(data)
        (snapshot / name).symlink_to(blob)


def tree(root: pathlib.Path) -> dict[str, bytes]:
    return {
        str(p.relative_to(root)): p.read_bytes()
        for p in root.rglob("*")
        if p.is_file() and p.name != _model_state.MARKER
    }


class Place:
    """A source that serves and a destination."""

    def __init__(self, base: pathlib.Path) -> None:
        make_model(base)
        self.source = base / "snapshot"
        self.path = base / "models" / "m"
        self.manifest = {key: _model.inspect(str(self.source))[key] for key in ("digest", "files", "files_count")}
        self.wanted = _model_state.destination(str(self.path), self.manifest)
        listener = _offer.listen("127.0.0.1", 0)
        self.address = {"address": "127.0.0.1", "port": listener.getsockname()[1], "token": "t"}
        session = base / "session"
        session.mkdir()
        self.asked: list[dict[str, Any]] = []
        send = _model_copy.send_files(str(self.source), self.wanted.sizes)

        def handler(sock: socket.socket, request: dict[str, Any]) -> None:
            self.asked.append(request)
            send(sock, request)

        self.server = _offer.Server(listener, str(session), "t", ["127.0.0.1"], 30, handler)
        self.thread = threading.Thread(target=self.server.serve)
        self.thread.start()

    def fetch(self) -> dict[str, Any]:
        self.asked.clear()
        puller = _model_copy.Puller(self.address, 2, 10, Progress())
        return _model_copy.fetch(self.wanted, puller, lambda _path: None)

    def fetched(self) -> set[str]:
        return {request["name"] for request in self.asked if request["op"] == "get"}


@pytest.fixture
def place(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    monkeypatch.setattr(_disk, "GIB", 0)  # the head-room of a test
    monkeypatch.setattr(_disk, "head_room", lambda _size: 0)
    found = Place(tmp_path)
    yield found
    found.server.ending = True
    found.thread.join(5)
    found.server.listener.close()


def test_a_new_copy_is_whole_marked_and_then_free(place: Place) -> None:
    total = sum(place.wanted.sizes.values())
    assert place.wanted.observe()[0] == "incomplete"
    result = place.fetch()
    assert (result["moved_bytes"], result["resumed_bytes"], result["files_moved"]) == (total, 0, 6)
    assert tree(place.path) == tree(place.source)
    assert not (place.path / "config.json").is_symlink()
    assert (place.path / "m-1.safetensors").stat().st_mtime_ns == (place.source / "m-1.safetensors").stat().st_mtime_ns
    assert json.loads((place.path / _model_state.MARKER).read_text()) == {
        "digest": place.wanted.digest,
        "bytes": total,
        "files": 6,
    }
    assert sorted(os.listdir(place.path.parent)) == ["m"]
    assert place.wanted.observe() == ("ok", [])


def test_an_interrupted_copy_goes_on(place: Place) -> None:
    staging = pathlib.Path(place.wanted.staging)
    staging.mkdir(parents=True)
    (staging / ".gb10-staging.json").write_text(json.dumps({"digest": place.wanted.digest}))
    (staging / "m-0.safetensors").write_bytes((place.source / "m-0.safetensors").read_bytes())
    (staging / "m-1.safetensors").write_bytes((place.source / "m-1.safetensors").read_bytes()[:1000])
    (staging / "m-2.safetensors").write_bytes(b"x" * (SHARD * 2))  # longer than it may be
    resumed = place.wanted.sizes["m-0.safetensors"] + 1000
    result = place.fetch()
    assert result["moved_bytes"] >= sum(place.wanted.sizes.values()) - resumed - place.wanted.sizes["m-2.safetensors"]
    assert {r["offset"] for r in place.asked if r["name"] == "m-1.safetensors" and r["op"] == "get"} == {1000}
    assert tree(place.path) == tree(place.source)


def test_what_was_staged_for_another_model_is_not_used(place: Place) -> None:
    staging = pathlib.Path(place.wanted.staging)
    staging.mkdir(parents=True)
    (staging / ".gb10-staging.json").write_text(json.dumps({"digest": "sha256:other"}))
    (staging / "m-0.safetensors").write_bytes(b"y" * place.wanted.sizes["m-0.safetensors"])
    assert place.fetch()["resumed_bytes"] == 0
    assert tree(place.path) == tree(place.source)


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
    assert place.fetch()["moved_bytes"] == place.wanted.sizes["m-1.safetensors"]
    assert place.fetched() == {"m-1.safetensors"}
    assert tree(place.path) == {**tree(place.source), "mine.txt": b"the user's"}
    assert place.wanted.observe() == ("ok", [])
    assert sorted(os.listdir(place.path.parent)) == ["m"]


def test_a_directory_without_marker_is_recognised(place: Place) -> None:
    place.fetch()
    (place.path / _model_state.MARKER).unlink()
    assert place.wanted.observe() == ("unmarked", [])


def test_a_source_that_changed_is_named_and_nothing_is_published(place: Place) -> None:
    shard = (place.source / "m-2.safetensors").resolve()
    shard.write_bytes(shard.read_bytes() + b"!")
    with pytest.raises(JobError, match=r"m-2\.safetensors.*changed"):
        place.fetch()
    assert not place.path.exists()


def test_content_that_is_not_the_expected_is_thrown_away(place: Place) -> None:
    shard = (place.source / "m-2.safetensors").resolve()
    shard.write_bytes(shard.read_bytes().replace(b'"t2"', b'"t8"'))
    with pytest.raises(JobError, match="digest"):
        place.fetch()
    assert os.listdir(place.path.parent) == []


def test_a_source_that_goes_away_is_named_and_the_rest_is_kept(place: Place) -> None:
    def dies(sock: socket.socket, request: dict[str, Any]) -> None:
        _wire.send_json(sock, {"size": place.wanted.sizes[request["name"]], "mtime_ns": 0})
        sock.sendall(b"z" * 10)
        sock.shutdown(socket.SHUT_RDWR)

    place.server.handler = dies
    with pytest.raises(JobError, match=r"127\.0\.0\.1 port \d+ broke off.*kept in"):
        place.fetch()
    assert not place.path.exists() and os.path.isdir(place.wanted.staging)


def test_two_runs_at_once(place: Place) -> None:
    os.makedirs(place.wanted.staging)
    held = os.open(place.wanted.staging, os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    with pytest.raises(JobError, match="another run"):
        place.fetch()
    os.close(held)
    assert place.fetch()["files_moved"] == 6


def test_the_source_serves_only_what_it_offers(place: Place) -> None:
    (place.source / "secret").write_text("x")
    puller = _model_copy.Puller(place.address, 1, 5, Progress())
    for name in ("secret", "../blobs/config.json", "/etc/hostname"):
        with pytest.raises(JobError, match="not part of the offered model"):
            puller.signatures([name])


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
