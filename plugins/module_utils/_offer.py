# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 gb10.serving contributors
# Private to gb10.serving: the source side of a transfer.
"""A server for one transfer: this node's rails, named peers, one token, and an end of its own."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import ipaddress
import os
import secrets
import selectors
import shutil
import signal
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ansible_collections.gb10.serving.plugins.module_utils._job import JobError, detach, private_dir
from ansible_collections.gb10.serving.plugins.module_utils._offer_places import MAX_CONNECTIONS, Places
from ansible_collections.gb10.serving.plugins.module_utils._wire import WireError, answer_handshake, read_json, refuse

PREFIX = "gb10-offer-"
HANDSHAKE_SECONDS = 20.0
#: A peer that takes nothing and answers nothing for so long is gone, even while the kernel would still try.
UNANSWERED_MS = 30_000

#: Answers one request of a receiver on this connection.
Handler = Callable[[socket.socket, dict[str, Any]], None]


def check_addresses(addresses: str | Sequence[str], allowed: Iterable[str]) -> list[str]:
    """The allowed peers in normal form; JobError when the offer would be open to more than them."""
    own = [addresses] if isinstance(addresses, str) else list(addresses)
    if not own:
        raise JobError("An offer needs addresses to listen on. Give the fabric addresses of this node.")
    try:
        for address in own:
            if ipaddress.ip_address(address).is_unspecified:
                raise JobError(
                    f"An offer must not listen on all addresses, but it was given {address}. Give the fabric "
                    "addresses of this node."
                )
        peers = [str(ipaddress.ip_address(peer)) for peer in allowed]
    except ValueError as error:
        raise JobError(
            f"Expected IP addresses for the offer: {error}. Give the fabric addresses of this node and of the "
            "receivers."
        ) from error
    if not peers:
        raise JobError("An offer needs the addresses that may fetch from it, but allowed is empty.")
    return peers


def listen(address: str, port: int, device: str | None = None) -> socket.socket:
    """A listening socket. With device it answers only what comes in there, where this user may ask for that."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        listener = socket.create_server((address, port), family=family, backlog=MAX_CONNECTIONS)
        if device:
            with contextlib.suppress(PermissionError):
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, device.encode() + b"\0")
        return listener
    except OSError as error:
        raise JobError(
            f"Cannot listen on {address} port {port}: {error.strerror or error}. "
            "Is the address one of this node's fabric addresses, and is the port free? Port 0 takes any free one."
        ) from error


def listen_on_all(addresses: Sequence[str], port: int, device: str | None = None) -> list[socket.socket]:
    """One listener for each address, all on one port. A rail without its address is left out while others are there."""
    for attempt in range(20):
        listeners: list[socket.socket] = []
        failed: JobError | None = None
        taken = False
        for address in addresses:
            try:
                listeners.append(listen(address, listeners[0].getsockname()[1] if listeners else port, device))
            except JobError as error:
                number = getattr(error.__cause__, "errno", None)
                failed, taken = error, taken or number == errno.EADDRINUSE
                if number != errno.EADDRNOTAVAIL:
                    break
        else:
            if listeners:
                return listeners
        for listener in listeners:
            listener.close()
        # A free port of one address can be taken on the next: choose again, unless the port was asked for.
        if failed and (port or not taken or attempt == 19):
            raise failed
    raise JobError(f"No port is free on all of {', '.join(addresses)}.")


class Server:
    """Accepts until it was idle for too long or its session folder is gone."""

    def __init__(
        self,
        listeners: socket.socket | Sequence[socket.socket],
        session: str,
        token: str,
        allowed: Iterable[str],
        idle_timeout: float,
        handler: Handler,
    ) -> None:
        self.listeners = [listeners] if isinstance(listeners, socket.socket) else list(listeners)
        self.listener, self.session, self.token = self.listeners[0], session, token
        self.allowed, self.idle_timeout, self.handler = set(allowed), idle_timeout, handler
        self.ending = False
        self._places = Places()

    def serve(self) -> str:
        """Returns why it ended."""
        with selectors.DefaultSelector() as ready:
            for listener in self.listeners:
                listener.setblocking(False)
                ready.register(listener, selectors.EVENT_READ)
            return self._accept(ready)

    def _accept(self, ready: selectors.BaseSelector) -> str:
        while not self.ending:
            if not os.path.isdir(self.session):
                return "withdrawn"
            if self._places.idle_seconds() > self.idle_timeout:
                return "idle"
            for key, _events in ready.select(0.5):
                try:
                    connection, peer = key.fileobj.accept()  # type: ignore[union-attr]
                except OSError:
                    continue
                if not self._places.take(connection, str(peer[0])):
                    connection.close()
                    continue
                threading.Thread(target=self._connection, args=(connection, str(peer[0])), daemon=True).start()
        return "asked"

    def _connection(self, connection: socket.socket, peer: str) -> None:
        try:
            self._serve(connection, peer)
        finally:
            self._places.leave(connection)

    def _serve(self, connection: socket.socket, peer: str) -> None:
        with contextlib.suppress(OSError, WireError), connection:
            connection.settimeout(HANDSHAKE_SECONDS)
            if peer not in self.allowed:
                refuse(connection, f"{peer} is not one of the addresses that may fetch from this offer")
                return
            if not answer_handshake(connection, self.token, HANDSHAKE_SECONDS):
                time.sleep(0.2)
                return
            if not self._places.prove(connection):
                return
            connection.settimeout(max(self.idle_timeout, HANDSHAKE_SECONDS))
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNANSWERED_MS)
            while not self.ending:
                request = read_json(connection)
                if request is None:
                    return
                self.handler(connection, request)


def sweep() -> None:
    """Removes what offers left that were killed: folders of this user whose lock nobody holds."""
    for base in sorted({"/run", tempfile.gettempdir()}):
        with contextlib.suppress(OSError):
            for entry in os.scandir(base):
                if (
                    entry.name.startswith(PREFIX)
                    and entry.is_dir(follow_symlinks=False)
                    and entry.stat().st_uid == os.geteuid()
                ):
                    with contextlib.suppress(OSError):
                        if _lock_is_free(entry.path) and time.time() - entry.stat().st_mtime > 5:
                            shutil.rmtree(entry.path, ignore_errors=True)


def _lock_is_free(session: str) -> bool:
    try:
        number = os.open(os.path.join(session, "lock"), os.O_RDWR)
    except FileNotFoundError:
        return True
    try:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except BlockingIOError:
        return False
    finally:
        os.close(number)


def open_offer(
    addresses: str | Sequence[str],
    port: int,
    allowed: Iterable[str],
    idle_timeout: float,
    make: Callable[[str], Handler],
    device: str | None = None,
) -> dict[str, Any]:
    """Starts the detached server. make(session) gives the handler, in the caller's process: it must start no thread.

    Returns the addresses that it listens on (address is the first), port, token and session.
    """
    peers = check_addresses(addresses, allowed)
    listeners = listen_on_all([addresses] if isinstance(addresses, str) else list(addresses), port, device)
    sweep()
    session = private_dir(PREFIX)
    token = secrets.token_urlsafe(32)
    lock = os.open(os.path.join(session, "lock"), os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    server = Server(listeners, session, token, peers, idle_timeout, make(session))

    def work() -> None:
        def end(_number: int, _frame: object) -> None:
            server.ending = True

        signal.signal(signal.SIGTERM, end)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        try:
            getattr(server.handler, "begin", lambda: None)()  # threads of the handler: they do not survive a fork
            server.serve()
        finally:
            for listener in listeners:
                listener.close()
            shutil.rmtree(session, ignore_errors=True)
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            with contextlib.suppress(OSError):
                os.killpg(0, signal.SIGTERM)

    bound = [str(listener.getsockname()[0]) for listener in listeners]
    result = {
        "address": bound[0],
        "addresses": bound,
        "port": listeners[0].getsockname()[1],
        "token": token,
        "session": session,
    }
    detach(work, keep_fds=(*(listener.fileno() for listener in listeners), lock))
    for listener in listeners:
        listener.close()
    os.close(lock)
    return result


def withdraw(session: str, seconds: float = 15.0, check: bool = False) -> bool:
    """Ends the offer; False when there was none. JobError when the server does not end. With check it only looks."""
    if not os.path.basename(session).startswith(PREFIX) or os.path.dirname(session) not in (
        "/run",
        tempfile.gettempdir(),
    ):
        raise JobError(
            f"{session!r} is not a session of an offer. Give the value of session that the state offered returned."
        )
    try:
        lock = os.open(os.path.join(session, "lock"), os.O_RDWR)
    except FileNotFoundError:
        return False
    try:
        if check:
            return True
        shutil.rmtree(session, ignore_errors=True)
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return True
            except BlockingIOError:
                time.sleep(0.1)
    finally:
        os.close(lock)
    raise JobError(
        f"The offer of {session} did not end within {seconds:g} s. Its port accepts no new work; look for its "
        "process with 'ss -ltnp' on this node."
    )
