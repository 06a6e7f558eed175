# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""The cache of every family against vLLM's own arithmetic, and what must hold of any config.json."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ansible_collections.gb10.serving.plugins.module_utils._model_config import essentials
from ansible_collections.gb10.serving.plugins.plugin_utils._memory_kv import Layout, layout
from ansible_collections.gb10.serving.plugins.plugin_utils._memory_model import Engine, Model, Wishes

FIXTURE = json.loads((Path(__file__).parents[2] / "fixtures" / "memory" / "kv_vllm.json").read_text(encoding="utf-8"))
MODELS = sorted(FIXTURE["models"])
ENGINE = Engine.of({"name": "vllm", "version": "0.32.0"})
SGLANG = Engine.of({"name": "sglang", "version": "0.5.23"})


def _plain(value: Any) -> Any:
    """Lists written as a pattern or as runs, in full."""
    if isinstance(value, dict) and "repeat" in value:
        return [value["repeat"][n % len(value["repeat"])] for n in range(value["length"])]
    if isinstance(value, dict) and "runs" in value:
        return [item for item, times in value["runs"] for _ in range(times)]
    return value


def config(name: str) -> dict[str, Any]:
    return {key: _plain(value) for key, value in FIXTURE["models"][name].items()}


def made(text: dict[str, Any], tp: int, wishes: Wishes, engine: Engine = ENGINE) -> Layout:
    numbers, problems = essentials(text)
    assert problems == []
    assert [what for what in numbers["not_modelled"] if "embedding" not in what] == []
    return layout(Model(numbers, {}, "nothing", None), tp, wishes, engine)


@pytest.mark.parametrize("name", MODELS)
def test_blocks_groups_and_tokens_are_those_of_vllm(name: str) -> None:
    rows = [row for row in FIXTURE["rows"] if row[0] == name]
    assert len(rows) >= 10
    for _name, tp, case, *expected in rows:
        pool, length, batched, fp8, spec, block, caching, stages = FIXTURE["cases"][case]
        wishes = Wishes(
            max_num_batched_tokens=batched,
            kv_cache_dtype="fp8" if fp8 else "auto",
            speculative_tokens=spec,
            block_size=block or None,
            prefix_caching=bool(caching),
            pipeline_parallel=stages,
        )
        found = made(config(name), tp, wishes)
        if expected[0] == -1:  # vLLM refuses to start, and says which length would do
            assert found.needed(length) > pool
            assert found.longest(pool, length, 1) == expected[1]
            continue
        tokens, concurrency = found.capacity(pool, length)
        blocks = [found.blocks(pool), len(found.members), found.block_tokens, found.bytes_per_block]
        assert [*blocks, found.request_bytes(length), tokens, round(concurrency, 6)] == expected, FIXTURE["cases"][case]
        assert found.needed(length) <= pool


def _with(name: str, **changes: Any) -> dict[str, Any]:
    return {**config(name), **changes}


GIB = 1024**3
V4_ROWS = {"max_num_batched_tokens": 4096, "speculative_tokens": 1}
DRAFT = {"kind": "full", "kv_heads": 4, "head_dim": 128, "value_head_dim": 128, "of": "draft", "layers": 8}
DSPARK = {"num_nextn_predict_layers": 1, "dspark_target_layer_ids": [40, 41, 42]}
# model, tp, engine version, wishes, context, GiB in the log, tokens in the log
LOGS = [
    ("gemma-4-26b-a4b-nvfp4", 1, "0.20.0", {"max_num_batched_tokens": 4096}, 8192, 40.61, 177440),
    ("gemma-4-26b-a4b-nvfp4", 1, "0.20.0", {"kv_cache_dtype": "fp8"}, 8192, 51.62, 451040),
    ("step-3.7-flash", 2, "0.22.1", {}, 32768, 2.27, 80308),
    ("qwen3.5-35b-a3b", 1, "0.20", {"kv_cache_dtype": "fp8", "speculative_tokens": 2}, 262144, 52.66, 1253392),
    ("qwen3.6-27b-nvfp4", 1, "0.27", {"kv_cache_dtype": "fp8", "speculative_tokens": 8}, 262144, 22.72, 586374),
    ("qwen3.8-flash-next", 1, "0.28.1", {"kv_cache_dtype": "fp8", "speculative_tokens": 3}, 262144, 13.32, 804247),
    ("deepseek-v4-flash", 2, "0.26.0", V4_ROWS, 912128, 7236 * 1039680 / GIB, 1009661),
    ("glm-5.2", 4, "0.30", {"speculative_tokens": 1}, 32768, 1.81e9 / GIB, 516 * 64),
]


def test_a_dspark_drafter_is_three_layers_of_the_windowed_groups() -> None:
    """Two nodes' log of 0.25.1: 1,306,505 tokens are 6975 blocks, 5598 for a request of 1 Mi."""
    wishes = Wishes(max_num_batched_tokens=4096, speculative_tokens=5)
    engine = Engine.of({"name": "vllm", "version": "0.25.1"})
    found = made({**config("deepseek-v4-flash"), **DSPARK}, 2, wishes, engine)
    assert (found.bytes_per_block, found.blocks_per_request(1 << 20)) == (1_077_120, 5598)
    assert found.capacity(6975 * 1_077_120, 1 << 20)[0] == 1_306_505
    without = made({**config("deepseek-v4-flash"), **DSPARK}, 2, Wishes(max_num_batched_tokens=4096), engine)
    assert without.bytes_per_block < found.bytes_per_block


@pytest.mark.parametrize(("name", "tp", "version", "wishes", "length", "gib", "tokens"), LOGS)
def test_the_token_count_is_the_one_in_the_log(
    name: str, tp: int, version: str, wishes: dict[str, Any], length: int, gib: float, tokens: int
) -> None:
    found = made(config(name), tp, Wishes(**wishes), Engine.of({"name": "vllm", "version": version}))
    low, high = (found.capacity(int((gib + error) * GIB), length)[0] for error in (-0.005, 0.005))
    assert low <= tokens <= high
    assert high - low <= tokens * 0.01


@pytest.mark.parametrize(
    ("speculative", "version", "length", "gib", "tokens"),
    [
        (15, "0.20.1.dev0", 262144, 62.81, 587504),
        (15, "0.20.1.dev0", 262144, 62.31, 582832),
        (15, "0.27", 262144, 62.74, 1241920),
        (6, "0.27", 200000, 71.59, 1470588),
    ],
)
def test_a_draft_model_of_eight_layers_has_a_group_of_its_own(
    speculative: int, version: str, length: int, gib: float, tokens: int
) -> None:
    numbers, _problems = essentials(config("qwen3.5-35b-a3b"))
    numbers["cache"] = [group for group in numbers["cache"] if group["of"] == "model"]
    numbers["cache"].append({**DRAFT, "at": list(range(100, 108))})
    wishes = Wishes(speculative_tokens=speculative, max_num_batched_tokens=65536)
    found = layout(Model(numbers, {}, "nothing", None), 1, wishes, Engine.of({"name": "vllm", "version": version}))
    assert (found.group_size, found.groups) == (8, {"linear": 4, "full": 3})
    low, high = (found.capacity(int((gib + error) * GIB), length)[0] for error in (-0.005, 0.005))
    assert low <= tokens <= high


def test_the_blocks_of_a_request_are_those_behind_the_ratio_in_the_log() -> None:
    """Two ranks: 1,603 and 1,662 blocks of the poorer one over 646 gave 2,481,424 and 2,572,755 tokens."""
    text = _with("qwen3.8-flash-next", mtp_num_hidden_layers=1)
    found = made(text, 2, Wishes(speculative_tokens=3))
    assert found.blocks_per_request(1_000_000) == 646
    for blocks, tokens in ((1603, 2481424), (1662, 2572755)):
        assert found.capacity(blocks * found.bytes_per_block, 1_000_000)[0] == tokens


@pytest.mark.parametrize(
    ("tp", "gib", "length", "tokens", "most"), [(4, 12, 262144, 786432, 0), (2, 15.67, 1000000, 1057491, 0.03)]
)
def test_pooled_index_keys_go_by_what_was_measured(tp: int, gib: float, length: int, tokens: int, most: float) -> None:
    found = made(config("glm-5.3-flash"), tp, Wishes())
    assert found.capacity(int(gib * GIB), length)[0] / tokens == pytest.approx(1, abs=most + 1e-9)
    assert found.uncertainty == 0.1
    assert made(config("glm-5.3-flash"), tp, Wishes(kv_cache_dtype="fp8")).request_bytes(length) < length * 16384


@pytest.mark.parametrize(("gib", "length", "tokens", "batched"), [(8.33, 1048576, 1306505, 4096)])
def test_compressed_attention_is_near_and_says_so(gib: float, length: int, tokens: int, batched: int) -> None:
    older = Engine.of({"name": "vllm", "version": "0.25.2"})
    found = made(config("deepseek-v4-flash"), 2, Wishes(max_num_batched_tokens=batched), older)
    assert "DeepSeek-V4" in found.approximate
    assert found.kv_bytes_per_token == 3850
    assert abs(found.capacity(int(gib * GIB), length)[0] / tokens - 1) < found.uncertainty
    assert made(config("deepseek-v4-flash"), 2, Wishes()).uncertainty == 0


def test_sglang_allocates_layers_that_share_a_cache_and_names_two_pools() -> None:
    """Its log: 79.94 GB, 997,846 tokens, 798,276 in the windowed layers."""
    found = made(config("gemma-4-e4b"), 1, Wishes(), SGLANG)
    low, high = (found.capacity(int((79.94 + error) * GIB), 4096)[0] for error in (-0.005, 0.005))
    assert low <= 997846 <= high
    assert found.cells.window_tokens(997846) == 798276
    assert made(config("gemma-4-e4b"), 1, Wishes()).kv_bytes_per_token < found.kv_bytes_per_token


HYBRID = {**config("qwen3.5-122b-a10b"), "architectures": ["Qwen3_5MoeForConditionalGeneration"]}


def test_sglang_gives_states_their_share() -> None:
    found = made(HYBRID, 1, Wishes(), SGLANG)
    state = found.cells.state
    tokens, requests = found.capacity(38 * GIB, 4096)
    slots = 18 * GIB // state - 1  # one is for padding
    assert found.cells.slots_of(38 * GIB) == slots and requests == slots // 5
    assert found.state_share(38 * GIB, 4096) == (slots + 1) * state
    assert tokens == (38 * GIB - (slots + 1) * state) // 24576
    assert found.request_bytes(4096) == 4096 * 24576 + 5 * state


# what the start is told -> slots of a request, slots of 38 GiB (None: by the ratio 0.9), requests at once
SLOTS: list[tuple[str, dict[str, Any], int, int | None]] = [
    ("0.5.23", {}, 5, None),
    ("0.5.14", {}, 5, None),
    ("0.5.13", {}, 3, None),
    ("0.5.23", {"pools": {"state_strategy": "no_buffer"}}, 3, None),
    ("0.5.23", {"pools": {"state_strategy": "extra_buffer_lazy"}}, 4, None),
    ("0.5.23", {"pools": {"state_strategy": "extra_buffer", "overlap": False}}, 4, None),
    ("0.5.23", {"pools": {"overlap": False}}, 3, None),
    ("0.5.10", {"pools": {"state_strategy": "extra_buffer"}}, 5, None),
    ("0.5.23", {"pools": {"state_slots": 40}}, 5, 40),
    ("0.5.23", {"prefix_caching": False, "max_num_seqs": 8}, 1, 8),
    ("0.5.10", {"prefix_caching": False, "max_num_seqs": 8}, 1, 8),
]


@pytest.mark.parametrize(("version", "asked", "each", "fixed"), SLOTS)
def test_sglang_has_slots_for_states(version: str, asked: dict[str, Any], each: int, fixed: int | None) -> None:
    engine = Engine.of({"name": "sglang", "version": version})
    cells = made(HYBRID, 1, Wishes(**asked), engine).cells
    padding = int(engine.since(0, 5, 17))
    slots = 18 * GIB // cells.state - padding if fixed is None else fixed
    assert (cells.slots, cells.slots_of(38 * GIB), cells.at_once(38 * GIB)) == (each, slots, slots // each)
    assert cells.state_share(38 * GIB) == (slots + padding) * cells.state
    for length in (100, 8192, 262144):
        assert cells.capacity(cells.needed(length), length)[1] >= 1
        assert cells.capacity(int(cells.needed(length) * 0.9), length)[1] < 1 or cells.needed(length) < GIB


def test_drafts_of_sglang_have_states_of_their_own() -> None:
    """A budget of states holds slots, and for each running request one state more than it drafts."""
    cells = made(HYBRID, 1, Wishes(speculative_tokens=3), SGLANG).cells
    assert cells.slots_of(38 * GIB) == (18 * GIB - 5 * cells.state) // (cells.state * (1 + 4 / 5))
    assert cells.state_share(38 * GIB) <= 18 * GIB
    assert cells.capacity(cells.needed(8192), 8192)[1] >= 1


@pytest.mark.parametrize(
    ("ratio", "length", "share"), [(None, 8192, 0.8), (0.1, 8192, 0.1), (0.8, 64, 0.8), (1.0, 64, 1)]
)
def test_windows_of_sglang_have_a_share_of_the_tokens(ratio: float | None, length: int, share: float) -> None:
    asked = Wishes(pools={"window_ratio": ratio} if ratio else {})
    cells = made(config("gpt-oss-120b"), 1, asked, SGLANG).cells
    tokens, requests = cells.capacity(10 * GIB, length)
    assert tokens == int(10 * GIB // (cells.full + share * cells.window))
    by_windows = cells.window_tokens(tokens) / min(length, 128)
    assert requests == pytest.approx(min(tokens / length, by_windows))
    assert cells.capacity(cells.needed(length), length)[1] >= 1


def test_stages_hold_a_share_of_the_layers_and_the_poorest_counts() -> None:
    whole, halves = (made(config("qwen3-8b"), 1, Wishes(pipeline_parallel=pp)) for pp in (1, 2))
    assert halves.kv_bytes_per_token * 2 == whole.kv_bytes_per_token
    uneven = made(config("deepseek-v3"), 1, Wishes(pipeline_parallel=4, speculative_tokens=1))
    assert [size // (16 * 1152) for size in uneven.stage_block_bytes] == [15, 15, 16, 16]
    assert uneven.blocks(0, stage_pools=(15 * 16 * 1152 * 9, 10**9, 10**9, 10**9)) == 9


def test_a_layout_takes_a_few_milliseconds() -> None:
    numbers, _problems = essentials(config("deepseek-v4-pro"))
    model, start = Model(numbers, {}, "nothing", None), time.process_time()
    for _ in range(10):
        layout(model, 4, Wishes(pipeline_parallel=2), ENGINE).longest(10 * GIB, 1 << 20)
    assert (time.process_time() - start) / 10 < 0.05


VALUES = st.one_of(
    st.none(), st.integers(-2, 3), st.integers(2**20, 2**70), st.floats(), st.booleans(), st.text(max_size=4),
    st.lists(st.integers(-1, 200), max_size=3), st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
)  # fmt: skip


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_any_config_gives_sentences_or_a_layout_that_makes_sense(data: st.DataObject) -> None:
    text = config(data.draw(st.sampled_from(MODELS)))
    for _ in range(data.draw(st.integers(1, 3))):
        key = data.draw(st.sampled_from(sorted(text)))
        if data.draw(st.booleans()) and isinstance(text[key], list | str) and text[key]:
            text[key] = text[key][: data.draw(st.integers(0, len(text[key])))]
        elif isinstance(text[key], dict) and text[key] and data.draw(st.booleans()):
            inner = data.draw(st.sampled_from(sorted(text[key])))
            text[key] = {**text[key], inner: data.draw(VALUES)}
        else:
            text[key] = data.draw(VALUES)
    numbers, problems = essentials(text)
    json.dumps(numbers)
    assert all(sentence.startswith("config.json: ") and "expected" in sentence for sentence in problems)
    if problems or numbers["not_modelled"] or not numbers["cache"]:
        return
    wishes = Wishes(speculative_tokens=data.draw(st.integers(0, 2)), pipeline_parallel=data.draw(st.integers(1, 3)))
    for engine in (ENGINE, SGLANG):
        found = layout(Model(numbers, {}, "nothing", None), data.draw(st.sampled_from([1, 2, 8])), wishes, engine)
        sizes = [found.request_bytes(length) for length in (1, 100, 5000, 100000)]
        assert sizes == sorted(sizes)
        assert sizes[0] > 0
        assert found.bytes_per_block > 0
        tokens, requests = found.capacity(found.needed(5000), 5000)
        assert requests >= 1 or engine is SGLANG
        assert 0 <= found.state_share(10**9, 5000) <= 10**9
        assert tokens >= 0
