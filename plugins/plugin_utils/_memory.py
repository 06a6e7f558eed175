# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
#
# Private to this collection: may change without notice.
"""Will it fit, and with which settings? Nodes + model + wishes + engine -> plan. Pure: same input, same output."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from ansible_collections.gb10.serving.plugins.plugin_utils._memory_answer import answer, blank, stated
from ansible_collections.gb10.serving.plugins.plugin_utils._memory_changes import changes
from ansible_collections.gb10.serving.plugins.plugin_utils._memory_checks import model_problems, wish_problems
from ansible_collections.gb10.serving.plugins.plugin_utils._memory_fit import Fit, fit
from ansible_collections.gb10.serving.plugins.plugin_utils._memory_layouts import other_layouts
from ansible_collections.gb10.serving.plugins.plugin_utils._memory_levers import levers
from ansible_collections.gb10.serving.plugins.plugin_utils._memory_model import MIB, Engine, Model, Wishes
from ansible_collections.gb10.serving.plugins.plugin_utils._memory_nodes import Node, read_nodes
from ansible_collections.gb10.serving.plugins.plugin_utils._memory_notes import notes
from ansible_collections.gb10.serving.plugins.plugin_utils._memory_refused import refusals
from ansible_collections.gb10.serving.plugins.plugin_utils._memory_search import Candidate, search


def inputs_digest(
    nodes: Sequence[dict[str, Any]], model: dict[str, Any], wishes: dict[str, Any] | None, engine: dict[str, Any] | None
) -> str:
    """Identity of a question. Measured memory is left out: it changes while the answer runs."""
    engine = engine or {}
    asked = asdict(Wishes.of(wishes))
    del asked["drafting_args"]  # how drafts were asked for is no part of the question
    question = {
        "hosts": [node.get("host") for node in nodes],
        "model": model.get("digest") or [model.get("config"), (model.get("tensors") or {}).get("by_class")],
        "wishes": asked,
        "engine": [engine.get(key) for key in ("name", "version", "device")],
    }
    return "sha256:" + hashlib.sha256(json.dumps(question, sort_keys=True, default=str).encode()).hexdigest()


def _no_layout(
    model: Model,
    nodes: tuple[Node, ...],
    wishes: Wishes,
    engine: Engine,
    tried: list[Candidate],
    context: int,
    inputs: str,
) -> dict[str, Any]:
    """None of the layouts is one that the engine starts with."""
    what = other_layouts(model, nodes, wishes, engine, context)
    result = blank(wishes.tensor_parallel or len(nodes), context, list(tried[0].why), what, inputs)
    return {**result, "candidates": [candidate.as_dict() for candidate in tried]}


def _with_a_pool(found: Fit, verdict: str, model: Model, wishes: Wishes) -> Fit:
    """What is borderline because memory may be more than assumed gets a cache for one request."""
    if verdict == "refused" or found.pool >= found.needed:
        return found
    size = -(-found.needed // MIB) * MIB
    pinned = replace(found.wishes, kv_cache_bytes=size)
    return replace(fit(model, found.nodes, pinned, found.engine, found.shape, found.context), picked=True)


def plan(
    nodes: Sequence[dict[str, Any]],
    model: dict[str, Any],
    wishes: dict[str, Any] | None = None,
    engine: dict[str, Any] | None = None,
    previous: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """The plan. With the previous answer to the same question, that answer: a running server keeps its settings."""
    inputs = inputs_digest(nodes, model, wishes, engine)
    if previous and previous.get("inputs") == inputs and previous.get("verdict") in ("fits", "borderline"):
        return {**previous, "kept": True}
    wished, used_engine, seen = Wishes.of(wishes), Engine.of(engine), Model.of(model)
    why = wish_problems(wished, used_engine)
    if why:
        return blank(0, 0, why, [], inputs)
    seen, wished = seen.loaded_as(wished.dtype), wished.as_started(used_engine)
    machines, why = read_nodes(nodes, wished)
    limit = seen.config.get("max_position_embeddings")
    tp = wished.tensor_parallel or len(nodes)
    context = wished.context_length or limit or 0
    if not nodes:
        return blank(
            tp, context, ["No node is given."], [stated("Put at least one node into the group sparks.")], inputs
        )
    wrong = model_problems(seen, wished.context_length, limit, used_engine.name)
    if wrong and not why and limit and context > limit and not model_problems(seen, limit, limit):
        shorter = {**(wishes or {}), "context_length": limit}
        verdict = plan(nodes, model, shorter, engine)["verdict"]
        change = stated(f"Set gb10_plan_context_length to {limit}, which is what the model allows.")
        change.update(verdict=None if verdict == "refused" else verdict, settings={"gb10_plan_context_length": limit})
        return blank(tp, context, wrong, [change], inputs)
    why += wrong
    if why:
        return blank(tp, context, why, [], inputs)
    if refused := refusals(seen, wished, used_engine):
        without = dict(wishes or {})
        for refusal in refused:
            without.update(refusal.wishes)
        alone = len(refused) == 1 and bool(refused[0].wishes)
        verdict = plan(nodes, model, without, engine)["verdict"] if alone else None
        what = [
            {**stated(r.change), "verdict": None if verdict == "refused" else verdict, "settings": r.settings}
            for r in refused
        ]
        return blank(tp, context, [refusal.reason for refusal in refused], what, inputs)
    try:
        taken, tried = search(seen, machines, wished, used_engine, context)
    except (ValueError, KeyError, TypeError, ZeroDivisionError) as exc:
        why = [f"A number in the model's config makes no sense together with the others: {exc}. Check config.json."]
        return blank(tp, context, why, [], inputs)
    if taken is None or taken.found is None:
        return _no_layout(seen, machines, wished, used_engine, tried, context, inputs)
    found = _with_a_pool(taken.found, taken.verdict, seen, wished)
    asked = replace(wished, max_num_seqs=found.wishes.max_num_seqs)
    better = [] if taken.verdict == "fits" else changes(seen, machines, asked, used_engine, taken.found, taken.verdict)
    return {
        "verdict": taken.verdict,
        "reasons": list(taken.why),
        "remedies": [change.change for change in better],
        "changes": [change.as_dict() for change in better],
        "levers": levers(seen, machines, asked, used_engine, found, wished) if taken.verdict == "fits" else [],
        "notes": [*taken.notes, *notes(found, taken.verdict, model, seen)],
        "candidates": [candidate.as_dict() for candidate in tried],
        **answer(found, seen, wished),
        "inputs": inputs,
        "kept": False,
    }
