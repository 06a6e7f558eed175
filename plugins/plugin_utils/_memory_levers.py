# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
#
# Private to this collection: may change without notice.
"""What each setting would still give to a plan that fits already, so that one sees what is given up. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from ansible_collections.gb10.serving.plugins.plugin_utils._memory_case import Case
from ansible_collections.gb10.serving.plugins.plugin_utils._memory_changes import server_settings
from ansible_collections.gb10.serving.plugins.plugin_utils._memory_fit import Fit, Shape, engine_problems, fit
from ansible_collections.gb10.serving.plugins.plugin_utils._memory_kv_sglang import POOLS
from ansible_collections.gb10.serving.plugins.plugin_utils._memory_model import DEFAULT_SEQS, Engine, Model, Wishes
from ansible_collections.gb10.serving.plugins.plugin_utils._memory_nodes import Node, more_like
from ansible_collections.gb10.serving.plugins.plugin_utils._memory_verdict import judge

MOST_SLOTTED = 256  # requests
WORTH = 1.03  # a gain below this is within what two starts of one configuration differ by


def _concurrency(found: Fit) -> float:
    return found.layout.capacity(found.pool, found.context)[1]


def _at_once(found: Fit) -> float:
    """Requests that run: as many as there is room for, and as the server takes."""
    return min(_concurrency(found), found.wishes.seqs)


def _more_requests(case: Case) -> Iterator[tuple[str, Fit, dict[str, Any]]]:
    """What there is room for already, and is not let in."""
    most = min(int(_concurrency(case.now)), DEFAULT_SEQS, case.now.wishes.batched_tokens)
    if most > case.now.wishes.seqs:
        words = f"Set gb10_plan_max_num_seqs to {most}: there is room for as many requests of this length."
        yield words, case.attempt(replace(case.wishes, max_num_seqs=most)), {"gb10_plan_max_num_seqs": most}


def _more_slots(case: Case) -> Iterator[tuple[str, Fit, dict[str, Any]]]:
    """Where so many state slots are asked for, and not cells, they are what bounds the requests at once."""
    cells, w, now = case.now.layout.cells, case.wishes, case.now
    if case.engine.name != "sglang" or not cells.state or not cells.fixed_slots:
        return
    by_flag, flag = bool(w.pools.get("state_slots")), POOLS["state_slots"]
    best: tuple[str, Fit, dict[str, Any]] | None = None
    count = 2 * max(1, cells.at_once(now.pool))
    while count <= (w.seqs if by_flag else MOST_SLOTTED):
        size = count * cells.slots
        wishes = replace(w, pools={**w.pools, "state_slots": size}) if by_flag else replace(w, max_num_seqs=count)
        found = case.attempt(wishes)
        if judge(found)[0] != "fits" or (best and _at_once(found) < WORTH * _at_once(best[1])):
            break
        what = f"{flag}={size} in gb10_server_args" if by_flag else f"gb10_plan_max_num_seqs to {count}"
        added: dict[str, Any] = {"gb10_server_args": {"add": [f"{flag}={size}"], "remove": [flag]}}
        settings = added if by_flag else {"gb10_plan_max_num_seqs": count}
        best = f"Set {what}: state slots for {count} requests instead of {cells.at_once(now.pool)}.", found, settings
        count *= 2
    if best:
        yield best


def _tried(case: Case) -> Iterator[tuple[str, Fit, dict[str, Any]]]:
    yield from _more_requests(case)
    yield from _more_slots(case)
    for words, wishes, settings, shape in server_settings(case):
        yield words, case.attempt(wishes, shape=shape), settings
    ranks = 2 * case.now.shape.ranks
    wishes = case.wishes
    ep = bool(wishes.expert_parallel)
    if not engine_problems(case.model, ranks, ep, case.engine, case.wishes):
        nodes = more_like(case.now.worst, ranks)
        shape = Shape(ranks, 1, ep)
        found = fit(case.model, nodes, wishes, case.engine, shape, case.now.context)
        settings = {"gb10_plan_nodes": ranks, "gb10_plan_tp": ranks}
        if wishes.pipeline_parallel or case.now.shape.pp > 1:
            settings["gb10_plan_pp"] = 1
        yield f"Use {ranks} nodes ({shape.words}).", found, settings


def _as_picked(asked: Wishes, now: Fit, limit: int) -> dict[str, Any]:
    """What the plan picked, to be kept: with a lever set it would pick anew, and the figures would be others."""
    kept: dict[str, Any] = {}
    if asked.context_length is None and now.context < limit:
        kept["gb10_plan_context_length"] = now.context
    if asked.max_num_seqs is None and now.wishes.max_num_seqs is not None:
        kept["gb10_plan_max_num_seqs"] = now.wishes.max_num_seqs
    if now.shape.ep and not asked.expert_parallel:
        kept["gb10_plan_ep"] = True
    if now.shape.pp > 1 and asked.pipeline_parallel is None:
        kept.update(gb10_plan_tp=now.shape.tp, gb10_plan_pp=now.shape.pp)
    return kept


def levers(
    model: Model, nodes: tuple[Node, ...], wishes: Wishes, engine: Engine, now: Fit, asked: Wishes
) -> list[dict[str, Any]]:
    """Each setting alone, in the order of what is lost by it: what the cache gains and what that serves at once."""
    before, limit = _at_once(now), model.config.get("max_position_embeddings") or now.context
    kept = _as_picked(asked, now, limit)
    return [
        {
            "change": words,
            "cache_bytes": found.pool - now.pool,
            "max_concurrency": round(_concurrency(found), 2),
            "requests_at_once": round(_at_once(found), 2),
            "settings": {**kept, **settings},
        }
        for words, found, settings in _tried(Case(model, nodes, wishes, engine, now, "fits", False, now.context))
        if judge(found)[0] == "fits" and _at_once(found) >= WORTH * before
    ]
