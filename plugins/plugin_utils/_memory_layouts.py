# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
#
# Private to this collection: may change without notice.
"""What to set where the engine takes none of the layouts that were asked for: each planned before it is named. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from ansible_collections.gb10.serving.plugins.plugin_utils._memory_case import Change
from ansible_collections.gb10.serving.plugins.plugin_utils._memory_fit import engine_problems
from ansible_collections.gb10.serving.plugins.plugin_utils._memory_larger import SIZES
from ansible_collections.gb10.serving.plugins.plugin_utils._memory_model import Engine, Model, Wishes
from ansible_collections.gb10.serving.plugins.plugin_utils._memory_nodes import Node, more_like
from ansible_collections.gb10.serving.plugins.plugin_utils._memory_search import Candidate, search
from ansible_collections.gb10.serving.plugins.plugin_utils._memory_verdict import RANK

_BECOMES = {"fits": "fits", "borderline": "is borderline"}


def _many(count: int) -> str:
    return f"{count} node{'s' if count > 1 else ''}"


def _usable(
    model: Model, nodes: tuple[Node, ...], wishes: Wishes, engine: Engine, limit: int
) -> tuple[Candidate | None, str]:
    taken, _tried = search(model, nodes, wishes, engine, limit)
    there = taken if taken and taken.found and taken.verdict != "refused" else None
    return there, f"with {there.shape.words} it {_BECOMES[there.verdict]}." if there else ""


def _sizes(model: Model, nodes: tuple[Node, ...], wishes: Wishes, engine: Engine, limit: int) -> Iterator[Change]:
    """The most ranks of these nodes that do; fewer ones only where they do better."""
    reached = RANK["refused"]
    for size in range(len(nodes), 0, -1):
        there, becomes = _usable(model, nodes, replace(wishes, tensor_parallel=size), engine, limit)
        if there and RANK[there.verdict] < reached:
            reached = RANK[there.verdict]
            text = f"Set gb10_plan_tp to {size} on {_many(len(nodes))}: {becomes}"
            yield Change(text, None, there.verdict, {"gb10_plan_tp": size})


def _open(model: Model, nodes: tuple[Node, ...], wishes: Wishes, engine: Engine, limit: int) -> Iterator[Change]:
    if not wishes.tensor_parallel or wishes.pipeline_parallel is not None:
        return
    there, becomes = _usable(model, nodes, replace(wishes, tensor_parallel=None), engine, limit)
    if there and there.shape.pp > 1:
        yield Change(f"Leave gb10_plan_tp out: {becomes}", None, there.verdict, {"gb10_plan_tp": 0})


def _more_nodes(model: Model, nodes: tuple[Node, ...], wishes: Wishes, engine: Engine, limit: int) -> Iterator[Change]:
    """What was asked for where it only lacks nodes; else one more, two more, until it fits."""
    asked = (wishes.tensor_parallel or 1) * (wishes.pipeline_parallel or 1)
    for size in [asked] if asked > len(nodes) else [size for size in SIZES if size > len(nodes)]:
        wish = wishes if asked > len(nodes) else replace(wishes, tensor_parallel=None)
        there, becomes = _usable(model, more_like(nodes[0], size), wish, engine, limit)
        if there and there.shape.ranks == size:
            settings: dict[str, Any] = {"gb10_plan_nodes": size, "gb10_plan_tp": there.shape.tp}
            if there.shape.pp > 1 or wishes.pipeline_parallel:
                settings["gb10_plan_pp"] = there.shape.pp
            yield Change(f"Use {_many(size)}: {becomes}", None, there.verdict, settings)
            if there.verdict == "fits":
                return


def other_layouts(
    model: Model, nodes: tuple[Node, ...], wishes: Wishes, engine: Engine, limit: int
) -> list[dict[str, Any]]:
    """Ranked by verdict, then by how far they are from what was asked for."""
    case = (model, nodes, wishes, engine, limit)
    found = [*_sizes(*case), *_open(*case)]
    asked = (wishes.tensor_parallel or 1) * (wishes.pipeline_parallel or 1)
    if asked > len(nodes) or not any(change.verdict == "fits" for change in found):
        found += _more_nodes(*case)
    if not found:
        sizes = [n for n in range(1, len(nodes) + 1) if not engine_problems(model, n, False, engine, wishes)]
        text = (
            f"Use a smaller model or a stronger quantisation (gb10_model_id): of the sizes of gb10_plan_tp that divide "
            f"this model on {_many(len(nodes))} ({sizes}), none has the room."
        )
        found = [Change(text, None, None, {"gb10_model_id": None})]
    return [change.as_dict() for change in sorted(found, key=lambda change: RANK.get(change.verdict or "", len(RANK)))]
