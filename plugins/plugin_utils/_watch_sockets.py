# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
# Private to this collection: no stability promised.
"""Sockets of ranks that stand still: who connects to, or waits on, an address that is not the fabric's. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any, NamedTuple

from ansible_collections.gb10.serving.plugins.module_utils._engine_log_causes import CAUSES

CAUSE = "message_queue_address"
NOT_LOCAL = "address_not_local"

#: What a rank that stands still may be taken for before its sockets are looked at.
LIKE_IT = (CAUSE, "nccl_init_hang", "rank_missing", "unknown", None)

#: Ports that no rank listens on: the hub, statistics.
WEB = (80, 443)

_INTERFACES = ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME")
_END = re.compile(r"\[?(?:::ffff:)?(?P<address>\d+\.\d+\.\d+\.\d+)(?:%\S+)?\]?:(?P<port>\d+)\Z")
_ADDRESS = re.compile(r"^\d+: (?P<name>\S+) +inet (?P<address>[\d.]+)/")
_DEFAULT = re.compile(r"^default .*\bdev (?P<name>\S+)")


class Socket(NamedTuple):
    """A line of ss; the peer of a listener is empty."""

    state: str
    local: str
    local_port: int
    peer: str
    peer_port: int


class Stray(NamedTuple):
    """An address outside of the fabric, and what is done with it."""

    words: str
    address: str


@dataclass(frozen=True)
class Network:
    """What a spec says of its ranks' addresses: by rank the host, its own address and its environment."""

    variable: str
    endpoint_port: int
    ranks: Mapping[int, tuple[str, str, Mapping[str, str]]]

    def is_ours(self, address: str) -> bool:
        fabric = {own for _host, own, _env in self.ranks.values()}
        return address in fabric or address.startswith("127.") or address == "0.0.0.0"


def network(spec: Mapping[str, Any], engine: ModuleType) -> Network:
    """The network of a spec."""
    ranks = {entry["rank"]: (entry["host"], entry["address"], entry["env"]) for entry in spec["ranks"]}
    return Network(engine.ADDRESS_VARIABLE, int(spec["endpoint"]["port"]), ranks)


def sockets(lines: Iterable[str]) -> list[Socket]:
    """Lines of ``ss -Htn`` or ``ss -Htln``; others, and those of IPv6, are left out."""
    found = []
    for line in lines:
        words = line.split()
        if len(words) < 5 or not (local := _END.match(words[3])):
            continue
        peer = _END.match(words[4])
        ends = (peer["address"], int(peer["port"])) if peer else ("", 0)
        found.append(Socket(words[0], local["address"], int(local["port"]), *ends))
    return found


def places(lines: Iterable[str]) -> dict[str, str]:
    """The interface of each address of a node, by ``ip -o -4 addr``; of a default route it says so."""
    whole = list(lines)
    defaults = {found["name"] for line in whole if (found := _DEFAULT.match(line))}
    return {
        found["address"]: found["name"] + (" (default route)" if found["name"] in defaults else "")
        for line in whole
        if (found := _ADDRESS.match(line))
    }


def strays(rank: int, views: Mapping[int, Mapping[str, Any]], net: Network) -> list[Stray]:
    """What a rank does outside of the fabric, and whose address that is."""
    seen = {number: sockets(view.get("connections", ())) for number, view in views.items()}
    answered = {(one.peer, one.peer_port) for every in seen.values() for one in every if one.state == "ESTAB"}
    found = []
    for one in seen.get(rank, ()):
        if one.state == "SYN-SENT" and not net.is_ours(one.peer) and one.peer_port not in WEB:
            found.append((f"connects to {one.peer}:{one.peer_port} in vain", one.peer))
        elif (
            one.state == "LISTEN"
            and not net.is_ours(one.local)
            and one.local_port != net.endpoint_port
            and (one.local, one.local_port) not in answered
        ):
            found.append((f"waits on {one.local}:{one.local_port}, where no rank has come", one.local))
    fabric = ", ".join(own for _host, own, _env in net.ranks.values())
    result = []
    for words, address in dict.fromkeys(found):
        owner, interface = _owner(address, views, net)
        if owner is not None and _is_meant(interface, net.ranks[owner][2]):
            continue  # this is where the collectives were told to be
        whose = "no rank's" if owner is None else f"that of {interface} on {net.ranks[owner][0]}"
        result.append(
            Stray(f"{net.ranks[rank][0]} {words}: the address is {whose}, not of the fabric ({fabric})", address)
        )
    return result


def _owner(address: str, views: Mapping[int, Mapping[str, Any]], net: Network) -> tuple[int | None, str]:
    for number, view in views.items():
        if number in net.ranks and address in view.get("addresses", {}):
            return number, str(view["addresses"][address])
    return None, ""


def _is_meant(interface: str, env: Mapping[str, str]) -> bool:
    """Whether NCCL or gloo was told to use the interface."""
    name = interface.partition(" ")[0]
    return any(name in env.get(key, "").lstrip("=").split(",") for key in _INTERFACES)


def weigh(views: Mapping[int, dict[str, Any]], net: Network) -> dict[int, dict[str, Any]]:
    """The views, where those of ranks that stand still in the rendezvous say what their sockets show.

    Where the user's environment replaced the address of the spec, that is what to change, whatever the sockets show.
    """
    weighed = {}
    for rank, view in views.items():
        said = view["answer"]
        waits = said["verdict"] != "failed" and said["phase"] == "rendezvous" and said["cause"] in LIKE_IT
        found = strays(rank, views, net) if waits and rank in net.ranks else []
        if found:
            owner, _interface = _owner(found[0].address, views, net)
            named = {
                "verdict": "stalled",
                "cause": CAUSE,
                "confidence": "medium" if owner is None else "high",
                "remedy": f"{CAUSES[CAUSE].remedy} {_here(owner, net)}".rstrip(),
                "evidence": [*(stray.words for stray in found[:2]), *said["evidence"]],
            }
            said = {**said, **named}
        if said["cause"] in (CAUSE, NOT_LOCAL) and (words := _taken_out(said["cause"], net)):
            said = {**said, "remedy": words}
        weighed[rank] = {**view, "answer": said}
    return weighed


def _taken_out(cause: str, net: Network) -> str:
    """What to do when gb10_server_env has the variable; nothing else gives a rank another value than its address."""
    wrong = [
        (host, address, env[net.variable])
        for host, address, env in net.ranks.values()
        if net.variable in env and env[net.variable] != address and (env[net.variable] or cause == CAUSE)
    ]
    if not wrong:
        return ""
    value = wrong[0][2] or "empty"
    own = ", ".join(f"{address} on {host}" for host, address, _value in wrong)
    return f"Take {net.variable} out of gb10_server_env: it is {value} there, and without it {own}."


def _here(owner: int | None, net: Network) -> str:
    """What the variable should have been on the node whose address is used."""
    if owner is None:
        return ""
    host, address, env = net.ranks[owner]
    value = env.get(net.variable)
    if value == address:
        return f"{host} was given {net.variable}={address}; something in the image sets another one."
    return f"On {host} that is {net.variable}={address}; it is not set there."
