# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
#
# Private to this collection: may change without notice.
"""What would make a plan fit: changes as data, ranked by what the user loses, each tried out. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from ansible_collections.gb10.serving.plugins.plugin_utils._memory_answer import static_fraction, utilisation
from ansible_collections.gb10.serving.plugins.plugin_utils._memory_fit import (
    EXPERT_PARALLEL,
    TOKEN_STEP,
    Fit,
    Shape,
    engine_problems,
    fit,
    gib,
)
from ansible_collections.gb10.serving.plugins.plugin_utils._memory_model import GIB, MIB, Engine, Model, Wishes
from ansible_collections.gb10.serving.plugins.plugin_utils._memory_nodes import Node, more_like
from ansible_collections.gb10.serving.plugins.plugin_utils._memory_verdict import RANK, judge

FEWEST_TOKENS, FEWEST_SEQS = 2048, 16
SIZES = (2, 3, 4, 8, 16)
FOUR_BITS = 0.5625  # bytes of a parameter in NVFP4: half a byte and a scale for each 16


@dataclass(frozen=True)
class Change:
    """One thing to change, with what it gives."""

    change: str
    effect_bytes: int | None
    verdict: str | None
    settings: dict[str, Any]

    def as_dict(self) -> dict[str, Any]:
        return {
            "change": self.change,
            "effect_bytes": self.effect_bytes,
            "verdict": self.verdict,
            "settings": self.settings,
        }


@dataclass(frozen=True)
class Case:
    model: Model
    nodes: tuple[Node, ...]
    wishes: Wishes  # as they were asked for, with what was picked
    engine: Engine
    now: Fit
    verdict: str
    open_context: bool  # nobody asked for this context

    def attempt(self, wishes: Wishes, context: int | None = None, shape: Shape | None = None) -> Fit:
        return fit(self.model, self.nodes, wishes, self.engine, shape or self.now.shape, context or self.now.context)

    def change(self, words: str, wishes: Wishes, settings: dict[str, Any], shape: Shape | None = None) -> Change:
        found = self.attempt(wishes, shape=shape)
        return Change(words, found.slack - self.now.slack, judge(found)[0], settings)


def _argument(add: str = "", remove: str = "") -> dict[str, Any]:
    return {"gb10_server_args": {"add": [add] if add else [], "remove": [remove] if remove else []}}


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
    if case.model.kv_dtype_bytes(w.kv_cache_dtype) > 1:
        eight = replace(w, kv_cache_dtype="fp8")
        yield (
            (
                f"Set the KV cache dtype to fp8 (gb10_plan_kv_cache_dtype): one request of {case.now.context} tokens "
                f"then needs {gib(case.attempt(eight).needed)} instead of {gib(case.now.needed)}."
            ),
            eight,
            {"gb10_plan_kv_cache_dtype": "fp8"},
            None,
        )
    if w.load_format in ("fastsafetensors", "instanttensor"):
        yield (
            f"Load with the standard loader instead of {w.load_format}: it pins no memory, and loads more slowly.",
            replace(w, load_format="auto"),
            _argument(remove="--load-format"),
            None,
        )
    if w.speculative_tokens:
        yield (
            "Turn speculative decoding off: its layers, states and graphs go; single requests get slower.",
            replace(w, speculative_tokens=0),
            _argument(remove="--speculative-algorithm" if sglang else "--speculative-config"),
            None,
        )
    if case.model.config.get("vision") and not w.language_model_only and not sglang:
        yield (
            "Serve the language model only: no images.",
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
        yield ("Run without CUDA graphs: slower decoding.", replace(w, enforce_eager=True), _argument(add=flag), None)
    shape = case.now.shape
    possible = EXPERT_PARALLEL and case.model.is_moe and shape.tp > 1 and not shape.ep
    if possible and not engine_problems(case.model, shape.tp, True, case.engine):
        yield (
            "Give each rank whole experts (expert parallel).",
            replace(w, expert_parallel=True),
            {"gb10_plan_ep": True},
            replace(shape, ep=True),
        )


def _shares(case: Case) -> Iterator[Change]:
    """What was set by hand and stands in the way."""
    now, w = case.now, case.wishes
    key = {"total": "gpu_memory_utilization", "free": "mem_fraction_static"}.get(now.mode)
    if key:
        open_share = replace(w, gpu_memory_utilization=None, mem_fraction_static=None)
        free = fit(case.model, case.nodes, open_share, case.engine, now.shape, now.context)
        verdict = judge(free)[0]
        if RANK[verdict] < RANK[case.verdict]:
            share = utilisation(free) if key == "gpu_memory_utilization" else static_fraction(free)
            gained = min(free.left(node) - now.left(node) for node in now.nodes)
            text = f"Leave gb10_plan_{key} out, or set it to {share}: the cache then takes what the reserve leaves."
            effect = gained if gained > 0 else free.slack - now.slack
            yield Change(text, effect, verdict, {f"gb10_plan_{key}": 0})
    if now.pin is None:
        return
    open_end = replace(w, kv_cache_bytes=None)
    free = case.attempt(open_end)
    verdict = judge(free)[0]
    if now.pin < now.needed:
        size = -(-now.needed // MIB) * MIB
        enough = case.attempt(replace(w, kv_cache_bytes=size))
        settings = {"gb10_plan_kv_cache_gib": round(size / GIB, 3)}
        text = f"Raise gb10_plan_kv_cache_gib to {size / GIB:.3f} ({size // MIB} MiB)."
        yield Change(text, size - now.pin, judge(enough)[0], settings)
    elif now.pin > now.budget and now.budget > 0 and now.mode == "plan":
        text = f"Lower gb10_plan_kv_cache_gib to at most {now.budget / GIB:.1f} ({now.budget // MIB} MiB)."
        settings = {"gb10_plan_kv_cache_gib": now.budget // MIB / 1024}
        fitted = case.attempt(replace(w, kv_cache_bytes=now.budget // MIB * MIB))
        yield Change(text, now.pin - now.budget, judge(fitted)[0], settings)
    if RANK[verdict] < RANK[case.verdict]:
        text = "Leave gb10_plan_kv_cache_gib out: the plan then gives the cache all that is left."
        gained = max(free.slack - now.slack, free.pool - now.pin)
        yield Change(text, gained, verdict, {"gb10_plan_kv_cache_gib": 0})


def _context(case: Case) -> Iterator[Change]:
    now = case.now
    pool = now.pool if now.pin is not None else max(0, now.budget)
    for spare in (now.margin, 0):
        length = now.layout.longest(max(0, pool - spare), now.context, TOKEN_STEP)
        if not 0 < length < now.context:
            continue
        shorter = replace(now, context=length)
        verdict = judge(shorter)[0]
        if RANK[verdict] < RANK[case.verdict]:
            words = "the longest that fits as things are" if not spare else "the longest that fits with room to spare"
            text = f"Set the context length to {length} (gb10_plan_context_length): {words}."
            yield Change(text, now.needed - shorter.needed, verdict, {"gb10_plan_context_length": length})


def _together(case: Case, singles: list[tuple[str, Wishes, dict[str, Any], Shape | None]]) -> Iterator[Change]:
    """Settings one after the other until it fits; then with a shorter context."""
    wishes, words, shape = case.wishes, [], case.now.shape
    settings: dict[str, Any] = {}
    for _text, changed, sets, other in singles:
        if other is not None:
            continue
        fields = {f: getattr(changed, f) for f in changed.__dataclass_fields__}
        moved = {f: value for f, value in fields.items() if value != getattr(case.wishes, f)}
        wishes = replace(wishes, **moved)
        words.append(
            ", ".join(f"{key} {value}" for key, value in moved.items() if key != "max_num_seqs" or "seqs" in _text)
        )
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
        pool = max(0, found.budget if found.mode == "plan" and found.pin is None else found.pool)
        length = found.layout.longest(pool, case.now.context, TOKEN_STEP)
        if length:
            shorter = case.attempt(wishes, length, shape)
            if RANK[judge(shorter)[0]] < RANK[case.verdict]:
                text = f"Together: {'; '.join(words)}; and a context of {length} tokens."
                settings = {**settings, "gb10_plan_context_length": length}
                yield Change(text, shorter.slack - case.now.slack, judge(shorter)[0], settings)


def _larger(case: Case) -> Iterator[Change]:
    """More nodes, then fewer bits."""
    now = case.now
    for size in SIZES:
        if size <= now.shape.ranks or engine_problems(case.model, size, now.shape.ep, case.engine):
            continue
        nodes, context = more_like(now.worst, size), now.context
        found = fit(case.model, nodes, case.wishes, case.engine, Shape(size), context)
        if found.slack < found.margin and case.open_context:
            context = found.layout.longest(max(0, found.budget - found.margin), context, TOKEN_STEP) or context
            found = replace(found, context=context)
        verdict = judge(found)[0]
        if RANK[verdict] < RANK[case.verdict]:
            room = f"{gib(found.slack)} to spare" if found.slack >= 0 else "and only just"
            of = "" if context == now.context else f" with a context of {context} tokens"
            text = f"Use {size} nodes (tensor parallel {size}){of}: {gib(found.weights_bytes)} weights on each, {room}."
            settings = {"gb10_plan_nodes": size, "gb10_plan_tp": size}
            yield Change(text, found.slack - now.slack, verdict, settings)
            if verdict == "fits":
                break
    if (smaller := _quantised(case)) is not None:
        yield smaller


def _quantised(case: Case) -> Change | None:
    now, model = case.now, case.model
    experts = {name: size for name, size in model.by_class.items() if name in ("experts", "mlp")}
    each = 1 if model.quantization else model.dtype_bytes
    bits = (model.quantization or {}).get("bits")
    settings: dict[str, Any] = {"gb10_model_id": None}
    room = now.budget + now.weights_bytes - now.needed
    on = f"{now.shape.ranks} node{'s' if now.shape.ranks > 1 else ''}"
    if experts and (bits is None or (isinstance(bits, (int, float)) and bits > 4)):
        smaller = replace(
            model, by_class={**model.by_class, **{n: int(s / each * FOUR_BITS) for n, s in experts.items()}}
        )
        found = fit(smaller, case.nodes, case.wishes, case.engine, now.shape, now.context)
        verdict = judge(found)[0]
        if RANK[verdict] < RANK[case.verdict]:
            text = (
                "Use a stronger quantisation of this model (gb10_model_id), such as NVFP4 or int4: with its large "
                f"matrices in 4 bits about {gib(found.weights_bytes)} of weights are on each rank instead of "
                f"{gib(now.weights_bytes)}."
            )
            return Change(text, found.slack - now.slack, verdict, settings)
    if case.verdict != "refused":
        return None
    if room > 0:
        text = (
            f"Use a smaller model or a stronger quantisation (gb10_model_id): at {on} and this context at most "
            f"{gib(room)} of weights fit on each rank; this model has {gib(now.weights_bytes)}."
        )
    else:
        text = "Use a smaller model or a stronger quantisation (gb10_model_id), together with a shorter context."
    return Change(text, None, None, settings)


def changes(
    model: Model, nodes: tuple[Node, ...], wishes: Wishes, engine: Engine, now: Fit, verdict: str
) -> list[Change]:
    """Ranked: what suffices alone, what suffices together, then nodes, then another checkpoint."""
    case = Case(model, nodes, wishes, engine, now, verdict, wishes.context_length is None)
    singles = list(server_settings(case))
    tried = [case.change(words, changed, settings, shape) for words, changed, settings, shape in singles]
    result = [
        *_shares(case),
        *(c for c in tried if (c.effect_bytes or 0) > 0 and RANK[c.verdict or "refused"] < RANK[verdict]),
        *_context(case),
    ]
    if not result:
        result += _together(case, singles)
    return [*result, *_larger(case)]
