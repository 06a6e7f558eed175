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

WINDOWED = ("sliding", "chunked", "window_mla")
STATE_RATIO = 0.9  # --mamba-full-memory-ratio: bytes of states for each byte of cells
WINDOW_RATIO = 0.8  # --swa-full-tokens-ratio: cells of windowed layers for each cell of the others
WINDOW_RATIOS = {"DeepseekV4": 0.1}  # what some architectures start with
SLOTS, TRACKED, TRACKED_ONCE = 3, 2, 1  # slots of a request with the radix cache; and beside them to track its states
#: Architectures whose states the radix cache tracks in slots of their own, and since when it does so by itself.
TRACKING = ("Qwen3_5", "Qwen3Next", "Qwen4Exp", "KimiLinear", "KimiK3", "NemotronH", "GraniteMoeHybrid", "FalconH1",
            "Glm5Next", "Bailing", "Inkling")  # fmt: skip
TRACKING_SINCE, LINEAR_TRACKING_SINCE, PADDED_SINCE = (0, 5, 14), (0, 5, 17), (0, 5, 17)
LATER = ("KimiLinear", "KimiK3")
#: What of its pool can be said: key of the wish -> flag.
POOLS = {
    "state_ratio": "--mamba-full-memory-ratio",
    "state_slots": "--max-mamba-cache-size",
    "state_strategy": "--mamba-radix-cache-strategy",
    "window_ratio": "--swa-full-tokens-ratio",
    "overlap": "--disable-overlap-schedule",
}
STRATEGIES = ("auto", "no_buffer", "extra_buffer", "extra_buffer_lazy")


@dataclass(frozen=True)
class Cells:
    """One rank's pool, in SGLang's units. All sizes are those of the pipeline stage that holds most."""

    full: float  # bytes of one token in the layers that keep everything
    window: float  # and in those that keep a window
    state: int  # bytes of one state slot
    slots: int  # of one request
    page: int  # tokens: the pool is a multiple of it
    drafts: int = 0  # states beside the slots that each running request has for what it verifies
    padding: int = 0  # slots that no request gets
    fixed_slots: int = 0  # as they were asked for; 0: by the ratio
    running: int = 256  # requests that the server takes at once
    ratio: float = STATE_RATIO
    window_ratio: float = WINDOW_RATIO
    window_size: int = 0  # tokens

    @property
    def cell(self) -> float:
        return max(1.0, self.full + (self.window_ratio if self.full else 1.0) * self.window)

    def request_bytes(self, length: int) -> int:
        """What one request takes: its cells, and its slots."""
        return math.ceil(self._tokens(length) * self.cell) + (self.slots + self.drafts) * self.state

    def _tokens(self, length: int) -> int:
        """Tokens of a pool that holds one request, in the windowed layers too."""
        tokens = length
        if self.window and self.full:
            windows = math.ceil(min(length, self.window_size or length) / self.window_ratio)
            tokens = max(length, windows + 1 if self.window_ratio < 1 else windows)
        return math.ceil(tokens / self.page) * self.page

    def needed(self, length: int) -> int:
        """The smallest pool that serves one request: states and cells have fixed shares."""
        cells = math.ceil(self._tokens(length) * self.cell) + 1
        if not self.state:
            return cells
        if self.fixed_slots:
            return cells + self._state_bytes(self.fixed_slots)
        states = (self.slots + self.drafts + self.padding * (1 + self.drafts)) * self.state
        return math.ceil(max(cells, states / self.ratio) * (1 + self.ratio)) + 1

    def slots_of(self, pool: int) -> int:
        """State slots of a pool."""
        if not self.state or self.fixed_slots:
            return self.fixed_slots if self.state else 0
        budget = pool * self.ratio / (1 + self.ratio) - self.padding * (1 + self.drafts) * self.state
        return max(0, int(budget // (self.state * (1 + self.drafts / self.slots))))

    def _state_bytes(self, slots: int) -> int:
        running = min(self.running, slots // self.slots)
        return (slots + self.padding + (running + self.padding) * self.drafts) * self.state

    def at_once(self, pool: int) -> int:
        """Requests that have slots, whatever their length."""
        return self.slots_of(pool) // self.slots

    def capacity(self, pool: int, length: int) -> tuple[int, float]:
        tokens = max(0, int((pool - self.state_share(pool)) // self.cell) // self.page * self.page)
        limit = tokens / length
        if self.window and self.full and self.window_size:
            limit = min(limit, self.window_tokens(tokens) / min(length, self.window_size))
        if self.state:
            limit = min(limit, self.at_once(pool))
        return tokens, limit

    def window_tokens(self, tokens: int) -> int:
        """What the log calls the pool of windowed layers; 0 without any."""
        return int(tokens * self.window_ratio) if self.window and self.full else 0

    def state_share(self, pool: int) -> int:
        return min(pool, self._state_bytes(self.slots_of(pool))) if self.state else 0


def _slots(sizes: Sizes) -> int:
    """State slots of one request."""
    wishes, engine, name = sizes.wishes, sizes.engine, str(sizes.model.config.get("architecture"))
    if not wishes.prefix_caching:
        return 1
    strategy, overlap = wishes.pools.get("state_strategy", "auto"), wishes.pools.get("overlap", True)
    if strategy == "auto":
        since = LINEAR_TRACKING_SINCE if name.startswith(LATER) else TRACKING_SINCE
        tracks = name.startswith(TRACKING) and engine.since(*since) and overlap
        strategy = "extra_buffer" if tracks else "no_buffer"
    if strategy == "no_buffer":
        return SLOTS
    return SLOTS + (TRACKED if strategy == "extra_buffer" and overlap else TRACKED_ONCE)


def cells(sizes: Sizes, parts: Sequence[dict[str, Any]], of_stages: Sequence[range]) -> Cells:
    wishes, name = sizes.wishes, str(sizes.model.config.get("architecture"))
    plain = replace(sizes, wishes=replace(wishes, speculative_tokens=0))  # a draft's states are whole copies

    def total(kinds: tuple[str, ...], one: Any) -> list[float]:
        return [
            sum(one(part) * sum(at in stage for at in part["at"]) for part in parts if part["kind"] in kinds)
            for stage in of_stages
        ]

    kept = total(("full", "mla", "index", "compressed"), sizes.token)
    windowed = total(WINDOWED, sizes.token)
    states = total(STATES, plain.state)
    sparse = any(part["kind"] == "mla" and part["sparse"] for part in parts)
    windows = [part.get("window") or 0 for part in parts if part["kind"] in WINDOWED]
    usual = next((ratio for start, ratio in WINDOW_RATIOS.items() if name.startswith(start)), WINDOW_RATIO)
    return Cells(
        full=max(kept),
        window=max(windowed),
        state=int(max(states)),
        slots=_slots(sizes),
        page=64 if sparse else 1,
        drafts=sizes.spec_tokens + 1 if sizes.spec_tokens else 0,
        padding=int(sizes.engine.since(*PADDED_SINCE)),
        fixed_slots=wishes.pools.get("state_slots") or (0 if wishes.prefix_caching else wishes.seqs),
        running=wishes.seqs,
        ratio=wishes.pools.get("state_ratio") or STATE_RATIO,
        window_ratio=wishes.pools.get("window_ratio") or usual,
        window_size=max(windows, default=0),
    )
