# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
from __future__ import annotations

import socket
from typing import Any

import pytest

from ansible_collections.gb10.serving.plugins.module_utils import _answers, _wire

SUM = "a" * 64


@pytest.mark.parametrize(
    "answer",
    [{"stall": "abc"}, {"stall": 1e308}, {"stall": -1}, {"stall": True}, {"stall": float("nan")}, {"stall": [1]},
     {"layers": 5}, {"layers": [1]}, {"layers": "abc"}, {"layers": {"a": 1}}],
)  # fmt: skip
def test_no_answer_to_join(answer: dict[str, Any]) -> None:
    with pytest.raises(_wire.Wrong, match=r"the source said .*expected"):
        _answers.joined(answer)


def test_sound_answers_of_an_image() -> None:
    assert _answers.joined({"layers": ["a", "b"], "stall": 27.0}) == (["a", "b"], 27.0)
    assert _answers.joined({}) == ([], 0.0)
    assert _answers.note({"layers": {"a": 5}, "rest": 7}) == {"a": 5, "": 7}
    status = {"rc": 0, "error": "", "again": False, "bytes": 5, "left_out_bytes": 0, "saved_because": ""}
    assert _answers.ended({"rc": 0, "bytes": 5}) == status
    assert _answers.only_texts(["a", 1, ["b"], "c"]) == ["a", "c"] and _answers.only_texts({"a": 1}) == []


@pytest.mark.parametrize(
    "told",
    [{"layers": [1]}, {"layers": {"x": "y"}}, {"layers": {"x": -1}}, {"layers": {"x": 10**30}}, {"layers": {"x": 1.5}},
     {"layers": None}, {"rest": "z"}, {"rest": None}, {"rest": [1]}, {"rest": True}],
)  # fmt: skip
def test_no_note_of_a_stream(told: dict[str, Any]) -> None:
    with pytest.raises(_wire.Wrong):
        _answers.note(told)


@pytest.mark.parametrize(
    "status",
    [{}, {"rc": "0"}, {"rc": False}, {"rc": 0, "bytes": "5"}, {"rc": 0, "left_out_bytes": "x"}, {"rc": 0, "error": 5},
     {"rc": 0, "left_out_bytes": -1}, {"rc": 0, "saved_because": [1]}],
)  # fmt: skip
def test_no_end_of_a_stream(status: dict[str, Any]) -> None:
    with pytest.raises(_wire.Wrong):
        _answers.ended(status)


@pytest.mark.parametrize(
    ("request_", "answer"),
    [
        ({"op": "list"}, {"ready": "all", "origin": True}),
        ({"op": "list"}, {"ready": ["a"], "sha256": {"a": SUM}, "pulse": "5 6"}),
        ({"op": "sha"}, {"sha256": {"a": SUM}, "revision": None}),
        ({"op": "sha", "name": "a"}, {"sha256": SUM}),
        ({"op": "sha", "name": "a"}, {"wait": True, "read_bytes": 5}),
        ({"op": "get", "name": "a"}, {"size": 0, "mtime_ns": -5}),
        ({"op": "sign", "name": "a"}, {"signature": [1, 2]}),
    ],
)
def test_sound_answers_of_a_model(request_: dict[str, Any], answer: dict[str, Any]) -> None:
    assert _answers.of_model(request_, answer) is answer


@pytest.mark.parametrize(
    ("request_", "answer"),
    [
        ({"op": "list"}, {"ready": 5}),
        ({"op": "list"}, {"ready": "some"}),
        ({"op": "list"}, {"ready": [["a"]]}),
        ({"op": "list"}, {"ready": [], "pulse": 5.5}),
        ({"op": "list"}, {"ready": ["a"], "sha256": ["a"]}),
        ({"op": "sha"}, {"sha256": [1, 2]}),
        ({"op": "sha"}, {"sha256": {"a": 5}}),
        ({"op": "sha"}, {"sha256": {"a": SUM.upper()}}),
        ({"op": "sha"}, {"sha256": {}, "revision": {"a": "../x"}}),
        ({"op": "sha", "name": "a"}, {"sha256": [SUM]}),
        ({"op": "sha", "name": "a"}, {"read_bytes": "x"}),
        ({"op": "get", "name": "a"}, {"mtime_ns": 1}),
        ({"op": "get", "name": "a"}, {"size": 1}),
        ({"op": "get", "name": "a"}, {"size": "1", "mtime_ns": 1}),
        ({"op": "get", "name": "a"}, {"size": 1, "mtime_ns": 10**30}),
    ],
)
def test_no_answers_of_a_model(request_: dict[str, Any], answer: dict[str, Any]) -> None:
    with pytest.raises(_wire.WireError, match="the source said"):
        _answers.of_model(request_, answer)


def test_what_is_nested_without_end_is_no_json() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        _wire.send_line(theirs, "[" * 100_000)
        with pytest.raises(_wire.WireError, match="expected a JSON line"):
            _wire.read_json(ours)
        for kind in (_wire.NOTE, _wire.END):
            _wire.send_frame(theirs, kind, b"[" * 100_000)
            with pytest.raises(_wire.WireError, match="carries no JSON"):
                _wire.read_frames(ours, lambda _data: None)
