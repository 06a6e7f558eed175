# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
#
# Private to this collection: may change without notice.
"""What each setting would still give to a plan that fits already, so that one sees what is given up. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ansible_collections.gb10.serving.plugins.plugin_utils._memory_case import Case
from ansible_collections.gb10.serving.plugins.plugin_utils._memory_changes import server_settings
from ansible_collections.gb10.serving.plugins.plugin_utils._memory_fit import Fit, Shape, engine_problems, fit
from ansible_collections.gb10.serving.plugins.plugin_utils._memory_model import Engine, Model, Wishes
from ansible_collections.gb10.serving.plugins.plugin_utils._memory_nodes import Node, more_like
from ansible_collections.gb10.serving.plugins.plugin_utils._memory_verdict import judge

WORTH = 1.03  # a gain below this is within what two starts of one configuration differ by


def _concurrency(found: Fit) -> float:
    return found.layout.capacity(found.pool, found.context)[1]


def _tried(case: Case) -> Iterator[tuple[str, Fit, dict[str, Any]]]:
    for words, wishes, settings, shape in server_settings(case):
        yield words, case.attempt(wishes, shape=shape), settings
    ranks = 2 * case.now.shape.ranks
    wishes = case.wishes
    ep = bool(wishes.expert_parallel)
    if not engine_problems(case.model, ranks, ep, case.engine):
        nodes = more_like(case.now.worst, ranks)
        shape = Shape(ranks, 1, ep)
        found = fit(case.model, nodes, wishes, case.engine, shape, case.now.context)
        settings = {"gb10_plan_nodes": ranks, "gb10_plan_tp": ranks}
        if wishes.pipeline_parallel:
            settings["gb10_plan_pp"] = 1
        yield f"Use {ranks} nodes ({shape.words}).", found, settings


def levers(model: Model, nodes: tuple[Node, ...], wishes: Wishes, engine: Engine, now: Fit) -> list[dict[str, Any]]:
    """Each setting alone, in the order of what is lost by it: what the cache gains and what that serves at once."""
    before = _concurrency(now)
    return [
        {
            "change": words,
            "cache_bytes": found.pool - now.pool,
            "max_concurrency": round(_concurrency(found), 2),
            "settings": settings,
        }
        for words, found, settings in _tried(Case(model, nodes, wishes, engine, now, "fits", False, now.context))
        if judge(found)[0] == "fits" and _concurrency(found) >= WORTH * before
    ]
