# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
#
# Private to this collection: may change without notice.
"""Memory of the nodes: as measured, or a named prior. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ansible_collections.gb10.serving.plugins.plugin_utils._memory_model import GIB, Wishes

PRIOR_TOTAL = 130_562_000_000  # 121.6 GiB: what CUDA and MemTotal report on a GB10
PRIOR_AVAILABLE = 109 * GIB  # headless, page cache dropped
SYSTEM = PRIOR_TOTAL - PRIOR_AVAILABLE  # what firmware, kernel and services keep on unified memory
LEAST_AVAILABLE, MOST_AVAILABLE = -8 * GIB, 7 * GIB  # 101 to 116 GiB are seen after a boot
DISCRETE_TO, UNIFIED_FROM = 96 * GIB, 118 * GIB  # a total alone: a discrete GPU up to here, a GB10 from there on
DRIVER = GIB // 2
KINDS = {
    0.0: "discrete GPU, all but 0.5 GiB is free",
    1.0: "GB10 after a boot, 109 GiB (101 to 116) of 121.6 are free",
}
MOST = 1 << 50  # a petabyte is no memory of a node


@dataclass(frozen=True)
class Node:
    """One node; low and high are the range that the prior stands for, equal to available when it was measured."""

    host: str
    total: int
    available: int
    measured: bool
    low: int
    high: int
    reserve: int
    source: str


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value <= MOST


def unified(total: int) -> float:
    """How much of a GB10 a total is: 0 for a discrete GPU, 1 for a GB10, and even between, so that more gives more."""
    return min(1.0, max(0.0, (total - DISCRETE_TO) / (UNIFIED_FROM - DISCRETE_TO)))


def _node(host: str, total: int | None, available: int | None, wishes: Wishes, source: str) -> Node:
    reserve = wishes.reserve
    if available is not None:
        whole = max(PRIOR_TOTAL, available) if total is None else total
        return Node(host, whole, available, True, available, available, reserve, source or f"measured on {host}")
    whole = PRIOR_TOTAL if total is None else total
    shared = unified(whole)
    free = max(0, whole - DRIVER - int(shared * (SYSTEM - DRIVER)))
    low, high = free + int(shared * LEAST_AVAILABLE), min(whole, free + int(shared * MOST_AVAILABLE))
    if wishes.reserve_bytes is None:  # the default is meant for a GB10
        reserve = int(shared * reserve)
    kinds = {
        0.0: "discrete GPU, all but 0.5 GiB is free",
        1.0: "GB10 after a boot, 109 GiB (101 to 116) of 121.6 are free",
    }
    source = f"prior: {kinds.get(shared, 'between a discrete GPU and a GB10')}"
    return Node(host, whole, free, False, low, high, reserve, source)


def read_nodes(nodes: Sequence[dict[str, Any]], wishes: Wishes) -> tuple[tuple[Node, ...], list[str]]:
    """Measured where there is a figure, the prior where there is none; and what makes no sense."""
    result: list[Node] = []
    problems: list[str] = []
    for number, node in enumerate(nodes):
        host = str(node.get("host") or f"node {number}")
        again = "Gather facts again, or correct gb10_plan_memory_bytes and gb10_plan_available_bytes."
        total, available = node.get("total_bytes"), node.get("available_bytes")
        wrong = [
            f"{host}: {key} is {value}; expected a number of bytes above 0. {again}"
            for key, value in (("total_bytes", total), ("available_bytes", available))
            if value is not None and not _whole(value)
        ]
        if not wrong and total is not None and available is not None and available > total:
            wrong = [f"{host}: available_bytes {available} is more than total_bytes {total}. {again}"]
        problems += wrong
        if not wrong:
            result.append(_node(host, total, available, wishes, str(node.get("source") or "")))
    return tuple(result), problems


def more_like(node: Node, count: int) -> tuple[Node, ...]:
    """So many nodes of that kind."""
    return tuple(replace(node, host=f"node {n}") for n in range(count))
