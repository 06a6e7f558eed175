# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 gb10.serving contributors
# Private to gb10.serving: the source side of an image transfer.
"""Serves one stream of an image to all receivers at once: from docker's store where it is known, else docker save.

A receiver says {"op": "join"}, learns {"layers": [diff IDs], "stall": seconds}, says {"op": "save",
"held": [chains]} and gets frames. Empty frames are signs of life. A note says how large the stream will be, where
that is known. A status with "again" asks to begin anew here: the store failed, docker save will be used.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import subprocess
import tempfile
import threading
from collections.abc import Callable
from typing import IO, Any, cast

from ansible_collections.gb10.serving.plugins.module_utils import _image, _image_docker, _image_hub
from ansible_collections.gb10.serving.plugins.module_utils._answers import only_texts
from ansible_collections.gb10.serving.plugins.module_utils._image_hub import Feed, Reader, Round, Sink, end_stream
from ansible_collections.gb10.serving.plugins.module_utils._image_store import Store
from ansible_collections.gb10.serving.plugins.module_utils._tar_split import Unsuited
from ansible_collections.gb10.serving.plugins.module_utils._wire import CHUNK, read_json, send_json

_F_SETPIPE_SZ = 1031
#: A receiver's round waits so long for others that are expected.
GRACE = 8.0
#: A receiver that joined has so long to ask for the stream.
PATIENCE = 60.0


class Save:
    """docker save. It writes its own copy of all layers before the first byte, so it is started early."""

    def __init__(self, commands: list[list[str]]) -> None:
        self._commands = list(commands)
        self._errors: IO[bytes] | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        if self._process or not self._commands:
            return
        self._command = self._commands.pop(0)
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        # Not run_command: it would hold the whole image in memory.
        self._process = subprocess.Popen(  # pylint: disable=ansible-bad-function
            self._command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self._errors, bufsize=0
        )
        with contextlib.suppress(OSError):
            fcntl.fcntl(cast(IO[bytes], self._process.stdout).fileno(), _F_SETPIPE_SZ, CHUNK)

    def feed(self, sink: Callable[[bytes], None]) -> dict[str, Any]:
        status: dict[str, Any] = {"rc": 1, "error": "no command to save the image"}
        while self._process or self._commands:
            self.start()
            code, sent, text = self._one(sink)
            status = {
                "rc": code,
                "error": "" if code == 0 else f"'{' '.join(self._command)}' ended with {code}: {text}",
            }
            if code == 0 or sent:
                break
        return status

    def _one(self, sink: Callable[[bytes], None]) -> tuple[int, int, str]:
        process, errors = cast("subprocess.Popen[bytes]", self._process), cast(IO[bytes], self._errors)
        source, sent = cast(IO[bytes], process.stdout), 0
        try:
            while data := os.read(source.fileno(), CHUNK):
                sink(data)
                sent += len(data)
            code = process.wait()
            errors.seek(0)
            return code, sent, errors.read()[-2000:].decode("utf-8", "replace").strip()
        finally:
            self.end()

    def end(self) -> None:
        process, self._process = self._process, None
        if process:
            if process.poll() is None:
                process.kill()
                process.wait()
            if process.stdout:
                process.stdout.close()
        if self._errors:
            self._errors.close()
            self._errors = None


class ImageOffer:
    """Handler of an offer on a node that has the image.

    store: where the image is read without docker save, or why it cannot be.
    """

    def __init__(
        self, commands: list[list[str]], layers: list[str], receivers: int = 1, store: Store | str = ""
    ) -> None:
        self._commands, self._layers, self._receivers, self._store = commands, layers, receivers, store
        self._lock = threading.Lock()
        self._save: Save | None = Save(commands)
        self._round: Round | None = None
        self._announced: dict[int, Round] = {}

    def begin(self) -> None:
        if self._save and isinstance(self._store, str):
            self._save.start()

    def __call__(self, sock: socket.socket, request: dict[str, Any]) -> None:
        if request.get("op") == "join":
            self._join(sock)
        elif request.get("op") == "save":
            self._serve(sock, Reader(sock, self._layers, only_texts(request.get("held"))))
        else:
            end_stream(sock, {"rc": 1, "error": f"unknown request {request.get('op')!r}"})

    def _join(self, sock: socket.socket) -> None:
        """Answers at once. Until the receiver asks for the stream, its round waits for it for a while."""
        place = self._announce()
        request = None
        try:
            send_json(sock, {"layers": self._layers, "stall": _image_hub.STALL_SECONDS})
            request = read_json(sock)
        finally:
            if not request or request.get("op") != "save":
                place.leave()
        if request and request.get("op") == "save":
            self._serve(sock, Reader(sock, self._layers, only_texts(request.get("held"))), place)

    def _announce(self) -> Round:
        with self._lock:
            if self._round is None or not self._round.announce():
                self._round = self._new_round()
                self._round.announce()
            return self._round

    def _new_round(self) -> Round:
        turn = Round(self._receivers, GRACE)
        save, self._save = self._save or Save(self._commands), None
        self._receivers = 1  # those that come again after a round come one by one
        threading.Thread(target=self._run, args=(turn, save), daemon=True).start()
        return turn

    def _run(self, turn: Round, save: Save) -> None:
        try:
            readers = turn.gather(PATIENCE)
            if readers:
                turn.stream(readers, self._feed(save, readers))
        finally:
            save.end()

    def _feed(self, save: Save, readers: list[Reader]) -> Feed:
        held = set.intersection(*(reader.held for reader in readers))

        def feed(sink: Sink) -> dict[str, Any]:
            if not isinstance(self._store, str):
                status = self._from_store(self._store, held, sink)
                if status:
                    return status
            return {**save.feed(sink), "saved_because": self._store}

        return feed

    def _from_store(self, store: Store, held: set[str], sink: Sink) -> dict[str, Any] | None:
        """None when nothing was sent and docker save has to do it."""
        begun = False
        try:
            stream = store.stream(held)
            begun = True
            sink(stream.note())
            return stream.feed(sink)
        except OSError:
            raise  # all receivers are gone
        except Exception as error:
            self._store = str(error) if isinstance(error, Unsuited) else f"{type(error).__name__}: {error}"
            return {"rc": 1, "error": f"{self._store}. docker save will be used", "again": True} if begun else None

    def _serve(self, sock: socket.socket, reader: Reader, place: Round | None = None) -> None:
        while place is None or not place.join(reader):
            place = self._announce()
        reader.send()


def offer_of(ref: str, architecture: str | None, store: Store | str, receivers: int = 1) -> ImageOffer:
    """The offer of an image of this node's docker."""
    _code, version, _err = _image_docker.run(["docker", "version", "--format", "{{.Server.APIVersion}}"])
    commands = _image.save_commands(ref, "linux", architecture, version)
    return ImageOffer(commands, _image_docker.identity(ref)[2], receivers, store)
