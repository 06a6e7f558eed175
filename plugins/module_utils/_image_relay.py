# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 gb10.serving contributors
# Private to gb10.serving: hands an image on while it still comes.
"""An offer of a node that is a receiver itself, and the way from its own copy to that offer."""

from __future__ import annotations

import contextlib
import glob
import json
import os
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from ansible_collections.gb10.serving.plugins.module_utils._answers import joined, only_texts
from ansible_collections.gb10.serving.plugins.module_utils._image_hub import (
    SIGN_SECONDS,
    STALL_LEAST,
    Reader,
    Round,
    end_stream,
    stall_below,
)
from ansible_collections.gb10.serving.plugins.module_utils._image_offer import GRACE, PATIENCE, ImageOffer
from ansible_collections.gb10.serving.plugins.module_utils._offer import PREFIX
from ansible_collections.gb10.serving.plugins.module_utils._wire import (
    CHUNK,
    DATA,
    END,
    NOTE,
    WireError,
    read_frames,
    read_json,
    send_frame,
    send_json,
)

FEED, CONTENT = "feed", "content"


class Relay:
    """Handler of an offer on a node whose own copy comes: it goes on at once to those who joined in time."""

    def __init__(
        self,
        session: str,
        content: str,
        has_it: Callable[[], bool],
        whole: Callable[[], ImageOffer],
        receivers: int = 1,
    ) -> None:
        self._session, self._has_it, self._whole = session, has_it, whole
        self._lock = threading.Lock()
        self._turn = Round(receivers, GRACE)
        self._after: ImageOffer | None = None
        self._layers: list[str] = []
        self._stall = STALL_LEAST
        self._copying = threading.Event()  # the own copy has begun
        self._copied = threading.Event()  # it has ended, one way or the other
        with open(os.path.join(session, CONTENT), "w", encoding="utf-8") as stream:
            stream.write(content)

    def begin(self) -> None:
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(os.path.join(self._session, FEED))
        listener.listen(1)
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                sock, _peer = listener.accept()
            except OSError:
                return
            self._copied.clear()
            try:
                with sock, contextlib.suppress(OSError, WireError):
                    self._copy(sock)
            finally:
                self._copied.set()

    def _copy(self, sock: socket.socket) -> None:
        """The node's own copy says what comes, learns who joined, sends its frames and stays until it is done."""
        request = read_json(sock)
        if not request:
            return
        self._layers, stall = joined(request)
        self._stall = stall_below(stall)
        self._copying.set()
        readers = self._turn.gather(GRACE) if self._turn.open else []
        held = set.intersection(*(reader.held for reader in readers)) if readers else set()
        send_json(sock, {"readers": len(readers), "held": sorted(held)})
        if readers:
            self._turn.stream(readers, lambda sink: read_frames(sock, lambda data: sink(bytes(data)), sink))
        while sock.recv(CHUNK):  # nothing, or what no receiver is left for
            pass

    def __call__(self, sock: socket.socket, request: dict[str, Any]) -> None:
        if request.get("op") != "join":
            end_stream(sock, {"rc": 1, "error": f"unknown request {request.get('op')!r}"})
            return
        joined = self._turn.announce()
        asked, began = None, False
        try:
            began = self._copying.wait(PATIENCE / 2)
            send_json(sock, {"layers": self._layers, "stall": self._stall})
            asked = read_json(sock)
        finally:
            if joined and not (asked and began):
                self._turn.leave()
        if not asked:
            return
        reader = Reader(sock, self._layers, only_texts(asked.get("held")), self._stall)
        if joined and began and self._turn.join(reader):
            reader.send()
        else:
            self._late(sock, asked)

    def _late(self, sock: socket.socket, request: dict[str, Any]) -> None:
        """Waits until the image is here, then it is saved from here."""
        while not self._has_it():
            if self._copied.is_set() or not self._copying.is_set():
                end_stream(sock, {"rc": 1, "error": "that node did not get the image itself"})
                return
            send_frame(sock, DATA, b"")
            self._copied.wait(SIGN_SECONDS)
        with self._lock:
            self._after = self._after or self._whole()
        self._after(sock, request)


class Onward:
    """The own copy's line to the relay on this node. A relay that fails is given up; the copy goes on."""

    def __init__(self, content: str, layers: Sequence[str], stall: float) -> None:
        self.held: set[str] | None = None  # what all who joined have; None when nobody did
        self._sock = _find(content)
        if self._sock:
            try:
                self._sock.settimeout(GRACE * 6)  # longer than the relay waits for those who join, or that stall
                send_json(self._sock, {"layers": list(layers), "stall": stall})
                answer = read_json(self._sock) or {}
                if answer.get("readers"):
                    self.held = set(only_texts(answer.get("held")))
            except (OSError, WireError):
                self.close()

    def data(self, piece: memoryview) -> None:
        self._send(DATA, piece)

    def note(self, note: dict[str, Any]) -> None:
        self._send(NOTE, json.dumps(note).encode())

    def end(self, status: dict[str, Any]) -> None:
        self._send(END, json.dumps(status).encode())

    def _send(self, kind: bytes, piece: bytes | memoryview) -> None:
        if self._sock and self.held is not None:
            try:
                send_frame(self._sock, kind, piece)
            except OSError:
                self.held = None
                with contextlib.suppress(OSError):
                    self._sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        if self._sock:
            self._sock.close()
            self._sock = None


def _find(content: str, seconds: float = 2.0) -> socket.socket | None:
    """A connection to the relay of this user on this node that follows this content."""
    until = time.monotonic() + seconds
    for base in sorted({"/run", tempfile.gettempdir()}):
        for name in glob.glob(os.path.join(base, f"{PREFIX}*", CONTENT)):
            try:
                with open(name, encoding="utf-8") as stream:
                    if stream.read() != content or os.fstat(stream.fileno()).st_uid != os.geteuid():
                        continue
            except OSError:
                continue
            while time.monotonic() < until:  # an offer that was just opened listens in a moment
                sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
                try:
                    sock.connect(os.path.join(os.path.dirname(name), FEED))
                    return sock
                except OSError:
                    sock.close()
                    time.sleep(0.05)
    return None
