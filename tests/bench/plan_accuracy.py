#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""Plans against what engines logged: weights, cache, requests, verdicts; ours beside two simpler rules.

    python tests/bench/plan_accuracy.py            one JSON object
    python tests/bench/plan_accuracy.py --table    a table, then the counts

Requests: the better of the errors of logged tokens and of logged requests at once, since builds count tokens in two
ways and not every log says which build it was; both errors are in the JSON. An engine of several ranks takes the
smallest pool, and a record may hold another rank's: where logged tokens are a whole number of blocks of a smaller pool,
the table names it, and a second count takes that pool. The first one counts such a row as the miss that it is. A
pool is polluted, and says by what, where something else was in it too. The overheads' priors were fitted to the pools:
the column says how well one set of priors describes all of them, not how well it predicts unseen ones.

The rule "hf-mem" is that tool's: weights are the sum of all bytes, a cache holds 2 x layers x KV heads x head size x
type for each token with every layer counted and no split among ranks. Where the package can be imported its own
function is called. The rule "bits" is parameters x bits / 8 and the same cache.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "collections"))

from ansible_collections.gb10.serving.plugins.module_utils._inventory._build import inventory
from ansible_collections.gb10.serving.plugins.module_utils._model_config import essentials, quantization, text_config
from ansible_collections.gb10.serving.plugins.plugin_utils._memory import plan
from ansible_collections.gb10.serving.plugins.plugin_utils._memory_fit import gib
from ansible_collections.gb10.serving.plugins.plugin_utils._memory_kv import Layout, layout
from ansible_collections.gb10.serving.plugins.plugin_utils._memory_model import GIB, Engine, Model, Term, Wishes
from ansible_collections.gb10.serving.plugins.plugin_utils._memory_overhead import overhead_terms
from ansible_collections.gb10.serving.plugins.plugin_utils._memory_workspaces import NAME as INDEXER_WORKSPACE

compute_safetensors_kv_cache_size: Any = None
with contextlib.suppress(ImportError):
    compute_safetensors_kv_cache_size = importlib.import_module(
        "hf_mem.safetensors.kv_cache"
    ).compute_safetensors_kv_cache_size

DATA = Path(__file__).parent / "data"
IN_CONSUMED = frozenset(
    {"non_torch", "fixed", "loader", "repack", "drafter", "mla_absorbed", INDEXER_WORKSPACE}
)  # measured before the cache is made
WITHIN = 1  # per cent
Row = dict[str, Any]


def model_of(config: dict[str, Any], context: int | None, per_rank: float | None, ranks: int) -> dict[str, Any]:
    """As model_info says it; with measured weights in one class that is split evenly."""
    numbers, problems = essentials(config)
    if context and (numbers.get("max_position_embeddings") or 0) < context:
        numbers["max_position_embeddings"] = context  # the row's context was extended by RoPE scaling
    by_class, reason = inventory(config)
    source: str | None = "config.json"
    if per_rank is not None:
        by_class, source, reason = {"experts": int(per_rank * ranks * GIB)}, "safetensors headers", None
    return {
        "config": numbers,
        "problems": problems,
        "quantization": quantization(config),
        "tensors": {"by_class": by_class, "source": source if by_class else None, "reason": reason},
    }


def wishes_of(row: Row, engine: Engine) -> dict[str, Any]:
    """What the row's server was told, and the engine's own defaults for the rest."""
    known = dict(row["wishes"])
    if engine.name == "vllm":
        known.setdefault("max_num_batched_tokens", engine.default_batched_tokens)
        known.setdefault("max_num_seqs", min(engine.default_seqs, known["max_num_batched_tokens"]))
    return {**known, "tensor_parallel": row["nodes"]}


def nodes_of(row: Row) -> list[dict[str, Any]]:
    total = int((row.get("total_gib") or 121.65) * GIB)
    free = int(row["free_gib"] * GIB) if row.get("free_gib") else None
    return [{"host": f"node-{n}", "total_bytes": total, "available_bytes": free} for n in range(row["nodes"])]


def pool_of(row: Row, model: Model, wishes: Wishes, engine: Engine) -> float | None:
    """GiB that the engine will have for its cache, by the share that the row was started with."""
    tp, total = row["nodes"], (row.get("total_gib") or 0) * GIB
    context = row["wishes"].get("context_length") or model.config["max_position_embeddings"]
    terms = overhead_terms(model, tp, wishes, engine, context=context)
    if "indexer_workspace_gib" in row:  # a build that is patched to take another buffer, as its record says
        terms = [term for term in terms if term.name != INDEXER_WORKSPACE]
        terms.append(Term(INDEXER_WORKSPACE, int(row["indexer_workspace_gib"] * GIB), "as recorded"))
    if wishes.mem_fraction_static is not None and row.get("free_gib") and row.get("weights_gib"):
        return float(row["free_gib"] * wishes.mem_fraction_static - row["weights_gib"])
    if wishes.gpu_memory_utilization is None or not total:
        return None
    taken = sum(t.bytes for t in terms if engine.graphs_in_budget or t.name != "graphs")
    held = (row.get("weights_gib") or 0) * GIB
    if row.get("consumed_gib"):
        held, taken = row["consumed_gib"] * GIB, taken - sum(t.bytes for t in terms if t.name in IN_CONSUMED)
    if not held:
        return None
    return (total * wishes.gpu_memory_utilization - held - taken) / GIB


def hf_mem_bytes(config: dict[str, Any], context: int, size: int) -> int | None:
    """One request's cache by that tool's rule; None where it needs a key that the config does not have."""
    text = text_config(config)
    if not text.get("num_attention_heads"):
        return None
    if compute_safetensors_kv_cache_size is not None:
        return int(compute_safetensors_kv_cache_size(text, "F8_E4M3" if size == 1 else "BF16", context))
    heads = text.get("num_key_value_heads") or text["num_attention_heads"]
    dim = text.get("head_dim") or text["hidden_size"] // text["num_attention_heads"]
    return int(2 * text["num_hidden_layers"] * heads * dim * size * context)


def bits_gib(config: dict[str, Any], by_class: dict[str, int]) -> float:
    """Parameters x bits: what a name such as 122B-FP8 promises, with nothing kept in 16 bits."""
    plain = {key: value for key, value in config.items() if key != "quantization_config"}
    whole, _reason = inventory(plain)
    bits = 8 if "quantization_config" in config else 16
    return sum(whole.values() or by_class.values()) / 2 * bits / 8 / GIB


def _off(ours: float | None, seen: float | None, digits: int = 2) -> float | None:
    return None if ours is None or not seen else round(100 * (ours / seen - 1), digits)


def evaluate(row: Row, configs: dict[str, Any]) -> Row:
    config, context = configs[row["model"]], row["wishes"].get("context_length")
    engine = Engine.of({"name": row["engine"], "version": row.get("version")})
    asked = wishes_of(row, engine)
    wishes, ranks = Wishes.of(asked), row["nodes"]
    result: Row = {"name": row["name"], "source": row["source"], "machine": row["machine"]}
    by_class, _reason = inventory(config)
    if row.get("weights_comparable") and by_class:
        derived = plan(
            nodes_of(row), model_of(config, context, None, ranks), {"tensor_parallel": ranks}, {"name": row["engine"]}
        )
        size = derived["ranks"][0]["weights_bytes"] / GIB if derived["ranks"] else None
        result["weights_gib"] = {
            "seen": row["weights_gib"],
            "ours": size and round(size, 2),
            "off_percent": _off(size, row["weights_gib"]),
            "hf_mem_off_percent": _off(sum(by_class.values()) / GIB / ranks, row["weights_gib"]),
            "bits_off_percent": _off(bits_gib(config, by_class) / ranks, row["weights_gib"]),
        }
    per_rank = row.get("weights_gib") or row.get("consumed_gib")
    given = model_of(config, context, per_rank, ranks)
    model = Model.of(given)
    pool = pool_of(row, model, wishes, engine)
    if pool is not None and row.get("kv_gib") is not None:
        result["pool_gib"] = {
            "seen": row["kv_gib"],
            "ours": round(pool, 2),
            "off_gib": round(pool - row["kv_gib"], 2),
            "on_gb10": row["machine"] == "GB10",
            "polluted": bool(row.get("polluted")),
        }
    counted = row.get("tokens_comparable", True) and (row.get("kv_gib") or 0) > 0
    if row.get("tokens") and counted and not model.config.get("not_modelled"):
        result["tokens"] = _tokens(row, config, model, wishes, engine)
    if row.get("outcome"):
        seen = dict(row["wishes"])
        answer = plan(nodes_of(row), given, asked, {"name": row["engine"], "version": row.get("version")})
        result["verdict"] = {
            "seen": row["outcome"],
            "ours": answer["verdict"],
            "right": answer["verdict"] != "fits" if row["outcome"] != "ok" else answer["verdict"] != "refused",
            "reason": (answer["reasons"] or [""])[0],
            "share": seen.get("gpu_memory_utilization"),
        }
    for key in ("note", "polluted"):
        if row.get(key):
            result[key] = row[key]
    return result


def _tokens(row: Row, config: dict[str, Any], model: Model, wishes: Wishes, engine: Engine) -> Row:
    """Given the pool: tokens as logged, or requests at once."""
    context = row["wishes"].get("context_length") or model.config["max_position_embeddings"]
    found = layout(model, row["nodes"], wishes, engine)
    tokens, times = found.capacity(int(row["kv_gib"] * GIB), context)
    request = found.request_bytes(context)
    pool = row["kv_gib"] * GIB
    # Requests at once do not depend on how a version counts tokens.
    seen = row.get("concurrency") or row["tokens"] / context
    by_tokens, by_times = _off(tokens, row["tokens"]), _off(times, seen)
    theirs = hf_mem_bytes(config, context, model.kv_dtype_bytes(wishes.kv_cache_dtype))
    best = min((value for value in (by_tokens, by_times) if value is not None), key=abs)
    missed = best is None or abs(best) > WITHIN
    return {
        "limiting_rank": _whole_blocks(row, found, context) if missed else None,
        "seen": row["tokens"],
        "ours": tokens,
        "off_percent": by_tokens,
        "concurrency_off_percent": by_times,
        "best_off_percent": best,
        "request": gib(request),
        "hf_mem_off_percent": _off(pool / theirs, seen) if theirs else None,
    }


def _whole_blocks(row: Row, found: Layout, context: int) -> Row | None:
    """The blocks of a smaller pool of which the logged tokens are an exact count: a rank with less, which decides.

    An engine of several ranks takes the smallest pool and logs each; a record may hold another rank's. Any number is
    such a count by chance once in so many as a block has tokens.
    """
    if row["nodes"] < 2 or not found.engine.report_by_concurrency or found.is_sglang:
        return None
    each = found.blocks_per_request(context)
    blocks = -(-row["tokens"] * each // context)
    pool = blocks * found.bytes_per_block / GIB
    if int(blocks / each * context) != row["tokens"] or pool > row["kv_gib"]:
        return None
    return {"blocks": blocks, "pool_gib": round(pool, 3), "chance": f"1 in {context // each}"}


def summary(rows: list[Row]) -> Row:
    weights = [row["weights_gib"] for row in rows if "weights_gib" in row]
    pools = [row["pool_gib"] for row in rows if row.get("pool_gib", {}).get("on_gb10")]
    tokens = [row for row in rows if "tokens" in row]
    verdicts = [row["verdict"] for row in rows if "verdict" in row]

    def within(values: list[float | None], limit: float) -> str:
        known = [value for value in values if value is not None]
        return f"{sum(abs(value) <= limit for value in known)} of {len(values)}"

    return {
        "weights within 1 %": {
            "ours": within([w["off_percent"] for w in weights], 1),
            "hf-mem": within([w["hf_mem_off_percent"] for w in weights], 1),
            "bits": within([w["bits_off_percent"] for w in weights], 1),
        },
        "pool on GB10 within 2 GiB": {
            "ours": within([p["off_gib"] for p in pools if not p["polluted"]], 2),
            "ours, polluted ones too": within([p["off_gib"] for p in pools], 2),
            "hf-mem": "no pool",
        },
        "requests in a given pool within 1 %": {
            "ours": within([row["tokens"]["best_off_percent"] for row in tokens], WITHIN),
            "ours, or whole blocks of a rank with a smaller pool": within(
                [0 if row["tokens"]["limiting_rank"] else row["tokens"]["best_off_percent"] for row in tokens], WITHIN
            ),
            "hf-mem": within([row["tokens"]["hf_mem_off_percent"] for row in tokens], 1),
        },
        "verdicts that agree": {"ours": f"{sum(v['right'] for v in verdicts)} of {len(verdicts)}"},
        "hf-mem": "its own function" if compute_safetensors_kv_cache_size else "its rule",
    }


def table(rows: list[Row]) -> str:
    head = ("row", "weights %", "hf-mem %", "pool GiB off", "requests %", "hf-mem %", "seen", "verdict", "tokens are")
    lines = []
    for row in rows:
        weights, pool = row.get("weights_gib", {}), row.get("pool_gib", {})
        tokens, verdict = row.get("tokens", {}), row.get("verdict", {})
        smaller = tokens.get("limiting_rank")
        mark = "" if pool.get("on_gb10", True) and not pool.get("polluted") else " (not counted)"
        cells = (
            row["name"],
            weights.get("off_percent"),
            weights.get("hf_mem_off_percent"),
            f"{pool['off_gib']}{mark}" if pool else None,
            tokens.get("best_off_percent"),
            tokens.get("hf_mem_off_percent"),
            verdict.get("seen"),
            f"{verdict['ours']}{'' if verdict['right'] else ' WRONG'}" if verdict else None,
            f"{smaller['blocks']} blocks, {smaller['pool_gib']} GiB ({smaller['chance']})" if smaller else None,
        )
        lines.append(tuple("" if cell is None else str(cell) for cell in cells))
    widths = [max(len(line[n]) for line in [head, *lines]) for n in range(len(head))]
    return "\n".join(
        "  ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)).rstrip() for line in [head, *lines]
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--table", action="store_true", help="a table instead of JSON")
    options = parser.parse_args()
    configs = json.loads((DATA / "models.json").read_text())
    measured = json.loads((DATA / "measured.json").read_text())
    start = time.perf_counter()
    rows = [evaluate(row, configs) for row in measured]
    counts = {**summary(rows), "rows": len(rows), "seconds": round(time.perf_counter() - start, 2)}
    whole = json.dumps({"rows": rows, "summary": counts})
    print(f"{table(rows)}\n\n{json.dumps(counts, indent=2)}" if options.table else whole)
    return 0


if __name__ == "__main__":
    sys.exit(main())
