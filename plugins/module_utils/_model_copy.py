# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 gb10.serving contributors
# Private to gb10.serving: hands the files of a model directory to other nodes.
"""The source of a model copy: of a directory that is whole, or of one that is itself on its way (following)."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import threading
from typing import Any

from ansible_collections.gb10.serving.plugins.module_utils import _model_journal
from ansible_collections.gb10.serving.plugins.module_utils._model_manifest import Sums, revision
from ansible_collections.gb10.serving.plugins.module_utils._model_ranges import order
from ansible_collections.gb10.serving.plugins.module_utils._model_state import Destination, signature
from ansible_collections.gb10.serving.plugins.module_utils._wire import send_json

#: A receiver that takes nothing for so long is gone.
SEND_SECONDS = 60


class Refusal(Exception):
    """Said to the receiver, which ends with it."""


class WholeModel:
    """Handler of an offer: serves the listed files of a folder and nothing else."""

    origin = True

    def __init__(self, root: str, sizes: dict[str, int]) -> None:
        self.root, self.sizes = root, sizes
        self.sums = Sums(root, sizes)

    def begin(self) -> None:
        """In the process that serves: what nobody knows yet is hashed while the copy runs."""
        self.sums.look()
        self.sums.want(order(self.sizes))

    def ready(self) -> dict[str, Any]:
        return {"ready": "all"}

    def path(self, name: str) -> str | None:
        return os.path.join(self.root, name)

    def known(self) -> tuple[dict[str, str], str | None]:
        return self.sums.known(), revision(self.root, self.sizes)

    def __call__(self, sock: socket.socket, request: dict[str, Any]) -> None:
        operation = request.get("op")
        try:
            if operation == "list":
                send_json(sock, {**self.ready(), "origin": self.origin})
            elif operation == "sha" and "name" not in request:
                sums, commit = self.known()
                send_json(sock, {"sha256": sums, "revision": commit})
            else:
                name = str(request.get("name"))
                if name not in self.sizes:
                    raise Refusal(f"{name} is not part of the offered model")
                if operation == "sha":
                    send_json(sock, self._sum(name, bool(request.get("reread"))))
                else:
                    self._file(sock, name, request)
        except Refusal as refusal:
            send_json(sock, {"error": str(refusal)})

    def _sum(self, name: str, reread: bool) -> dict[str, Any]:
        path = self._opened(name, None)
        os.close(path)
        if reread:
            return {"sha256": self.sums.reread(name), "known": self.sums.get(name)}
        known = self.known()[0].get(name)
        if known:
            return {"sha256": known}
        self.sums.want([name])
        return {"wait": True, "read_bytes": self.sums.read_bytes}

    def _opened(self, name: str, end: int | None) -> int:
        for last in (False, True):  # what is published just now is found in its new place
            path = self.path(name)
            if path is None:
                raise Refusal(f"{name} has not arrived at this source yet")
            try:
                number = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
                break
            except OSError as error:
                if last:
                    raise Refusal(f"the source cannot read {path}: {error.strerror}") from error
        size = os.fstat(number).st_size
        if size != self.sizes[name] or (end or 0) > size:
            os.close(number)
            raise Refusal(
                f"{path} has {size} bytes on the source, {self.sizes[name]} were offered: it changed meanwhile"
            )
        return number

    def _file(self, sock: socket.socket, name: str, request: dict[str, Any]) -> None:
        start = max(0, int(request.get("offset") or 0))
        length = request.get("length")
        end = self.sizes[name] if length is None else start + max(0, int(length))
        number = self._opened(name, end)
        try:
            if request.get("op") == "sign":
                send_json(sock, {"signature": signature(str(self.path(name)))})
                return
            stat = os.fstat(number)
            send_json(sock, {"size": stat.st_size, "mtime_ns": stat.st_mtime_ns})
            before = sock.gettimeout()
            # Blocking, so that one call sends all: the kernel moves pages while other threads run.
            sock.settimeout(None)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", SEND_SECONDS, 0))
            while start < end:
                sent = os.sendfile(sock.fileno(), number, start, end - start)
                if not sent:
                    raise OSError(5, f"{name} became shorter")
                start += sent
            sock.settimeout(before)
        finally:
            os.close(number)


class FollowingModel(WholeModel):
    """Serves what has arrived at this node: verified files of its staging folder, or the directory once published."""

    origin = False

    def __init__(self, destination: Destination) -> None:
        super().__init__(destination.path, destination.sizes)
        self.destination = destination
        self._published = False
        self._came = _model_journal.Came()
        self._pulse = ""
        self._lock = threading.Lock()

    def begin(self) -> None:
        self.ready()

    def ready(self) -> dict[str, Any]:
        with self._lock:
            if not self._published and self.destination.marked() and not self.destination.wrong():
                self._published = True
                self.sums.look()
            if self._published:
                return {"ready": "all"}
            self._look()
            return {"ready": sorted(self._came.sums), "sha256": self._came.sums, "pulse": self._pulse}

    def _look(self) -> None:
        """Reads the journal of the copy that runs here, when it went on."""
        staging, pulse = self.destination.staging, ""
        with contextlib.suppress(OSError):
            stat = os.stat(os.path.join(staging, _model_journal.JOURNAL))
            pulse = f"{stat.st_size} {stat.st_mtime_ns}"
        if pulse not in ("", self._pulse):
            ours = _model_journal.staged_for(staging) == self.destination.digest
            found = _model_journal.read(staging) if ours else _model_journal.Came()
            found.sums = {name: found.sums[name] for name in found.sums if name in self.sizes}
            self._came, self._pulse = found, pulse

    def path(self, name: str) -> str | None:
        """Where the file is now: publishing can move it at any time."""
        ready = self.ready()["ready"]
        if ready != "all" and name not in ready:
            return None
        staged = os.path.join(self.destination.staging, name)
        return staged if ready != "all" and os.path.isfile(staged) else os.path.join(self.root, name)

    def known(self) -> tuple[dict[str, str], str | None]:
        self.ready()
        with self._lock:
            return {**self._came.sums, **self.sums.known(), **self.destination.sums}, None
