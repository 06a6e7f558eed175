# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
from __future__ import annotations

import contextlib
import os
import pathlib
import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from ansible_collections.gb10.serving.plugins.module_utils import _job, _offer, _offer_places, _wire


def echo(sock: socket.socket, request: dict[str, Any]) -> None:
    _wire.send_json(sock, {"you": request["say"]})


class Running:
    def __init__(self, session: pathlib.Path, idle: float = 5, allowed: str = "127.0.0.1") -> None:
        listener = _offer.listen("127.0.0.1", 0)
        self.port = listener.getsockname()[1]
        self.server = _offer.Server(listener, str(session), "token", [allowed], idle, echo)
        self.why: list[str] = []
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self) -> None:
        self.why.append(self.server.serve())
        self.server.listener.close()


@pytest.fixture
def running(tmp_path: pathlib.Path) -> Iterator[Running]:
    offer = Running(tmp_path)
    yield offer
    offer.server.ending = True
    offer.thread.join(5)


def test_several_requests_on_several_connections(running: Running) -> None:
    with (
        _wire.connect("127.0.0.1", running.port, "token", 5) as one,
        _wire.connect("127.0.0.1", running.port, "token", 5) as two,
    ):
        for sock, word in ((one, "a"), (two, "b"), (one, "c")):
            _wire.send_json(sock, {"say": word})
            assert _wire.read_json(sock) == {"you": word}


def test_wrong_token(running: Running) -> None:
    with pytest.raises(_wire.WireError, match=rf"127\.0\.0\.1 port {running.port}.*token"):
        _wire.connect("127.0.0.1", running.port, "guess", 5)


def test_wrong_peer(tmp_path: pathlib.Path) -> None:
    offer = Running(tmp_path, allowed="127.0.0.9")
    with pytest.raises(_wire.WireError, match=r"127\.0\.0\.1 is not one of"):
        _wire.connect("127.0.0.1", offer.port, "token", 5)
    offer.server.ending = True
    offer.thread.join(5)


def test_ends_when_idle_but_not_while_somebody_is_connected(tmp_path: pathlib.Path) -> None:
    offer = Running(tmp_path, idle=0.3)
    with _wire.connect("127.0.0.1", offer.port, "token", 5):
        time.sleep(1.2)
        assert offer.thread.is_alive()
    offer.thread.join(10)
    assert offer.why == ["idle"]


def test_ends_when_its_folder_is_gone(tmp_path: pathlib.Path) -> None:
    session = tmp_path / "s"
    session.mkdir()
    offer = Running(session)
    session.rmdir()
    offer.thread.join(5)
    assert offer.why == ["withdrawn"]


def test_connect_names_a_closed_port() -> None:
    listener = _offer.listen("127.0.0.1", 0)
    port = listener.getsockname()[1]
    listener.close()
    with pytest.raises(_wire.WireError, match=f"port {port}.*offer still open"):
        _wire.connect("127.0.0.1", port, "token", 5)


@pytest.mark.parametrize(
    ("address", "allowed"),
    [
        ("0.0.0.0", ["10.0.0.1"]),
        ("::", ["10.0.0.1"]),
        ("10.0.0.1", []),
        ("spark-a", ["10.0.0.1"]),
        ("10.0.0.1", ["all"]),
    ],
)
def test_offers_that_would_be_too_open_are_refused(address: str, allowed: list[str]) -> None:
    with pytest.raises(_job.JobError):
        _offer.check_addresses(address, allowed)


def test_listen_names_what_cannot_be_bound() -> None:
    with pytest.raises(_job.JobError, match=r"192\.0\.2\.77 port 0"):
        _offer.listen("192.0.2.77", 0)


def test_detached_offer_from_start_to_withdrawal(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(_offer, "private_dir", lambda prefix: tempfile.mkdtemp(prefix=prefix, dir=tmp_path))
    offer = _offer.open_offer("127.0.0.1", 0, ["127.0.0.1"], 60, lambda _session: echo)
    assert os.stat(offer["session"]).st_mode & 0o777 == 0o700
    with _wire.connect("127.0.0.1", offer["port"], offer["token"], 5) as sock:
        _wire.send_json(sock, {"say": "x"})
        assert _wire.read_json(sock) == {"you": "x"}
        assert _offer.withdraw(offer["session"], check=True) is True
        assert _offer.withdraw(offer["session"]) is True
        assert sock.recv(1) == b""
    assert _offer.withdraw(offer["session"]) is False
    assert not os.path.exists(offer["session"])
    with pytest.raises(_wire.WireError):
        _wire.connect("127.0.0.1", offer["port"], offer["token"], 5)


def test_withdraw_takes_only_sessions() -> None:
    with pytest.raises(_job.JobError, match="not a session"):
        _offer.withdraw("/etc")


def test_one_port_on_all_rails(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(_offer, "private_dir", lambda prefix: tempfile.mkdtemp(prefix=prefix, dir=tmp_path))
    rails = ["127.0.0.11", "127.0.0.12", "192.0.2.77"]  # the last is not up
    offer = _offer.open_offer(rails, 0, ["127.0.0.1"], 60, lambda _session: echo)
    try:
        assert (offer["address"], offer["addresses"]) == ("127.0.0.11", ["127.0.0.11", "127.0.0.12"])
        for address in offer["addresses"]:
            with _wire.connect(address, offer["port"], offer["token"], 5) as sock:
                _wire.send_json(sock, {"say": address})
                assert _wire.read_json(sock) == {"you": address}
    finally:
        _offer.withdraw(offer["session"])


def test_a_port_that_is_taken_on_one_rail_is_not_used_on_any() -> None:
    taken = _offer.listen("127.0.0.12", 0)
    port = taken.getsockname()[1]
    with pytest.raises(_job.JobError, match=rf"127\.0\.0\.12 port {port}"):
        _offer.listen_on_all(["127.0.0.11", "127.0.0.12"], port)
    _offer.listen("127.0.0.11", port).close()  # nothing was left open
    taken.close()


def test_no_rail_is_up() -> None:
    with pytest.raises(_job.JobError, match=r"192\.0\.2\.78"):
        _offer.listen_on_all(["192.0.2.77", "192.0.2.78"], 0)
    with pytest.raises(_job.JobError, match="addresses to listen on"):
        _offer.check_addresses([], ["10.0.0.1"])


def silent(port: int, count: int) -> list[socket.socket]:
    return [socket.create_connection(("127.0.0.1", port), 5) for _number in range(count)]


def test_silent_connections_keep_nobody_out(running: Running) -> None:
    crowd = silent(running.port, _offer_places.MAX_CONNECTIONS + 20)
    with _wire.connect("127.0.0.1", running.port, "token", 5) as honest:
        crowd += silent(running.port, _offer_places.MAX_CONNECTIONS + 20)  # one that is proven keeps its place
        _wire.send_json(honest, {"say": "a"})
        assert _wire.read_json(honest) == {"you": "a"}
    for sock in crowd:
        sock.close()


def test_proven_connections_keep_their_places(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_offer_places, "MAX_CONNECTIONS", 2)
    with (
        _wire.connect("127.0.0.1", running.port, "token", 5) as first,
        _wire.connect("127.0.0.1", running.port, "token", 5) as second,
    ):
        for sock in (first, second):  # who is answered has been proven
            _wire.send_json(sock, {"say": "a"})
            assert _wire.read_json(sock) == {"you": "a"}
        with pytest.raises(_wire.WireError):
            _wire.connect("127.0.0.1", running.port, "token", 5)
    for _attempt in range(50):  # their places are free soon
        with contextlib.suppress(_wire.WireError), _wire.connect("127.0.0.1", running.port, "token", 5):
            return
        time.sleep(0.1)
    pytest.fail("no place became free")


def test_the_peer_with_most_silent_connections_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_offer_places, "MAX_CONNECTIONS", 3)
    places = _offer_places.Places()
    pairs = [socket.socketpair() for _number in range(4)]
    for (sock, _other), peer in zip(pairs, ("a", "b", "b", "c"), strict=True):
        assert places.take(sock, peer)
    assert [places.prove(sock) for sock, _other in pairs] == [True, False, True, True]
    assert pairs[1][1].recv(1) == b""
    for pair in pairs:
        for sock in pair:
            sock.close()


def test_one_who_proves_nothing_does_not_keep_an_offer_open(tmp_path: pathlib.Path) -> None:
    offer = Running(tmp_path, idle=0.5)
    crowd = silent(offer.port, 3)
    offer.thread.join(5)
    assert offer.why == ["idle"]
    for sock in crowd:
        sock.close()


@pytest.mark.parametrize("side", ["source", "receiver"])
def test_a_handshake_letter_by_letter_ends(side: str) -> None:
    ours, theirs = socket.socketpair()

    def drip() -> None:
        with contextlib.suppress(OSError):
            while True:
                theirs.sendall(b"a")
                time.sleep(0.05)

    threading.Thread(target=drip, daemon=True).start()
    begun = time.monotonic()
    with ours, pytest.raises(TimeoutError):
        if side == "source":
            _wire.answer_handshake(ours, "token", 0.5)
        else:
            _wire.handshake(ours, "token", 0.5)
    theirs.close()
    assert time.monotonic() - begun < 2
