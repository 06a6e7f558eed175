# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
#
# Private to this collection: may change without notice.
"""What would make a plan fit: changes as data, ranked by what the user loses, each tried out. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from ansible_collections.gb10.serving.plugins.plugin_utils._memory_by_hand import set_by_hand
from ansible_collections.gb10.serving.plugins.plugin_utils._memory_case import Case, Change
from ansible_collections.gb10.serving.plugins.plugin_utils._memory_fit import (
    EXPERT_PARALLEL,
    Fit,
    Shape,
    engine_problems,
    gib,
)
from ansible_collections.gb10.serving.plugins.plugin_utils._memory_kv_sglang import POOLS
from ansible_collections.gb10.serving.plugins.plugin_utils._memory_larger import fewer_bits, larger
from ansible_collections.gb10.serving.plugins.plugin_utils._memory_model import Engine, Model, Wishes
from ansible_collections.gb10.serving.plugins.plugin_utils._memory_nodes import Node
from ansible_collections.gb10.serving.plugins.plugin_utils._memory_verdict import RANK, judge
from ansible_collections.gb10.serving.plugins.plugin_utils._memory_workspaces import (
    FACTOR_KEY,
    FACTOR_SINCE,
    LEAST_FACTOR,
    workspace_factor,
)
from ansible_collections.gb10.serving.plugins.plugin_utils._memory_workspaces import NAME as INDEXER_WORKSPACE

FEWEST_TOKENS, FEWEST_SEQS = 2048, 16
UNEVEN = 0.1  # of the ratio of states to cells
LEAST_WINDOWS = 0.1  # the least that SGLang itself sets for an architecture


def _request(found: Fit) -> int:
    """As the table of a plan has it: without the block that is held back for all."""
    return found.layout.request_bytes(found.context)


def _argument(add: str = "", remove: str = "") -> dict[str, Any]:
    return {"gb10_server_args": {"add": [add] if add else [], "remove": [remove] if remove else []}}


def _divisions(case: Case) -> Iterator[tuple[str, Wishes, dict[str, Any], Shape | None]]:
    """How SGLang divides its pool, for requests of this length."""
    cells, w, length = case.now.layout.cells, case.wishes, case.now.context
    if case.engine.name != "sglang":
        return
    wanted: list[tuple[str, float, str]] = []
    if cells.state and cells.cell > 1 and not cells.fixed_slots:
        ratio = math.ceil(100 * (cells.slots + cells.drafts) * cells.state / (length * cells.cell)) / 100
        if abs(ratio / cells.ratio - 1) > UNEVEN:
            wanted.append(("state_ratio", ratio, "as many state slots as there is room for requests of this length"))
    if cells.window and cells.full:
        share = (min(length, cells.window_size) + w.batched_tokens) / length
        ratio = max(LEAST_WINDOWS, math.ceil(20 * share) / 20)
        if ratio < cells.window_ratio:
            wanted.append(("window_ratio", ratio, "less for windows that requests of this length do not fill"))
    for key, ratio, what in wanted:
        flag, given = POOLS[key], key in w.pools
        setting = {"gb10_server_args": {"add": [f"{flag}={ratio:g}"], "remove": [flag] if given else []}}
        words = f"Set {flag}={ratio:g} in gb10_server_args: {what}."
        yield words, replace(w, pools={**w.pools, key: ratio}), setting, None


def server_settings(case: Case) -> Iterator[tuple[str, Wishes, dict[str, Any], Shape | None]]:
    """Single settings, from the one that nobody misses to the one that costs most."""
    w, sglang = case.wishes, case.engine.name == "sglang"
    if w.batched_tokens > FEWEST_TOKENS:
        yield (
            f"Set gb10_plan_max_num_batched_tokens to {FEWEST_TOKENS}: smaller steps of prefill, little speed lost.",
            replace(w, max_num_batched_tokens=FEWEST_TOKENS, max_num_seqs=min(w.seqs, FEWEST_TOKENS)),
            {"gb10_plan_max_num_batched_tokens": FEWEST_TOKENS},
            None,
        )
    yield from _divisions(case)
    if case.model.kv_dtype_bytes(w.kv_cache_dtype) > 1:
        eight = replace(w, kv_cache_dtype="fp8")
        yield (
            (
                f"Set the KV cache dtype to fp8 (gb10_plan_kv_cache_dtype): one request of {case.now.context} tokens "
                f"then takes {gib(_request(case.attempt(eight)))} instead of {gib(_request(case.now))}."
            ),
            eight,
            {"gb10_plan_kv_cache_dtype": "fp8"},
            None,
        )
    reserved = any(term.name == INDEXER_WORKSPACE for term in case.now.overhead)
    factor = workspace_factor(w, case.now.context)
    if reserved and case.engine.since(*FACTOR_SINCE) and factor > LEAST_FACTOR:
        flag = f"--attention-config.{FACTOR_KEY}"
        yield (
            f"Set {flag}={LEAST_FACTOR} in gb10_server_args: long prefills are gathered in more parts.",
            replace(w, workspace_factor=LEAST_FACTOR),
            _argument(add=f"{flag}={LEAST_FACTOR}", remove=flag if w.workspace_factor else ""),
            None,
        )
    if w.load_format in ("fastsafetensors", "instanttensor"):
        yield (
            (
                f"Load with the standard loader, without --load-format {w.load_format} in gb10_server_args: it pins no "
                "memory, and loads more slowly."
            ),
            replace(w, load_format="auto"),
            _argument(remove="--load-format"),
            None,
        )
    if w.speculative_tokens:
        yield (
            (
                "Turn speculative decoding off (no --speculative-... in gb10_server_args, gb10_plan_speculative_tokens "
                "0): its layers, states and graphs go; single requests get slower."
            ),
            replace(w, speculative_tokens=0),
            w.no_drafts,
            None,
        )
    if case.model.config.get("vision") and not w.language_model_only and not sglang:
        yield (
            "Serve the language model only (--language-model-only in gb10_server_args): no images.",
            replace(w, language_model_only=True),
            _argument(add="--language-model-only"),
            None,
        )
    if w.seqs > FEWEST_SEQS:
        yield (
            f"Set gb10_plan_max_num_seqs to {FEWEST_SEQS}: more requests than that wait.",
            replace(w, max_num_seqs=FEWEST_SEQS),
            {"gb10_plan_max_num_seqs": FEWEST_SEQS},
            None,
        )
    if not w.enforce_eager:
        flag = "--disable-cuda-graph" if sglang else "--enforce-eager"
        words = f"Run without CUDA graphs ({flag} in gb10_server_args): slower decoding."
        yield words, replace(w, enforce_eager=True), _argument(add=flag), None
    shape = case.now.shape
    possible = EXPERT_PARALLEL and case.model.is_moe and shape.tp > 1 and not shape.ep
    if possible and not engine_problems(case.model, shape.tp, True, case.engine, case.wishes):
        yield (
            "Give each rank whole experts (gb10_plan_ep, expert parallel).",
            replace(w, expert_parallel=True),
            {"gb10_plan_ep": True},
            replace(shape, ep=True),
        )


def _context(case: Case) -> Iterator[Change]:
    now = case.now
    for spare in (now.margin, 0):
        length = now.longest(now.room - spare, now.context)
        if not 0 < length < now.context:
            continue
        shorter = now.at(length)
        verdict = judge(shorter)[0]
        if RANK[verdict] < RANK[case.verdict]:
            words = "the longest that fits as things are" if not spare else "the longest that fits with room to spare"
            text = f"Set the context length to {length} (gb10_plan_context_length): {words}."
            effect = now.needed + now.overhead_bytes - shorter.needed - shorter.overhead_bytes
            yield Change(text, effect, verdict, {"gb10_plan_context_length": length})


def _said(sets: dict[str, Any]) -> str:
    """Settings by the names under which they are set."""
    words = [f"{name} {value}" for name, value in sets.items() if name != "gb10_server_args"]
    arguments = sets.get("gb10_server_args") or {}
    words += [f"{flag} in gb10_server_args" for flag in arguments.get("add", ())]
    words += [f"no {flag} in gb10_server_args" for flag in arguments.get("remove", ())]
    return ", ".join(words)


def _together(case: Case, singles: list[tuple[str, Wishes, dict[str, Any], Shape | None]]) -> Iterator[Change]:
    """Settings one after the other until it fits; then with a shorter context."""
    wishes, words, shape = case.wishes, [], case.now.shape
    settings: dict[str, Any] = {}
    for _words, changed, sets, other in singles:
        if other is not None:
            continue
        fields = {f: getattr(changed, f) for f in changed.__dataclass_fields__}
        moved = {f: value for f, value in fields.items() if value != getattr(case.wishes, f)}
        wishes = replace(wishes, **moved)
        words.append(_said(sets))
        arguments = {**settings.get("gb10_server_args", {})}
        for part, values in sets.get("gb10_server_args", {}).items():
            arguments[part] = [*arguments.get(part, []), *values]
        settings = {**settings, **sets, **({"gb10_server_args": arguments} if arguments else {})}
        found = case.attempt(wishes)
        if RANK[judge(found)[0]] < RANK[case.verdict] and len(words) > 1:
            text = f"Together: {'; '.join(words)}."
            yield Change(text, found.slack - case.now.slack, judge(found)[0], settings)
            return
    if words:
        found = case.attempt(wishes)
        length = found.longest(found.room, case.now.context)
        if length:
            shorter = case.attempt(wishes, length, shape)
            if RANK[judge(shorter)[0]] < RANK[case.verdict]:
                text = f"Together: {'; '.join(words)}; and a context of {length} tokens."
                settings = {**settings, "gb10_plan_context_length": length}
                yield Change(text, shorter.slack - case.now.slack, judge(shorter)[0], settings)


def changes(
    model: Model, nodes: tuple[Node, ...], wishes: Wishes, engine: Engine, now: Fit, verdict: str
) -> list[Change]:
    """Ranked by verdict; of one verdict what suffices alone, then together, another checkpoint, and more nodes."""
    limit = wishes.context_length or model.config.get("max_position_embeddings") or now.context
    case = Case(model, nodes, wishes, engine, now, verdict, wishes.context_length is None, limit)
    singles = list(server_settings(case))
    tried = [case.change(words, changed, settings, shape) for words, changed, settings, shape in singles]
    by_hand = set_by_hand(case)
    result = [
        *by_hand,
        *(c for c in tried if (c.effect_bytes or 0) > 0 and RANK[c.verdict or "refused"] < RANK[verdict]),
        *_context(case),
    ]
    if not result:
        result += _together(case, singles)
    if not any(change.verdict == "fits" for change in by_hand):  # else it is not the model that is too large
        result += fewer_bits(case)
    result += larger(case)
    return sorted(result, key=lambda change: RANK.get(change.verdict or "", len(RANK)))
