# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 gb10.serving contributors
# Private to gb10.serving: moves the files of a model directory from one node to another.
"""The source sends named files from an offset; the receiver stages them, compares, and puts them in place."""

from __future__ import annotations

import contextlib
import os
import queue
import shutil
import socket
import threading
from collections.abc import Callable
from typing import Any

from ansible_collections.gb10.serving.plugins.module_utils._job import JobError, Progress
from ansible_collections.gb10.serving.plugins.module_utils._model_stage import publish, staged
from ansible_collections.gb10.serving.plugins.module_utils._model_state import Destination, files_digest, signature
from ansible_collections.gb10.serving.plugins.module_utils._offer import Handler
from ansible_collections.gb10.serving.plugins.module_utils._wire import CHUNK, WireError, connect, read_json, send_json


def send_files(root: str, sizes: dict[str, int]) -> Handler:
    """Handler of an offer: serves the listed files of a folder and nothing else."""

    def handle(sock: socket.socket, request: dict[str, Any]) -> None:
        name, offset = str(request.get("name")), int(request.get("offset") or 0)
        if name not in sizes:
            send_json(sock, {"error": f"{name} is not part of the offered model"})
            return
        path = os.path.join(root, name)
        try:
            stream = open(path, "rb")  # noqa: SIM115
        except OSError as error:
            send_json(sock, {"error": f"the source cannot read {path}: {error.strerror}"})
            return
        with stream:
            stat = os.fstat(stream.fileno())
            if stat.st_size != sizes[name] or not 0 <= offset <= stat.st_size:
                send_json(
                    sock,
                    {
                        "error": (
                            f"{path} has {stat.st_size} bytes on the source, {sizes[name]} were offered: it "
                            "changed meanwhile"
                        )
                    },
                )
            elif request.get("op") == "sign":
                send_json(sock, {"signature": signature(path)})
            else:
                send_json(sock, {"size": stat.st_size, "mtime_ns": stat.st_mtime_ns})
                if offset < stat.st_size:
                    sock.sendfile(stream, offset, stat.st_size - offset)

    return handle


class Puller:
    """Fetches files over a few connections at once."""

    def __init__(self, source: dict[str, Any], streams: int, idle_timeout: float, progress: Progress) -> None:
        self.source, self.streams, self.idle_timeout, self.progress = source, streams, idle_timeout, progress
        self.moved = 0
        self._error: JobError | None = None
        self._lock = threading.Lock()

    def _connect(self) -> socket.socket:
        try:
            sock = connect(self.source["address"], self.source["port"], self.source["token"], self.idle_timeout + 10)
        except WireError as error:
            raise JobError(str(error)) from error

        def stop() -> None:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

        self.progress.on_abort(stop)
        return sock

    @staticmethod
    def _ask(sock: socket.socket, request: dict[str, Any]) -> dict[str, Any]:
        send_json(sock, request)
        answer = read_json(sock)
        if answer is None:
            raise WireError("the source closed the connection")
        if "error" in answer:
            raise JobError(f"{answer['error']}. Put the source right and run again.")
        return answer

    def signatures(self, names: list[str]) -> dict[str, str]:
        try:
            with self._connect() as sock:
                return {name: str(self._ask(sock, {"op": "sign", "name": name})["signature"]) for name in names}
        except (OSError, WireError) as error:
            raise JobError(
                f"the source at {self.source['address']} broke off while files were compared: {error}. Run again."
            ) from error

    def pull(self, staging: str, sizes: dict[str, int]) -> None:
        """Completes these files in the staging folder; what is there already is continued."""
        todo: queue.SimpleQueue[str] = queue.SimpleQueue()
        for name in sorted(sizes, key=lambda key: -sizes[key]):
            todo.put(name)
        threads = [
            threading.Thread(target=self._worker, args=(staging, sizes, todo), daemon=True)
            for _number in range(min(self.streams, len(sizes)))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.progress.check()
        if self._error:
            raise self._error

    def _worker(self, staging: str, sizes: dict[str, int], todo: queue.SimpleQueue[str]) -> None:
        name = "the first file"
        try:
            with self._connect() as sock:
                buffer = memoryview(bytearray(CHUNK))
                while not self._error:
                    try:
                        name = todo.get_nowait()
                    except queue.Empty:
                        return
                    self._file(sock, os.path.join(staging, name), name, sizes[name], buffer)
        except JobError as error:
            self._error = self._error or error
        except (OSError, WireError) as error:
            disk = isinstance(error, OSError) and error.errno in (28, 122)
            what = (
                "the disk is full"
                if disk
                else f"the source at {self.source['address']} port {self.source['port']} broke off"
            )
            todo_text = "Free space" if disk else "Look at the source node (is it up, was the offer withdrawn?)"
            self._error = self._error or JobError(
                f"{what} during {name} after {self.progress.bytes_done} bytes: {error}. {todo_text} and run again; "
                f"what came so far is kept in {staging}."
            )

    def _file(self, sock: socket.socket, path: str, name: str, size: int, buffer: memoryview) -> None:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        target = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            offset = os.fstat(target).st_size
            if offset > size:
                os.ftruncate(target, 0)
                offset = 0
            answer = self._ask(sock, {"op": "get", "name": name, "offset": offset})
            if answer["size"] != size:
                raise JobError(
                    f"{name} has {answer['size']} bytes on the source, expected {size}: the model changed there. "
                    "Run again from the start."
                )
            os.lseek(target, offset, os.SEEK_SET)
            while offset < size:
                count = sock.recv_into(buffer[: min(CHUNK, size - offset)])
                if not count:
                    raise WireError("the source closed the connection")
                done = 0
                while done < count:
                    done += os.write(target, buffer[done:count])
                offset += count
                with self._lock:
                    self.moved += count
                self.progress.add(count)
            os.utime(target, ns=(answer["mtime_ns"], answer["mtime_ns"]))
            os.fsync(target)
        finally:
            os.close(target)


def fetch(destination: Destination, puller: Puller, own: Callable[[str], None]) -> dict[str, Any]:
    """Completes the destination from the source. After a JobError the destination is as it was."""
    progress, sizes = puller.progress, destination.sizes
    with staged(destination.staging, destination.digest, own):
        progress.begin("compare")
        wrong = set(destination.wrong_sizes())
        reused = [name for name in sizes if name not in wrong]
        if reused:
            theirs = puller.signatures(reused)
            wrong |= {name for name in reused if signature(os.path.join(destination.path, name)) != theirs[name]}
        todo = {name: sizes[name] for name in sorted(wrong)}
        have = {name: min(_size(os.path.join(destination.staging, name)), size) for name, size in todo.items()}
        resumed = sum(have.values())
        lack = destination.lack_of_space(sum(todo.values()) - resumed)
        if lack:
            raise JobError(lack)
        progress.bytes_done = resumed
        progress.begin("copy", sum(todo.values()))
        if todo:
            puller.pull(destination.staging, todo)
        progress.begin("verify")
        digest = _digest_of_both(destination, set(todo))
        if digest != destination.digest:
            shutil.rmtree(destination.staging, ignore_errors=True)
            raise JobError(
                f"the files that came have the digest {digest}, expected {destination.digest}. They were thrown "
                "away. "
                "Did the model change on the source since it was looked at? Run again from the start."
            )
        progress.begin("publish")
        publish(destination, destination.staging, list(todo), own)
    return {"moved_bytes": puller.moved, "resumed_bytes": resumed, "files_moved": len(todo), "digest": digest}


def _digest_of_both(destination: Destination, fresh: set[str]) -> str:
    """Digest of what the destination will be: fresh files from staging, the others from where they are."""
    view = os.path.join(destination.staging, ".gb10-view")
    shutil.rmtree(view, ignore_errors=True)
    try:
        for name in destination.sizes:
            link = os.path.join(view, name)
            os.makedirs(os.path.dirname(link), exist_ok=True)
            os.symlink(os.path.join(destination.staging if name in fresh else destination.path, name), link)
        return files_digest(view, destination.sizes)
    finally:
        shutil.rmtree(view, ignore_errors=True)


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0
