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

from ansible_collections.gb10.serving.plugins.plugin_utils._memory_answer import answer, blank
from ansible_collections.gb10.serving.plugins.plugin_utils._memory_changes import changes
from ansible_collections.gb10.serving.plugins.plugin_utils._memory_checks import model_problems, wish_problems
from ansible_collections.gb10.serving.plugins.plugin_utils._memory_fit import Fit, engine_problems, fit
from ansible_collections.gb10.serving.plugins.plugin_utils._memory_levers import levers
from ansible_collections.gb10.serving.plugins.plugin_utils._memory_model import MIB, Engine, Model, Wishes
from ansible_collections.gb10.serving.plugins.plugin_utils._memory_nodes import Node, read_nodes
from ansible_collections.gb10.serving.plugins.plugin_utils._memory_notes import notes
from ansible_collections.gb10.serving.plugins.plugin_utils._memory_search import Candidate, search

_BECOMES = {"fits": "fits", "borderline": "is borderline"}


def inputs_digest(
    nodes: Sequence[dict[str, Any]], model: dict[str, Any], wishes: dict[str, Any] | None, engine: dict[str, Any] | None
) -> str:
    """Identity of a question. Measured memory is left out: it changes while the answer runs."""
    engine = engine or {}
    question = {
        "hosts": [node.get("host") for node in nodes],
        "model": model.get("digest") or [model.get("config"), (model.get("tensors") or {}).get("by_class")],
        "wishes": asdict(Wishes.of(wishes)),
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
    count, tp = len(nodes), wishes.tensor_parallel or len(nodes)
    sizes = [n for n in range(1, count + 1) if not engine_problems(model, n, False, engine)]
    if any("nodes with one GPU each" in reason for reason in tried[0].why):
        what = [f"Add nodes, or set gb10_plan_tp to one of {sizes}."]
    else:
        what = [f"Set gb10_plan_tp to one of {sizes} on {count} node{'s' if count > 1 else ''}."]
        if wishes.tensor_parallel and wishes.pipeline_parallel is None:
            other, _all = search(model, nodes, replace(wishes, tensor_parallel=None), engine, context)
            if other and other.verdict != "refused" and other.shape.pp > 1:
                what.append(f"Leave gb10_plan_tp out: with {other.shape.words} it {_BECOMES[other.verdict]}.")
    result = blank(tp, context, list(tried[0].why), what, inputs)
    return {**result, "candidates": [candidate.as_dict() for candidate in tried]}


def _with_a_pool(found: Fit, verdict: str, model: Model, wishes: Wishes) -> Fit:
    """What is borderline because memory may be more than assumed gets a cache for one request."""
    if verdict == "refused" or found.pool >= found.needed:
        return found
    size = -(-found.needed // MIB) * MIB
    pinned = replace(found.wishes, kv_cache_bytes=size)
    return fit(model, found.nodes, pinned, found.engine, found.shape, found.context)


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
    correct = ["Correct what is named above, then plan again."]
    why = wish_problems(wished, used_engine)
    if why:
        return blank(0, 0, why, correct, inputs)
    seen, wished = seen.loaded_as(wished.dtype), wished.as_started(used_engine)
    machines, why = read_nodes(nodes, wished)
    limit = seen.config.get("max_position_embeddings")
    tp = wished.tensor_parallel or len(nodes)
    context = wished.context_length or limit or 0
    if not nodes:
        return blank(tp, context, ["No node is given."], ["Put at least one node into the group sparks."], inputs)
    why += model_problems(seen, wished.context_length, limit)
    if why:
        return blank(tp, context, why, correct, inputs)
    try:
        taken, tried = search(seen, machines, wished, used_engine, context)
    except (ValueError, KeyError, TypeError, ZeroDivisionError) as exc:
        why = [f"A number in the model's config makes no sense together with the others: {exc}. Check config.json."]
        return blank(tp, context, why, correct, inputs)
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
        "levers": levers(seen, machines, asked, used_engine, found) if taken.verdict == "fits" else [],
        "notes": [*taken.notes, *notes(found, taken.verdict, model, seen)],
        "candidates": [candidate.as_dict() for candidate in tried],
        **answer(found, seen, wished),
        "inputs": inputs,
        "kept": False,
    }
