# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
#
# Private to this collection: may change without notice.
"""What one block of one layer takes on one rank, and how many blocks a request needs of it. Pure; vLLM's rules.

A block of attention holds tokens; a block of a state holds one state. In a hybrid the attention block grows until one
state fits into its page, and the state's page is padded up to it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from ansible_collections.gb10.serving.plugins.module_utils._model_config import DTYPE_BYTES
from ansible_collections.gb10.serving.plugins.plugin_utils._memory_model import Engine, Model, Wishes

STATES = ("gdn", "mamba2", "kda", "conv")
_SPARSE_BYTES = 656  # a latent as the sparse kernels of this GPU keep it: 512 fp8 + 16 of scales + 64 bf16
_PACKED_BYTES, _PACKED_ALIGN = 584, 576  # DeepSeek-V4's row and the alignment of its pages
_KERNEL_BLOCK = 16


def _up(value: int, step: int) -> int:
    return math.ceil(value / step) * step


@dataclass(frozen=True)
class Spec:
    """One block of one layer. Layers with equal specs can share a group."""

    kind: str  # full, sliding, sliding_latent, chunked, state or ring
    block: int  # tokens; of a state, nothing
    page: int  # bytes
    window: int = 0
    blocks: int = 0  # of one request, for states and rings
    variant: str = ""  # what else must be equal

    @property
    def family(self) -> tuple[object, ...]:
        """Specs of one family need the same number of blocks, whatever their pages."""
        if self.kind == "state":
            return (self.kind, self.blocks, self.page, self.variant)
        return (self.kind, self.block, self.window)

    def blocks_of(self, length: int, in_flight: int) -> int:
        """Blocks that a request of this length is admitted with."""
        if self.kind in ("state", "ring"):
            return self.blocks
        if self.kind.startswith("sliding"):
            return math.ceil(min(self.window - 1 + in_flight, length) / self.block) + 1
        if self.kind == "chunked":
            return math.ceil(min(self.window + in_flight, length) / self.block)
        return math.ceil(length / self.block)


@dataclass(frozen=True)
class Sizes:
    """The inputs that turn a layer's part into bytes."""

    model: Model
    tp: int
    wishes: Wishes
    engine: Engine

    @property
    def cache_bytes(self) -> int:
        return self.model.kv_dtype_bytes(self.wishes.kv_cache_dtype)

    @property
    def spec_tokens(self) -> int:
        return self.wishes.speculative_tokens

    def token(self, part: dict[str, Any]) -> float:
        """Bytes of one token in one layer of one rank, for as long as it is kept."""
        kind, ratio = part["kind"], part.get("ratio") or 1
        if kind in ("full", "sliding", "chunked"):
            heads = max(1, part["kv_heads"] // self.tp)
            return heads * (part["head_dim"] + part["value_head_dim"]) * self.cache_bytes
        if kind == "mla":  # the latent is on every rank in full
            if part["sparse"] and (self.engine.name == "vllm" or self.cache_bytes == 1):
                return _SPARSE_BYTES
            return (part["latent"] + part["rope"]) * self.cache_bytes
        if kind == "index":
            size = part["head_dim"]
            if part["dtype"] == "fp8":
                return (size + size // 128 * 4) / ratio
            return size * self.model.dtype_bytes / ratio
        if kind in ("window_mla", "compressed"):
            return _PACKED_BYTES / ratio
        return 0.0

    def state(self, part: dict[str, Any]) -> int:
        """Bytes of one state in one layer of one rank: a convolution's window and a recurrent state."""
        kind, more = part["kind"], self.spec_tokens
        plain = self.model.dtype_bytes
        wide = DTYPE_BYTES.get(str(part.get("state_dtype")), plain)
        if kind == "gdn":
            channels = 2 * part["key_heads"] * part["key_head_dim"] + part["value_heads"] * part["value_head_dim"]
            matrix = (part["value_heads"] // self.tp) * part["value_head_dim"] * part["key_head_dim"]
        elif kind == "mamba2":
            groups = part["groups"] if part["groups"] % self.tp == 0 else self.tp
            channels = part["heads"] * part["head_dim"] + 2 * groups * part["state"]
            matrix = (part["heads"] // self.tp) * part["head_dim"] * part["state"]
        elif kind == "kda":
            channels, wide = 3 * part["heads"] * part["head_dim"], 4
            matrix = (part["heads"] // self.tp) * part["head_dim"] ** 2
        elif kind == "conv":  # on every rank in full
            return int((part["window"] + more) * part["width"] * plain)
        else:
            return 0
        return int((part["conv_kernel"] - 1 + more) * (channels // self.tp) * plain + matrix * wide)

    def state_blocks(self, part: dict[str, Any]) -> int:
        if not self.wishes.prefix_caching:
            return 1 + self.spec_tokens
        checkpoint = self.engine.since(0, 32) and (part["kind"] == "mamba2" or bool(part.get("checkpoint")))
        return 2 + self.spec_tokens + int(checkpoint)


def parts_of(model: Model, wishes: Wishes, engine: Engine) -> list[dict[str, Any]]:
    """The groups of layers that an engine allocates a cache for."""
    wanted = {"model"}
    if wishes.speculative_tokens:
        wanted |= {"mtp", "draft"}
    if engine.name == "sglang":
        wanted.add("shared")
    return [group for group in model.config.get("cache") or [] if group["of"] in wanted]


def block_tokens(sizes: Sizes, parts: list[dict[str, Any]]) -> int:
    """Tokens of an attention block: the kernels' wish, or --block-size, grown until a state fits."""
    kinds = {part["kind"] for part in parts}
    block = sizes.engine.block_tokens
    step = _KERNEL_BLOCK
    if sizes.engine.cpu and "mla" in kinds:
        block = _KERNEL_BLOCK
    if "compressed" in kinds or "window_mla" in kinds:
        block = step = 256
    elif any(part["kind"] == "mla" and part["sparse"] for part in parts):
        pool = max([part["ratio"] for part in parts if part["kind"] == "index"] or [1])
        block = step = 64 * pool
    elif any(part["kind"] == "index" and part["ratio"] == 1 for part in parts):  # MiniMax-M3
        block = step = 128
    if sizes.wishes.block_size and sizes.wishes.block_size % step == 0:
        block = sizes.wishes.block_size
    state = max((sizes.state(part) for part in parts if part["kind"] in STATES), default=0)
    attention = [part for part in parts if part["kind"] in ("full", "mla")]
    if state and attention:
        token = max(1, _aligning_token(sizes, attention[0]))
        align = max(block, 128) if attention[0]["kind"] == "mla" else block
        block = max(block, _up(align * math.ceil(state / (align * token)), step))
    return block


def _aligning_token(sizes: Sizes, part: dict[str, Any]) -> int:
    """The token that states are aligned to: a sparse latent counts without its scales."""
    if part["kind"] == "mla":
        return int((part["latent"] + part["rope"]) * (1 if part["sparse"] else sizes.cache_bytes))
    return int(sizes.token(part))


def layer_specs(sizes: Sizes, parts: list[dict[str, Any]]) -> tuple[list[tuple[int, Spec]], int]:
    """((layer, what one of its blocks is), in the order of the layers; tokens of a block)."""
    block = block_tokens(sizes, parts)
    attention = next((part for part in parts if part["kind"] in ("full", "mla")), None)
    padded = block * _aligning_token(sizes, attention) if attention else 0
    found: list[tuple[int, int, Spec]] = []
    for order, part in enumerate(parts):
        spec = _spec(sizes, part, block, padded)
        found += [(at, order, spec) for at in part["at"]]
    found.sort(key=lambda item: item[:2])
    return [(at, spec) for at, _order, spec in found], block


def _spec(sizes: Sizes, part: dict[str, Any], block: int, padded: int) -> Spec:
    spec = _spec_of(sizes, part, block, padded)
    return spec if spec.page > 0 else replace(spec, page=1)


def _spec_of(sizes: Sizes, part: dict[str, Any], block: int, padded: int) -> Spec:
    kind = part["kind"]
    if kind in STATES:
        variant = "everywhere" if kind == "conv" else ""
        return Spec("state", 0, max(sizes.state(part), padded), 0, sizes.state_blocks(part), variant)
    if kind == "ring":
        return _ring(sizes, part)
    if kind == "window_mla":
        return Spec("sliding_latent", 64, _up(64 * _PACKED_BYTES, _PACKED_ALIGN), part["window"])
    if kind == "compressor":
        return _compressor(part)
    if kind == "compressed" or (kind == "index" and padded == 0):
        rows = block // part["ratio"]
        page = round(sizes.token(part) * part["ratio"]) * rows
        return Spec("full", block, _up(page, _PACKED_ALIGN), variant=f"{kind}{part['ratio']}")
    if kind == "index":
        return Spec("full", block, round(sizes.token(part) * part["ratio"]) * (block // part["ratio"]), variant=kind)
    if kind == "mla":
        return Spec("full", block, int(block * sizes.token(part)), variant=kind)
    variant = f"{max(1, part['kv_heads'] // sizes.tp)}x{part['head_dim']}+{part['value_head_dim']}"
    page = int(block * sizes.token(part))
    if kind == "full" or (kind == "chunked" and sizes.spec_tokens):  # a draft makes vLLM keep every chunk
        return Spec("full", block, page, variant=variant)
    more = _retained(sizes) if kind == "sliding" else 0
    return Spec(kind, block, page, part["window"] + more, variant=variant)


def _retained(sizes: Sizes) -> int:
    """Tokens kept below a window because several drafting layers read them again."""
    modules = sum(part["layers"] for part in sizes.model.config.get("cache") or [] if part["of"] == "mtp")
    return sizes.spec_tokens - 1 if min(modules, sizes.spec_tokens) > 1 and sizes.engine.since(0, 30) else 0


def _ring(sizes: Sizes, part: dict[str, Any]) -> Spec:
    groups = math.ceil((part["ratio"] + sizes.spec_tokens) / part["ratio"])
    if part["power"]:
        groups = 1 << (groups - 1).bit_length()
    tokens = part["ratio"] * groups
    return Spec("ring", tokens, tokens * part["bytes"], blocks=1)


def _compressor(part: dict[str, Any]) -> Spec:
    """Keys and scores, in float32, that are still being compressed."""
    overlap = 2 if part["ratio"] == 4 else 1
    block = 4 if part["ratio"] == 4 else 8
    page = _up(block * 2 * overlap * part["head_dim"] * 4, _PACKED_ALIGN)
    return Spec("sliding_latent", block, page, overlap * part["ratio"])
