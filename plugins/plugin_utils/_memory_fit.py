# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
#
# Private to this collection: may change without notice.
"""One candidate: the sums of a model on nodes at one parallel layout, as the engine will make them. Pure.

Three ways to size the cache. "plan": all that is left beside the system's reserve. "total": vLLM with an explicit
gpu_memory_utilization, a share of TOTAL memory. "free": SGLang with an explicit mem_fraction_static, a share of the
memory that is free at its start; activations and graphs live outside of that share.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from ansible_collections.gb10.serving.plugins.plugin_utils._memory_kv import Layout, layout
from ansible_collections.gb10.serving.plugins.plugin_utils._memory_model import (
    GIB,
    MIB,
    UNASKED,
    Engine,
    Model,
    Term,
    Wishes,
)
from ansible_collections.gb10.serving.plugins.plugin_utils._memory_nodes import Node
from ansible_collections.gb10.serving.plugins.plugin_utils._memory_overhead import load_peak, overhead_terms
from ansible_collections.gb10.serving.plugins.plugin_utils._memory_weights import tp_problems, weight_terms
from ansible_collections.gb10.serving.plugins.plugin_utils._memory_workspaces import BEYOND, indexer_workspace

NOISE = 3 * GIB  # identical starts on unified memory differ by up to this much
STEP = 256 * MIB
SHARE_STEPS = 200  # shares are given in steps of 1/200
TOKEN_STEP = 1024  # a proposed context is a multiple of this
UNSURE = 2 * GIB  # of the cache that an engine makes for itself
EXTREME = 5 * GIB  # the least that a plan without measured memory leaves
FLOOR = GIB  # hosts have served with this little left, and frozen with 3 to 7 GiB
ON_TOP = frozenset({"graphs"})  # of what an old vLLM takes outside its budget


def gib(size: float) -> str:
    return f"{size / GIB:.1f} GiB"


def _call(function: Callable[..., Any], *args: Any, **more: Any) -> Any:
    """With those of the keyword arguments that the function knows."""
    known = inspect.signature(function).parameters
    return function(*args, **{key: value for key, value in more.items() if key in known})


def accepts(function: Callable[..., Any], key: str) -> bool:
    return key in inspect.signature(function).parameters


PIPELINES = accepts(weight_terms, "pp")
EXPERT_PARALLEL = accepts(weight_terms, "ep")


def engine_problems(model: Model, tp: int, ep: bool, engine: Engine, wishes: Wishes = UNASKED) -> list[str]:
    """Why the engine would refuse this size, in its own words."""
    found: list[str] = _call(tp_problems, model, tp, engine, ep=tp if ep else 1, wishes=wishes)
    return found


@dataclass(frozen=True)
class Shape:
    """How ranks share the model."""

    tp: int
    pp: int = 1
    ep: bool = False

    @property
    def ranks(self) -> int:
        return self.tp * self.pp

    @property
    def words(self) -> str:
        parts = [f"tensor parallel {self.tp}"]
        if self.pp > 1:
            parts.append(f"pipeline parallel {self.pp}")
        if self.ep:
            parts.append("expert parallel")
        return ", ".join(parts)


@dataclass(frozen=True)
class Fit:
    """The sums of one candidate. Every rank is taken as the heaviest."""

    shape: Shape
    context: int
    nodes: tuple[Node, ...]
    weights: tuple[Term, ...]
    overhead: tuple[Term, ...]
    layout: Layout
    wishes: Wishes
    engine: Engine
    model: Model
    picked: bool = False  # the bytes of the cache were fixed by the plan: nobody asked for them

    @property
    def tp(self) -> int:
        return self.shape.tp

    @property
    def mode(self) -> str:
        if self.engine.name == "sglang":
            return "free" if self.wishes.mem_fraction_static is not None else "plan"
        # A fixed cache is what vLLM takes, whatever the share: that is then no more than the check at the start.
        return "total" if self.wishes.gpu_memory_utilization is not None and self.pin is None else "plan"

    @property
    def pin(self) -> int | None:
        return self.wishes.kv_cache_bytes

    @cached_property
    def weights_bytes(self) -> int:
        return sum(term.bytes for term in self.weights)

    @cached_property
    def overhead_bytes(self) -> int:
        return sum(term.bytes for term in self.overhead)

    @property
    def outside_bytes(self) -> int:
        """The part of the overhead that is no part of the engine's own budget."""
        if self.mode == "free":
            return self.overhead_bytes
        if self.mode == "total" and not self.engine.graphs_in_budget:
            return sum(term.bytes for term in self.overhead if term.name in ON_TOP)
        return 0

    def checked(self, node: Node) -> int:
        """What has to be free at the start, or vLLM stops; 0 where nothing is checked."""
        return math.ceil(node.total * (self.wishes.gpu_memory_utilization or 0)) if self.engine.name == "vllm" else 0

    def requested(self, node: Node, available: int | None = None) -> int:
        """What the engine asks of a node for itself."""
        have = node.available if available is None else available
        if self.mode == "total":
            return self.checked(node)
        if self.mode == "free":
            return int(have * (self.wishes.mem_fraction_static or 0))
        return have - node.reserve

    @cached_property
    def budgets(self) -> tuple[int, ...]:
        """For the cache, by rank; may be negative."""
        taken = self.weights_bytes + self.overhead_bytes - self.outside_bytes
        return tuple(self.requested(node) - taken for node in self.nodes)

    @property
    def budget(self) -> int:
        return min(self.budgets)  # the engine takes the smallest of all ranks

    @property
    def worst(self) -> Node:
        budgets = self.budgets
        return self.nodes[budgets.index(min(budgets))]

    @cached_property
    def needed(self) -> int:
        return self.layout.needed(self.context)

    @property
    def pool(self) -> int:
        """Bytes for the cache: the pin, what the engine will make of its share, or the budget in round figures."""
        if self.pin is not None:
            return self.pin // MIB * MIB
        if self.engine.name == "sglang" and self.mode == "plan" and (shared := self._of_a_share()) >= self.needed:
            return shared
        if self.mode == "free":
            return max(0, self.budget)
        most = max(0, self.budget) // MIB * MIB
        rounded = most // STEP * STEP
        return rounded if self.mode == "plan" and rounded >= self.needed else most

    @property
    def room(self) -> int:
        """What requests may take; negative where not even the rest fits."""
        if self.pin is not None:
            return self.pool
        return self.budget if self.mode == "plan" or self.engine.name == "sglang" else self.budget // MIB * MIB

    def at(self, context: int) -> Fit:
        """The same start with another context: what is reserved by its length changes with it."""
        terms = overhead_terms(self.model, self.tp, self.wishes, self.engine, self.shape.pp, context)
        return replace(self, context=context, overhead=tuple(terms))

    def longest(self, room: int, most: int) -> int:
        """The longest context up to most of which one request fits into the room that is left at the present one."""

        def reserved(context: int) -> int:
            term = None if self.pin is not None or self.wishes.overhead_bytes is not None else self._reserved(context)
            return term.bytes if term else 0

        now = reserved(self.context)
        for least, limit in ((BEYOND, most), (0, min(most, BEYOND))):  # beyond, the engine reserves less
            found = self.layout.longest(room, limit, TOKEN_STEP, lambda length: reserved(length) - now, least)
            if found:
                return found
        return 0

    def _reserved(self, context: int) -> Term | None:
        return indexer_workspace(self.model, self.wishes, self.engine, context)

    def _of_a_share(self) -> int:
        """SGLang is given a share in steps, and makes its cache of that."""
        free = min(node.available for node in self.nodes)
        steps = SHARE_STEPS * max(0, self.weights_bytes + self.budget) // max(1, free)
        return int(free * (min(steps, SHARE_STEPS) / SHARE_STEPS)) - self.weights_bytes

    @property
    def slack(self) -> int:
        """What stays beside one request of the wished length; negative when it does not fit."""
        return self.budget - max(self.pin or 0, self.needed)

    @property
    def ok(self) -> bool:
        return self.slack >= 0 and self.pool >= self.needed

    @cached_property
    def margin(self) -> int:
        """Less slack than this is no certainty: boots differ, and priors are priors."""
        errors = [NOISE, *(term.uncertainty_bytes for term in (*self.weights, *self.overhead))]
        errors.append(int(self.layout.uncertainty * self.needed))
        return int(math.sqrt(sum(error * error for error in errors)))

    def left(self, node: Node, available: int | None = None) -> int:
        """Beside the engine, of what is available."""
        have = node.available if available is None else available
        if self.mode == "plan":
            return have - self.weights_bytes - self.overhead_bytes - self.pool
        return have - self.requested(node, have) - self.outside_bytes

    @property
    def peak(self) -> Term:
        return load_peak(self.weights_bytes, self.overhead)


def _sourced(terms: list[Term], model: Model) -> tuple[Term, ...]:
    return tuple(
        term if term.source else Term(term.name, term.bytes, term.formula, term.uncertainty_bytes, model.source)
        for term in terms
    )


def fit(model: Model, nodes: tuple[Node, ...], wishes: Wishes, engine: Engine, shape: Shape, context: int) -> Fit:
    ep = shape.tp if shape.ep else 1
    wishes = replace(wishes, tensor_parallel=shape.tp, pipeline_parallel=shape.pp, expert_parallel=shape.ep)
    stages = [
        _sourced(_call(weight_terms, model, shape.tp, wishes, ep=ep, pp=shape.pp, stage=stage), model)
        for stage in range(shape.pp)
    ]
    weights = max(stages, key=lambda terms: sum(term.bytes for term in terms))
    return Fit(
        shape,
        context,
        nodes[: shape.ranks],
        weights,
        tuple(overhead_terms(model, shape.tp, wishes, engine, shape.pp, context)),
        layout(model, shape.tp, wishes, engine),
        wishes,
        engine,
        model,
    )
