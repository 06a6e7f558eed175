# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 gb10.serving contributors
# Private to gb10.serving: the source side of a transfer.
"""A server for one transfer: one address, named peers, one token, and an end of its own."""

from __future__ import annotations

import contextlib
import fcntl
import ipaddress
import os
import secrets
import shutil
import signal
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

from ansible_collections.gb10.serving.plugins.module_utils._job import JobError, detach, private_dir
from ansible_collections.gb10.serving.plugins.module_utils._wire import WireError, answer_handshake, read_json, refuse

PREFIX = "gb10-offer-"
MAX_CONNECTIONS = 64
HANDSHAKE_SECONDS = 20.0

#: Answers one request of a receiver on this connection.
Handler = Callable[[socket.socket, dict[str, Any]], None]


def check_addresses(address: str, allowed: Iterable[str]) -> list[str]:
    """The allowed peers in normal form; JobError when the offer would be open to more than them."""
    try:
        if ipaddress.ip_address(address).is_unspecified:
            raise JobError(
                f"An offer must not listen on all addresses, but address is {address}. Give the fabric address of "
                "this node."
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


class Server:
    """Accepts until it was idle for too long or its session folder is gone."""

    def __init__(
        self,
        listener: socket.socket,
        session: str,
        token: str,
        allowed: Iterable[str],
        idle_timeout: float,
        handler: Handler,
    ) -> None:
        self.listener, self.session, self.token = listener, session, token
        self.allowed, self.idle_timeout, self.handler = set(allowed), idle_timeout, handler
        self.ending = False

    def serve(self) -> str:
        """Returns why it ended."""
        threads: list[threading.Thread] = []
        idle_since = time.monotonic()
        self.listener.settimeout(0.5)
        while not self.ending:
            if not os.path.isdir(self.session):
                return "withdrawn"
            threads = [thread for thread in threads if thread.is_alive()]
            if threads:
                idle_since = time.monotonic()
            elif time.monotonic() - idle_since > self.idle_timeout:
                return "idle"
            try:
                connection, peer = self.listener.accept()
            except TimeoutError:
                continue
            if len(threads) >= MAX_CONNECTIONS:
                connection.close()
                continue
            thread = threading.Thread(target=self._connection, args=(connection, str(peer[0])), daemon=True)
            thread.start()
            threads.append(thread)
        return "asked"

    def _connection(self, connection: socket.socket, peer: str) -> None:
        with contextlib.suppress(OSError, WireError), connection:
            connection.settimeout(HANDSHAKE_SECONDS)
            if peer not in self.allowed:
                refuse(connection, f"{peer} is not one of the addresses that may fetch from this offer")
                return
            if not answer_handshake(connection, self.token):
                time.sleep(0.2)
                return
            connection.settimeout(max(self.idle_timeout, HANDSHAKE_SECONDS))
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
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
    address: str,
    port: int,
    allowed: Iterable[str],
    idle_timeout: float,
    make: Callable[[str], Handler],
    device: str | None = None,
) -> dict[str, Any]:
    """Starts the detached server. make(session) gives the handler. Returns address, port, token and session."""
    peers = check_addresses(address, allowed)
    listener = listen(address, port, device)
    sweep()
    session = private_dir(PREFIX)
    token = secrets.token_urlsafe(32)
    lock = os.open(os.path.join(session, "lock"), os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    server = Server(listener, session, token, peers, idle_timeout, make(session))

    def work() -> None:
        def end(_number: int, _frame: object) -> None:
            server.ending = True

        signal.signal(signal.SIGTERM, end)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        try:
            server.serve()
        finally:
            listener.close()
            shutil.rmtree(session, ignore_errors=True)
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            with contextlib.suppress(OSError):
                os.killpg(0, signal.SIGTERM)

    result = {"address": address, "port": listener.getsockname()[1], "token": token, "session": session}
    detach(work, keep_fds=(listener.fileno(), lock))
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
