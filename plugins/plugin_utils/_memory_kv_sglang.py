# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
#
# Private to this collection: may change without notice.
"""SGLang's pool: cells of one token for the cache, slots for states. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ansible_collections.gb10.serving.plugins.plugin_utils._memory_kv_specs import STATES, Sizes

STATE_RATIO = 0.9  # mamba_full_memory_ratio: bytes of states for each byte of cells
WINDOW_RATIO = 0.8  # swa_full_tokens_ratio: cells of windowed layers for each cell of the others
SLOTS_PER_REQUEST = 3  # with the radix cache; 1 without


@dataclass(frozen=True)
class Cells:
    """One rank's pool, in SGLang's units. All sizes are those of the pipeline stage that holds most."""

    full: float  # bytes of one token in the layers that keep everything
    window: float  # and in those that keep a window
    state: int  # bytes of one state slot
    slots: int  # of one request
    page: int  # tokens: the pool is a multiple of it

    @property
    def cell(self) -> float:
        return max(1.0, self.full + (WINDOW_RATIO if self.full else 1.0) * self.window)

    def request_bytes(self, length: int) -> int:
        """The pool that serves one request: states and cells have fixed shares."""
        need = math.ceil(length / self.page) * self.page * self.cell
        if self.state:
            slots = self.slots * self.state
            need = max(need * (1 + STATE_RATIO), slots * (1 + STATE_RATIO) / STATE_RATIO)
        return math.ceil(need)

    def capacity(self, pool: int, length: int) -> tuple[int, float]:
        part = pool / (1 + STATE_RATIO) if self.state else pool
        tokens = int(part // self.cell) // self.page * self.page
        limit = tokens / length
        if self.state:
            limit = min(limit, int((pool - part) // self.state) // self.slots)
        return tokens, limit

    def window_tokens(self, tokens: int) -> int:
        """What the log calls the pool of windowed layers; 0 without any."""
        return int(tokens * WINDOW_RATIO) if self.window and self.full else 0

    def state_share(self, pool: int) -> int:
        return int(pool * STATE_RATIO / (1 + STATE_RATIO)) if self.state else 0


def cells(sizes: Sizes, parts: Sequence[dict[str, Any]], of_stages: Sequence[range]) -> Cells:
    plain = replace(sizes, wishes=replace(sizes.wishes, speculative_tokens=0))  # a draft's states are whole copies

    def total(kinds: tuple[str, ...], one: Any) -> list[float]:
        return [
            sum(one(part) * sum(at in stage for at in part["at"]) for part in parts if part["kind"] in kinds)
            for stage in of_stages
        ]

    kept = total(("full", "mla", "index", "compressed"), sizes.token)
    windowed = total(("sliding", "chunked", "window_mla"), sizes.token)
    states = total(STATES, plain.state)
    sparse = any(part["kind"] == "mla" and part["sparse"] for part in parts)
    return Cells(
        full=max(kept),
        window=max(windowed),
        state=int(max(states)) * (1 + sizes.spec_tokens),
        slots=SLOTS_PER_REQUEST if sizes.wishes.prefix_caching else 1,
        page=64 if sparse else 1,
    )
