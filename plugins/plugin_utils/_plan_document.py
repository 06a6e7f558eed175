# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
#
# Private to this collection: may change without notice.
"""A plan as a document whose keys stay: what plan.yml writes as JSON, and what bars and pictures are made of. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.gb10.serving.plugins.plugin_utils._engines import ENGINES

SCHEMA = 1
NEWEST = {"vllm": "0.33", "sglang": "0.5.23"}

#: Parts of a rank's memory in the order in which they are shown: key, letter of the bar, words, colour of the picture.
PARTS = (
    ("weights_bytes", "W", "weights", "#2f6fbb"),
    ("state_bytes", "S", "linear-attention state", "#0b7777"),
    ("kv_bytes", "K", "KV cache", "#2e8540"),
    ("activation_bytes", "A", "activations", "#a86400"),
    ("graphs_bytes", "G", "CUDA graphs", "#8a5a9e"),
    ("non_torch_bytes", "N", "communication and buffers", "#b0413e"),
    ("reserve_bytes", "R", "reserve for system and engine processes", "#5b6470"),
    ("free_bytes", ".", "left free", "#9aa4af"),
    ("taken_bytes", "x", "already in use before the start", "#3d444d"),
)
RANK_KEYS = tuple(key for key, _letter, _words, _colour in PARTS if key != "taken_bytes")
TERM_KEYS = ("name", "bytes", "uncertainty_bytes", "formula", "source")
SETTINGS = (
    "tp",
    "pp",
    "ep",
    "context_length",
    "max_num_seqs",
    "max_num_batched_tokens",
    "kv_cache_dtype",
    "kv_cache_bytes",
    "gpu_memory_utilization",
    "mem_fraction_static",
)


def taken_bytes(rank: Mapping[str, Any]) -> int:
    """Memory that was in use before the engine: total less available."""
    return max(0, (rank.get("total_bytes") or 0) - (rank.get("available_bytes") or 0))


def runs(kv: Mapping[str, Any], digits: int = 2) -> str:
    """How many requests run: whole ones where the server's own limit decides, else what there is room for."""
    room, run = kv["max_concurrency"], kv.get("requests_at_once", kv["max_concurrency"])
    return f"{run:.0f}" if run < room else f"{run:.{digits}f}"


def settings_of(plan: Mapping[str, Any]) -> dict[str, Any]:
    given = {"pp": 1, "ep": 1, "kv_cache_dtype": "auto", **{key: plan[key] for key in SETTINGS if key in plan}}
    return {**dict.fromkeys(SETTINGS), **given, **(plan.get("settings") or {})}


def kv_of(plan: Mapping[str, Any]) -> dict[str, Any]:
    found = {
        "bytes_per_token_per_rank": plan.get("kv_bytes_per_token", 0),
        "bytes_per_request_per_rank": plan.get("request_bytes", 0),
        "tokens": plan.get("kv_tokens_estimate", 0),
        "max_concurrency": plan.get("max_concurrency_estimate", 0.0),
        "requests_at_once": min(plan.get("max_concurrency_estimate", 0.0), plan.get("max_num_seqs") or 0),
        "dtype": None,
        "fixed": False,
    }
    return {**found, **(plan.get("kv") or {})}


def layout_words(settings: Mapping[str, Any]) -> str:
    """How ranks share the model."""
    parts = [f"tensor parallel {settings['tp']}"]
    parts += [f"pipeline parallel {settings['pp']}"] if (settings["pp"] or 1) > 1 else []
    parts += ["expert parallel"] if (settings["ep"] or 1) > 1 else []
    return ", ".join(parts)


def engine_words(engine: Mapping[str, Any] | None) -> str:
    """The engine and the version that was planned for."""
    name = str((engine or {}).get("name") or "vllm")
    version = str((engine or {}).get("version") or "").removeprefix("v")
    shown = {"vllm": "vLLM", "sglang": "SGLang"}.get(name, name)
    if version:
        assumed = (engine or {}).get("version_assumed")
        return f"{shown}, newest known: {version}" if assumed else f"{shown} {version}"
    return shown


def engine_of(engine: Mapping[str, Any] | None) -> dict[str, Any]:
    """The engine with the version that was planned for, and whether nobody named it: then the newest that is known."""
    name, version = str((engine or {}).get("name") or "vllm"), (engine or {}).get("version")
    return {"name": name, "version": version or NEWEST.get(name), "version_assumed": not version}


def terms_of(plan: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Every term of the sum on the first rank, with the same five keys each."""
    ranks = plan.get("ranks") or []
    terms = plan.get("terms") or (ranks[0].get("terms") if ranks else None) or []
    blank = {"name": "", "bytes": 0, "uncertainty_bytes": 0, "formula": "", "source": ""}
    return [{key: {**blank, **term}[key] for key in TERM_KEYS} for term in terms]


def changes_of(plan: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What would help, what fits first; or what would give more, the smallest change first."""
    if (found := plan.get("changes")) is not None:
        return [dict(change) for change in found]
    blank: dict[str, Any] = {"effect_bytes": None, "verdict": None, "settings": {}}
    return [{"change": text, **blank} for text in plan.get("remedies") or []]


def expected_log_of(plan: Mapping[str, Any], engine: str) -> list[dict[str, Any]]:
    """The lines that the engine will print of its cache, if the plan is right."""
    if (found := plan.get("expected_log")) is not None:
        return [dict(line) if isinstance(line, Mapping) else {"line": str(line)} for line in found]
    kv, context = kv_of(plan), plan.get("context_length") or 0
    if not kv["tokens"]:
        return []
    if engine == "sglang":
        return [{"line": f"max_total_num_tokens={kv['tokens']}", "tokens": kv["tokens"]}]
    return [
        {"line": f"GPU KV cache size: {kv['tokens']:,} tokens", "tokens": kv["tokens"]},
        {
            "line": f"Maximum concurrency for {context:,} tokens per request: {kv['max_concurrency']:.2f}x",
            "concurrency": kv["max_concurrency"],
        },
    ]


def flags_of(plan: Mapping[str, Any], engine: str, args: Sequence[str]) -> list[str]:
    """The flags of each rank that a plan rests on, as the engine's own file writes them; none without a plan."""
    if not plan.get("ranks") or plan["verdict"] == "refused" or engine not in ENGINES:
        return []
    settings, known = settings_of(plan), ENGINES[engine]
    if settings["mem_fraction_static" if engine == "sglang" else "gpu_memory_utilization"] is None:
        return []
    return [*known.layout_args(settings), *known.memory_args(settings), *map(str, args)]


def line_of(entry: Mapping[str, Any]) -> str:
    """The text of an expected line, whatever its key."""
    return str(entry.get("line") or entry.get("text") or entry.get("pattern") or "")


def drawn(rank: Mapping[str, Any], verdict: str) -> dict[str, Any]:
    """A rank as its bar shows it: where the engine may take some of the reserve, the reserve is what is left of it."""
    short = rank.get("short_bytes") or 0
    if verdict == "refused" or not 0 < short <= rank["reserve_bytes"]:
        return dict(rank)
    return {**rank, "reserve_bytes": rank["reserve_bytes"] - short, "short_bytes": 0, "missing_bytes": short}


def shortage(rank: Mapping[str, Any]) -> str:
    """What stands beside the bar of a rank that does not leave the reserve alone, with a comma; else nothing."""
    for key, words in (("short_bytes", "too much"), ("missing_bytes", "of the reserve missing")):
        if rank.get(key):
            return f", {rank[key] / (1 << 30):.1f} GiB {words}"
    return ""


def _rank(rank: Mapping[str, Any]) -> dict[str, Any]:
    head = {key: rank.get(key) for key in ("rank", "host", "total_bytes", "available_bytes")}
    parts = {key: rank.get(key, 0) for key in RANK_KEYS}
    head["total_bytes"] = head["total_bytes"] or sum(parts.values())
    return {**head, **parts, "taken_bytes": taken_bytes(rank), "short_bytes": rank.get("short_bytes", 0)}


def summary_of(name: str, plan: Mapping[str, Any], about: Mapping[str, Any]) -> dict[str, Any]:
    """One row of the comparison."""
    ranks = [_rank(rank) for rank in plan.get("ranks") or []]
    tight = min(ranks, key=lambda rank: rank["free_bytes"] - rank["short_bytes"], default=None)
    return {
        "name": name,
        "verdict": plan["verdict"],
        "model": about.get("model"),
        "engine": about.get("engine"),
        "nodes": about.get("nodes"),
        "settings": settings_of(plan),
        "kv": kv_of(plan),
        "weights_bytes": max((rank["weights_bytes"] for rank in ranks), default=0),
        "cache_bytes": min((rank["kv_bytes"] + rank["state_bytes"] for rank in ranks), default=0),
        "free_bytes": tight["free_bytes"] if tight else 0,
        "short_bytes": tight["short_bytes"] if tight else 0,
        "slack_bytes": plan.get("slack_bytes", 0),
        "reasons": list(plan.get("reasons") or []),
        "notes": list(plan.get("notes") or []),
    }


def document(
    plan: Mapping[str, Any], about: Mapping[str, Any], options: Sequence[Mapping[str, Any]] = ()
) -> dict[str, Any]:
    """The whole answer. ``about`` says what was planned: model, weights_source, engine {name, version}, nodes."""
    engine = str((about.get("engine") or {}).get("name") or "vllm")
    return {
        "schema": SCHEMA,
        "option": about.get("option"),
        "verdict": plan["verdict"],
        "reasons": list(plan.get("reasons") or []),
        "remedies": list(plan.get("remedies") or []),
        "model": about.get("model"),
        "engine": about.get("engine"),
        "flags": flags_of(plan, engine, about.get("args") or ()),
        "nodes": about.get("nodes"),
        "basis": plan.get("basis"),
        "weights_source": plan.get("weights_source"),
        "settings": settings_of(plan),
        "kv": kv_of(plan),
        "slack_bytes": plan.get("slack_bytes", 0),
        "margin_bytes": plan.get("margin_bytes", 0),
        "load_peak": plan.get("load_peak"),
        "notes": list(plan.get("notes") or []),
        "candidates": [dict(candidate) for candidate in plan.get("candidates") or []],
        "ranks": [_rank(rank) for rank in plan.get("ranks") or []],
        "terms": terms_of(plan),
        "changes": changes_of(plan),
        "levers": [dict(lever) for lever in plan.get("levers") or []],
        "expected_log": expected_log_of(plan, engine),
        "options": [dict(option) for option in options],
    }
