# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
#
# Private to this collection: may change without notice.
"""KV cache and states of one rank, as the engines lay them out. Pure.

vLLM keeps one pool of equal blocks from which groups of layers draw (_memory_kv_specs, _memory_kv_groups). SGLang
splits its pool into cells and state slots (_memory_kv_sglang).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ansible_collections.gb10.serving.plugins.plugin_utils._memory_kv_groups import (
    Group,
    group_layers,
    padded_tuples,
    slots,
    stages,
)
from ansible_collections.gb10.serving.plugins.plugin_utils._memory_kv_sglang import Cells, cells
from ansible_collections.gb10.serving.plugins.plugin_utils._memory_kv_specs import (
    STATES,
    Sizes,
    layer_specs,
    parts_of,
)
from ansible_collections.gb10.serving.plugins.plugin_utils._memory_model import Engine, Model, Wishes

_PACKED = {"window_mla", "ring"}  # kinds whose kernels pack pages of several sizes side by side
_COMPRESSED = ("compressed attention (DeepSeek-V4), whose blocks differ between builds", 0.05)
_POOLED = ("delta attention beside latents with pooled index keys (GLM-5-Next), whose builds differ", 0.10)
_POOLED_TOKEN = 16384  # bytes, measured at 2 and 4 ranks, of builds that do not use the sparse kernels' own fp8 rows


@dataclass(frozen=True)
class Layout:
    """How the pool of one rank is divided."""

    engine: Engine
    kinds: dict[str, int]  # groups of the model by kind -> layers
    block_tokens: int
    members: tuple[Group, ...]
    stage_block_bytes: tuple[int, ...]  # of one block, by pipeline stage
    kv_bytes_per_token: int  # of the stage that holds most; windowed layers count, a short window's latents do not
    state_bytes_per_seq: int
    in_flight_tokens: int
    cells: Cells
    approximate: str = ""  # what is only roughly known, if anything
    uncertainty: float = 0.0  # as a share of the bytes
    by_bytes: bool = False  # an older version's count of a request's blocks
    measured_token: int = 0  # bytes of one token where measurements say more than the arithmetic

    @property
    def groups(self) -> dict[str, int]:
        return dict(Counter(group.name for group in self.members))

    @property
    def group_size(self) -> int:
        return max(len(group.members) for group in self.members)

    @property
    def page_bytes(self) -> int:
        """Bytes of one block of one layer, of the layers with the largest."""
        return max(spec.page for group in self.members for _at, spec in group.members)

    @property
    def bytes_per_block(self) -> int:
        """Of one block of all its layers. The engine has as many blocks as its poorest stage."""
        return max(self.stage_block_bytes)

    @property
    def is_sglang(self) -> bool:
        return self.engine.name == "sglang"

    def blocks_per_request(self, length: int) -> int:
        blocks = [group.blocks_of(length, self.in_flight_tokens) for group in self.members]
        if self.by_bytes:
            first = self.members[0].page()
            return math.ceil(sum(n * group.page() for n, group in zip(blocks, self.members, strict=True)) / first)
        return sum(blocks)

    def request_bytes(self, length: int) -> int:
        """What one request of this length takes from the pool of each rank."""
        if self.is_sglang:
            return self.cells.request_bytes(length)
        return max(self.blocks_per_request(length) * self.bytes_per_block, length * self.measured_token)

    def needed(self, length: int) -> int:
        """The smallest pool that serves one request: vLLM holds one block back."""
        if self.is_sglang:
            return self.cells.needed(length)
        return self.request_bytes(length) + self.bytes_per_block

    def blocks(self, pool: int, stage_pools: tuple[int, ...] = ()) -> int:
        """Blocks of a pool; with one pool for each pipeline stage, those of the poorest."""
        pools = stage_pools or (pool,) * len(self.stage_block_bytes)
        return min(max(0, p) // size for p, size in zip(pools, self.stage_block_bytes, strict=True) if size)

    def capacity(self, pool: int, length: int) -> tuple[int, float]:
        """(tokens as the engine's log will say, requests of this length at once)."""
        if pool <= 0 or length <= 0:
            return 0, 0.0
        if self.is_sglang:
            return self.cells.capacity(pool, length)
        blocks = self.blocks(pool)
        concurrency = blocks / self.blocks_per_request(length)
        if self.measured_token:
            concurrency = min(concurrency, pool / self.request_bytes(length))
        if self.engine.report_by_concurrency:
            return int(concurrency * length), concurrency
        return blocks // len(self.members) * self.block_tokens, concurrency

    def state_share(self, pool: int, length: int) -> int:
        """The part of the pool that holds states when it is full of requests of this length."""
        if self.is_sglang:
            return self.cells.state_share(pool)
        states = sum(g.blocks_of(length, self.in_flight_tokens) for g in self.members if g.name == "linear")
        return pool * states // self.blocks_per_request(length)

    def longest(
        self, pool: int, limit: int, step: int = 1024, beside: Callable[[int], int] = lambda _length: 0, least: int = 0
    ) -> int:
        """The longest context, a multiple of step above least, of which one request fits with what grows beside it."""
        low, high = least // step, limit // step
        while low < high:
            middle = (low + high + 1) // 2
            if self.needed(middle * step) + beside(middle * step) <= pool:
                low = middle
            else:
                high = middle - 1
        return low * step if low > least // step else 0


def in_flight_tokens(wishes: Wishes, engine: Engine, pipeline: int) -> int:
    """Tokens that may be scheduled and not yet settled: out of a window, but still in their blocks."""
    batches = engine.in_flight_batches if pipeline == 1 else pipeline + engine.in_flight_batches - 1
    return batches * wishes.batched_tokens


def layout(model: Model, tp: int, wishes: Wishes, engine: Engine) -> Layout:
    """Blocks, groups and cells of this model at this size."""
    parts = parts_of(model, wishes, engine)
    if not parts:
        raise ValueError("The model's config gives no layers that keep a cache.")
    sizes = Sizes(model, tp, wishes, engine)
    layers = model.config["num_hidden_layers"]
    last = max(max(part["at"]) for part in parts)
    pipeline = min(wishes.pipeline_parallel or 1, layers)
    of_stages = stages(layers, max(0, last + 1 - layers), pipeline)
    specs, block = layer_specs(sizes, parts)
    kinds = Counter({part["kind"]: 0 for part in parts})
    for part in parts:
        kinds[part["kind"]] += part["layers"]
    pooled = "ring" in kinds and "kda" in kinds
    known = bool(engine.version) and engine.name == "vllm" and engine.since(0, 32)
    rough = _COMPRESSED if "window_mla" in kinds and not known else _POOLED if pooled else ("", 0.0)
    rule = engine.layer_tuples if "window_mla" in kinds and engine.name == "vllm" and not engine.cpu else ""
    if rule:
        groups = padded_tuples([member for member in specs if member[1].kind != "ring"])
        of_blocks = tuple(slots(groups, stage, rule) for stage in of_stages)
    else:
        groups = group_layers(specs, packed=bool(_PACKED & kinds.keys()) and not engine.cpu)
        of_blocks = tuple(max(group.page(stage) for group in groups) for stage in of_stages)

    own_rows = wishes.kv_cache_dtype.startswith("fp8") and (model.quantization or {}).get("method") != "exl3"
    measured = _POOLED_TOKEN if pooled and engine.name == "vllm" and not own_rows else 0

    def most(one: Callable[[dict[str, Any]], float], chosen: list[dict[str, Any]]) -> int:
        """Of the stage that holds most."""
        return int(max(sum(one(p) * sum(at in stage for at in p["at"]) for p in chosen) for stage in of_stages))

    return Layout(
        engine=engine,
        kinds=dict(kinds),
        block_tokens=block,
        members=tuple(groups),
        stage_block_bytes=of_blocks,
        kv_bytes_per_token=max(measured, most(sizes.token, [p for p in parts if p["kind"] != "window_mla"])),
        state_bytes_per_seq=most(sizes.state, [part for part in parts if part["kind"] in STATES]),
        in_flight_tokens=in_flight_tokens(wishes, engine, pipeline),
        cells=cells(sizes, parts, of_stages),
        by_bytes=bool(rule) and engine.requests_by_bytes,
        approximate=rough[0],
        uncertainty=rough[1],
        measured_token=measured,
    )
