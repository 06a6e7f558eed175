# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
#
# Private to this collection: may change without notice.
"""What was set by hand and stands in the way of a plan: shares, a fixed cache, a large reserve. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from ansible_collections.gb10.serving.plugins.plugin_utils._memory_answer import static_fraction, utilisation
from ansible_collections.gb10.serving.plugins.plugin_utils._memory_case import Case, Change
from ansible_collections.gb10.serving.plugins.plugin_utils._memory_fit import SHARE_STEPS, Fit, fit
from ansible_collections.gb10.serving.plugins.plugin_utils._memory_model import DEFAULT_RESERVE, GIB, Wishes
from ansible_collections.gb10.serving.plugins.plugin_utils._memory_verdict import RANK, judge

TRIED_SHARES = 8


def _with_share(wishes: Wishes, key: str, share: float) -> Wishes:
    if key == "gpu_memory_utilization":
        return replace(wishes, gpu_memory_utilization=share)
    return replace(wishes, mem_fraction_static=share)


def _share_for(case: Case, key: str, free: Fit, verdict: str) -> float | None:
    """The largest share that, when it is set, gives what leaving it out gives."""
    most = utilisation(free) if key == "gpu_memory_utilization" else static_fraction(free)
    for steps in range(round(most * SHARE_STEPS), round(most * SHARE_STEPS) - TRIED_SHARES, -1):
        share = steps / SHARE_STEPS
        if share > 0 and judge(case.attempt(_with_share(case.wishes, key, share)))[0] == verdict:
            return share
    return None


def _shares(case: Case) -> Iterator[Change]:
    """What was set by hand and stands in the way."""
    now, w = case.now, case.wishes
    keys = {"gpu_memory_utilization": w.gpu_memory_utilization, "mem_fraction_static": w.mem_fraction_static}
    for key in (name for name, share in keys.items() if share is not None):
        open_share = replace(w, gpu_memory_utilization=None, mem_fraction_static=None)
        free = fit(case.model, case.nodes, open_share, case.engine, now.shape, now.context)
        verdict = judge(free)[0]
        if RANK[verdict] < RANK[case.verdict]:
            share = _share_for(case, key, free, verdict)
            gained = min(free.left(node) - now.left(node) for node in now.nodes)
            other = f", or set it to {share}" if share else ""
            text = f"Leave gb10_plan_{key} out{other}: the cache then takes what the reserve leaves."
            effect = gained if gained > 0 else free.slack - now.slack
            yield Change(text, effect, verdict, {f"gb10_plan_{key}": 0})


def _pins(case: Case) -> Iterator[Change]:
    """A cache of a fixed size that is too small for one request, or too large for the node."""
    now, w = case.now, case.wishes
    if now.pin is None:
        return
    raised, lowered = math.ceil(now.needed / GIB * 1000) / 1000, math.floor(now.budget / GIB * 100) / 100
    size, word = (raised, "Raise") if now.pin < now.needed else (lowered, "Lower")
    if size > 0:
        verdict = judge(case.attempt(replace(w, kv_cache_bytes=int(size * GIB))))[0]
        if RANK[verdict] < RANK[case.verdict]:
            text = f"{word} gb10_plan_kv_cache_gib to {'at most ' if word == 'Lower' else ''}{size:g}."
            yield Change(text, abs(int(size * GIB) - now.pin), verdict, {"gb10_plan_kv_cache_gib": size})
    free = case.attempt(replace(w, kv_cache_bytes=None))
    verdict = judge(free)[0]
    if RANK[verdict] < RANK[case.verdict]:
        text = "Leave gb10_plan_kv_cache_gib out: the plan then gives the cache all that is left."
        gained = abs(min(free.pool, max(0, now.budget)) - now.pin)  # of a share no more than the node has
        yield Change(text, gained, verdict, {"gb10_plan_kv_cache_gib": 0})


def _both(case: Case, alone: list[Change]) -> Iterator[Change]:
    """A fixed cache and a share that stand in the way together."""
    now, w, share = case.now, case.wishes, "gb10_plan_gpu_memory_utilization"
    if now.pin is None or w.gpu_memory_utilization is None:
        return
    best = min([RANK[case.verdict], *(RANK[change.verdict or "refused"] for change in alone)])
    raised, lowered = math.ceil(now.needed / GIB * 1000) / 1000, math.floor(now.budget / GIB * 100) / 100
    for size, words in (
        (raised if now.pin < now.needed else min(lowered, now.pin / GIB), "set gb10_plan_kv_cache_gib to"),
        (0, "and gb10_plan_kv_cache_gib: the plan then gives the cache all that is left"),
    ):
        pin = int(size * GIB) or None
        if size < 0:
            continue
        found = case.attempt(replace(w, gpu_memory_utilization=None, kv_cache_bytes=pin))
        verdict = judge(found)[0]
        if RANK[verdict] < best:
            text = f"Leave {share} out, and {words} {size:g}." if size else f"Leave out {share} {words}."
            settings = {share: 0, "gb10_plan_kv_cache_gib": size}
            yield Change(text, abs(found.pool - now.pin) or None, verdict, settings)


def _reserve(case: Case) -> Iterator[Change]:
    """More than usual kept for the system: no more than that leaves room, and at least what is usual."""
    now, asked = case.now, case.wishes.reserve_bytes
    if asked is None or asked <= DEFAULT_RESERVE:
        return
    missing = now.margin - now.budget + max(now.needed, now.pin or 0)
    most = (asked - max(0, missing)) // GIB * GIB
    for size in dict.fromkeys((most, DEFAULT_RESERVE)):
        if not DEFAULT_RESERVE <= size < asked:
            continue
        nodes = tuple(replace(node, reserve=min(node.reserve, size)) for node in case.nodes)
        wishes = replace(case.wishes, reserve_bytes=size)
        found = fit(case.model, nodes, wishes, case.engine, now.shape, now.context)
        verdict = judge(found)[0]
        if RANK[verdict] < RANK[case.verdict]:
            text = f"Lower gb10_plan_reserve_gib to {'at most ' if size == most else ''}{size // GIB}."
            yield Change(text, asked - size, verdict, {"gb10_plan_reserve_gib": size // GIB})
            return


def set_by_hand(case: Case) -> list[Change]:
    alone = [*_shares(case), *_pins(case), *_reserve(case)]
    return [*alone, *_both(case, alone)]
