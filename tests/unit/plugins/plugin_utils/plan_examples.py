# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""A plan and its document, by hand, for the tests of what shows them."""

from __future__ import annotations

from typing import Any

from ansible_collections.gb10.serving.plugins.plugin_utils._plan_document import document, summary_of

GIB = 1 << 30
ABOUT: dict[str, Any] = {
    "model": {"name": 'm <1> & "two"', "path": "/m"},
    "engine": {"name": "vllm", "version": "0.33.0"},
    "nodes": {"count": 2, "memory_bytes": 120 * GIB, "measured": 0},
}


def rank(number: int = 0, **sizes: Any) -> dict[str, Any]:
    """A rank of a node of 120 GiB, of which 110 are available; sizes in GiB."""
    given = {"weights": 60, "state": 2, "kv": 34, "activation": 1, "graphs": 1, "non_torch": 4, "reserve": 8, "free": 0}
    parts = {f"{key}_bytes": int(size * GIB) for key, size in {**given, **sizes}.items()}
    return {
        "host": f"spark-{'ab'[number]}",
        "rank": number,
        "total_bytes": 120 * GIB,
        "available_bytes": 110 * GIB,
        "short_bytes": 0,
        **parts,
    }


def plan(**changed: Any) -> dict[str, Any]:
    return {
        "verdict": "fits",
        "reasons": [],
        "remedies": [],
        "tp": 2,
        "world_size": 2,
        "context_length": 131072,
        "max_num_seqs": 16,
        "max_num_batched_tokens": 2048,
        "kv_bytes_per_token": 12288,
        "request_bytes": 2 * GIB,
        "kv_cache_bytes": 36 * GIB,
        "gpu_memory_utilization": 0.85,
        "mem_fraction_static": 0.875,
        "kv_tokens_estimate": 2_359_296,
        "max_concurrency_estimate": 18.0,
        "slack_bytes": 34 * GIB,
        "ranks": [rank(0), rank(1)],
        "basis": "prior",
        "weights_source": "config.json",
        **changed,
    }


def refused(**changed: Any) -> dict[str, Any]:
    short = rank(weights=130, kv=0, state=0, short=34)
    return plan(
        verdict="refused",
        reasons=["One request needs more."],
        remedies=["Set the context length to 4096.", "Use 4 nodes."],
        ranks=[short, {**short, "rank": 1, "host": "spark-b"}],
        **changed,
    )


def shown(found: dict[str, Any] | None = None, options: int = 0) -> dict[str, Any]:
    found = plan() if found is None else found
    return document(found, ABOUT, [summary_of(f"variant {number}", found, ABOUT) for number in range(options)])
