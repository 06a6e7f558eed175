# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 gb10.serving contributors
# Private to gb10.serving: what one node sees of its rails and of the other ends.
"""Is the rail as it should be here, and do packets of every size get to the peer and back on this rail alone?

Everything is read from the kernel and asked with sockets bound to the rail's address and interface, so that no answer
can come over another network. Nothing is changed but the neighbour table, which is what a launch wants: filled.
"""

from __future__ import annotations

import array
import contextlib
import errno
import fcntl
import os
import select
import socket
import struct
import threading
import time
from typing import Any

SYS = "/sys/class/net"
ARP = "/proc/net/arp"
#: Not in Python's socket module on all versions.
IP_MTU_DISCOVER, IP_RECVERR, PMTUDISC_PROBE, MSG_ERRQUEUE = 10, 11, 3, 0x2000
IP_AND_ICMP = 28
ICMP_UNREACHABLE = 3
SECONDS = 0.7
TRIES = 2


def read(path: str) -> str | None:
    try:
        with open(path, encoding="ascii", errors="replace") as stream:
            return stream.read().strip()
    except OSError:
        return None


def number(path: str) -> int | None:
    text = read(path)
    return int(text) if text and text.lstrip("-").isdigit() else None


def interface_of(address: str) -> str | None:
    """The interface that has the address, or None."""
    for _index, name in socket.if_nameindex():
        if address in addresses(name):
            return name
    return None


def addresses(netdev: str) -> list[str]:
    """The IPv4 addresses of an interface, by the old ioctl that needs no tool."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        size = 16 * 1024
        buffer = array.array("B", bytes(size))
        length, _pointer = struct.unpack(
            "iL", fcntl.ioctl(sock, 0x8912, struct.pack("iL", size, buffer.buffer_info()[0]))
        )
    found, data = [], buffer.tobytes()
    for start in range(0, length, 40):
        name = data[start : start + 16].split(b"\0", 1)[0].decode("ascii", "replace").partition(":")[0]
        if name == netdev:
            found.append(socket.inet_ntoa(data[start + 20 : start + 24]))
    return found


def local_rail(rail: dict[str, Any]) -> dict[str, Any]:
    """How this node's end of a rail is right now."""
    base = os.path.join(SYS, rail["netdev"])
    exists = os.path.isdir(base)
    state = read(os.path.join(base, "operstate"))
    carrier = number(os.path.join(base, "carrier"))  # cannot be read while the interface is down
    flags = read(os.path.join(base, "flags")) or "0"
    return {
        "number": rail["number"],
        "netdev": rail["netdev"],
        "address": rail["address"],
        "exists": exists,
        "up": exists and state != "down" and carrier == 1,
        "enabled": bool(int(flags, 16) & 1),
        "state": state,
        "mtu": number(os.path.join(base, "mtu")),
        "mac": (read(os.path.join(base, "address")) or "").lower() or None,
        "carrier_changes": number(os.path.join(base, "carrier_changes")),
        "ifindex": number(os.path.join(base, "ifindex")),
        "address_on": interface_of(rail["address"]),
    }


def bind(sock: socket.socket, netdev: str, address: str, port: int = 0) -> None:
    """To the rail's interface and address. Without the right to name the interface, the address alone has to do."""
    with contextlib.suppress(PermissionError):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, netdev.encode() + b"\0")
    sock.bind((address, port))


def source_for(peer: str) -> str | None:
    """The address that the routing table would send from; it must be the rail's own."""
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.connect((peer, 9))
            return str(sock.getsockname()[0])
    except OSError:
        return None


def neighbour(text: str, address: str, netdev: str) -> str | None:
    """The hardware address of a peer in the text of /proc/net/arp; None while it is unknown."""
    for line in text.splitlines()[1:]:
        words = line.split()
        if len(words) >= 6 and words[0] == address and words[5] == netdev:
            known = int(words[2], 16) & 0x2 and words[3] != "00:00:00:00:00:00"
            return words[3].lower() if known else None
    return None


def checksum(data: bytes) -> int:
    if len(data) % 2:
        data += b"\0"
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    total = (total >> 16) + (total & 0xFFFF)
    return ~(total + (total >> 16)) & 0xFFFF


def echo_request(identity: int, sequence: int, size: int) -> bytes:
    payload = b"gb10" * (size // 4 + 1)
    head = struct.pack("!BBHHH", 8, 0, 0, identity, sequence)
    check = checksum(head + payload[:size])
    return struct.pack("!BBHHH", 8, 0, check, identity, sequence) + payload[:size]


def _echo_socket() -> tuple[socket.socket, bool]:
    """A socket for ICMP echo and whether it is a raw one, whose packets begin with the IP header."""
    try:
        return socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP), True
    except PermissionError:
        return socket.socket(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP), False


def echo(rail: dict[str, Any], peer: str, packet: int, seconds: float = SECONDS, tries: int = TRIES) -> str:
    """Asks the peer to send a packet of this many bytes back, not to be fragmented.

    "ok", "no answer", "too big" (for this node's interface), "refused" (somebody said unreachable), or "unknown: why".
    """
    try:
        sock, raw = _echo_socket()
    except OSError as error:
        return f"unknown: {error.strerror}"
    identity = (os.getpid() ^ threading.get_ident() ^ int(rail["address"].split(".")[-1])) & 0xFFFF
    with sock:
        try:
            bind(sock, rail["netdev"], rail["address"])
            sock.setsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER, PMTUDISC_PROBE)
            for sequence in range(1, tries + 1):
                sock.sendto(echo_request(identity, sequence, packet - IP_AND_ICMP), (peer, 0))
                answer = _await_echo(sock, raw, identity, peer, time.monotonic() + seconds)
                if answer:
                    return answer
        except OSError as error:
            return _words(error)
    return "no answer"


def _words(error: OSError) -> str:
    if error.errno == errno.EMSGSIZE:
        return "too big"
    if error.errno in (errno.EPERM, errno.EACCES):
        return "refused here"  # by a filter on this node's way out
    if error.errno in (errno.ENETUNREACH, errno.ECONNREFUSED):
        return "refused"
    if error.errno == errno.EHOSTUNREACH:
        return "no answer"
    return f"unknown: {error.strerror or error}"


def _await_echo(sock: socket.socket, raw: bool, identity: int, peer: str, deadline: float) -> str | None:
    while (left := deadline - time.monotonic()) > 0:
        if not select.select([sock], [], [], left)[0]:
            return None
        data, sender = sock.recvfrom(65536)
        if raw:
            data = data[(data[0] & 0xF) * 4 :]
        if len(data) < 8:
            continue
        if data[0] == 0 and sender[0] == peer and (not raw or data[4:6] == struct.pack("!H", identity)):
            return "ok"
        # an unreachable message carries the header of what it answers: IP 20 bytes, then our ICMP
        if raw and data[0] == ICMP_UNREACHABLE and len(data) >= 36 and data[24:28] == socket.inet_aton(peer):
            inner = data[8 + (data[8] & 0xF) * 4 :]
            if len(inner) >= 6 and inner[4:6] == struct.pack("!H", identity):
                return "no answer" if data[1] == 1 else "too big" if data[1] == 4 else "refused"
    return None


def tcp(rail: dict[str, Any], peer: str, port: int, seconds: float = 2 * SECONDS) -> str:
    """ "open" or "closed" (the peer's kernel answered: TCP passes), "refused" (a firewall said no), "no answer"."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as sock:
        try:
            bind(sock, rail["netdev"], rail["address"])
            sock.setsockopt(socket.IPPROTO_IP, IP_RECVERR, 1)
            sock.settimeout(seconds)
            sock.connect((peer, port))
            return "open"
        except ConnectionRefusedError:
            return "refused" if _came_by_icmp(sock) else "closed"
        except TimeoutError:
            return "no answer"
        except OSError as error:
            return _words(error)


def _came_by_icmp(sock: socket.socket) -> bool:
    """A closed port answers with a reset; a firewall that rejects sends an ICMP message, which waits here."""
    sock.setblocking(False)
    with contextlib.suppress(OSError, ValueError):
        return bool(sock.recvmsg(1, 512, MSG_ERRQUEUE)[1])
    return False


def path(rail: dict[str, Any], local: dict[str, Any], host: str, peer: str, port: int) -> dict[str, Any]:
    """Everything about one way to one peer. The first echo fills the neighbour table."""
    found: dict[str, Any] = {"host": host, "number": rail["number"], "peer": peer, "source": source_for(peer)}
    usable = local["up"] and local["address_on"] == rail["netdev"]
    if not usable:
        return dict(found, echo=None, tcp=None, neighbour=None, large=None, packet=None)
    small = echo(rail, peer, 84)
    arp = read(ARP) or ""
    packet = local["mtu"]
    large = echo(rail, peer, packet) if small == "ok" and packet else None
    return dict(
        found,
        echo=small,
        tcp=tcp(rail, peer, port),
        neighbour=neighbour(arp, peer, rail["netdev"]),
        large=large,
        packet=packet,
    )


def look(rails: list[dict[str, Any]], peers: list[dict[str, Any]], port: int) -> dict[str, Any]:
    """All rails and all ways to all peers, at once."""
    local = {rail["number"]: local_rail(rail) for rail in rails}
    own = {rail["number"]: rail for rail in rails}
    ways = [(peer["host"], end) for peer in peers for end in peer["rails"] if end["number"] in own]
    found: list[dict[str, Any] | None] = [None] * len(ways)

    def ask(index: int) -> None:
        host, end = ways[index]
        rail = own[end["number"]]
        found[index] = path(rail, local[end["number"]], host, end["address"], port)

    threads = [threading.Thread(target=ask, args=(index,), daemon=True) for index in range(len(ways))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    return {
        "rails": list(local.values()),
        "paths": [item for item in found if item is not None],
        "boot_id": read("/proc/sys/kernel/random/boot_id"),
    }
