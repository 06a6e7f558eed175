# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 gb10.serving contributors
# Private to gb10.serving: the receiving side of an image transfer.
"""One stream from a source into docker load, handed on to this node's own receivers on the way."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import IO, Any, cast

from ansible_collections.gb10.serving.plugins.module_utils import _answers, _image
from ansible_collections.gb10.serving.plugins.module_utils._image_docker import docker_root
from ansible_collections.gb10.serving.plugins.module_utils._image_layers import dropped_layers
from ansible_collections.gb10.serving.plugins.module_utils._image_relay import Onward
from ansible_collections.gb10.serving.plugins.module_utils._job import JobError, Progress
from ansible_collections.gb10.serving.plugins.module_utils._wire import WireError, read_frames, read_json, send_json


class SourceError(JobError):
    """The source or the way to it failed; another source may do."""

    def __init__(self, text: str, again: bool = False) -> None:
        super().__init__(text)
        self.again = again  # this source knows another way


class LoadError(JobError):
    """docker load did not take the stream."""

    def __init__(self, text: str, partial: bool) -> None:
        super().__init__(text)
        self.partial = partial  # layers were left out


class _LoadEnded(Exception):
    """docker load closed its input before the end of the stream."""


@dataclass(frozen=True)
class Got:
    moved_bytes: int
    left_out_bytes: int
    saved_because: str = ""


class _Load:
    def __init__(self, command: list[str]) -> None:
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 - closed by close()
        try:
            # Not run_command: the image is streamed into it.
            self.process = subprocess.Popen(  # pylint: disable=ansible-bad-function
                command, stdin=subprocess.PIPE, stdout=self._output, stderr=subprocess.STDOUT, bufsize=0
            )
        except OSError as error:
            self._output.close()
            raise JobError(f"cannot run {command[0]}: {error}") from error
        self.stdin = cast(IO[bytes], self.process.stdin)

    def write(self, data: memoryview) -> None:
        done = 0
        try:
            while done < len(data):
                done += self.stdin.write(data[done:]) or 0
        except OSError as error:
            raise _LoadEnded from error

    def problem(self, how: str) -> str:
        self._output.seek(0)
        said = self._output.read()[-2000:].decode("utf-8", "replace").strip()
        return f"docker load {how} with {self.process.wait()}: {said}. In short: {_image.load_problem(said)}."

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        with contextlib.suppress(OSError):
            self.stdin.close()
        self._output.close()


def _signs(beats: list[int], progress: Progress) -> Callable[[], object]:
    """What changes while docker load still works on what it got: room on its disk."""
    root = docker_root()

    def signs() -> object:
        free = None
        if progress.stage == "load" and root:
            with contextlib.suppress(OSError):
                free = os.statvfs(root).f_bfree
        return (beats[0], free)

    return signs


def receive(
    sock: socket.socket,
    progress: Progress,
    command: list[str],
    held: Iterable[str] = (),
    content: str = "",
    quiet: float = float("inf"),
) -> Got:
    """Streams into docker load. SourceError or LoadError when an end failed.

    quiet: so many seconds of signs of life alone, and the source is given up.
    """
    before = progress.bytes_done
    beats = [0]
    progress.signs = _signs(beats, progress)
    onward: Onward | None = None
    load: _Load | None = None
    try:
        send_json(sock, {"op": "join"})
        offer = read_json(sock) or {}
        layers, stall = _answers.joined(offer)
        onward = Onward(content, layers, stall) if content else None
        mine = set(held)
        if onward and onward.held is not None:
            mine &= onward.held
        dropped = dropped_layers(layers, mine)
        if dropped:
            progress.bytes_total = None
        load = _Load(command)
        progress.on_abort(_stopper(sock, load))
        send_json(sock, {"op": "save", "held": sorted(mine)})
        progress.begin("copy")
        status = _answers.ended(_stream(sock, load, onward, progress, beats, dropped, quiet))
        arrived = progress.bytes_done - before
        if status["rc"] != 0:
            raise SourceError(f"the source could not save the image: {status['error']}", status["again"])
        if status["bytes"] != arrived:
            raise SourceError(f"the source sent {status['bytes']} bytes, {arrived} came")
        got = Got(arrived, status["left_out_bytes"], status["saved_because"])
        if onward:
            told = {"left_out_bytes": got.left_out_bytes, "saved_because": got.saved_because}
            onward.end({"rc": 0, "error": "", **told})
        progress.begin("load")
        load.stdin.close()
        if load.process.wait() != 0:
            raise LoadError(load.problem("ended"), bool(dropped))
        return got
    except _LoadEnded as error:
        raise LoadError(cast(_Load, load).problem("ended early"), bool(mine)) from error
    except (OSError, WireError) as error:
        raise SourceError(f"the stream broke after {progress.bytes_done - before} bytes: {error}") from error
    finally:
        if load:
            load.close()
        if onward:
            onward.close()


def _stopper(sock: socket.socket, load: _Load) -> Callable[[], None]:
    def stop() -> None:
        with contextlib.suppress(OSError):
            sock.shutdown(socket.SHUT_RDWR)
        load.process.kill()

    return stop


def _stream(
    sock: socket.socket,
    load: _Load,
    onward: Onward | None,
    progress: Progress,
    beats: list[int],
    dropped: set[str],
    quiet: float,
) -> dict[str, Any]:
    before, last = progress.bytes_done, time.monotonic()

    def note(told: dict[str, Any]) -> None:
        takes = _answers.note(told)
        if onward:
            onward.note(told)
        progress.bytes_total = before + sum(size for layer, size in takes.items() if layer not in dropped)

    def sink(data: memoryview) -> None:
        nonlocal last
        if not len(data):
            if time.monotonic() - last > quiet:
                raise WireError(f"the source gave only signs of life for {quiet:g} s")
            beats[0] += 1
            return
        last = time.monotonic()
        if onward:
            onward.data(data)
        load.write(data)
        progress.add(len(data))

    return read_frames(sock, sink, note)
