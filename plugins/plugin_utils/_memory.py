# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
#
# Private to this collection: may change without notice.
"""Will it fit, and with which settings? Nodes + model + wishes + engine -> plan. Pure: same input, same output."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from ansible_collections.gb10.serving.plugins.plugin_utils._memory_fit import (
    NOISE,
    Fit,
    Node,
    fit,
    reasons,
    remedies,
)
from ansible_collections.gb10.serving.plugins.plugin_utils._memory_model import (
    PRIOR_AVAILABLE,
    PRIOR_TOTAL,
    Engine,
    Model,
    Term,
    Wishes,
)
from ansible_collections.gb10.serving.plugins.plugin_utils._memory_weights import tp_problems

GMU_STEPS = 200  # utilisation is given in steps of 1/200


def _nodes(nodes: Sequence[dict[str, Any]]) -> tuple[tuple[Node, ...], list[str]]:
    """Measured where there is a figure, the prior where there is none."""
    result: list[Node] = []
    problems: list[str] = []
    for number, node in enumerate(nodes):
        host = str(node.get("host") or f"node {number}")
        total, available = node.get("total_bytes"), node.get("available_bytes")
        for key, value in (("total_bytes", total), ("available_bytes", available)):
            if value is not None and value <= 0:
                problems.append(f"{host}: {key} is {value}; expected a number of bytes above 0. Gather facts again.")
        whole = PRIOR_TOTAL if total is None else total
        free = min(PRIOR_AVAILABLE, whole) if available is None else available
        if free > whole:
            problems.append(f"{host}: available_bytes {free} is more than total_bytes {whole}. Gather the facts again.")
        result.append(Node(host, whole, free, available is not None))
    return tuple(result), problems


def _model_problems(model: Model, context: int, limit: int | None) -> list[str]:
    found = list(model.problems)
    c = model.config
    needed = ["num_hidden_layers", "hidden_size", "num_attention_heads", "vocab_size", "layer_kinds"]
    if not model.mla:
        needed += ["num_key_value_heads", "head_dim"]
    missing = [key for key in needed if not c.get(key)]
    if missing and not found:
        found.append(f"The model's config gives no usable {', '.join(missing)}. Check config.json of the model.")
    linear = c.get("linear")
    if linear and not all(linear.get(k) for k in ("key_heads", "value_heads", "key_head_dim", "value_head_dim")):
        found.append("The model's config describes its linear attention only in part. Check linear_* in config.json.")
    if model.mla and not model.mla.get("qk_rope_head_dim"):
        found.append("The model's config has kv_lora_rank but no qk_rope_head_dim. Check config.json of the model.")
    if c.get("not_modelled"):
        found.append(
            f"This model uses {', '.join(c['not_modelled'])}, whose memory is not modelled. "
            "Choose a model without it; a plan that guesses could freeze the nodes."
        )
    if not found and context <= 0:
        found.append("The model's config has no max_position_embeddings. Set the context length.")
    if not found and limit and context > limit:
        found.append(
            f"User-specified max_model_len ({context}) is greater than the derived max_model_len "
            f"(max_position_embeddings={limit}). Set the context length to at most {limit}."
        )
    return found


def _utilisation(found: Fit) -> float:
    """vLLM's share of total memory: what the plan takes, never more than available - reserve."""
    taken = found.weights_bytes + found.overhead_bytes + found.pool
    steps = min(GMU_STEPS * min(taken, node.available - found.reserve) // node.total for node in found.nodes)
    return max(1 if found.ok else 0, min(steps, GMU_STEPS)) / GMU_STEPS


def _static_fraction(found: Fit) -> float:
    """SGLang's share of the memory that is free at the start: weights and cache."""
    taken = found.weights_bytes + found.pool
    steps = min(GMU_STEPS * taken // node.available for node in found.nodes)
    return max(0, min(steps, GMU_STEPS)) / GMU_STEPS


def _ranks(found: Fit) -> list[dict[str, Any]]:
    state = found.layout.state_share(found.pool, found.context)
    overhead = {term.name: term.bytes for term in found.overhead}
    cache = [
        Term("kv", found.pool - state, "kv: pool less state"),
        Term("state", state, "state: linear groups' share of the pool, full of requests of the context length"),
        Term("reserve", found.reserve, "reserve: for the system, not touched"),
    ]
    terms = [term.as_dict() for term in (*found.weights, *found.overhead, *cache)]
    result: list[dict[str, Any]] = []
    for rank, node in enumerate(found.nodes):
        free = node.available - found.reserve - found.weights_bytes - found.overhead_bytes - found.pool
        result.append(
            {
                "host": node.host,
                "rank": rank,
                "total_bytes": node.total,
                "available_bytes": node.available,
                "weights_bytes": found.weights_bytes,
                "state_bytes": state,
                "kv_bytes": found.pool - state,
                "activation_bytes": overhead.get("activation", 0),
                "graphs_bytes": overhead.get("graphs", 0),
                "non_torch_bytes": found.overhead_bytes - overhead.get("activation", 0) - overhead.get("graphs", 0),
                "reserve_bytes": found.reserve,
                "free_bytes": max(0, free),
                "short_bytes": max(0, -free),
                "terms": terms,
            }
        )
    return result


def _refused(tp: int, context: int, why: list[str], what: list[str], inputs: str) -> dict[str, Any]:
    """A refusal before any sum could be made: the same keys, all zero."""
    return {
        "verdict": "refused",
        "reasons": why,
        "remedies": what,
        "tp": tp,
        "world_size": tp,
        "context_length": context,
        "max_num_seqs": 0,
        "max_num_batched_tokens": 0,
        "kv_bytes_per_token": 0,
        "state_bytes_per_seq": 0,
        "request_bytes": 0,
        "kv_cache_bytes": 0,
        "kv_block_tokens": 0,
        "gpu_memory_utilization": 0.0,
        "mem_fraction_static": 0.0,
        "kv_tokens_estimate": 0,
        "max_concurrency_estimate": 0.0,
        "slack_bytes": 0,
        "ranks": [],
        "basis": "none",
        "weights_source": "nothing",
        "inputs": inputs,
        "kept": False,
    }


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
    machines, why = _nodes(nodes)
    limit = seen.config.get("max_position_embeddings")
    context = limit or 0 if wished.context_length is None else wished.context_length
    tp = wished.tensor_parallel or len(machines)
    if not machines:
        return _refused(tp, context, ["No node is given."], ["Put at least one node into the group sparks."], inputs)
    why += _model_problems(seen, context, limit)
    if why:
        return _refused(tp, context, why, ["Correct what is named above, then plan again."], inputs)
    why = tp_problems(seen, tp, used_engine)
    if why:
        sizes = [n for n in range(1, len(machines) + 1) if not tp_problems(seen, n, used_engine)]
        return _refused(tp, context, why, [f"Set tensor_parallel to one of {sizes} on {len(machines)} nodes."], inputs)
    if tp > len(machines):
        why = [f"tensor_parallel is {tp}, which needs {tp} nodes with one GPU each; {len(machines)} are given."]
        return _refused(tp, context, why, [f"Add nodes, or set tensor_parallel to at most {len(machines)}."], inputs)
    found = fit(seen, machines, wished, used_engine, tp, context)
    verdict = "refused" if not found.ok else "borderline" if found.slack < NOISE else "fits"
    tokens, concurrency = found.layout.capacity(found.pool, context)
    worst = found.worst
    return {
        "verdict": verdict,
        "reasons": reasons(found),
        "remedies": [] if verdict == "fits" else remedies(seen, machines, wished, used_engine, found),
        "tp": tp,
        "world_size": tp,
        "context_length": context,
        "max_num_seqs": wished.seqs,
        "max_num_batched_tokens": wished.batched_tokens,
        "kv_bytes_per_token": found.layout.kv_bytes_per_token,
        "state_bytes_per_seq": found.layout.state_bytes_per_seq,
        "request_bytes": found.layout.request_bytes(context),
        "kv_cache_bytes": found.pool,
        "kv_block_tokens": found.layout.block_tokens,
        "gpu_memory_utilization": _utilisation(found),
        "mem_fraction_static": _static_fraction(found),
        "kv_tokens_estimate": tokens,
        "max_concurrency_estimate": round(concurrency, 2),
        "slack_bytes": found.slack,
        "ranks": _ranks(found),
        "basis": f"measured on {worst.host}" if worst.measured else "prior",
        "weights_source": seen.source,
        "inputs": inputs,
        "kept": False,
    }
