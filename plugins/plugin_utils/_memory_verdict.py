# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
#
# Private to this collection: may change without notice.
"""fits, borderline or refused, and why: first the host, then the cache. Pure."""

from __future__ import annotations

from ansible_collections.gb10.serving.plugins.plugin_utils._memory_fit import (
    EXTREME,
    FLOOR,
    UNSURE,
    Fit,
    gib,
)
from ansible_collections.gb10.serving.plugins.plugin_utils._memory_model import DEFAULT_RESERVE, GIB
from ansible_collections.gb10.serving.plugins.plugin_utils._memory_nodes import Node

RANK = {"fits": 0, "borderline": 1, "refused": 2}


def worse(first: str, second: str) -> str:
    return max(first, second, key=RANK.__getitem__)


def _range(node: Node) -> str:
    return f"{node.low / GIB:.0f} to {node.high / GIB:.0f} are seen"


def _sum(found: Fit, node: Node) -> str:
    """The sum that leads to the budget, in words."""
    weights, overhead = gib(found.weights_bytes), gib(found.overhead_bytes - found.outside_bytes)
    if found.mode == "total":
        share = found.wishes.gpu_memory_utilization
        return (
            f"gb10_plan_gpu_memory_utilization {share} of {gib(node.total)} is {gib(found.requested(node))} on "
            f"{node.host}; {weights} weights and {overhead} overhead"
        )
    if found.mode == "free":
        share = found.wishes.mem_fraction_static
        return (
            f"gb10_plan_mem_fraction_static {share} of {gib(node.available)} free is {gib(found.requested(node))} on "
            f"{node.host}; {weights} weights"
        )
    return (
        f"{node.host} has {gib(node.available)} {'available' if node.measured else 'free by the prior'}; "
        f"{weights} weights, {overhead} overhead and {gib(node.reserve)} reserve for system and processes"
    )


def _cache(found: Fit) -> tuple[str, list[str]]:
    worst = found.worst
    have = _sum(found, worst)
    if found.mode != "plan" and -UNSURE < found.slack < 0:
        return "borderline", [
            (
                f"By the estimate {gib(-found.slack)} are missing for one request of {found.context} tokens, which "
                f"needs {gib(found.needed)} of KV cache on each rank: {have} come first. The estimate is good to "
                f"{gib(UNSURE)}."
            )
        ]
    if found.budget <= 0:
        return "refused", [f"The weights do not fit: {have} are {gib(-found.budget)} too much before any KV cache."]
    why: list[str] = []
    if found.pin is not None and found.pin > found.budget:
        why.append(
            f"gb10_plan_kv_cache_gib is {gib(found.pin)}, but {gib(found.budget)} are left for the KV cache: "
            f"{have} are needed first."
        )
    if found.pool < found.needed or (found.pin is None and found.budget < found.needed):
        left = (
            f"{gib(found.pool)} are set"
            if found.pin is not None
            else f"{gib(found.budget)} are left: {have} come first"
        )
        longest = found.longest(found.room, found.context)
        why.append(
            f"One request of {found.context} tokens needs {gib(found.needed)} of KV cache on each rank, {left}. "
            f"The longest context that fits is {longest}."
        )
    if why or not found.ok:
        return "refused", why or ["The KV cache does not hold one request."]
    spare = found.budget - found.needed  # a fixed cache within the budget is the start that leaving it open gives
    if spare < found.margin:
        return "borderline", [
            (
                f"Only {gib(spare)} stay on {worst.host} beside one request of {found.context} tokens; two equal "
                f"starts differ by up to 3.0 GiB, and the estimate is good to {gib(found.margin)}."
            )
        ]
    return "fits", []


def _start(found: Fit, node: Node) -> str:
    """What the engine will say, and do, when it asks for more than is free."""
    share = found.wishes.gpu_memory_utilization
    return (
        f"vLLM stops at its start: Free memory on device cuda:0 ({node.available / 2**30:.2f}/"
        f"{node.total / 2**30:.2f} GiB) on startup is less than desired GPU memory utilization ({share}, "
        f"{found.checked(node) / 2**30:.2f} GiB)."
    )


def _asked(found: Fit, node: Node) -> tuple[str, list[str]] | None:
    """The check at the start: is as much free as the share asks for?"""
    asked = found.checked(node)
    if asked > node.high:
        return "refused", [_start(found, node) + " Lower gb10_plan_gpu_memory_utilization."]
    if asked <= node.low or node.available - asked >= node.reserve:
        return None
    often = "usually stops" if asked > node.available else "stops where less is free"
    return "borderline", [
        (
            f"vLLM asks for {gib(asked)} at its start and {often}. A GB10 usually has {gib(node.available)} free "
            f"after a boot ({_range(node)})."
        )
    ]


def _host(found: Fit, node: Node) -> tuple[str, list[str]]:
    """Does the rest of the system live with what this engine takes?"""
    if found.mode == "plan":
        return _asked(found, node) or ("fits", [])  # the cache was held against what the reserve leaves
    what = "gb10_plan_gpu_memory_utilization" if found.mode == "total" else "gb10_plan_mem_fraction_static"
    left, best = found.left(node), found.left(node, node.high)
    floor = min(FLOOR, node.reserve)
    if (asked := _asked(found, node)) and asked[0] == "refused":
        return asked
    if node.measured and left < floor:
        return "refused", [
            (
                f"{what} leaves {gib(max(0, left))} of {gib(node.available)} on {node.host} to the system; hosts with "
                f"less than {gib(FLOOR)} stop answering."
            )
        ]
    if best < 0 and found.mode == "free":
        return "refused", [f"{what} and what the engine takes beside it are {gib(-best)} too much for {node.host}."]
    if left < node.reserve and asked:
        return asked
    if left < node.reserve and left < 0:
        return "borderline", [
            (
                f"{what} needs {gib(node.available - left)} free on {node.host} at the start. A GB10 usually has "
                f"{gib(node.available)} free after a boot ({_range(node)}): it usually fails."
            )
        ]
    if left < node.reserve:
        return "borderline", [
            (
                f"{what} leaves {gib(left)} to the system on {node.host}, less than the reserve {gib(node.reserve)}; "
                "hosts with 3 to 7 GiB left have frozen."
            )
        ]
    return "fits", []


def _loading(found: Fit, node: Node) -> tuple[str, list[str]]:
    peak = found.peak
    if peak.bytes <= node.high:
        return "fits", []
    return "borderline", [
        (
            f"While it loads, {node.host} needs about {gib(peak.bytes)} ({gib(found.weights_bytes)} weights, staging, "
            f"processes) of {gib(node.high)}: the start may run out of memory."
        )
    ]


def _may_be_more(found: Fit) -> bool:
    """Memory is a prior, and nobody insists on a larger reserve."""
    known = any(node.measured or node.high == node.available for node in found.nodes)
    return found.mode == "plan" and not known and (found.wishes.reserve_bytes or 0) <= DEFAULT_RESERVE


def _too_long(found: Fit) -> list[str]:
    """At the best the weights do fit: it is the context that does not."""
    taken = found.weights_bytes + found.overhead_bytes
    most = min(node.high for node in found.nodes) - EXTREME - taken
    longest = found.longest(most, found.context) if most > 0 else 0
    if found.pin is not None or found.budget > 0 or not longest or most >= found.needed or not _may_be_more(found):
        return []
    return [
        (
            f"One request of {found.context} tokens needs {gib(found.needed)} of KV cache on each rank. At the best "
            f"{gib(most)} are left: {gib(found.worst.high)} free, of which {gib(found.weights_bytes)} weights, "
            f"{gib(found.overhead_bytes)} overhead and {gib(EXTREME)} for the system. The longest context that may "
            f"fit is {longest}."
        )
    ]


def _extreme(found: Fit) -> tuple[str, list[str]] | None:
    """Memory is a prior: it may be more than assumed. What only then fits, without the reserve, is borderline."""
    if not _may_be_more(found):
        return None
    pool = found.needed if found.pin is None else found.pin
    if pool < found.needed:
        return None
    taken = found.weights_bytes + found.overhead_bytes + pool
    spare = min(node.high - EXTREME - taken for node in found.nodes)
    if spare < 0:
        return None
    worst, pinned = found.worst, found.pin is not None and not found.picked
    return "borderline", [
        (
            f"Only on a node with {gib(taken + EXTREME)} or more free, and with less than the usual reserve: "
            f"{gib(found.weights_bytes)} weights, {gib(found.overhead_bytes)} overhead and {gib(pool)} KV cache"
            f"{' (gb10_plan_kv_cache_gib)' if pinned else ''}. "
            f"Usually {gib(worst.available)} are free after a boot ({_range(worst)})"
            f"{': it usually fails.' if taken + EXTREME > worst.available else '.'}"
        )
    ]


def judge(found: Fit) -> tuple[str, list[str]]:
    """(verdict, reasons)."""
    verdict, why = _cache(found)
    if verdict == "refused" and (extreme := _extreme(found)):
        verdict, why = extreme
    if verdict == "refused":
        why = _too_long(found) or why
    for node in found.nodes:
        part, words = _host(found, node)
        verdict = worse(verdict, part)
        why += [sentence for sentence in words if sentence not in why]
    if verdict != "refused":
        part, words = _loading(found, min(found.nodes, key=lambda node: node.high))
        verdict, why = worse(verdict, part), [*why, *words]
    return verdict, why
