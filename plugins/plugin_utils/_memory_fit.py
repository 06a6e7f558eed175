# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
#
# Private to this collection: may change without notice.
"""One candidate: do this model and these wishes fit these nodes at this tensor-parallel size, and what would? Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ansible_collections.gb10.serving.plugins.plugin_utils._memory_kv import Layout, layout
from ansible_collections.gb10.serving.plugins.plugin_utils._memory_model import GIB, MIB, Engine, Model, Term, Wishes
from ansible_collections.gb10.serving.plugins.plugin_utils._memory_overhead import overhead_terms
from ansible_collections.gb10.serving.plugins.plugin_utils._memory_weights import tp_problems, weight_terms

NOISE = 3 * GIB  # identical starts on unified memory differ by up to this much
STEP = 256 * MIB
DTYPE_STEP = 1024  # tokens: a proposed context is a multiple of this
LARGE_SIZES = (2, 4, 8)


def gib(size: float) -> str:
    return f"{size / GIB:.1f} GiB"


@dataclass(frozen=True)
class Node:
    host: str
    total: int
    available: int
    measured: bool


@dataclass(frozen=True)
class Fit:
    """The sums of one candidate."""

    tp: int
    context: int
    nodes: tuple[Node, ...]
    weights: tuple[Term, ...]
    overhead: tuple[Term, ...]
    layout: Layout
    reserve: int
    budgets: tuple[int, ...]  # for the cache, by rank; may be negative
    pin: int | None

    @property
    def weights_bytes(self) -> int:
        return sum(term.bytes for term in self.weights)

    @property
    def overhead_bytes(self) -> int:
        return sum(term.bytes for term in self.overhead)

    @property
    def budget(self) -> int:
        return min(self.budgets)

    @property
    def worst(self) -> Node:
        return self.nodes[self.budgets.index(self.budget)]

    @property
    def needed(self) -> int:
        return self.layout.needed(self.context)

    @property
    def pool(self) -> int:
        """Bytes for the cache: the pin, or the budget rounded down."""
        if self.pin is not None:
            return self.pin // MIB * MIB
        rounded = max(0, self.budget) // STEP * STEP
        return rounded if rounded >= self.needed else max(0, self.budget) // MIB * MIB

    @property
    def slack(self) -> int:
        """What stays beside one request of the wished length; negative when it does not fit."""
        if self.pin is not None:
            return min(self.budget - self.pin, self.budget - self.needed)
        return self.budget - self.needed

    @property
    def ok(self) -> bool:
        return self.slack >= 0 and self.pool >= self.needed


def fit(model: Model, nodes: tuple[Node, ...], wishes: Wishes, engine: Engine, tp: int, context: int) -> Fit:
    weights = tuple(weight_terms(model, tp, wishes))
    overhead = tuple(overhead_terms(model, tp, wishes))
    taken = sum(t.bytes for t in weights) + sum(t.bytes for t in overhead)
    budgets = []
    for node in nodes[:tp]:
        usable = node.available - wishes.reserve
        if wishes.gpu_memory_utilization is not None:
            usable = min(usable, int(node.total * wishes.gpu_memory_utilization))
        budgets.append(usable - taken)
    return Fit(
        tp,
        context,
        nodes[:tp],
        weights,
        overhead,
        layout(model, tp, wishes, engine),
        wishes.reserve,
        tuple(budgets),
        wishes.kv_cache_bytes,
    )


def reasons(found: Fit) -> list[str]:
    """Why a candidate does not fit, or fits only just."""
    worst = found.worst
    have = (
        f"{worst.host} has {gib(worst.available)} available; {gib(found.weights_bytes)} weights, "
        f"{gib(found.overhead_bytes)} overhead and {gib(found.reserve)} reserve for the system"
    )
    if found.budget <= 0:
        return [f"The weights do not fit: {have} are {gib(-found.budget)} too much before any KV cache."]
    result: list[str] = []
    if found.pin is not None and found.pin > found.budget:
        result.append(
            f"kv_cache_bytes is set to {gib(found.pin)}, but {gib(found.budget)} are left for it: "
            f"{have} are needed first."
        )
    if found.pool < found.needed or found.budget < found.needed:
        pinned = found.pin is not None
        left = f"{gib(found.pool)} are set" if pinned else f"{gib(found.budget)} are left: {have} come first"
        longest = found.layout.longest(found.pool, found.context, DTYPE_STEP)
        result.append(
            f"One request of {found.context} tokens needs {gib(found.needed)} of KV cache on each rank, {left}. "
            f"The longest context that fits is {longest}."
        )
    if not result and found.slack < NOISE:
        result.append(
            f"Only {gib(found.slack)} stay on {worst.host}; two identical starts differ by up to {gib(NOISE)}."
        )
    return result


def _sufficient(model: Model, nodes: tuple[Node, ...], wishes: Wishes, engine: Engine, now: Fit) -> list[str]:
    """Changes that are enough on their own, smallest loss first."""
    result: list[str] = []

    def attempt(changed: Wishes, context: int = now.context) -> Fit:
        return fit(model, nodes, changed, engine, now.tp, context)

    fewest = 2048
    if model.kv_dtype_bytes(wishes.kv_cache_dtype) > 1:
        eight = replace(wishes, kv_cache_dtype="fp8")
        candidate = attempt(eight)
        if candidate.ok:
            result.append(
                f"Set the KV cache dtype to fp8: one request of {now.context} tokens then needs "
                f"{gib(candidate.needed)} instead of {gib(now.needed)}."
            )
    longest = now.layout.longest(min(now.pool, now.budget), now.context, DTYPE_STEP)
    if 0 < longest < now.context:
        result.append(f"Set the context length to {longest}: the longest that fits as things are.")
    if now.pin is not None and not attempt(replace(wishes, kv_cache_bytes=now.needed)).ok:
        if attempt(replace(wishes, kv_cache_bytes=None)).ok:
            result.append("Leave kv_cache_bytes out: the plan then gives the cache all that is left.")
    elif now.pin is not None and now.pin < now.needed:
        result.append(f"Raise kv_cache_bytes to {-(-now.needed // MIB)} MiB.")
    elif now.pin is not None and now.pin > now.budget:
        result.append(f"Lower kv_cache_bytes to at most {max(0, now.budget) // MIB} MiB.")
    if wishes.batched_tokens > fewest:
        candidate = attempt(replace(wishes, max_num_batched_tokens=fewest))
        if candidate.ok:
            result.append(f"Set max_num_batched_tokens to {fewest}: frees {gib(candidate.budget - now.budget)}.")
    if wishes.speculative_tokens:
        candidate = attempt(replace(wishes, speculative_tokens=0))
        if candidate.ok:
            result.append(f"Turn speculative decoding off: frees {gib(candidate.budget - now.budget)}.")
    return result


def remedies(model: Model, nodes: tuple[Node, ...], wishes: Wishes, engine: Engine, now: Fit) -> list[str]:
    """Ranked: settings that suffice alone, then settings together, then more nodes, then a smaller model."""
    result = _sufficient(model, nodes, wishes, engine, now)
    if not result and now.pin is None:
        least = replace(
            wishes, kv_cache_dtype="fp8", speculative_tokens=0, max_num_batched_tokens=min(wishes.batched_tokens, 2048)
        )
        all_of_it = fit(model, nodes, least, engine, now.tp, now.context)
        longest = all_of_it.layout.longest(all_of_it.budget, now.context, DTYPE_STEP)
        if longest and least != wishes:
            result.append(
                f"Together: fp8 KV cache, at most {least.batched_tokens} batched tokens, no speculative decoding and a "
                f"context of {longest} tokens."
            )
    for size in LARGE_SIZES:
        if size <= now.tp or tp_problems(model, size, engine):
            continue
        more = tuple(replace(now.worst, host=f"node {n}") for n in range(size))
        candidate = fit(model, more, wishes, engine, size, now.context)
        if candidate.ok:
            result.append(
                f"Use {size} nodes (tensor parallel {size}): {gib(candidate.weights_bytes)} weights on each, "
                f"{gib(candidate.slack)} to spare."
            )
            break
    room = now.budget + now.weights_bytes - now.needed
    if room > 0:
        result.append(
            f"Use a smaller model or a stronger quantisation: at {now.tp} node{'s' if now.tp > 1 else ''} and this "
            f"context at most {gib(room)} of weights fit on each rank; this model has {gib(now.weights_bytes)}."
        )
    else:
        result.append("Use a smaller model or a stronger quantisation, together with a shorter context.")
    return result
