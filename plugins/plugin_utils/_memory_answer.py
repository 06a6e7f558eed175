# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
#
# Private to this collection: may change without notice.
"""A candidate as the plan that consumers read. Pure."""

from __future__ import annotations

from typing import Any

from ansible_collections.gb10.serving.plugins.plugin_utils._memory_fit import SHARE_STEPS, Fit
from ansible_collections.gb10.serving.plugins.plugin_utils._memory_model import GIB, MIB, Engine, Model, Term, Wishes
from ansible_collections.gb10.serving.plugins.plugin_utils._memory_nodes import Node
from ansible_collections.gb10.serving.plugins.plugin_utils._memory_workspaces import NAME as INDEXER_WORKSPACE


def utilisation(found: Fit) -> float:
    """vLLM's share of total memory: what the plan takes, never more than available - reserve."""
    if found.wishes.gpu_memory_utilization is not None:
        return float(found.wishes.gpu_memory_utilization)
    taken = found.weights_bytes + found.overhead_bytes + found.pool
    steps = min(SHARE_STEPS * min(taken, max(0, node.available - node.reserve)) // node.total for node in found.nodes)
    return max(1 if found.ok else 0, min(steps, SHARE_STEPS)) / SHARE_STEPS


def static_fraction(found: Fit) -> float:
    """SGLang's share of the memory that is free at the start: weights and cache."""
    if found.wishes.mem_fraction_static is not None:
        return float(found.wishes.mem_fraction_static)
    taken = found.weights_bytes + found.pool
    least = min(node.available for node in found.nodes)  # all ranks go by the poorest
    steps = SHARE_STEPS * (taken + 1) // max(1, least)  # a share of bytes was rounded down by less than one
    return max(0, min(steps, SHARE_STEPS)) / SHARE_STEPS


def _cache_terms(found: Fit, node: Node) -> list[Term]:
    state = found.layout.state_share(found.pool, found.context)
    error = 0 if found.pin is not None else found.margin
    how = {
        "plan": "what stays beside weights, overhead and reserve",
        "total": f"gpu_memory_utilization {found.wishes.gpu_memory_utilization} of total, less weights and overhead",
        "free": f"mem_fraction_static {found.wishes.mem_fraction_static} of what is free, less weights",
    }[found.mode]
    if found.pin is not None:
        how = "as set (gb10_plan_kv_cache_gib)"
        if found.picked:
            how = "one request of the context length; less is left by the usual figure"
    words = "state: linear groups' share of the pool, full of requests of the context length"
    if found.layout.is_sglang:
        cells = found.layout.cells
        how_many = f"{cells.ratio:g} / {1 + cells.ratio:g} of the pool (mamba_full_memory_ratio)"
        if cells.fixed_slots:
            how_many = f"{cells.fixed_slots} slots, as asked for"
        drafts = f" and {cells.drafts} for its drafts" if cells.drafts else ""
        words = f"state: {how_many}, slots of {cells.state / MIB:.1f} MiB, {cells.slots} a request{drafts}"
    return [
        Term("kv", found.pool - state, f"kv: {how}, less state", error, node.source),
        Term("state", state, words, 0, "config.json"),
        Term("reserve", node.reserve, "reserve: for the system, not touched", 0, "gb10_plan_reserve_gib"),
    ]


def ranks(found: Fit) -> list[dict[str, Any]]:
    overhead = {term.name: term.bytes for term in found.overhead}
    result: list[dict[str, Any]] = []
    for rank, node in enumerate(found.nodes):
        cache = _cache_terms(found, node)
        free = node.available - node.reserve - found.weights_bytes - found.overhead_bytes - found.pool
        activation = overhead.get("activation", 0) + overhead.get(INDEXER_WORKSPACE, 0)
        rest = found.overhead_bytes - activation - overhead.get("graphs", 0)
        result.append(
            {
                "host": node.host,
                "rank": rank,
                "total_bytes": node.total,
                "available_bytes": node.available,
                "weights_bytes": found.weights_bytes,
                "state_bytes": cache[1].bytes,
                "kv_bytes": cache[0].bytes,
                "activation_bytes": activation,
                "graphs_bytes": overhead.get("graphs", 0),
                "non_torch_bytes": rest,
                "reserve_bytes": node.reserve,
                "free_bytes": max(0, free),
                "short_bytes": max(0, -free),
                "terms": [term.as_dict() for term in (*found.weights, *found.overhead, *cache)],
            }
        )
    return result


def expected_log(found: Fit, engine: Engine) -> list[dict[str, Any]]:
    """Parts of lines that the engine's log will hold, in the engine's own words."""
    tokens, concurrency = found.layout.capacity(found.pool, found.context)
    weights = found.weights_bytes / GIB
    lines: list[tuple[str, int | None, float | None]]
    if engine.name == "sglang":
        state = found.layout.state_share(found.pool, found.context)
        kv = (found.pool - state) / GIB
        halves = (
            f"KV size: {kv:.2f} GB"
            if found.layout.kinds.get("mla")
            else f"K size: {kv / 2:.2f} GB, V size: {kv / 2:.2f} GB"
        )
        lines = [
            (f"KV Cache is allocated. #tokens: {tokens}, {halves}", tokens, None),
            (f"max_total_num_tokens={tokens}", tokens, None),
        ]
        if state:
            lines.insert(0, ("Mamba Cache is allocated.", None, None))
    else:
        device = "CPU" if engine.cpu else "GPU"
        lines = [
            (f"{device} KV cache size: {tokens:,} tokens", tokens, None),
            (
                f"Maximum concurrency for {found.context:,} tokens per request: {concurrency:.2f}x",
                None,
                round(concurrency, 2),
            ),
        ]
        lines.insert(0, (f"Model loading took {weights:.2f} GiB memory", None, None))
    return [{"line": line, "tokens": n, "concurrency": times} for line, n, times in lines]


def _packs(part: dict[str, Any], engine: Engine, size: int) -> bool:
    """Whether a layer's latents are kept in the sparse kernels' own rows of fp8, scales and 16-bit positions."""
    if part.get("kind") in ("window_mla", "compressed"):
        return True
    return bool(part.get("kind") == "mla" and part.get("sparse") and (engine.name == "vllm" or size == 1))


def _kv_dtype(model: Model, wishes: Wishes, engine: Engine) -> str:
    """What a cache is kept in; auto is what the checkpoint asks for, else the type of the activations."""
    size = model.kv_dtype_bytes(wishes.kv_cache_dtype)
    if any(_packs(part, engine, size) for part in model.config.get("cache") or ()):
        return "fp8_ds_mla"
    sixteen = "fp16" if model.config.get("dtype") == "float16" else "bf16"
    return {1: "fp8", 2: sixteen}.get(size, "fp32")


def settings(found: Fit, wishes: Wishes) -> dict[str, Any]:
    sglang = found.engine.name == "sglang"
    return {
        "tp": found.shape.tp,
        "pp": found.shape.pp,
        "ep": found.shape.tp if found.shape.ep else 1,
        "context_length": found.context,
        "max_num_seqs": found.wishes.seqs,
        "max_num_batched_tokens": found.wishes.batched_tokens,
        "kv_cache_dtype": wishes.kv_cache_dtype,
        "kv_cache_bytes": found.pool,
        "gpu_memory_utilization": None if sglang else utilisation(found),
        "mem_fraction_static": static_fraction(found) if sglang else None,
    }


def stated(text: str) -> dict[str, Any]:
    """Advice that no plan can try out."""
    return {"change": text, "effect_bytes": None, "verdict": None, "settings": {}}


def blank(tp: int, context: int, why: list[str], what: list[dict[str, Any]], inputs: str) -> dict[str, Any]:
    """A refusal before any sum could be made: the same keys, all zero."""
    nothing = ("bytes_per_token_per_rank", "bytes_per_request_per_rank", "tokens")
    return {
        "verdict": "refused",
        "reasons": why,
        "remedies": [change["change"] for change in what],
        "changes": what,
        "levers": [],
        "notes": [],
        "candidates": [],
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
        "margin_bytes": 0,
        "ranks": [],
        "terms": [],
        "load_peak": None,
        "settings": {},
        "kv": {
            **dict.fromkeys(nothing, 0),
            "max_concurrency": 0.0,
            "requests_at_once": 0.0,
            "dtype": None,
            "fixed": False,
        },
        "expected_log": [],
        "basis": "none",
        "weights_source": "nothing",
        "inputs": inputs,
        "kept": False,
    }


def answer(found: Fit, model: Model, wishes: Wishes) -> dict[str, Any]:
    """The figures of a candidate; verdict, reasons and changes are added by the plan."""
    tokens, concurrency = found.layout.capacity(found.pool, found.context)
    worst = found.worst
    request = found.layout.request_bytes(found.context)
    of_ranks = ranks(found)
    return {
        "tp": found.shape.tp,
        "world_size": found.shape.ranks,
        "context_length": found.context,
        "max_num_seqs": found.wishes.seqs,
        "max_num_batched_tokens": found.wishes.batched_tokens,
        "kv_bytes_per_token": found.layout.kv_bytes_per_token,
        "state_bytes_per_seq": found.layout.state_bytes_per_seq,
        "request_bytes": request,
        "kv_cache_bytes": found.pool,
        "kv_block_tokens": found.layout.block_tokens,
        "gpu_memory_utilization": utilisation(found),
        "mem_fraction_static": static_fraction(found),
        "kv_tokens_estimate": tokens,
        "max_concurrency_estimate": round(concurrency, 2),
        "slack_bytes": found.slack,
        "margin_bytes": found.margin,
        "ranks": of_ranks,
        "terms": of_ranks[found.nodes.index(worst)]["terms"],
        "load_peak": {**found.peak.as_dict(), "available_bytes": worst.high},
        "settings": settings(found, wishes),
        "kv": {
            "bytes_per_token_per_rank": found.layout.kv_bytes_per_token,
            "bytes_per_request_per_rank": request,
            "tokens": tokens,
            "max_concurrency": round(concurrency, 2),
            "requests_at_once": round(min(concurrency, found.wishes.seqs), 2),
            "dtype": _kv_dtype(model, wishes, found.engine),
            "fixed": wishes.kv_cache_bytes is not None,
        },
        "expected_log": expected_log(found, found.engine),
        "basis": worst.source if worst.measured else "prior",
        "weights_source": model.source,
    }
