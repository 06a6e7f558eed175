# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 gb10.serving contributors
# Private to gb10.serving: one stream of an image for several receivers.
"""A round hands one stream to all receivers that joined it, each without the layers that it has."""

from __future__ import annotations

import contextlib
import json
import queue
import socket
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ansible_collections.gb10.serving.plugins.module_utils._image_layers import LayerChoice
from ansible_collections.gb10.serving.plugins.module_utils._image_tar import TarError, TarFilter
from ansible_collections.gb10.serving.plugins.module_utils._wire import DATA, END, NOTE, send_frame

#: Pieces of up to 1 MiB that wait for a receiver. Receivers share them.
QUEUED = 8
#: A receiver that takes nothing for so long loses its place, so that the others go on.
STALL_SECONDS = 30.0
#: Each node down a chain is quicker by so much to give up its receivers: it must not be given up for their sake.
STALL_STEP = 3.0
STALL_LEAST = 6.0
#: An empty frame says so often that the source still works on it.
SIGN_SECONDS = 5.0

#: Takes a piece of the stream, or what is told of it: a dictionary, with "rc" the last one.
Sink = Callable[["bytes | dict[str, Any]"], None]
#: Hands every piece of the stream to the sink; returns its status with rc and error.
Feed = Callable[[Sink], dict[str, Any]]


def stall_below(upstream: float) -> float:
    return max(upstream - STALL_STEP, STALL_LEAST)


def end_stream(sock: socket.socket, status: dict[str, Any]) -> None:
    send_frame(sock, END, json.dumps(status).encode())


class Reader:
    """One receiver's place in a round. send() runs in the thread of its connection."""

    def __init__(
        self, sock: socket.socket, diff_ids: Sequence[str], held: Iterable[str], stall: float | None = None
    ) -> None:
        self.sock, self.sent, self.gone = sock, 0, False
        self._stall = STALL_SECONDS if stall is None else stall
        self.held = set(held)
        choice = LayerChoice(diff_ids, self.held)
        self._filter = TarFilter(choice.drop, choice.note) if choice.chains else None
        self._queue: queue.Queue[bytes | dict[str, Any]] = queue.Queue(QUEUED)

    def put(self, piece: bytes | dict[str, Any]) -> None:
        """A receiver that died or stalls is dropped here; its connection ends without an end of the stream."""
        until = time.monotonic() + self._stall
        while not self.gone:
            try:
                self._queue.put(piece, timeout=min(0.5, max(until - time.monotonic(), 0.01)))
                return
            except queue.Full:
                if time.monotonic() >= until:
                    self.drop()

    def drop(self) -> None:
        self.gone = True
        with contextlib.suppress(OSError):
            self.sock.shutdown(socket.SHUT_RDWR)

    def send(self) -> None:
        try:
            while not self.gone:
                try:
                    piece = self._queue.get(timeout=SIGN_SECONDS)
                except queue.Empty:
                    send_frame(self.sock, DATA, b"")
                    continue
                if isinstance(piece, dict):
                    if "rc" in piece:
                        end_stream(self.sock, self._finished(piece))
                        return
                    send_frame(self.sock, NOTE, json.dumps(piece).encode())
                    continue
                for part in self._filter.feed(piece) if self._filter else (piece,):
                    send_frame(self.sock, DATA, part)
                    self.sent += len(part)
        except TarError as error:
            end_stream(self.sock, {"rc": 1, "bytes": self.sent, "error": f"docker save made no archive: {error}"})
        finally:
            self.gone = True

    def _finished(self, status: dict[str, Any]) -> dict[str, Any]:
        if self._filter and status.get("rc") == 0:
            self._filter.finish()
        left_out = sum(self._filter.dropped.values()) if self._filter else 0
        # What the source itself left out, all receivers have.
        left_out += int(status.get("left_out_bytes") or 0)
        return {**status, "bytes": self.sent, "left_out_bytes": left_out}


class Round:
    """Waits for its receivers, then streams once. A receiver that comes later needs another round."""

    def __init__(self, expected: int, grace: float) -> None:
        self._expected, self._grace = expected, grace
        self._change = threading.Condition()
        self._readers: list[Reader] = []
        self._announced = 0
        self._since: float | None = None
        self._closed = False
        self.done = threading.Event()

    @property
    def open(self) -> bool:
        with self._change:
            return not self._closed

    def announce(self) -> bool:
        """A receiver is there and will say soon what it has. False when the round has begun."""
        with self._change:
            if self._closed:
                return False
            self._announced += 1
            self._since = time.monotonic()
            self._change.notify_all()
            return True

    def join(self, reader: Reader) -> bool:
        with self._change:
            self._announced -= 1
            if self._closed:
                return False
            self._readers.append(reader)
            self._change.notify_all()
            return True

    def leave(self) -> None:
        """A receiver that was announced went away."""
        with self._change:
            self._announced -= 1
            self._change.notify_all()

    def gather(self, patience: float) -> list[Reader]:
        """Those who joined: all that are expected, or who came within the grace of the last one, or nobody."""
        started = time.monotonic()
        with self._change:
            while True:
                now = time.monotonic()
                if len(self._readers) >= self._expected and not self._announced:
                    break
                if self._since is None:
                    left = started + patience - now
                else:
                    # One that announced itself waits for its own receivers, so it gets more time.
                    left = self._since + self._grace * (3 if self._announced else 1) - now
                if left <= 0:
                    break
                self._change.wait(min(left, 1.0))
            self._closed = True
            return list(self._readers)

    def stream(self, readers: list[Reader], feed: Feed) -> dict[str, Any]:
        """Runs the feed for these readers. When all are gone it is told so by BrokenPipeError out of the sink."""

        def sink(piece: bytes | dict[str, Any]) -> None:
            for reader in readers:
                reader.put(piece)
            if all(reader.gone for reader in readers):
                raise BrokenPipeError("all receivers are gone")

        status: dict[str, Any] = {"rc": 1, "error": "the source ended"}
        try:
            status = feed(sink)
        except Exception as error:
            status = {"rc": 1, "error": f"{type(error).__name__}: {error}"}
        finally:
            for reader in readers:
                reader.put(status)
            self.done.set()
        return status
