# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""KV layout against what engines printed: pool in GiB (two digits in the log) -> tokens or blocks."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gb10.serving.plugins.plugin_utils._memory_kv import Layout, layout
from ansible_collections.gb10.serving.plugins.plugin_utils._memory_model import Engine, Model, Wishes
from ansible_collections.gb10.serving.tests.unit.plugins.plugin_utils.memory_models import GIB, model

OLD, NEW = {"name": "vllm", "version": "0.20.1.dev0"}, {"name": "vllm", "version": "0.27.0"}
SGLANG = {"name": "sglang", "version": "0.5.23"}


def of(name: str, tp: int, engine: dict[str, Any], **wishes: Any) -> Layout:
    return layout(Model.of(model(name)), tp, Wishes(**wishes), Engine.of(engine))


# model, tp, engine, wishes, context, GiB in the log, tokens in the log
TOKENS = [
    ("qwen3.5-35b", 1, OLD, {}, 1048576, 44.47, 581856),
    ("qwen3.5-122b", 1, OLD, {"kv_cache_dtype": "fp8", "speculative_tokens": 1}, 262144, 24.05, 482080),
    ("qwen3.5-122b", 1, OLD, {"kv_cache_dtype": "fp8"}, 131072, 21.43, 467712),
    ("qwen3.5-27b", 1, NEW, {"prefix_caching": False}, 786432, 50.29, 820013),
    ("qwen3.5-27b", 1, NEW, {}, 262144, 19.54, 313650),
    ("qwen3-0.6b", 1, NEW, {}, 40960, 69.4, 649728),
    ("llama-8b", 1, NEW, {}, 131072, 56.21, 460496),
    ("minimax-m2", 4, NEW, {}, 196608, 23.62, 399424),
    ("glm-4.7-flash", 1, NEW, {}, 202752, 15.03, 298096),
    ("qwen2.5-1.5b", 1, SGLANG, {}, 32768, 41.6, 1557709),
]


@pytest.mark.parametrize(("name", "tp", "engine", "wishes", "length", "gib", "tokens"), TOKENS)
def test_the_token_count_is_the_one_that_the_engine_printed(
    name: str, tp: int, engine: dict[str, Any], wishes: dict[str, Any], length: int, gib: float, tokens: int
) -> None:
    pools = [int((gib + error) * GIB) for error in (-0.005, 0.005)]
    low, high = (of(name, tp, engine, **wishes).capacity(pool, length)[0] for pool in pools)
    assert low <= tokens <= high
    assert high - low <= tokens * 0.005, "the rounding of the log must not be what makes this pass"


# model, tp, GiB in the log, blocks in the log, groups
BLOCKS = [
    ("llama-70b-fp8", 2, 37.28, 15269, 1),
    ("gemma-3-27b", 1, 19.53, 15997, 7),
    ("gpt-oss-20b", 2, 59.32, 323972, 2),
]


@pytest.mark.parametrize(("name", "tp", "gib", "blocks", "groups"), BLOCKS)
def test_the_number_of_blocks_is_the_one_that_the_engine_printed(
    name: str, tp: int, gib: float, blocks: int, groups: int
) -> None:
    found = of(name, tp, NEW)
    assert sum(found.groups.values()) == groups
    low, high = (int((gib + error) * GIB) // found.bytes_per_block for error in (-0.005, 0.005))
    assert low <= blocks <= high


# model, tp, wishes -> block tokens, state of one layer
HYBRIDS = [
    ("qwen3.5-35b", 1, {}, 1056),
    ("qwen3.5-122b", 1, {"kv_cache_dtype": "fp8"}, 4176),
    ("qwen3.5-122b", 1, {"kv_cache_dtype": "fp8", "speculative_tokens": 1}, 4192),
    ("qwen3.5-122b", 2, {}, 2096),
    ("qwen3.5-27b", 1, {}, 784),
]


@pytest.mark.parametrize(("name", "tp", "wishes", "block"), HYBRIDS)
def test_the_block_of_a_hybrid_grows_until_a_state_fits(name: str, tp: int, wishes: dict[str, Any], block: int) -> None:
    found = of(name, tp, NEW, **wishes)
    assert found.block_tokens == block
    layers = {kind: count for kind, count in found.kinds.items() if count}
    state = found.state_bytes_per_seq // layers["gdn"]
    token = found.kv_bytes_per_token // layers["full"]
    assert found.page_bytes - 16 * token < state <= found.page_bytes == block * token


@pytest.mark.parametrize(
    ("name", "tp", "bytes_per_token"),
    [
        ("qwen3-0.6b", 1, 114688),
        ("llama-8b", 1, 131072),
        ("minimax-m2", 1, 253952),
        ("minimax-m2", 2, 126976),
        ("qwen3.5-35b", 1, 20480),
        ("qwen3.5-122b", 1, 24576),
        ("qwen3.5-122b", 2, 12288),
        ("qwen3.5-122b", 8, 12288),
        ("glm-4.6-fp8", 1, 376832),
        ("glm-4.7-flash", 1, 54144),
        ("glm-4.7-flash", 4, 54144),
        ("deepseek-v3", 8, 70272),
    ],
)
def test_bytes_per_token(name: str, tp: int, bytes_per_token: int) -> None:
    assert of(name, tp, NEW).kv_bytes_per_token == bytes_per_token


def test_fp8_halves_a_token() -> None:
    whole, half = of("llama-8b", 1, NEW), of("llama-8b", 1, NEW, kv_cache_dtype="fp8")
    assert half.kv_bytes_per_token * 2 == whole.kv_bytes_per_token


def test_the_request_that_did_not_start_needs_more_than_it_had() -> None:
    """MiniMax-M2.7 over two nodes: 'needs 23.25 GiB', 22.5 available, estimated maximum length 190,272."""
    found = of("minimax-m2", 2, NEW)
    assert round(found.request_bytes(196608) / GIB, 2) == 23.25
    assert found.needed(196608) > 22.5 * GIB
    assert found.longest(int(22.505 * GIB), 196608, 16) >= 190272 >= found.longest(int(22.495 * GIB), 196608, 16)


def test_an_engine_without_gpu_aligns_to_its_own_block() -> None:
    """The engine's log at tensor parallel 2, 256 MiB and 512 tokens: CPU KV cache size: 174,720 tokens."""
    found = of("tiny", 2, {"name": "vllm", "version": "0.32.0+cpu"})
    assert found.block_tokens == 384
    assert found.capacity(256 * 1024**2, 512) == (174720, 341.25)


def test_the_drafts_layer_changes_the_groups() -> None:
    assert of("qwen3.5-122b", 1, NEW).groups == {"full": 1, "linear": 3}
    drafted = of("qwen3.5-122b", 1, NEW, speculative_tokens=1, kv_cache_dtype="fp8")
    assert (drafted.group_size, drafted.groups) == (13, {"full": 1, "linear": 3})
    assert drafted.blocks_per_request(262144) == 72


def test_without_prefix_caching_a_request_keeps_one_state_less() -> None:
    kept, dropped = of("qwen3.5-122b", 2, NEW), of("qwen3.5-122b", 2, NEW, prefix_caching=False)
    assert kept.blocks_per_request(4096) - dropped.blocks_per_request(4096) == kept.groups["linear"]


def test_a_window_bounds_the_blocks_of_its_layers() -> None:
    found = of("gpt-oss-20b", 1, OLD, max_num_batched_tokens=2048)
    window = -(-(128 - 1 + 2048) // 16) + 1
    assert found.blocks_per_request(131072) == 131072 // 16 + window
    assert found.blocks_per_request(64) == 4 + (4 + 1), "a window may begin inside a block"
