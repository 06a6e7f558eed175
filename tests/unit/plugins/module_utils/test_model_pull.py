# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""What goes wrong while a model is copied."""

from __future__ import annotations

import errno
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from ansible_collections.gb10.serving.plugins.module_utils import (
    _model_copy,
    _model_journal,
    _model_ranges,
    _model_sources,
)
from ansible_collections.gb10.serving.plugins.module_utils._job import JobError, Progress, run
from ansible_collections.gb10.serving.tests.unit.plugins.module_utils.model_places import (
    RAILS,
    Place,
    Wire,
    quick_place,
    slowly,
    tree,
)

ROOT = pathlib.Path(__file__).resolve().parents[4]


@pytest.fixture
def place(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    yield from quick_place(tmp_path, monkeypatch)


def threads() -> int:
    return sum(1 for thread in threading.enumerate() if "_stream" in thread.name or "_hash" in thread.name)


def test_both_rails_carry_and_ranges_cover_each_file_once(place: Place) -> None:
    place.node.before = slowly(0.005)
    result = place.fetch()
    assert set(result["rails"]) == set(RAILS) and min(result["rails"].values()) > place.total // 10
    spans: dict[str, list[tuple[int, int]]] = {}
    for name, offset, length in place.node.gets():
        spans.setdefault(name, []).append((offset, offset + length))
    assert sum(len(found) for found in spans.values()) > 20
    for name, found in spans.items():
        assert _model_ranges.merge(found) == [(0, place.wanted.sizes[name])]
    assert tree(place.path) == tree(place.source)
    assert threads() == 0


@pytest.mark.parametrize("way", ["held", "closed"])
def test_a_rail_that_fails_leaves_its_ranges_to_the_other(place: Place, way: str) -> None:
    """One rail goes silent, or is cut, after some bytes."""
    through = 0

    def bend(data: bytes) -> bytes | None:
        nonlocal through
        through += len(data)
        if through < 30_000:
            return data
        return b"" if way == "held" else None

    wire = Wire(place.node, bend, "127.0.0.31")
    place.node.before = slowly(0.01)
    spec = dict(place.node.spec, addresses=["127.0.0.31", RAILS[1]])
    progress = Progress()
    result = place.fetch(spec, progress=progress)
    wire.end()
    assert result["moved_bytes"] == progress.bytes_done == place.total  # what came over the bad rail is kept
    assert 0 < result["rails"]["127.0.0.31"] <= 30_000 < result["rails"][RAILS[1]]
    assert tree(place.path) == tree(place.source)


def test_a_flipped_bit_is_found_and_only_that_file_fetched_again(place: Place) -> None:
    flips = [1]

    def bend(data: bytes) -> bytes:
        if len(data) == 8192 and flips:
            flips.pop()
            return data[:-1] + bytes([data[-1] ^ 16])
        return data

    wire = Wire(place.node, bend, "127.0.0.31")
    result = place.fetch(wire.spec, streams=1)
    wire.end()
    assert len(result["refetched"]) == 1
    assert result["moved_bytes"] == place.total + place.wanted.sizes[result["refetched"][0]]
    assert tree(place.path) == tree(place.source)


def test_a_wire_that_flips_always_is_named_and_what_came_right_is_kept(place: Place) -> None:
    def bend(data: bytes) -> bytes:
        return data[:-1] + bytes([data[-1] ^ 16]) if len(data) == 8192 else data

    wire = Wire(place.node, bend, "127.0.0.31")
    with pytest.raises(JobError, match=r"came damaged 3 times: .*expected [0-9a-f]{64}.*ethtool") as raised:
        place.fetch(wire.spec, streams=1)
    wire.end()
    assert not place.path.exists()
    # The damaged file itself was thrown away.
    assert str(raised.value).split()[0] not in place.fetch()["refetched"]
    assert tree(place.path) == tree(place.source)


def test_a_file_that_comes_damaged_from_one_source_is_fetched_from_the_next(place: Place) -> None:
    def bend(data: bytes) -> bytes:
        return data[:-1] + bytes([data[-1] ^ 16]) if len(data) == 8192 else data

    wire = Wire(place.node, bend, "127.0.0.31")
    result = place.fetch(wire.spec, place.node.spec)
    wire.end()
    assert len(result["refetched"]) == 4
    assert tree(place.path) == tree(place.source)


def test_an_upstream_that_dies_is_replaced_by_the_next_source(place: Place) -> None:
    second = place.serve(_model_copy.WholeModel(str(place.source), place.wanted.sizes), ("127.0.0.41", "127.0.0.42"))
    seen = 0

    def dies(sock: socket.socket, request: dict[str, Any]) -> None:
        nonlocal seen
        seen += 1
        if request["op"] == "get" and seen > 12:
            place.node.server.ending = True
            for listener in place.node.listeners:
                listener.close()
            raise OSError("killed")

    place.node.before = dies
    result = place.fetch(place.node.spec, second.spec)
    assert place.node.gets() and second.gets()
    assert result["moved_bytes"] == place.total
    assert tree(place.path) == tree(place.source)


def test_when_all_sources_are_gone_they_are_named_and_the_next_run_resumes(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dies(sock: socket.socket, request: dict[str, Any]) -> None:
        if len(place.node.gets()) > 8:
            for listener in place.node.listeners:
                listener.close()
            place.node.server.ending = True
            raise OSError("killed")

    monkeypatch.setattr(_model_sources, "REST_SECONDS", 0.1)
    place.node.before = dies
    with pytest.raises(JobError, match=r"no source is left after \d+ bytes: node-\d+: cannot connect.*kept in"):
        place.fetch()
    assert not place.path.exists() and threads() == 0
    kept = place.wanted.staged_bytes(list(place.wanted.sizes))
    assert kept > 0
    other = place.serve(_model_copy.WholeModel(str(place.source), place.wanted.sizes), ("127.0.0.41",))
    result = place.fetch(other.spec)
    assert (result["resumed_bytes"], result["moved_bytes"]) == (kept, place.total - kept)
    assert tree(place.path) == tree(place.source)


def test_silence_of_all_sources_ends_at_the_idle_limit(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    def holds(_sock: socket.socket, request: dict[str, Any]) -> None:
        if request["op"] == "get":
            time.sleep(1.2)
            raise OSError("still")

    place.node.before = holds

    def work(progress: Progress) -> dict[str, Any]:
        return place.fetch(progress=progress)

    monkeypatch.setattr("ansible_collections.gb10.serving.plugins.module_utils._job.BEAT_SECONDS", 0.1)
    error = run(work, Progress(), 0.9)["error"]
    assert error.startswith("nothing moved for 0.9 s in stage 'copy' after 0 bytes") and threads() == 0


def test_a_wrong_token_is_named_soon(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_model_sources, "REST_SECONDS", 0.1)
    with pytest.raises(JobError, match="the token is not the one of this offer"):
        place.fetch(dict(place.node.spec, token="guess"))


RECEIVER = """
import json, sys
from ansible_collections.gb10.serving.plugins.module_utils import _disk, _model_fetch, _model_ranges, _model_state
from ansible_collections.gb10.serving.plugins.module_utils._job import Progress
_disk.head_room = lambda _size: 0
_model_ranges.LONGEST, _model_ranges.SHORTEST = 32_000, 8_000
path, manifest, spec = json.load(sys.stdin)
wanted = _model_state.destination(path, manifest)
_model_fetch.Fetch(wanted, [spec], Progress(), lambda _path: None).run([])
"""


def test_a_killed_receiver_resumes_and_loses_only_what_was_in_flight(place: Place) -> None:
    place.node.before = slowly(0.05)
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "collections")}
    with subprocess.Popen([sys.executable, "-c", RECEIVER], stdin=subprocess.PIPE, env=environment) as receiver:
        assert receiver.stdin
        receiver.stdin.write(json.dumps([str(place.path), place.manifest, place.node.spec]).encode())
        receiver.stdin.close()
        deadline = time.monotonic() + 20
        while place.wanted.staged_bytes(list(place.wanted.sizes)) < place.total // 3:
            assert time.monotonic() < deadline and receiver.poll() is None
            time.sleep(0.01)
        receiver.send_signal(signal.SIGKILL)
    kept = place.wanted.staged_bytes(list(place.wanted.sizes))
    with pathlib.Path(place.wanted.staging, _model_journal.JOURNAL).open("ab") as journal:
        journal.write(b'["m-0.safetensors",0,')  # a line that was cut by the kill
    in_flight = sum(length for _name, _offset, length in place.node.gets()) - kept
    assert in_flight <= 6 * 40_000
    place.node.before = lambda _sock, _request: None
    result = place.fetch()
    assert (result["resumed_bytes"], result["moved_bytes"]) == (kept, place.total - kept)
    assert tree(place.path) == tree(place.source)
    assert os.listdir(place.path.parent) == ["m"]


def test_what_was_staged_for_another_model_is_not_used(place: Place) -> None:
    staging = pathlib.Path(place.wanted.staging)
    staging.mkdir(parents=True)
    (staging / _model_journal.NOTE).write_text(json.dumps({"digest": "sha256:other"}))
    (staging / _model_journal.JOURNAL).write_text('["m-0.safetensors",0,200000]\n')
    (staging / "m-0.safetensors").write_bytes(b"y" * place.wanted.sizes["m-0.safetensors"])
    assert place.fetch()["resumed_bytes"] == 0
    assert tree(place.path) == tree(place.source)


def test_what_came_but_may_not_be_on_the_disk_is_hashed_again(place: Place) -> None:
    """After a power failure a file can be there and hold something else."""
    staging = pathlib.Path(place.wanted.staging)
    staging.mkdir(parents=True)
    (staging / _model_journal.NOTE).write_text(json.dumps({"digest": place.wanted.digest}))
    lines = []
    for number, last in ((0, "in"), (1, "ok")):
        name = f"m-{number}.safetensors"
        data = (place.source / name).read_bytes()
        (staging / name).write_bytes(data if last == "ok" else bytes(len(data)))
        digest = os.path.basename(os.path.realpath(place.source / name))
        lines += [[name, 0, len(data)], [name, "in", digest]] + ([[name, "ok"]] if last == "ok" else [])
    (staging / _model_journal.JOURNAL).write_text("".join(json.dumps(line) + "\n" for line in lines))
    result = place.fetch()
    assert result["refetched"] == ["m-0.safetensors"]
    assert not [name for name, _offset, _length in place.node.gets() if name == "m-1.safetensors"]
    assert tree(place.path) == tree(place.source)


@pytest.mark.parametrize(
    ("number", "text"), [(errno.ENOSPC, "the disk is full during .* Free space"), (errno.EIO, "the disk failed")]
)
def test_a_disk_that_fills_up_is_named_and_what_came_is_kept(
    place: Place, monkeypatch: pytest.MonkeyPatch, number: int, text: str
) -> None:
    drain, written = _model_sources._drain, 0

    def full(pipe: int, target: int, at: int, count: int) -> None:
        nonlocal written
        written += count
        if written > 300_000:
            raise OSError(number, os.strerror(number))
        drain(pipe, target, at, count)

    monkeypatch.setattr(_model_sources, "_drain", full)
    with pytest.raises(JobError, match=text):
        place.fetch()
    assert not place.path.exists() and threads() == 0
    monkeypatch.setattr(_model_sources, "_drain", drain)
    result = place.fetch()
    assert result["resumed_bytes"] > 100_000
    assert tree(place.path) == tree(place.source)


def test_a_file_system_that_cannot_splice(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    splice = os.splice

    def only_from_sockets(src: int, dst: int, count: int, offset_dst: int | None = None) -> int:
        if offset_dst is not None:
            raise OSError(errno.EINVAL, "Invalid argument")
        return splice(src, dst, count)

    monkeypatch.setattr(os, "splice", only_from_sockets)
    assert place.fetch()["moved_bytes"] == place.total
    assert tree(place.path) == tree(place.source)


def test_rates_of_rails_are_told(place: Place) -> None:
    place.node.before = slowly(0.15)
    progress, seen = Progress(), []
    thread = threading.Thread(target=place.fetch, kwargs={"progress": progress})
    thread.start()
    while thread.is_alive():
        seen.append(progress.snapshot(time.monotonic()))
        time.sleep(0.05)
    rates = [snapshot["rails"] for snapshot in seen if snapshot.get("rails")]
    assert rates and set(rates[0]) == set(RAILS) and max(max(rate.values()) for rate in rates) > 0
    assert seen[-1]["bytes_total"] == place.total
