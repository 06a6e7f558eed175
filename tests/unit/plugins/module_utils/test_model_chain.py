# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""Nodes that hand a model on while they receive it."""

from __future__ import annotations

import os
import pathlib
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from ansible_collections.gb10.serving.plugins.module_utils import _model_copy, _model_pull, _model_sources
from ansible_collections.gb10.serving.tests.unit.plugins.module_utils.model_places import (
    RAILS,
    Place,
    quick_place,
    slowly,
    tree,
)


@pytest.fixture
def place(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    yield from quick_place(tmp_path, monkeypatch)


def chain(place: Place, *rails: tuple[str, ...]) -> list[Any]:
    """Destinations b, c, ... each with an offer that follows."""
    found = []
    for number, addresses in enumerate(rails):
        wanted = place.destination(f"node{number}")
        found.append((wanted, place.serve(_model_copy.FollowingModel(wanted), addresses)))
    return found


def test_a_chain_hands_on_while_it_receives(place: Place) -> None:
    (first, offer), (second, _unused) = chain(place, ("127.0.0.51", "127.0.0.52"), ("127.0.0.61",))
    place.node.before = slowly(0.03)
    done: dict[str, Any] = {}

    def receive(name: str, to: Any, *sources: dict[str, Any]) -> None:
        done[name] = place.fetch(*sources, to=to)
        done[name + "_at"] = time.monotonic()

    began: list[float] = []
    offer.before = lambda _sock, request: began.append(time.monotonic()) if request["op"] == "get" else None
    runs = [
        threading.Thread(target=receive, args=("second", second, offer.spec, place.node.spec)),
        threading.Thread(target=receive, args=("first", first, place.node.spec)),
    ]
    for thread in runs:
        thread.start()
    for thread in runs:
        thread.join(30)
    assert done["first"]["moved_bytes"] == done["second"]["moved_bytes"] == place.total
    # All of it came from the neighbour, and part of it before the neighbour itself was done.
    assert set(done["second"]["rails"]) == {"127.0.0.51", "127.0.0.52"}
    assert began[0] < done["first_at"]
    for wanted in (first, second):
        assert tree(pathlib.Path(wanted.path)) == tree(place.source)
    assert sorted(os.listdir(place.path.parent)) == ["node0", "node1"]


def test_a_neighbour_that_gets_nothing_is_passed_over(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_model_sources, "LAG_SECONDS", 0.5)
    ((_first, offer), (second, _unused)) = chain(place, ("127.0.0.51",), ("127.0.0.61",))
    result = place.fetch(offer.spec, place.node.spec, to=second)
    assert set(result["rails"]) == set(RAILS)
    assert tree(pathlib.Path(second.path)) == tree(place.source)


def test_a_neighbour_that_waits_for_its_own_is_not_passed_over(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three in a row: nothing is whole for long, yet nobody turns to the head but the first."""
    monkeypatch.setattr(_model_sources, "LAG_SECONDS", 1.5)
    monkeypatch.setattr(_model_pull, "RATE_SECONDS", 0.2)
    hops = chain(place, ("127.0.0.51",), ("127.0.0.52",), ("127.0.0.53",))
    place.node.before = slowly(0.25)
    monkeypatch.setattr(_model_sources, "STALL_SECONDS", 2.0)
    ups = [place.node.spec, *(offer.spec for _wanted, offer in hops)]
    done: list[dict[str, Any]] = [{}, {}, {}]

    def receive(number: int) -> None:
        done[number] = place.fetch(ups[number], place.node.spec, to=hops[number][0], streams=1)

    runs = [threading.Thread(target=receive, args=(number,)) for number in range(3)]
    for thread in runs:
        thread.start()
    for thread in runs:
        thread.join(30)
    assert [set(result["rails"]) for result in done] == [set(RAILS), {"127.0.0.51"}, {"127.0.0.52"}]
    assert tree(pathlib.Path(hops[2][0].path)) == tree(place.source)


def test_a_neighbour_that_has_it_already_serves_all(place: Place) -> None:
    ((first, offer), (second, _unused)) = chain(place, ("127.0.0.51",), ("127.0.0.61",))
    place.fetch(to=first)
    place.node.asked.clear()
    assert set(place.fetch(offer.spec, place.node.spec, to=second)["rails"]) == {"127.0.0.51"}
    assert place.node.gets() == []
    assert tree(pathlib.Path(second.path)) == tree(place.source)
