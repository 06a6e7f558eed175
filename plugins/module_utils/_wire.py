# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 gb10.serving contributors
# Private to gb10.serving: what two nodes say to each other on a transfer connection.
"""Handshake, request lines and frames of a transfer connection.

The source greets with a nonce, the receiver proves that it knows the token, the source proves the same. The token
itself never crosses the wire. Then the receiver sends requests, one JSON line each.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
import socket
import struct
import time
from collections.abc import Callable
from typing import Any

GREETING = "gb10-offer/1"
DATA = b"D"
NOTE = b"N"
END = b"E"
CHUNK = 1 << 20
_HEAD = struct.Struct("!cI")


class WireError(Exception):
    """The other side did not say what it should have said."""


class Wrong(WireError):
    """The other side answered, and the answer is not one."""


def proof(token: str, who: str, server_nonce: str, client_nonce: str) -> str:
    text = f"{who}:{server_nonce}:{client_nonce}"
    return hmac.new(token.encode(), text.encode(), hashlib.sha256).hexdigest()


def send_line(sock: socket.socket, text: str) -> None:
    sock.sendall(text.encode() + b"\n")


def read_line(sock: socket.socket, limit: int = 1 << 20, until: float | None = None) -> str:
    """One line; empty when the other side closed. Takes no byte beyond it, since raw data may follow.

    until: when it must be there, however slowly it comes.
    """
    line = bytearray()
    while len(line) < limit:
        if until is not None:
            left = until - time.monotonic()
            if left <= 0:
                raise TimeoutError("timed out")
            sock.settimeout(left)
        seen = sock.recv(4096, socket.MSG_PEEK)
        end = seen.find(b"\n")
        part = sock.recv(len(seen) if end < 0 else end + 1)
        line += part
        if not part or end >= 0:
            return line.removesuffix(b"\n").decode("utf-8", "replace")
    raise WireError(f"a line longer than {limit} bytes came")


def send_json(sock: socket.socket, value: dict[str, Any]) -> None:
    send_line(sock, json.dumps(value, separators=(",", ":")))


def read_json(sock: socket.socket) -> dict[str, Any] | None:
    line = read_line(sock)
    if not line:
        return None
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise Wrong(f"expected a JSON line, got {line[:80]!r}") from error
    if not isinstance(value, dict):
        raise Wrong(f"expected a JSON object, got {line[:80]!r}")
    return value


def refuse(sock: socket.socket, reason: str) -> None:
    send_line(sock, f"refused {reason}")


def answer_handshake(sock: socket.socket, token: str, seconds: float = 20) -> bool:
    """Source side, in so many seconds altogether. False when the receiver does not know the token."""
    until = time.monotonic() + seconds
    server_nonce = secrets.token_hex(16)
    send_line(sock, f"{GREETING} {server_nonce}")
    words = read_line(sock, 512, until).split()
    if len(words) != 2 or not hmac.compare_digest(
        words[1].encode(), proof(token, "receiver", server_nonce, words[0]).encode()
    ):
        refuse(sock, "the token is not the one of this offer")
        return False
    send_line(sock, "ok " + proof(token, "source", server_nonce, words[0]))
    return True


def handshake(sock: socket.socket, token: str, seconds: float = 20) -> None:
    """Receiver side, in so many seconds altogether. Raises WireError with what the source said."""
    until = time.monotonic() + seconds
    words = read_line(sock, 512, until).split(" ", 1)
    if words[0] == "refused":
        raise WireError("the source refused: " + (words[1] if len(words) > 1 else "no reason given"))
    if len(words) != 2 or words[0] != GREETING:
        raise WireError(f"expected the greeting {GREETING}, got {' '.join(words)[:80]!r}")
    server_nonce, client_nonce = words[1], secrets.token_hex(16)
    send_line(sock, f"{client_nonce} {proof(token, 'receiver', server_nonce, client_nonce)}")
    kind, _sep, rest = read_line(sock, 512, until).partition(" ")
    if kind != "ok":
        raise WireError(
            f"the source {kind or 'closed the connection'}: {rest}" if rest else "the source closed the connection"
        )
    if not hmac.compare_digest(rest.encode(), proof(token, "source", server_nonce, client_nonce).encode()):
        raise WireError("the source could not prove that it knows the token; it is not the node that made this offer")


def connect(address: str, port: int, token: str, timeout: float, patience: float = 20) -> socket.socket:
    """A connection that is proven both ways, within patience. WireError names address and port."""
    where = f"{address} port {port}"
    try:
        sock = socket.create_connection((address, port), timeout=patience)
    except OSError as error:
        raise WireError(
            f"cannot connect to the source at {where}: {error}. Is the offer still open, and is the fabric address "
            "right?"
        ) from error
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        handshake(sock, token, patience)
        sock.settimeout(timeout)
    except (OSError, WireError) as error:
        sock.close()
        raise WireError(f"no agreement with the source at {where}: {error}") from error
    return sock


def send_frame(sock: socket.socket, kind: bytes, data: bytes | memoryview) -> None:
    sock.sendall(_HEAD.pack(kind, len(data)))
    if len(data):
        sock.sendall(data)


def _fill(sock: socket.socket, view: memoryview) -> None:
    done = 0
    while done < len(view):
        count = sock.recv_into(view[done:])
        if not count:
            raise WireError("the source closed the connection before the end of the stream")
        done += count


def _object(data: memoryview, what: str) -> dict[str, Any]:
    try:
        value = json.loads(bytes(data))
    except (ValueError, RecursionError) as error:
        raise Wrong(f"the {what} frame carries no JSON") from error
    if not isinstance(value, dict):
        raise Wrong(f"the {what} frame carries no JSON object")
    return value


def read_frames(
    sock: socket.socket,
    sink: Callable[[memoryview], None],
    note: Callable[[dict[str, Any]], None] = lambda _note: None,
) -> dict[str, Any]:
    """Hands every data frame to sink, and what is told of the stream to note; returns the status of the end frame.

    Cut before the end frame is an error.
    """
    head = bytearray(_HEAD.size)
    buffer = memoryview(bytearray(CHUNK))
    while True:
        _fill(sock, memoryview(head))
        kind, size = _HEAD.unpack(head)
        if kind not in (DATA, NOTE, END) or size > CHUNK:
            raise WireError(f"unknown frame {kind!r} of {size} bytes")
        _fill(sock, buffer[:size])
        if kind == DATA:
            sink(buffer[:size])
        elif kind == NOTE:
            note(_object(buffer[:size], "note"))
        else:
            return _object(buffer[:size], "end")
