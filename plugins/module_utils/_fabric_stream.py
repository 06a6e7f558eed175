# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 gb10.serving contributors
# Private to gb10.serving: many TCP streams at once, as fast as the kernel moves them.
"""Bandwidth with the standard library: sendfile from memory on one side, discarding receive on the other.

Neither side copies payload through Python, and both leave the interpreter lock while the kernel works, so threads do.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.gb10.serving.plugins.module_utils._fabric_probe import bind
from ansible_collections.gb10.serving.plugins.module_utils._wire import WireError, handshake, read_json, send_json

BLOCK = 4 << 20
STREAMS = 4
#: A stream that stands still for this long has failed.
STILL_SECONDS = 2.0
#: No stream lives longer, whatever it was asked for.
LONGEST_SECONDS = 10.0


@dataclass
class Count:
    """What one stream received; the clock is the receiver's."""

    size: int = 0
    first: float = 0.0
    last: float = 0.0


@dataclass
class End:
    """One rail as the measuring side uses it."""

    netdev: str
    address: str
    peer: str
    port: int
    token: str
    extra: dict[str, Any] = field(default_factory=dict)


def deadlines(sock: socket.socket, seconds: float = STILL_SECONDS) -> None:
    """Kernel deadlines on a blocking socket: sendfile and recv need one that blocks, and must end all the same."""
    sock.settimeout(None)
    span = struct.pack("ll", int(seconds), int(seconds % 1 * 1e6))
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, span)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, span)


def send(sock: socket.socket, seconds: float) -> int:
    """Sends for so long, then says that this was all. Returns the bytes given to the kernel."""
    deadlines(sock)
    memory = os.memfd_create("gb10-fabric")
    try:
        os.truncate(memory, BLOCK)
        os.pwrite(memory, os.urandom(4096) * (BLOCK // 4096), 0)
        total, end = 0, time.monotonic() + min(seconds, LONGEST_SECONDS)
        while time.monotonic() < end:
            total += os.sendfile(sock.fileno(), memory, 0, BLOCK)
        return total
    finally:
        os.close(memory)
        with contextlib.suppress(OSError):
            sock.shutdown(socket.SHUT_WR)


def receive(sock: socket.socket) -> Count:
    """Takes what comes and throws it away, until the other side says that it was all."""
    deadlines(sock)
    buffer = bytearray(BLOCK)
    count = Count()
    latest = time.monotonic() + LONGEST_SECONDS + STILL_SECONDS
    while time.monotonic() < latest:
        got = sock.recv_into(buffer, BLOCK, socket.MSG_TRUNC)
        now = time.monotonic()
        if not got:
            return count
        if not count.first:
            count.first = now
        else:
            count.size += got  # what came up to the first look took an unknown time
        count.last = now
    raise WireError("the stream did not end")


def rate(counts: Iterable[Count]) -> int | None:
    """Bits per second of streams that ran side by side; None when nothing came."""
    live = [count for count in counts if count.size and count.last > count.first]
    if not live:
        return None
    span = max(count.last for count in live) - min(count.first for count in live)
    return round(sum(count.size for count in live) * 8 / span)


def answer_stream(sock: socket.socket, request: dict[str, Any]) -> None:
    """The listening side of one stream."""
    if request["do"] == "take":
        count = receive(sock)
        send_json(sock, {"size": count.size, "first": count.first, "last": count.last})
    else:
        send(sock, float(request["seconds"]))


def connect(end: End, seconds: float = STILL_SECONDS) -> socket.socket:
    """A proven connection to the listener of a rail, from this rail's address and interface."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        sock.settimeout(seconds)
        bind(sock, end.netdev, end.address)
        sock.connect((end.peer, end.port))
        handshake(sock, end.token)
        return sock
    except (OSError, WireError) as error:
        sock.close()
        reason = "no answer" if isinstance(error, TimeoutError) else str(error)
        raise WireError(f"{end.peer} port {end.port} from {end.address} on {end.netdev}: {reason}") from error


def _one(sock: socket.socket, outward: bool, seconds: float) -> Count:
    if not outward:
        send_json(sock, {"do": "give", "seconds": seconds})
        return receive(sock)
    send_json(sock, {"do": "take"})
    send(sock, seconds)
    told = read_json(sock)
    if told is None:
        raise WireError("the listener closed the stream without a count")
    return Count(int(told["size"]), float(told["first"]), float(told["last"]))


def measure(ends: list[End], outward: bool, seconds: float, streams: int = STREAMS) -> int:
    """Bits per second over these rails together. WireError when a stream could not be made or nothing passed."""
    sockets: list[socket.socket] = []
    counts: list[Count] = []
    errors: list[str] = []
    try:
        for end in ends:
            sockets += [connect(end) for _stream in range(streams)]
        jobs: list[Callable[[], Count]] = [lambda sock=sock: _one(sock, outward, seconds) for sock in sockets]  # type: ignore[misc]
        run_all(jobs, counts, errors)
    finally:
        for sock in sockets:
            sock.close()
    found = rate(counts)
    if found is None or errors:
        raise WireError(errors[0] if errors else "no data passed")
    return found


def run_all(jobs: list[Callable[[], Any]], results: list[Any], errors: list[str]) -> None:
    """All jobs at once, each in a thread; what they return and what stopped them."""

    def run(job: Callable[[], Any]) -> None:
        try:
            results.append(job())
        except (OSError, WireError, ValueError, KeyError) as error:
            still = isinstance(error, (BlockingIOError, TimeoutError))
            errors.append(f"no data passed for {STILL_SECONDS:g} s" if still else str(error))

    threads = [threading.Thread(target=run, args=(job,), daemon=True) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LONGEST_SECONDS + 2 * STILL_SECONDS)
