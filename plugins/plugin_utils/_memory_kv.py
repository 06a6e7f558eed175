# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
#
# Private to this collection: may change without notice.
"""KV cache and linear-attention state of one rank, as the engines lay them out. Pure.

vLLM keeps one pool of equal blocks. A hybrid's attention block grows until one linear-attention state fits into a page,
and layers of one kind are put into groups of equal size, the last one padded. SGLang splits its pool into cells and
state slots.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ansible_collections.gb10.serving.plugins.module_utils._model_config import DTYPE_BYTES
from ansible_collections.gb10.serving.plugins.plugin_utils._memory_model import Engine, Model, Wishes

SGLANG_STATE_RATIO = 0.9  # mamba_full_memory_ratio
SGLANG_SLOTS_PER_REQUEST = 3  # with the radix cache


def attention_bytes(model: Model, tp: int, kv_dtype: str) -> int:
    """Bytes that one token takes in one attention layer of one rank."""
    c, size = model.config, model.kv_dtype_bytes(kv_dtype)
    if model.mla:  # the latent is on every rank in full
        return int((model.mla["kv_lora_rank"] + (model.mla.get("qk_rope_head_dim") or 0)) * size)
    heads = max(1, c["num_key_value_heads"] // tp)
    return int(heads * (c["head_dim"] + (c.get("value_head_dim") or c["head_dim"])) * size)


def state_bytes(model: Model, tp: int, speculative_tokens: int) -> int:
    """Bytes of one sequence's state in one linear-attention layer of one rank: convolution window + recurrent state."""
    lin = model.config.get("linear")
    if not lin:
        return 0
    channels = 2 * lin["key_heads"] * lin["key_head_dim"] + lin["value_heads"] * lin["value_head_dim"]
    conv = (lin["conv_kernel"] - 1 + speculative_tokens) * (channels // tp) * model.dtype_bytes
    ssm_size = DTYPE_BYTES.get(str(lin.get("ssm_dtype")), model.dtype_bytes)
    ssm = (lin["value_heads"] // tp) * lin["value_head_dim"] * lin["key_head_dim"] * ssm_size
    return int(conv + ssm)


@dataclass(frozen=True)
class Layout:
    """How the pool of one rank is divided."""

    engine: Engine
    kinds: dict[str, int]
    token_layer_bytes: int
    state_layer_bytes: int
    block_tokens: int
    group_size: int
    groups: dict[str, int]
    linear_blocks: int  # of one request in each linear group
    sliding_window: int
    in_flight_tokens: int

    @property
    def page_bytes(self) -> int:
        return self.block_tokens * self.token_layer_bytes

    @property
    def bytes_per_block(self) -> int:
        return self.group_size * self.page_bytes

    @property
    def kv_bytes_per_token(self) -> int:
        return self.token_layer_bytes * (self.kinds.get("full", 0) + self.kinds.get("sliding", 0))

    @property
    def state_bytes_per_seq(self) -> int:
        return self.state_layer_bytes * self.kinds.get("linear", 0)

    def blocks_per_request(self, length: int) -> int:
        full = math.ceil(length / self.block_tokens)
        window = math.ceil((self.sliding_window - 1 + self.in_flight_tokens) / self.block_tokens) + 1
        return (
            self.groups.get("full", 0) * full
            + self.groups.get("sliding", 0) * min(full, window)
            + self.groups.get("linear", 0) * self.linear_blocks
        )

    def request_bytes(self, length: int) -> int:
        """What one request of this length takes from the pool."""
        if self.engine.name == "sglang":
            need = length * self.kv_bytes_per_token
            if self.state_bytes_per_seq:
                slots = SGLANG_SLOTS_PER_REQUEST * self.state_bytes_per_seq
                ratio = SGLANG_STATE_RATIO
                need = math.ceil(max(need * (1 + ratio), slots * (1 + ratio) / ratio))
            return need
        return self.blocks_per_request(length) * self.bytes_per_block

    def needed(self, length: int) -> int:
        """The smallest pool that serves one request: vLLM holds one block back."""
        return self.request_bytes(length) + (0 if self.engine.name == "sglang" else self.bytes_per_block)

    def capacity(self, pool: int, length: int) -> tuple[int, float]:
        """(tokens as the engine's log will say, requests of this length at once)."""
        if pool <= 0:
            return 0, 0.0
        if self.engine.name == "sglang":
            state = self.state_bytes_per_seq
            part = pool / (1 + SGLANG_STATE_RATIO) if state else pool
            tokens = int(part // self.kv_bytes_per_token)
            limit = tokens / length
            if state:
                limit = min(limit, int((pool - part) // state) // SGLANG_SLOTS_PER_REQUEST)
            return tokens, limit
        blocks = pool // self.bytes_per_block
        concurrency = blocks / self.blocks_per_request(length)
        if self.engine.report_by_concurrency:
            return int(concurrency * length), concurrency
        return blocks // sum(self.groups.values()) * self.block_tokens, concurrency

    def state_share(self, pool: int, length: int) -> int:
        """The part of the pool that holds states when it is full of requests of this length."""
        if not self.groups.get("linear"):
            return 0
        if self.engine.name == "sglang":
            return int(pool * SGLANG_STATE_RATIO / (1 + SGLANG_STATE_RATIO))
        return pool * self.groups["linear"] * self.linear_blocks // self.blocks_per_request(length)

    def longest(self, pool: int, limit: int, step: int = 1024) -> int:
        """The longest context, a multiple of step, of which one request fits; 0 if none does."""
        low, high = 0, limit // step
        while low < high:
            middle = (low + high + 1) // 2
            if self.needed(middle * step) <= pool:
                low = middle
            else:
                high = middle - 1
        return low * step


def layout(model: Model, tp: int, wishes: Wishes, engine: Engine) -> Layout:
    """Unify pages and group layers (vLLM's rules)."""
    spec = wishes.speculative_tokens
    token = attention_bytes(model, tp, wishes.kv_cache_dtype)
    state = state_bytes(model, tp, spec)
    kinds = {kind: count for kind, count in model.kinds(spec).items() if count}
    block = wishes.block_size or engine.block_tokens
    if kinds.get("linear") and state:
        align = max(block, 128) if model.mla else block
        block = max(block, align * math.ceil(state / (align * token)))
    smallest, largest = min(kinds.values()), max(kinds.values())
    size = largest if largest < 1.5 * smallest else smallest
    return Layout(
        engine=engine,
        kinds=kinds,
        token_layer_bytes=token,
        state_layer_bytes=state,
        block_tokens=block,
        group_size=size,
        groups={kind: math.ceil(count / size) for kind, count in kinds.items()},
        linear_blocks=(2 if wishes.prefix_caching else 1) + spec,
        sliding_window=model.config.get("sliding_window") or 0,
        in_flight_tokens=engine.in_flight_batches * wishes.batched_tokens,
    )
