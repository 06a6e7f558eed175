# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
#
# Private to this collection: may change without notice.
"""What vLLM reserves for sparse attention while it profiles, by the context length: kept for as long as it runs. Pure.

An indexer gathers the keys of a step's prefills into one buffer of so many entries for each token of max_model_len:
40 up to 0.31, from 0.32 on 8 x attention_config.sparse_mla_prefill_workspace_factor, which is 5, or 2 beyond 256 Ki
tokens. An entry is a key in fp8 and its scale. Pooled keys are fewer by their ratio: DeepSeek-V4 has always divided by
it, GLM-5-Next since 0.32. FlashMLA's own buffer would share the memory, but a GB10 does not run FlashMLA.
"""

from __future__ import annotations

from ansible_collections.gb10.serving.plugins.plugin_utils._memory_model import MIB, Engine, Model, Term, Wishes

NAME = "indexer_workspace"
ENTRIES = 40  # for each token of the context
BY_FACTOR, FACTOR, FACTOR_BEYOND, BEYOND = 8, 5, 2, 256 * 1024
SCALE = 4  # bytes of a key's scale
ALIGNED = 256
TOP_K = MIB  # asked for in the same call
FACTOR_SINCE = POOLED_SINCE = (0, 32)
FACTOR_KEY = "sparse_mla_prefill_workspace_factor"
LEAST_FACTOR, MOST_FACTOR = 2, 1024


def _indexed(model: Model) -> tuple[int, int, bool] | None:
    """(size of a key, tokens that one key stands for, whether pooling is DeepSeek-V4's) of an indexer with fp8 keys."""
    parts = model.config.get("cache") or ()
    index = next((p for p in parts if p["kind"] == "index" and p["of"] == "model" and p.get("dtype") == "fp8"), None)
    if index is None:
        return None
    return index["head_dim"], index.get("ratio") or 1, any(part["kind"] == "window_mla" for part in parts)


def _bytes(key: int, entries: int) -> int:
    return -(-entries * key // ALIGNED) * ALIGNED + -(-entries * SCALE // ALIGNED) * ALIGNED + TOP_K


def workspace_factor(wishes: Wishes, context: int) -> int:
    """As it is set, or as vLLM takes it since 0.32."""
    return wishes.workspace_factor or (FACTOR if context <= BEYOND else FACTOR_BEYOND)


def indexer_workspace(model: Model, wishes: Wishes, engine: Engine, context: int | None) -> Term | None:
    """None without an indexer, or where nobody says how long the context is."""
    indexed = _indexed(model)
    if indexed is None or engine.name != "vllm" or engine.cpu or not context:
        return None
    key, ratio, compressed = indexed
    factor = workspace_factor(wishes, context)

    def size(by_factor: bool, pooled: bool) -> int:
        each = BY_FACTOR * factor if by_factor else ENTRIES
        return _bytes(key, context * each // (ratio if pooled else 1))

    by_factor, pooled = engine.since(*FACTOR_SINCE), compressed or engine.since(*POOLED_SINCE)
    each = f"{BY_FACTOR} x factor {factor}" if by_factor else f"{ENTRIES} entries"
    divided = f" / {ratio}" if pooled and ratio > 1 else ""
    formula = f"{NAME}: context {context} x {each}{divided} x ({key} + {SCALE}) B + 1 MiB"
    taken = size(by_factor, pooled)
    # A build without a version may be one that still takes the larger buffer.
    unsure = 0 if engine.version else max(0, size(False, compressed) - taken)
    return Term(NAME, taken, formula, unsure, "vLLM's source: v1/attention/backends/mla/indexer.py")
