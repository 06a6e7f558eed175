# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 gb10.serving contributors
# Private to gb10.serving: who is connected to an offer.
from __future__ import annotations

import contextlib
import socket
import threading
import time

MAX_CONNECTIONS = 128


class Places:
    """As many connections as an offer serves. Those that have not proven themselves make room for others."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._unproven: dict[socket.socket, str] = {}  # with their peers, the oldest first
        self._proven: set[socket.socket] = set()
        self._used = time.monotonic()

    def take(self, connection: socket.socket, peer: str) -> bool:
        """Whether there is a place for it, if need be that of the oldest unproven one of the peer with most of them."""
        with self._lock:
            if len(self._proven) >= MAX_CONNECTIONS:
                return False
            if len(self._proven) + len(self._unproven) >= MAX_CONNECTIONS:
                peers = list(self._unproven.values())
                most = max(peers, key=peers.count)
                oldest = next(sock for sock, name in self._unproven.items() if name == most)
                del self._unproven[oldest]
                with contextlib.suppress(OSError):
                    oldest.shutdown(socket.SHUT_RDWR)
            self._unproven[connection] = peer
            return True

    def prove(self, connection: socket.socket) -> bool:
        """It knows the token. False when its place was given away meanwhile."""
        with self._lock:
            if self._unproven.pop(connection, None) is None:
                return False
            self._proven.add(connection)
            return True

    def leave(self, connection: socket.socket) -> None:
        with self._lock:
            self._unproven.pop(connection, None)
            if connection in self._proven:
                self._proven.discard(connection)
                self._used = time.monotonic()

    def idle_seconds(self) -> float:
        """How long nobody who knows the token has been here."""
        with self._lock:
            return 0.0 if self._proven else time.monotonic() - self._used
