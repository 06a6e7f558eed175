# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""Sources of a model that answer what is no answer, or hardly give anything: another one is used."""

from __future__ import annotations

import json
import pathlib
import socket
import time
from collections.abc import Iterator
from typing import Any

import pytest

from ansible_collections.gb10.serving.plugins.module_utils import (
    _model_copy,
    _model_flight,
    _model_ranges,
    _model_sources,
)
from ansible_collections.gb10.serving.plugins.module_utils._job import JobError, Progress, run
from ansible_collections.gb10.serving.plugins.module_utils._model_flight import Flight
from ansible_collections.gb10.serving.plugins.module_utils._model_ranges import File
from ansible_collections.gb10.serving.plugins.module_utils._model_sources import Source
from ansible_collections.gb10.serving.tests.unit.plugins.module_utils.model_places import (
    RAILS,
    Node,
    Place,
    Wire,
    quick_place,
    tree,
)

NESTED = "[" * 100_000


@pytest.fixture
def place(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    yield from quick_place(tmp_path, monkeypatch)


class Odd:
    """Serves the model, but for what it answers to one kind of request."""

    def __init__(self, place: Place, kind: str, answer: Any) -> None:
        self.sound = _model_copy.WholeModel(str(place.source), place.wanted.sizes)
        self.kind, self.text = kind, answer

    def begin(self) -> None:
        self.sound.begin()

    def __call__(self, sock: socket.socket, request: dict[str, Any]) -> None:
        kind = "sum" if request["op"] == "sha" and request.get("name") else request["op"]
        if kind != self.kind:
            self.sound(sock, request)
            return
        text = self.text() if callable(self.text) else self.text
        sock.sendall((text if isinstance(text, str) else json.dumps(text)).encode() + b"\n")


def odd(place: Place, kind: str, answer: Any) -> Node:
    return place.serve(Odd(place, kind, answer), ("127.0.0.41", "127.0.0.42"))


WRONG: list[tuple[str, Any]] = [
    ("list", {"ready": 5}),
    ("list", NESTED),
    ("list", [1]),
    ("list", {"ready": "all", "sha256": [1]}),
    ("sha", {"sha256": [1, 2]}),
    ("sha", {"sha256": {"config.json": ["a"]}}),
    ("get", {"mtime_ns": 1}),
    ("get", {"size": 1}),
    ("get", {"size": [5], "mtime_ns": 10**18}),
    ("get", NESTED),
]


@pytest.mark.parametrize(("kind", "answer"), WRONG, ids=range(len(WRONG)))
def test_one_that_answers_wrongly_is_passed_over(place: Place, kind: str, answer: Any) -> None:
    result = place.fetch(odd(place, kind, answer).spec, place.node.spec)
    assert tree(place.path) == tree(place.source)
    assert kind == "sha" or set(result["rails"]) == set(RAILS)


def test_a_time_that_no_file_can_have_is_passed_over(place: Place) -> None:
    sizes = iter(range(10**6))
    wrong = odd(place, "get", lambda: {"size": next(sizes), "mtime_ns": 10**30})
    place.fetch(wrong.spec, place.node.spec)
    assert tree(place.path) == tree(place.source)


@pytest.mark.parametrize(
    ("kind", "answer"), [("list", {"ready": 5}), ("get", {"size": 1}), ("get", NESTED)], ids=range(3)
)
def test_alone_it_is_named_soon(place: Place, kind: str, answer: Any) -> None:
    begun = time.monotonic()
    with pytest.raises(JobError, match=r"no source is left.*(the source said|expected a JSON line)"):
        place.fetch(odd(place, kind, answer).spec)
    assert time.monotonic() - begun < 15


def crawling(place: Place, monkeypatch: pytest.MonkeyPatch) -> Wire:
    """A rail over which one of few long ranges takes about four seconds."""
    monkeypatch.setattr(_model_ranges, "PIECES", 1)
    monkeypatch.setattr(_model_ranges, "LONGEST", 120_000)

    def bend(data: bytes) -> bytes:
        time.sleep(0.3 if len(data) > 4096 else 0)
        return data

    return Wire(place.node, bend, "127.0.0.31")


def test_one_that_hardly_gives_anything_is_passed_over(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_model_sources, "LAG_SECONDS", 0.6)

    drips = crawling(place, monkeypatch)
    other = place.serve(_model_copy.WholeModel(str(place.source), place.wanted.sizes), ("127.0.0.41",))
    begun = time.monotonic()
    result = place.fetch(drips.spec, other.spec, streams=1)
    drips.end()
    assert tree(place.path) == tree(place.source)
    assert result["rails"]["127.0.0.41"] > place.total * 0.9 and time.monotonic() - begun < 3
    assert not result["refetched"]


def test_a_pulse_alone_counts_for_a_while_only(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    source = Source(0, {"addresses": ["192.0.2.1"], "port": 1, "token": "t"})
    lagging = []
    for second in range(0, int(_model_sources.PULSE_SECONDS) + 60, 5):
        clock[0] = 1000.0 + second
        source.told({"ready": [], "pulse": str(second)})
        lagging.append(source.lagging)
    assert lagging.count(False) * 5 == pytest.approx(_model_sources.PULSE_SECONDS + _model_sources.LAG_SECONDS, abs=10)
    assert lagging == sorted(lagging)
    source.told({"ready": ["a"], "pulse": "x"})  # another file is there
    assert not source.lagging


def test_one_that_only_has_a_pulse_does_not_keep_a_copy_alive(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_model_sources, "PULSE_SECONDS", 1.0)
    wrong = odd(place, "list", lambda: {"ready": [], "pulse": str(time.time())})
    result = run(lambda progress: place.fetch(wrong.spec, progress=progress), Progress(), 1.5)
    assert "nothing moved for 1.5 s" in result["error"]


def test_the_rest_of_what_comes_slowly_is_fetched_over_another_rail(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_model_flight, "WORTH_SECONDS", 0.5)

    slow = crawling(place, monkeypatch)
    spec = dict(place.node.spec, addresses=["127.0.0.31", RAILS[1]])
    begun = time.monotonic()
    result = place.fetch(spec, streams=1)
    slow.end()
    assert tree(place.path) == tree(place.source) and not result["refetched"]
    assert result["moved_bytes"] == place.total == sum(result["rails"].values())
    assert result["rails"]["127.0.0.31"] < 50_000 and time.monotonic() - begun < 3


@pytest.mark.parametrize(
    ("came", "left", "pace", "late"),
    [
        (1_000, 10**6, 10**6, True),
        (10**6, 10**6, 10**6, False),  # as quick as the other
        (10**6, 10**5, 10**9, False),  # nothing to win
        (0, 10**6, 0.0, False),  # of the other nothing is known
        (0, 10**6, 10**6, True),
    ],
)
def test_when_another_rail_should_bring_the_rest(
    monkeypatch: pytest.MonkeyPatch, came: int, left: int, pace: float, late: bool
) -> None:
    clock = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    flight = Flight(None, File("a", 10**8), 0, came + left)  # type: ignore[arg-type]
    flight.came = came
    clock[0] += 1
    assert not flight.late(pace)  # too early to say
    clock[0] += 1.5
    assert flight.late(pace) == late
