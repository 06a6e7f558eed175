# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""Damaged configs, odd wishes, odd nodes: always an answer, never a traceback or an absurd figure."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ansible_collections.gb10.serving.plugins.module_utils._inventory._build import inventory
from ansible_collections.gb10.serving.plugins.module_utils._model_config import essentials, quantization
from ansible_collections.gb10.serving.plugins.plugin_utils._memory import plan
from ansible_collections.gb10.serving.tests.unit.plugins.plugin_utils.memory_models import CONFIGS, GIB, nodes

QUICK = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
BAD_VALUES = st.one_of(
    st.none(),
    st.sampled_from(
        [0, -1, 1, 3, 7, 2**31, 10**18, 1.5, float("nan"), float("inf"), True, "", "x", "128", [], {}, [1]]
    ),
    st.integers(-5, 5000),
    st.lists(st.sampled_from(["full_attention", "linear_attention", "sliding_attention", "odd", 3, None]), max_size=70),
)
VERDICTS = ("fits", "borderline", "refused")


def _paths(config: dict[str, Any], at: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    found: list[tuple[str, ...]] = []
    for key, value in config.items():
        found.append((*at, key))
        if isinstance(value, dict):
            found += _paths(value, (*at, key))
    return found


@st.composite
def damaged(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    """A real-like config with up to four keys dropped or replaced."""
    name = draw(st.sampled_from(sorted(CONFIGS)))
    config = copy.deepcopy(CONFIGS[name])
    for _ in range(draw(st.integers(1, 4))):
        path = draw(st.sampled_from(_paths(config)))
        inside = config
        for key in path[:-1]:
            inside = inside[key]
        if draw(st.booleans()):
            inside[path[-1]] = draw(BAD_VALUES)
        else:
            del inside[path[-1]]
        if not config:
            break
    return name, config


def _model(config: dict[str, Any], weights: int | None = None) -> dict[str, Any]:
    numbers, problems = essentials(config)
    by_class, reason = inventory(config) if weights is None else ({"experts": weights}, None)
    assert all(isinstance(size, int) and size >= 0 for size in by_class.values())
    return {
        "config": numbers,
        "problems": problems,
        "quantization": quantization(config),
        "model_type": config.get("model_type"),
        "tensors": {"by_class": by_class, "source": "config.json" if by_class else None, "reason": reason},
    }


def check(answer: dict[str, Any]) -> None:
    assert answer["verdict"] in VERDICTS
    json.dumps(answer, allow_nan=False)
    sizes = [size for rank in answer["ranks"] for key, size in rank.items() if key.endswith("_bytes")]
    sizes += [term["bytes"] for term in answer["terms"]]
    sizes += [answer[key] for key in ("kv_cache_bytes", "kv_bytes_per_token", "state_bytes_per_seq", "request_bytes")]
    assert all(isinstance(size, int) and size >= 0 for size in sizes)
    assert 0 <= answer["gpu_memory_utilization"] <= 1
    if answer["verdict"] == "refused":
        assert answer["reasons"]
        assert answer["remedies"] or not answer["ranks"]
    if answer["verdict"] == "fits":
        for rank in answer["ranks"]:
            used = sum(
                rank[f"{part}_bytes"] for part in ("weights", "state", "kv", "activation", "graphs", "non_torch")
            )
            assert used <= rank["available_bytes"] <= rank["total_bytes"]
        assert answer["max_concurrency_estimate"] >= 1


@QUICK
@given(case=damaged(), count=st.integers(1, 4), engine=st.sampled_from(["vllm", "sglang"]), headers=st.booleans())
def test_damaged_configs(case: tuple[str, dict[str, Any]], count: int, engine: str, headers: bool) -> None:
    _name, config = case
    of = _model(config, 30 * GIB if headers else None)
    check(plan(nodes(count), of, {}, {"name": engine, "version": "0.32.0" if engine == "vllm" else "0.5.23"}))


NUMBERS = st.one_of(st.none(), st.integers(-3, 300000), st.sampled_from([2**60, 1.5, "8", True]))
SHARES = st.one_of(st.none(), st.floats(-1, 2), st.sampled_from([float("nan"), "0.8", 1]))


@QUICK
@given(
    name=st.sampled_from(["qwen3.5-122b-fp8", "llama-8b", "deepseek-v3", "gemma-3-27b", "tiny"]),
    wishes=st.fixed_dictionaries(
        {
            "tensor_parallel": st.one_of(st.none(), st.integers(-1, 9)),
            "pipeline_parallel": st.one_of(st.none(), st.integers(0, 5)),
            "context_length": NUMBERS,
            "max_num_seqs": NUMBERS,
            "max_num_batched_tokens": NUMBERS,
            "kv_cache_bytes": st.one_of(st.none(), st.integers(-1, 90 * GIB)),
            "reserve_bytes": st.one_of(st.none(), st.integers(-1, 200 * GIB)),
            "gpu_memory_utilization": SHARES,
            "speculative_tokens": st.integers(-1, 8),
            "kv_cache_dtype": st.sampled_from(["auto", "fp8", "", 8]),
        }
    ),
)
def test_odd_wishes(name: str, wishes: dict[str, Any]) -> None:
    answer = plan(nodes(3), _model(CONFIGS[name]), wishes, {"name": "vllm", "version": "0.32.0"})
    assert answer["verdict"] in VERDICTS
    json.dumps(answer, allow_nan=False)
    for rank in answer["ranks"]:
        assert all(size >= 0 for key, size in rank.items() if key.endswith("_bytes"))


@QUICK
@given(
    total=st.one_of(st.none(), st.integers(-1, 10**13), st.sampled_from([0, 1, 1.5, "x", True, 2**70])),
    available=st.one_of(st.none(), st.integers(-1, 10**13), st.sampled_from([0, 1, 1.5, "x", True])),
)
def test_odd_nodes(total: Any, available: Any) -> None:
    node = {"host": "a", "total_bytes": total, "available_bytes": available}
    check(plan([node], _model(CONFIGS["llama-8b"]), {}, {"name": "vllm"}))


@pytest.mark.parametrize("name", ["qwen3.5-122b-fp8", "llama-8b", "deepseek-v3"])
@pytest.mark.parametrize("key", ["num_hidden_layers", "num_attention_heads", "hidden_size", "vocab_size"])
@pytest.mark.parametrize("value", [0, -1, 1.5, "64", [], True])
def test_a_refusal_names_key_and_value(name: str, key: str, value: Any) -> None:
    config = copy.deepcopy(CONFIGS[name])
    config.get("text_config", config)[key] = value
    answer = plan(nodes(2), _model(config, 30 * GIB), {}, {"name": "vllm"})
    assert answer["verdict"] == "refused"
    told = " ".join(answer["reasons"])
    assert key in told
    assert repr(value) in told or isinstance(value, list)
