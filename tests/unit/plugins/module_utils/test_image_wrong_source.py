# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""Sources of an image that answer what is no answer: the next one is asked, and nothing stays changed."""

from __future__ import annotations

import contextlib
import pathlib
import socket
import time
from typing import Any

import pytest

from ansible_collections.gb10.serving.plugins.module_utils import _image_copy, _image_docker, _image_load, _wire
from ansible_collections.gb10.serving.plugins.module_utils._image_load import SourceError
from ansible_collections.gb10.serving.plugins.module_utils._job import JobError, Progress
from ansible_collections.gb10.serving.tests.unit.plugins.module_utils.image_streams import (
    Receiving,
    connect,
    load_to,
    make_quick,
)
from ansible_collections.gb10.serving.tests.unit.plugins.module_utils.test_image_copy import (
    SOURCES,
    Docker,
    Way,
    content,
    fetch,
)

NESTED = b"[" * 100_000


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    make_quick(monkeypatch)
    monkeypatch.setattr(_image_docker, "_memory", lambda: str(tmp_path / "whole.json"))


class Answering:
    """A source that differs from a sound one in one answer."""

    def __init__(
        self, join: bytes = b"{}", note: bytes = b"{}", end: bytes = b'{"rc":0,"bytes":5}', empty: bool = False
    ) -> None:
        self.join, self.note, self.end, self.empty = join, note, end, empty

    def __call__(self, sock: socket.socket, request: dict[str, Any]) -> None:
        if request["op"] == "join":
            sock.sendall(self.join + b"\n")
            return
        with contextlib.suppress(OSError):
            while self.empty:
                _wire.send_frame(sock, _wire.DATA, b"")
                time.sleep(0.05)
            _wire.send_frame(sock, _wire.NOTE, self.note)
            _wire.send_frame(sock, _wire.DATA, b"hello")
            _wire.send_frame(sock, _wire.END, self.end)


def test_a_sound_one_is_taken(tmp_path: pathlib.Path) -> None:
    assert Receiving(Answering(), tmp_path / "got").result().moved_bytes == 5


WRONG = [
    {"join": b'{"stall":"abc"}'},
    {"join": b'{"layers":5}'},
    {"join": b'{"layers":[1]}'},
    {"join": b"[1]"},
    {"join": NESTED},
    {"note": b'{"layers":[1]}'},
    {"note": b'{"layers":{},"rest":"z"}'},
    {"note": NESTED},
    {"end": b'{"rc":0,"bytes":5,"left_out_bytes":"x"}'},
    {"end": b'{"rc":0,"bytes":4}'},
    {"end": b"[]"},
    {"end": NESTED},
]


@pytest.mark.parametrize("wrong", WRONG, ids=range(len(WRONG)))
def test_a_wrong_answer_is_an_error_of_that_source(tmp_path: pathlib.Path, wrong: dict[str, Any]) -> None:
    assert isinstance(Receiving(Answering(**wrong), tmp_path / "got").result(), SourceError)


@pytest.mark.parametrize("wrong", [{"join": b'{"stall":"abc"}'}, {"note": NESTED}, {"empty": True}], ids=range(3))
def test_the_next_source_is_tried_and_the_way_back_restored(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, wrong: dict[str, Any]
) -> None:
    asked: list[str] = []

    def connected(address: str, *_: Any) -> socket.socket:
        asked.append(address)
        return connect(Answering(**wrong))

    real = _image_load._Load
    monkeypatch.setattr(_image_load, "_Load", lambda _command: real(load_to(tmp_path / "got")))
    monkeypatch.setattr(_image_copy, "connect", connected)
    docker = Docker(img_v="two", img_gb10_previous="one")
    with pytest.raises(JobError, match=r"no source could give the image\. a: .* b: ") as raised:
        _image_copy.fetch("img:v", content("three"), SOURCES, 0.2, Progress(), docker)
    assert asked == ["192.0.2.1", "192.0.2.2"]
    assert docker.tags == {"img:v": "two", "img:gb10-previous": "one"}
    assert ("signs of life" in str(raised.value)) == ("empty" in wrong)


def test_the_way_back_is_restored_whatever_goes_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    docker = Docker(img_v="two", img_gb10_previous="one")
    with pytest.raises(ValueError, match="unforeseen"):
        fetch(docker, monkeypatch, Way(docker, ValueError("unforeseen")), wants="three")
    assert docker.tags == {"img:v": "two", "img:gb10-previous": "one"}
