# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
#
# Private to this collection: may change without notice.
"""What else would make a model fit: more nodes, or fewer bits. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from ansible_collections.gb10.serving.plugins.plugin_utils._memory_case import Case, Change
from ansible_collections.gb10.serving.plugins.plugin_utils._memory_fit import Fit, fit, gib
from ansible_collections.gb10.serving.plugins.plugin_utils._memory_nodes import more_like
from ansible_collections.gb10.serving.plugins.plugin_utils._memory_search import search
from ansible_collections.gb10.serving.plugins.plugin_utils._memory_verdict import RANK, judge

SIZES = (*range(2, 9), 16)
FOUR_BITS = 0.5625  # bytes of a parameter in NVFP4: half a byte and a scale for each 16


def _layout_on(case: Case, size: int) -> Fit | None:
    """The layout that a plan on so many nodes would take, if it takes them all."""
    nodes = more_like(case.now.worst, size)
    asked = replace(case.wishes, tensor_parallel=None, context_length=None if case.open_context else case.now.context)
    taken, _tried = search(case.model, nodes, asked, case.engine, case.limit)
    return taken.found if taken and taken.found and taken.shape.ranks == size else None


def larger(case: Case) -> Iterator[Change]:
    """One node more, two, and so on, until it fits."""
    now, reached = case.now, RANK[case.verdict]
    for size in SIZES:
        found = _layout_on(case, size) if size > now.shape.ranks else None
        if found is None:
            continue
        verdict, shape = judge(found)[0], found.shape
        if RANK[verdict] >= reached:
            continue
        reached = RANK[verdict]
        room = f"{gib(found.slack)} to spare" if found.slack >= 0 else "and only just"
        of = "" if found.context == now.context else f" with a context of {found.context} tokens"
        text = f"Use {size} nodes ({shape.words}){of}: {gib(found.weights_bytes)} weights on each, {room}."
        settings: dict[str, Any] = {"gb10_plan_nodes": size, "gb10_plan_tp": shape.tp}
        if shape.pp > 1 or case.wishes.pipeline_parallel:
            settings["gb10_plan_pp"] = shape.pp
        if shape.ep:
            settings["gb10_plan_ep"] = True
        yield Change(text, found.slack - now.slack, verdict, settings)
        if verdict == "fits":
            return


def fewer_bits(case: Case) -> Iterator[Change]:
    """The same nodes, with another checkpoint."""
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
            yield Change(text, found.slack - now.slack, verdict, settings)
            return
    if case.verdict != "refused" or room >= now.weights_bytes:
        return
    if room > 0:
        text = (
            f"Use a smaller model or a stronger quantisation (gb10_model_id): at {on} and this context at most "
            f"{gib(room)} of weights fit on each rank; this model has {gib(now.weights_bytes)}."
        )
    else:
        text = "Use a smaller model or a stronger quantisation (gb10_model_id), together with a shorter context."
    yield Change(text, None, None, settings)
