# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""Small models, nodes that offer them on loopback addresses, and a wire that can be bent, for the tests of copies."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import pathlib
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from ansible_collections.gb10.serving.plugins.module_utils import (
    _disk,
    _model,
    _model_asking,
    _model_copy,
    _model_fetch,
    _model_manifest,
    _model_ranges,
    _model_sources,
    _model_state,
    _offer,
)
from ansible_collections.gb10.serving.plugins.module_utils._job import Progress

SHARD = 40_000
RAILS = ("127.0.0.21", "127.0.0.22")
HIDDEN = (_model_state.MARKER, _model_manifest.STORE)


def contents(shards: int = 3, size: int = SHARD) -> dict[str, bytes]:
    files: dict[str, bytes] = {"config.json": b'{"model_type": "x", "architectures": ["X"]}', "sub/notes.txt": b"hello"}
    weights = {}
    for number in range(shards):
        header = json.dumps({f"t{number}": {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}}).encode()
        files[f"m-{number}.safetensors"] = struct.pack("<Q", len(header)) + header + os.urandom(size)
        weights[f"t{number}"] = f"m-{number}.safetensors"
    files["model.safetensors.index.json"] = json.dumps({"weight_map": weights}).encode()
    files["empty.bin"] = b""
    return files


def make_model(root: pathlib.Path, files: dict[str, bytes], layout: str = "cache") -> pathlib.Path:
    """The model in one of the layouts that the hub's tools leave; returns the directory with its files."""
    commit = "c" * 40
    if layout in ("plain", "downloaded"):
        folder = root / "model"
        for name, data in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(data)
            if layout == "downloaded":
                note = folder / ".cache" / "huggingface" / "download" / f"{name}.metadata"
                note.parent.mkdir(parents=True, exist_ok=True)
                note.write_text(f"{commit}\n{hashlib.sha256(data).hexdigest()}\n{folder.stat().st_mtime + 60}\n")
        return folder
    folder = root / "models--o--m" / "snapshots" / commit
    blobs = root / "blobs" / "sha256" if layout == "shared" else root / "models--o--m" / "blobs"
    blobs.mkdir(parents=True)
    for name, data in files.items():
        blob = blobs / hashlib.sha256(data).hexdigest()
        blob.write_bytes(data)
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).symlink_to(os.path.relpath(blob, (folder / name).parent))
    return folder


def tree(root: pathlib.Path) -> dict[str, bytes]:
    """All files but those that a copy notes for itself and what the hub's tools hide."""
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file() and path.name not in HIDDEN and ".cache" not in path.relative_to(root).parts
    }


class Node:
    """Serves a handler on loopback addresses, as an offer does."""

    def __init__(self, base: pathlib.Path, handler: Any, rails: tuple[str, ...] = RAILS) -> None:
        self.asked: list[dict[str, Any]] = []
        self.handler = handler
        self.before: Callable[[socket.socket, dict[str, Any]], None] = lambda _sock, _request: None
        self.listeners = _offer.listen_on_all(rails, 0)
        self.port = self.listeners[0].getsockname()[1]
        session = base / f"session-{self.port}"
        session.mkdir()
        self.server = _offer.Server(self.listeners, str(session), "t", ["127.0.0.1", *rails], 30, self.answer)
        self.thread = threading.Thread(target=self.server.serve)
        getattr(handler, "begin", lambda: None)()
        self.thread.start()
        self.spec = {"host": f"node-{self.port}", "addresses": list(rails), "port": self.port, "token": "t"}

    def answer(self, sock: socket.socket, request: dict[str, Any]) -> None:
        self.asked.append(request)
        self.before(sock, request)
        self.handler(sock, request)

    def gets(self) -> list[tuple[str, int, int]]:
        found = [request for request in self.asked if request["op"] == "get"]
        return [(str(item["name"]), int(item["offset"]), int(item["length"])) for item in found if item["length"]]

    def end(self) -> None:
        self.server.ending = True
        with contextlib.suppress(OSError):  # it waits for connections
            socket.create_connection((self.spec["addresses"][0], self.port), 1).close()
        self.thread.join(5)
        for listener in self.listeners:
            listener.close()


class Place:
    """A model on one node and where it shall be on another."""

    def __init__(self, base: pathlib.Path, layout: str = "cache", shards: int = 3, size: int = SHARD) -> None:
        self.base = base
        self.source = make_model(base / "hub", contents(shards, size), layout)
        self.manifest = {key: _model.inspect(str(self.source))[key] for key in ("digest", "files", "files_count")}
        self.wanted = self.destination("m")
        self.path = pathlib.Path(self.wanted.path)
        self.total = sum(self.wanted.sizes.values())
        self.nodes: list[Node] = []
        self.node = self.serve(_model_copy.WholeModel(str(self.source), self.wanted.sizes))

    def destination(self, name: str) -> _model_state.Destination:
        return _model_state.destination(str(self.base / "models" / name), self.manifest)

    def serve(self, handler: Any, rails: tuple[str, ...] = RAILS) -> Node:
        self.nodes.append(Node(self.base, handler, rails))
        return self.nodes[-1]

    def fetch(
        self, *sources: dict[str, Any], to: _model_state.Destination | None = None, **more: Any
    ) -> dict[str, Any]:
        """A run of a receiver, from the first node unless told otherwise."""
        progress = more.pop("progress", None) or Progress()
        bad = more.pop("bad", [])
        specs = list(sources) or [self.node.spec]
        return _model_fetch.Fetch(to or self.wanted, specs, progress, lambda _path: None, **more).run(bad)

    def end(self) -> None:
        for node in self.nodes:
            node.end()


def quick_place(base: pathlib.Path, monkeypatch: Any) -> Iterator[Place]:
    """A place whose files are many ranges, and where nobody waits long."""
    monkeypatch.setattr(_disk, "GIB", 0)
    monkeypatch.setattr(_disk, "head_room", lambda _size: 0)
    monkeypatch.setattr(_model_ranges, "LONGEST", 32_000)
    monkeypatch.setattr(_model_ranges, "SHORTEST", 8_000)
    monkeypatch.setattr(_model_sources, "STALL_SECONDS", 0.4)
    monkeypatch.setattr(_model_asking, "POLL_SECONDS", 0.05)
    found = Place(base, "cache", shards=4, size=200_000)
    yield found
    found.end()


def slowly(seconds: float) -> Callable[[socket.socket, dict[str, Any]], None]:
    """What a node does before it answers, so that a copy takes a while."""

    def wait(_sock: socket.socket, request: dict[str, Any]) -> None:
        if request["op"] == "get" and request["length"]:
            time.sleep(seconds)

    return wait


class Wire:
    """A rail between a receiver and a node: bytes go through bend(data), which may change, hold or end them."""

    def __init__(self, node: Node, bend: Callable[[bytes], bytes | None], address: str, rail: int = 0) -> None:
        self.node, self.bend, self.rail = node, bend, rail
        self.listener = socket.create_server((address, node.port))
        self.spec = dict(node.spec, addresses=[address])
        self._sockets: list[socket.socket] = []
        self._lock = threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _peer = self.listener.accept()
                far = socket.create_connection((self.node.spec["addresses"][self.rail], self.node.port))
                self._sockets += [near, far]
                threading.Thread(target=self._pump, args=(near, far, bytes), daemon=True).start()
                threading.Thread(target=self._pump, args=(far, near, self.bend), daemon=True).start()

    def _pump(self, here: socket.socket, there: socket.socket, bend: Callable[[bytes], bytes | None]) -> None:
        with contextlib.suppress(OSError):
            while data := here.recv(8192):
                with self._lock:
                    bent = bend(data)
                if bent is None:
                    break
                there.sendall(bent)
        for sock in (here, there):
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def end(self) -> None:
        for sock in (self.listener, *self._sockets):
            sock.close()
