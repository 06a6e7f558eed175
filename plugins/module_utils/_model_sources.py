# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 gb10.serving contributors
# Private to gb10.serving: the nodes that a model comes from, as a receiver sees them.
from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import struct
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from ansible_collections.gb10.serving.plugins.module_utils import _answers
from ansible_collections.gb10.serving.plugins.module_utils._job import JobError
from ansible_collections.gb10.serving.plugins.module_utils._wire import WireError, Wrong, connect, read_json, send_json

#: A connection from which nothing comes for so long is given up; its range is fetched over another one.
STALL_SECONDS = 5.0
#: A source that has nothing new for so long is passed over while others have it.
LAG_SECONDS = 20.0
#: The journal of a source's own copy goes on for so long at most until another file of it is there.
PULSE_SECONDS = 180.0
#: Longest rest of an address that failed.
REST_SECONDS = 30.0
#: So often in a row an address refuses before its offer counts as over.
FINAL_TRIES = 3
_PIPE = 1 << 20
_F_SETPIPE_SZ = 1031


class Refused(WireError):
    """The source answered, and its answer is no."""


class DiskError(Exception):
    """What came cannot be written here."""


class Source:
    """One node that offers the model, with one address for each rail."""

    def __init__(self, number: int, spec: dict[str, Any]) -> None:
        self.number = number
        self.addresses: list[str] = list(spec["addresses"])
        self.port, self.token = int(spec["port"]), str(spec["token"])
        self.host = str(spec.get("host") or self.addresses[0])
        self.ready: set[str] | None = set()  # None: all files
        self.origin = False
        self.seen = False
        self.pulse: object = None
        self.gained = self.grown = time.monotonic()
        self.why = ""
        self.wrong = 0  # answers that were none
        self.slow = 0  # times that another source was preferred since this one gave next to nothing
        self._rest: dict[str, tuple[float, float]] = {}  # address -> (until, how long)
        self._final: dict[str, int] = {}
        self._lock = threading.Lock()

    def address(self, rail: int) -> str:
        return self.addresses[rail % len(self.addresses)]

    def told(self, answer: dict[str, Any]) -> None:
        """Takes over an answer to "list"."""
        ready = answer.get("ready")
        names = None if ready == "all" else {str(name) for name in ready or []}
        pulse, now = answer.get("pulse"), time.monotonic()
        if names != self.ready or not self.seen:
            self.gained = self.grown = now
        elif pulse != self.pulse and now - self.grown < PULSE_SECONDS:
            self.gained = now
        self.ready, self.pulse, self.seen = names, pulse, True
        self.origin = bool(answer.get("origin"))

    def has(self, name: str) -> bool:
        return self.ready is None or name in self.ready

    def failed(self, address: str, error: Exception) -> None:
        """Lets the address rest, longer each time."""
        with self._lock:
            self.why = str(error)
            self.wrong += isinstance(error, Wrong)
            # Nobody listens or the handshake fails: this offer is over, however long one waits.
            final = isinstance(error.__cause__, (ConnectionRefusedError, WireError))
            self._final[address] = self._final.get(address, 0) + 1 if final else 0
            rest = min(REST_SECONDS, 2 * self._rest.get(address, (0.0, 0.5))[1])
            self._rest[address] = (time.monotonic() + rest, rest)

    def worked(self, address: str) -> None:
        if address in self._rest:
            with self._lock:
                self._rest.pop(address, None)
                self._final.pop(address, None)

    def usable(self, address: str) -> bool:
        return not self._spoiled and time.monotonic() >= self._rest.get(address, (0.0, 0.0))[0]

    def next_address(self) -> str | None:
        """The usable address whose last failure is longest ago."""
        usable = [address for address in self.addresses if self.usable(address)]
        return min(usable, key=lambda address: self._rest.get(address, (0.0, 0.0))[0], default=None)

    def claim(self, address: str) -> bool:
        """Whether a connection to the address may be tried now; of several streams only one tries one that failed."""
        with self._lock:
            until, rest = self._rest.get(address, (0.0, 0.0))
            now = time.monotonic()
            if now < until or self._spoiled:
                return False
            if rest:
                self._rest[address] = (now + STALL_SECONDS + 1, rest)
            return True

    @property
    def _spoiled(self) -> bool:
        """It answers what is no answer: nothing of it can be used."""
        return self.wrong >= FINAL_TRIES

    @property
    def dead(self) -> bool:
        """No address of it answers."""
        return self._spoiled or all(address in self._rest for address in self.addresses)

    @property
    def gone(self) -> bool:
        """The offer is over: every address said so several times."""
        return self._spoiled or all(self._final.get(address, 0) >= FINAL_TRIES for address in self.addresses)

    @property
    def lagging(self) -> bool:
        return time.monotonic() - self.gained > LAG_SECONDS


class Link:
    """A proven connection to one address of a source. Calls block for STALL_SECONDS at most while nothing comes."""

    def __init__(self, source: Source, address: str, seconds: float | None = None) -> None:
        seconds = STALL_SECONDS if seconds is None else seconds
        self.source, self.at = source, address
        self.sock = connect(address, source.port, source.token, STALL_SECONDS, STALL_SECONDS)
        self.sock.settimeout(None)
        patience = struct.pack("ll", int(seconds), int(seconds % 1 * 1e6))
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, patience)
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, patience)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._pipe: tuple[int, int] | None = None

    def close(self) -> None:
        self.sock.close()
        for number in self._pipe or ():
            os.close(number)
        self._pipe = None

    def stop(self) -> None:
        """From another thread: whatever is waited for here ends."""
        with contextlib.suppress(OSError):
            self.sock.shutdown(socket.SHUT_RDWR)

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        send_json(self.sock, request)
        answer = read_json(self.sock)
        if answer is None:
            raise WireError("the source closed the connection")
        if "error" in answer:
            raise Refused(str(answer["error"])[:2000])
        return _answers.of_model(request, answer)

    def fetch(self, name: str, size: int, target: int, span: tuple[int, int], came: Callable[[int], None]) -> int:
        """Fetches a range into an open file; came(count) is told of each piece. Returns the mtime of the file there."""
        at, end = span
        answer = self.ask({"op": "get", "name": name, "offset": at, "length": end - at})
        if answer["size"] != size:
            raise Refused(f"{name} has {answer['size']} bytes on the source, expected {size}: the model changed there")
        if self._pipe is None:
            self._pipe = os.pipe()
            with contextlib.suppress(OSError):
                fcntl.fcntl(self._pipe[1], _F_SETPIPE_SZ, _PIPE)
        source = self.sock.fileno()
        while at < end:
            # The kernel hands the pages over: no copy through this process.
            count = os.splice(source, self._pipe[1], min(_PIPE, end - at))
            if not count:
                raise WireError("the source closed the connection")
            try:
                _drain(self._pipe[0], target, at, count)
            except OSError as error:
                raise DiskError(error) from error
            at += count
            came(count)
        return int(answer["mtime_ns"])


def _drain(pipe: int, target: int, at: int, count: int) -> None:
    """From the pipe into the file, by the kernel where the file system can do that."""
    end = at + count
    try:
        while at < end:
            at += os.splice(pipe, target, end - at, offset_dst=at)
    except OSError as error:
        if error.errno != 22:
            raise
    while at < end:
        data = os.read(pipe, end - at)
        done = 0
        while done < len(data):
            done += os.pwrite(target, data[done:], at + done)
        at += len(data)


def none_left(sources: Sequence[Source], done: int, staging: str) -> JobError:
    why = "; ".join(f"{source.host}: {source.why}" for source in sources)
    return JobError(
        f"no source is left after {done} bytes: {why}. Look at the source nodes and run again; what came so far is "
        f"kept in {staging}."
    )


def ask_any(
    sources: Sequence[Source], requests: list[dict[str, Any]], why: str, seconds: float | None = None
) -> list[dict[str, Any]]:
    """The answers of the first source that gives them. JobError when none does."""
    problems: list[str] = []
    for source in sources:
        for address in source.addresses:
            try:
                link = Link(source, address, seconds)
                try:
                    return [link.ask(request) for request in requests]
                finally:
                    link.close()
            except (OSError, WireError) as error:
                problems.append(f"{source.host}: {error}" if isinstance(error, Refused) else str(error))
    raise JobError(
        f"no source answered {why}: {'; '.join(dict.fromkeys(problems)) or 'none was given'}. Look at the source nodes "
        "(are they up, were the offers withdrawn?) and run again."
    )
