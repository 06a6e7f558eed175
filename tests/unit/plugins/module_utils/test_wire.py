# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator

import pytest

from ansible_collections.gb10.serving.plugins.module_utils import _wire

Pair = tuple[socket.socket, socket.socket]


@pytest.fixture
def pair() -> Iterator[Pair]:
    ours, theirs = socket.socketpair()
    ours.settimeout(5)
    theirs.settimeout(5)
    with ours, theirs:
        yield ours, theirs


def beside(target: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=target)
    thread.start()
    return thread


def test_handshake(pair: Pair) -> None:
    ours, theirs = pair
    answers: list[bool] = []
    thread = beside(lambda: answers.append(_wire.answer_handshake(theirs, "secret")))
    _wire.handshake(ours, "secret")
    thread.join(5)
    assert answers == [True]


def test_wrong_token_is_refused(pair: Pair) -> None:
    ours, theirs = pair
    answers: list[bool] = []
    thread = beside(lambda: answers.append(_wire.answer_handshake(theirs, "secret")))
    with pytest.raises(_wire.WireError, match=r"refused.*token"):
        _wire.handshake(ours, "other")
    thread.join(5)
    assert answers == [False]


def test_a_source_that_does_not_know_the_token_is_found_out(pair: Pair) -> None:
    ours, theirs = pair
    theirs.sendall(f"{_wire.GREETING} 00\nok 1234\n".encode())
    with pytest.raises(_wire.WireError, match="could not prove"):
        _wire.handshake(ours, "secret")


def test_the_token_never_crosses_the_wire(pair: Pair) -> None:
    ours, theirs = pair
    theirs.sendall(f"{_wire.GREETING} 00\nok 1234\n".encode())
    with pytest.raises(_wire.WireError):
        _wire.handshake(ours, "secret-token")
    assert b"secret-token" not in theirs.recv(4096)


@pytest.mark.parametrize("said", [b"", b"SSH-2.0\n", b"refused you\n"])
def test_strange_greetings(pair: Pair, said: bytes) -> None:
    ours, theirs = pair
    theirs.sendall(said)
    theirs.shutdown(socket.SHUT_WR)
    with pytest.raises(_wire.WireError):
        _wire.handshake(ours, "secret")


def test_frames(pair: Pair) -> None:
    ours, theirs = pair
    got: list[bytes] = []
    for part in (b"abc", b"", b"de"):
        _wire.send_frame(theirs, _wire.DATA, part)
    _wire.send_frame(theirs, _wire.END, b'{"rc": 0}')
    assert _wire.read_frames(ours, lambda data: got.append(bytes(data))) == {"rc": 0}
    assert b"".join(got) == b"abcde"


def test_what_is_told_of_a_stream_is_no_part_of_it(pair: Pair) -> None:
    ours, theirs = pair
    got: list[object] = []
    for kind, part in ((_wire.NOTE, b'{"rest": 2}'), (_wire.DATA, b"ab"), (_wire.END, b"{}")):
        _wire.send_frame(theirs, kind, part)
    assert _wire.read_frames(ours, lambda data: got.append(bytes(data)), got.append) == {}
    assert got == [{"rest": 2}, b"ab"]


@pytest.mark.parametrize(
    "cut",
    [
        b"",
        b"D\0",
        b"D\0\0\0\5abc",
        b"D\0\0\0\3abc",
        b"E\0\0\0\5{",
        b"E\0\0\0\1{",
        b"N\0\0\0\2[]",
        b"X\0\0\0\0",
        b"D\xff\0\0\0",
    ],
)
def test_a_stream_without_its_end_is_an_error(pair: Pair, cut: bytes) -> None:
    ours, theirs = pair
    theirs.sendall(cut)
    theirs.shutdown(socket.SHUT_WR)
    with pytest.raises(_wire.WireError):
        _wire.read_frames(ours, lambda _data: None)


def test_json_lines(pair: Pair) -> None:
    ours, theirs = pair
    _wire.send_json(theirs, {"a": 1})
    theirs.sendall(b"[1]\nno json\n")
    assert _wire.read_json(ours) == {"a": 1}
    for _ in range(2):
        with pytest.raises(_wire.WireError):
            _wire.read_json(ours)
    theirs.shutdown(socket.SHUT_WR)
    assert _wire.read_json(ours) is None


def test_a_line_without_end_is_refused(pair: Pair) -> None:
    ours, theirs = pair
    theirs.sendall(b"x" * 100)
    with pytest.raises(_wire.WireError, match="longer"):
        _wire.read_line(ours, 64)
