# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
#
# Private to this collection: may change without notice.
"""What is being tried to make a plan fit, and what came of it. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ansible_collections.gb10.serving.plugins.plugin_utils._memory_fit import Fit, Shape, fit
from ansible_collections.gb10.serving.plugins.plugin_utils._memory_model import Engine, Model, Wishes
from ansible_collections.gb10.serving.plugins.plugin_utils._memory_nodes import Node
from ansible_collections.gb10.serving.plugins.plugin_utils._memory_verdict import judge


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
    limit: int  # the longest context that may be taken

    def attempt(self, wishes: Wishes, context: int | None = None, shape: Shape | None = None) -> Fit:
        return fit(self.model, self.nodes, wishes, self.engine, shape or self.now.shape, context or self.now.context)

    def change(self, words: str, wishes: Wishes, settings: dict[str, Any], shape: Shape | None = None) -> Change:
        found = self.attempt(wishes, shape=shape)
        return Change(words, found.slack - self.now.slack, judge(found)[0], settings)
