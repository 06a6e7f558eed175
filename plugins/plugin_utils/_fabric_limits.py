# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
# Private to this collection: no stability promised.
"""What rails can carry: alone by port and PCIe link, together by what they share. Pure.

A GB10 has two PCIe links of Gen5 x4, one for each PCI domain, and one or two ports. Both ports' functions of a domain
share its link, and both functions of a port share the port. What is expected is what a sound machine carries: a PCIe
link that came up slower is a fault, and lowers nothing here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

G = 1e9
#: Share of the raw PCIe rate, and of the port's rate, that healthy machines reach.
PCIE_SHARE, PORT_SHARE = 0.78, 0.98
#: What Gen5 x4 carries: 32 GT/s, four lanes, 128 of 130 bits are payload.
X4_BITS = 32 * G * 4 * 128 / 130 * PCIE_SHARE


class Place(NamedTuple):
    """What a rail shares with others: a PCIe link (by domain) and a port, each with its limit where that is known."""

    domain: str | None
    domain_bits: int | None
    port: tuple[str, int] | None
    port_bits: int | None


def expected_bits(hca: Mapping[str, Any]) -> int | None:
    """What a rail can carry by its port's rate and a sound PCIe link; None when nothing is known of either."""
    port, pcie = _port_bits(hca), _pcie_bits(hca)
    if port is None and pcie is None:
        return None
    return round(min(item for item in (port, pcie or X4_BITS) if item is not None))


def place(hca: Mapping[str, Any]) -> Place:
    """Where a device sits, as far as that is known."""
    found = re.match(r"^([0-9a-f]{4,5}):", str(hca.get("pci") or ""))
    bits = _port_bits(hca)
    number = hca.get("port")
    return Place(
        found.group(1) if found else None,
        round(_pcie_bits(hca) or X4_BITS) if found else None,
        None if number is None else (str(hca.get("chip") or ""), int(number)),
        round(bits) if bits is not None else None,
    )


def together(expected: Sequence[int | None], port_bits: int | None = None) -> int | None:
    """What rails can carry at once: all that they can alone, but no more than their port."""
    if any(item is None for item in expected):
        return None
    total = sum(item or 0 for item in expected)
    return min(total, port_bits) if port_bits else total


def joint(alone: Sequence[int | None], places: Sequence[Place | None]) -> int | None:
    """What rails of one node can carry at once, with what they share: PCIe links by domain, ports by number."""
    total = together(alone)
    if total is None or len(alone) < 2:
        return total
    domains: dict[Any, tuple[list[int], int | None]] = {}
    ports: dict[Any, tuple[list[int], int | None]] = {}
    for number, (bits, where) in enumerate(zip(alone, places, strict=True)):
        by_domain, by_port = (where.domain, where.port) if where else (None, None)
        # what is not known to be shared stands for itself
        for groups, key, limit in (
            (domains, by_domain if by_domain is not None else number, where.domain_bits if where else None),
            (ports, by_port if by_port is not None else number, where.port_bits if where else None),
        ):
            groups.setdefault(key, ([], limit))[0].append(bits or 0)
    sums = [
        sum(min(sum(bits), limit) if limit else sum(bits) for bits, limit in groups.values())
        for groups in (domains, ports)
    ]
    return min(total, *sums)


def joint_of_gb10(alone: Sequence[int | None]) -> int | None:
    """What rails of a GB10 can carry at once where nobody said which is where: two rails are the two of one port."""
    total = together(alone)
    if total is None or len(alone) < 2:
        return total
    fastest = max(item or 0 for item in alone)
    # less than a PCIe link carries is what the port allows, and its rails share that
    ports = (len(alone) + 1) // 2 * fastest if fastest < round(X4_BITS) else total
    return min(total, ports, round(2 * X4_BITS))


def _port_bits(hca: Mapping[str, Any]) -> float | None:
    rate = hca.get("rate_gbps")
    return float(rate) * G * PORT_SHARE if rate else None


def _pcie_bits(hca: Mapping[str, Any]) -> float | None:
    """What the PCIe link carries, but no less than a sound one; None when it was not read."""
    pcie = hca.get("pcie") or {}
    speed = re.match(r"\d+(\.\d+)?", str(pcie.get("speed") or ""))
    width = re.search(r"\d+", str(pcie.get("width") or ""))
    if not speed or not width:
        return None
    raw = float(speed.group()) * G * int(width.group()) * (128 / 130 if float(speed.group()) >= 8 else 0.8)
    return max(X4_BITS, raw * PCIE_SHARE)
