# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
#
# Private to this collection: may change without notice.
"""What was not asked for: how ranks share the model, the context, the number of sequences. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from ansible_collections.gb10.serving.plugins.plugin_utils._memory_fit import (
    EXPERT_PARALLEL,
    PIPELINES,
    Fit,
    Shape,
    engine_problems,
    fit,
)
from ansible_collections.gb10.serving.plugins.plugin_utils._memory_model import Engine, Model, Wishes
from ansible_collections.gb10.serving.plugins.plugin_utils._memory_nodes import Node
from ansible_collections.gb10.serving.plugins.plugin_utils._memory_verdict import RANK, judge

FEWER_SEQS = (64, 16)
LEAST_CONTEXT = 8192  # rather a tight fit than a context that is of little use


@dataclass(frozen=True)
class Candidate:
    shape: Shape
    verdict: str
    reason: str
    found: Fit | None = None
    why: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        return {
            "tp": self.shape.tp,
            "pp": self.shape.pp,
            "ep": self.shape.tp if self.shape.ep else 1,
            "verdict": self.verdict,
            "reason": self.reason,
        }


def shapes(wishes: Wishes, count: int, moe: bool) -> Iterator[Shape]:
    """All nodes by tensor parallel first, then all nodes with pipeline stages, then fewer nodes."""
    ep = bool(wishes.expert_parallel)
    if wishes.tensor_parallel is not None:
        yield Shape(wishes.tensor_parallel, wishes.pipeline_parallel or 1, ep)
        return
    if wishes.pipeline_parallel is not None:
        for tp in range(max(1, count // wishes.pipeline_parallel), 0, -1):
            yield Shape(tp, wishes.pipeline_parallel, ep)
        return
    yield Shape(count, 1, ep)
    if moe and EXPERT_PARALLEL and wishes.expert_parallel is None and count > 1:
        yield Shape(count, 1, True)
    if PIPELINES:
        for tp in range(count - 1, 0, -1):
            if count % tp == 0:
                yield Shape(tp, count // tp, ep)
    for tp in range(count - 1, 0, -1):
        yield Shape(tp, 1, ep)


def _picked_context(
    model: Model, nodes: tuple[Node, ...], wishes: Wishes, engine: Engine, shape: Shape, most: int
) -> Fit:
    """The model's maximum where it fits, else the longest context that does."""
    whole = fit(model, nodes, wishes, engine, shape, most)
    if judge(whole)[0] == "fits":
        return whole
    sure = whole.longest(whole.room - (whole.margin if whole.pin is None else 0), most)
    tight = whole.longest(whole.room, most)
    for length in (sure if sure >= LEAST_CONTEXT else 0, tight):
        if 0 < length < most:
            shorter = whole.at(length)
            if RANK[judge(shorter)[0]] < RANK[judge(whole)[0]]:
                return shorter
    if judge(whole)[0] == "refused" and whole.room <= 0:  # the prior may be better than assumed
        least = whole.at(min(most, LEAST_CONTEXT))
        if judge(least)[0] != "refused":
            return least
    return whole


def settle(
    model: Model, nodes: tuple[Node, ...], wishes: Wishes, engine: Engine, shape: Shape, limit: int
) -> tuple[Fit, list[str]]:
    """One layout with everything that was left open picked; and what was picked in a way that one should know."""
    notes: list[str] = []

    def best(asked: Wishes) -> Fit:
        if wishes.context_length is not None:
            return fit(model, nodes, asked, engine, shape, wishes.context_length)
        return _picked_context(model, nodes, asked, engine, shape, limit)

    found = best(wishes)
    verdict = judge(found)[0]
    if wishes.max_num_seqs is None and wishes.overhead_bytes is None:
        for fewer in FEWER_SEQS:
            if verdict == "fits" or fewer >= wishes.seqs or (found.slack >= found.margin and found.context == limit):
                continue
            other = best(replace(wishes, max_num_seqs=fewer))
            if RANK[judge(other)[0]] < RANK[verdict] and other.context >= found.context:
                found, verdict = other, judge(other)[0]
                notes.append(f"{fewer} sequences at once instead of {wishes.seqs}: the sampler then takes less memory.")
    if wishes.context_length is None and found.context < limit:
        most = "is the longest that fits here with room to spare" if verdict == "fits" else "is what may fit here"
        notes.append(
            f"The model allows a context of {limit} tokens; {found.context} {most}, and was taken. "
            "Set gb10_plan_context_length for another."
        )
    return found, notes


def _not_taken(taken: Candidate, other: Candidate) -> str:
    if other.reason:
        return other.reason
    if RANK[other.verdict] > RANK[taken.verdict] or other.verdict == "refused":
        return (other.why or ("it has less room",))[0]
    if other.shape.ranks < taken.shape.ranks:
        return f"it uses {other.shape.ranks} of {taken.shape.ranks} nodes."
    if other.shape.pp > 1:
        return "pipeline stages answer a single request more slowly than tensor parallel ranks do."
    if other.shape.ep:
        return "it gives no more than splitting every expert does."
    return f"{taken.shape.words} comes first where both fit."


def _unused(taken: Candidate, first: Candidate, wishes: Wishes) -> str:
    """Why some nodes are left out: it was asked for, or the layout of all of them was not taken."""
    if wishes.tensor_parallel is not None or wishes.pipeline_parallel is not None:
        asked = {"gb10_plan_tp": wishes.tensor_parallel, "gb10_plan_pp": wishes.pipeline_parallel}
        said = " and ".join(f"{name} is {value}" for name, value in asked.items() if value is not None)
        if wishes.tensor_parallel is not None:
            return f"{said}. Leave it to the plan to use more of them."
        return f"{said}, and {first.shape.words if first is not taken else taken.shape.words} comes closest."
    return first.why[0] if first.why else _not_taken(taken, first)


def search(
    model: Model, nodes: tuple[Node, ...], wishes: Wishes, engine: Engine, limit: int
) -> tuple[Candidate | None, list[Candidate]]:
    """(the layout to take, all that were tried). None: no layout is one that the engine accepts."""
    tried: list[Candidate] = []
    for shape in shapes(wishes, len(nodes), model.is_moe):
        wrong = engine_problems(model, shape.tp, shape.ep, engine, wishes)
        layers = model.config.get("num_hidden_layers") or 1
        if shape.pp > layers:
            wrong = [*wrong, f"pipeline parallel {shape.pp} is more than the {layers} layers of the model."]
        if shape.ranks > len(nodes):
            variable = "gb10_plan_tp" if shape.pp == 1 else "gb10_plan_tp x gb10_plan_pp"
            wrong = [
                *wrong,
                (
                    f"{variable} is {shape.ranks}, which needs {shape.ranks} nodes with one GPU each; {len(nodes)} "
                    f"{'is' if len(nodes) == 1 else 'are'} given."
                ),
            ]
        if shape.ep and tried and list(tried[-1].why) == wrong:
            continue  # it is not the experts that do not divide
        if wrong:
            tried.append(Candidate(shape, "refused", wrong[0], None, tuple(wrong)))
            continue
        found, notes = settle(model, nodes, wishes, engine, shape, limit)
        verdict, why = judge(found)
        tried.append(Candidate(shape, verdict, "", found, tuple(why), tuple(notes)))
        # Nothing after a layout of all nodes that fits would be taken.
        if verdict == "fits" and shape.ranks == len(nodes):
            break
    usable = [candidate for candidate in tried if candidate.found]
    if not usable:
        return None, tried
    taken = min(usable, key=lambda candidate: (RANK[candidate.verdict], tried.index(candidate)))
    explained = [c if c is taken else replace(c, reason=_not_taken(taken, c)) for c in tried]
    notes = list(taken.notes)
    if taken.shape.ranks < len(nodes):
        notes.append(f"{taken.shape.ranks} of {len(nodes)} nodes are used: {_unused(taken, tried[0], wishes)}")
    taken = replace(taken, reason="taken" if taken.verdict != "refused" else "the best of these", notes=tuple(notes))
    return taken, [taken if c.shape == taken.shape else c for c in explained]
