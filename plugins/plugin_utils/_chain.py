# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
# Private to this collection: no stability promised.
"""Who fetches from whom. Pure: the addresses of all nodes in, a chain out.

Receivers stand in a row behind the node that has the data. Each fetches from the one before it, which hands on what
has arrived while the rest still comes, so that every link carries the data once and all receivers end together.
Nothing here asks how the nodes are cabled: two nodes reach each other on the subnets that both have an address in.
With a switch these are the rails of all; with cables from neighbour to neighbour, each pair has its own.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ._problems import Problem


@dataclass
class Place:
    """The part of one node: where it fetches, in order of preference, and who may fetch from it."""

    sources: list[str] = field(default_factory=list)
    fetchers: list[str] = field(default_factory=list)


class Links:
    """The fabric addresses of all nodes, as ``a.b.c.d/len``, each node's in the order of its rails."""

    def __init__(self, addresses: Mapping[str, Sequence[str]]) -> None:
        self._ends = {host: [ipaddress.ip_interface(text) for text in texts] for host, texts in addresses.items()}

    def addresses(self, there: str, here: str) -> list[str]:
        """The addresses of there that here reaches directly, one for each shared subnet."""
        mine = {end.network for end in self._ends.get(here, [])}
        found: dict[Any, str] = {}
        for end in self._ends.get(there, []):
            if end.network in mine:
                found.setdefault(end.network, str(end.ip))
        return list(found.values())

    def shown(self, host: str) -> str:
        return ", ".join(end.with_prefixlen for end in self._ends.get(host, [])) or "none"


def chain(links: Links, holders: Sequence[str], receivers: Sequence[str]) -> tuple[dict[str, Place], list[str]]:
    """The receivers' places in the order of the chain, with those of the holders first, and who is not reached.

    The next in the row is the receiver that shares most links with the last one; where no link leads on, a new row
    begins at the latest node that reaches somebody, and at last at any holder.
    """
    places = {host: Place() for host in holders}
    left = list(receivers)
    tail = holders[0]
    while left:
        before = [tail, *(host for host in reversed(places) if host != tail)]
        step = _step(links, before, left)
        if step is None:
            break
        upstream, host = step
        others = [other for other in reversed(places) if other != upstream and links.addresses(other, host)]
        # After the neighbour the receivers nearest in the row, then those that hold the data from the start.
        others.sort(key=lambda other: other in holders)
        places[host] = Place([upstream, *others])
        for source in places[host].sources:
            places[source].fetchers.append(host)
        left.remove(host)
        tail = host
    return places, left


def _step(links: Links, before: Sequence[str], left: Sequence[str]) -> tuple[str, str] | None:
    """From whom to whom the row goes on: the first of those before that reaches somebody of those left."""
    for upstream in before:
        shared = {host: len(links.addresses(upstream, host)) for host in left}
        if any(shared.values()):
            return upstream, max(left, key=shared.__getitem__)
    return None


def plan(
    addresses: Mapping[str, Sequence[str]], holders: Sequence[str], receivers: Sequence[str], what: str
) -> tuple[dict[str, Any], list[Problem]]:
    """Chain order and, by host, the part of each node that takes part, and what is wrong."""
    links = Links(addresses)
    places, lost = chain(links, holders, receivers)
    problems = [_unreachable(host, links, holders, list(addresses), what) for host in lost]
    parts = {
        host: {
            "addresses": list(
                dict.fromkeys(address for peer in place.fetchers for address in links.addresses(host, peer))
            ),
            "allowed": list(
                dict.fromkeys(address for peer in place.fetchers for address in links.addresses(peer, host))
            ),
            "following": host not in holders,
            "sources": [{"host": source, "addresses": links.addresses(source, host)} for source in place.sources],
        }
        for host, place in places.items()
        if place.fetchers or place.sources
    }
    return {"receivers": [host for host in places if host not in holders], "plan": parts}, problems


def _unreachable(host: str, links: Links, holders: Sequence[str], hosts: Sequence[str], what: str) -> Problem:
    others = "; ".join(f"{other} {links.shown(other)}" for other in hosts if other != host)
    return Problem(
        host,
        f"it lacks the {what} and shares no fabric subnet with a node that could hand it on. Its addresses: "
        f"{links.shown(host)}; those of the others: {others}.",
        f"a subnet in common with {' or '.join(holders)}, or with a node between them.",
        f"give the cabled ports of {host} and of its neighbour addresses in one subnet ('ip -br addr' on both shows "
        f"them), or copy the {what} to {host} by hand.",
    )


def offers(parts: Mapping[str, Any], opened: Mapping[str, Mapping[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """By host, the sources with what their offers answered. A rail that an offer could not listen on is left out."""
    result: dict[str, list[dict[str, Any]]] = {}
    for host, part in parts.items():
        result[host] = []
        for source in part["sources"]:
            offer = opened.get(source["host"]) or {}
            bound = offer.get("addresses") or []
            reached = [address for address in source["addresses"] if address in bound]
            if reached and offer.get("port"):
                result[host].append(
                    {"host": source["host"], "addresses": reached, "port": offer["port"], "token": offer["token"]}
                )
    return result


def measured(entries: Sequence[Mapping[str, Any]], source: str, target: str) -> int | None:
    """Bytes per second that the fabric test saw from one node to the other, over all rails; None when it did not."""
    found = [
        item for item in entries if (item.get("source"), item.get("target")) == (source, target) and item.get("rails")
    ]
    rate = max(found, key=lambda item: len(item["rails"]), default={}).get("bits_per_second")
    return int(rate / 8) if rate else None
