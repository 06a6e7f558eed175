# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""What was seen to serve, to fail and to be close on GB10 nodes: the plan has to agree.

Each row: model, GiB of weights on each rank (None: from the config), nodes, GiB free before the start (None: the
prior), wishes.
"""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gb10.serving.plugins.plugin_utils._memory import plan
from ansible_collections.gb10.serving.tests.unit.plugins.plugin_utils.memory_models import GIB, model, nodes

VLLM = {"name": "vllm"}
Row = tuple[str, float | None, int, float | None, dict[str, Any]]


def _of(share: float, length: int, **more: Any) -> dict[str, Any]:
    return {"gpu_memory_utilization": share, "context_length": length, **more}


EAGER = {"enforce_eager": True, "max_num_seqs": 1}
MTP = {"kv_cache_dtype": "fp8", "speculative_tokens": 1}
SERVED: list[Row] = [
    ("qwen3.5-35b", 65.53, 1, None, _of(0.95, 262144)),
    ("qwen3.5-35b", 22.84, 1, None, _of(0.85, 262144, max_num_batched_tokens=65536)),
    ("gemma-4-26b", 48.5, 1, None, _of(0.80, 8192, max_num_batched_tokens=4096)),
    ("qwen3.5-122b", 62.65, 1, None, _of(0.85, 262144)),
    ("qwen3.5-122b", 75.17, 1, None, _of(0.85, 262144, **MTP)),
    ("nemotron-3-super", 75.0, 1, None, _of(0.80, 262144)),
    ("nemotron-3-super", 75.0, 1, None, _of(0.85, 262144)),
    ("laguna-s", 95.63, 1, None, _of(0.89, 65536)),
    ("minimax-m2", 61.0, 2, None, _of(0.85, 196608)),
    ("qwen3-235b-fp8", 57.64, 2, None, _of(0.87, 40960, kv_cache_dtype="fp8")),
    ("deepseek-v4-flash", 79.07, 2, None, _of(0.80, 1048576)),
    ("deepseek-v4-flash", 80.84, 2, None, _of(0.87, 1048576, max_num_batched_tokens=4096)),
    ("step-3.7-fp8", 90.5, 2, None, _of(0.87, 32768, **EAGER)),
    ("qwen3.5-397b-fp8", 51.0, 4, None, {"context_length": 262144}),
    ("deepseek-v4-flash", 73.16, 8, None, _of(0.80, 300000)),
    ("glm-5.2", 104.0, 4, None, {"context_length": 16384, "kv_cache_bytes": 1_811_939_328}),
    ("glm-4.6-fp8", None, 4, None, {"context_length": 32768}),
    ("llama-70b-fp8", None, 1, None, {"context_length": 8192}),
    ("llama-70b-fp8", None, 2, None, {"context_length": 65536}),
]
# nothing short of refusal will do: the start is known to stop, or the weights alone are too large
REFUSED: list[Row] = [
    ("laguna-s", 95.63, 1, 110.73, _of(0.92, 65536)),
    ("deepseek-v4-flash", 94.0, 2, 111.07, _of(0.92, 32768)),
    ("deepseek-v4-flash", 82.06, 2, 104.87, _of(0.87, 262144)),
    ("step-3.7-fp8", 90.5, 2, None, _of(0.85, 32768, max_num_batched_tokens=16384, max_num_seqs=4)),
    ("deepseek-v4-flash", 94.0, 2, None, _of(0.80, 32768)),
    ("deepseek-v4-flash", 143.0, 2, None, {}),
    ("qwen3-next-fp8", 74.6, 1, 14.0 + 74.6, _of(0.75, 8192)),
    ("qwen3.5-122b-fp8", None, 1, None, {}),
    ("minimax-m2", None, 2, None, {}),
    ("glm-4.6-fp8", None, 2, None, {}),
    ("kimi-k2-fp8", 141.0, 4, None, {}),
    ("deepseek-v3.2", None, 4, None, {}),
    ("deepseek-v3.2", 188.0, 2, None, {}),
    ("laguna-s", 70.0, 1, None, _of(0.97, 8192)),
]
# failed, and close enough that a warning is an honest answer too
FAILED: list[Row] = [
    ("minimax-m2", 61.0, 2, None, _of(0.80, 196608, load_format="fastsafetensors")),
    ("glm-4.6-fp8", 104.0, 2, None, {"context_length": 32768}),
    ("deepseek-v4-flash", 94.0, 2, None, _of(0.86, 32768)),
    ("laguna-s", 95.63, 1, None, _of(0.92, 65536)),
]
CLOSE: list[Row] = [
    ("qwen3.5-397b-fp8", None, 4, None, {"context_length": 32768}),
    ("qwen3.5-397b-fp8", 98.0, 2, None, {"context_length": 8192}),
    ("deepseek-v3.2", 95.0, 4, None, {"context_length": 16384}),
    ("glm-5.2", 105.0, 4, None, {"context_length": 8192}),
    ("gemma-4-26b", 48.5, 1, 60.0, {"context_length": 8192, "reserve_bytes": 2 * GIB, "max_num_batched_tokens": 4096}),
]


def _verdict(row: Row) -> tuple[str, list[str]]:
    name, weights, count, free, wishes = row
    of = model(name, None if weights is None else weights * count)
    if weights is not None:
        of["config"]["max_position_embeddings"] = max(
            of["config"]["max_position_embeddings"], wishes.get("context_length", 0)
        )
    answer = plan(nodes(count, free), of, {"tensor_parallel": count, **wishes}, VLLM)
    return answer["verdict"], answer["reasons"]


def _names(rows: list[Row]) -> list[str]:
    return [f"{row[0]} x{row[2]} {row[4].get('gpu_memory_utilization', '')}" for row in rows]


@pytest.mark.parametrize("row", SERVED, ids=_names(SERVED))
def test_what_served_is_accepted(row: Row) -> None:
    verdict, why = _verdict(row)
    assert verdict in ("fits", "borderline"), why


@pytest.mark.parametrize("row", REFUSED, ids=_names(REFUSED))
def test_what_cannot_start_is_refused(row: Row) -> None:
    verdict, why = _verdict(row)
    assert verdict == "refused"
    assert why


@pytest.mark.parametrize("row", FAILED, ids=_names(FAILED))
def test_what_failed_narrowly_is_no_plain_fit(row: Row) -> None:
    verdict, why = _verdict(row)
    assert verdict != "fits"
    assert why


@pytest.mark.parametrize("row", CLOSE, ids=_names(CLOSE))
def test_what_is_close_is_called_close(row: Row) -> None:
    assert _verdict(row)[0] == "borderline"


@pytest.mark.parametrize(
    ("share", "free", "words"),
    [
        (0.92, 110.73, "Free memory on device cuda:0 (110.73/121.65 GiB) on startup is less than desired"),
        (0.89, 110.0, "leaves 1.7 GiB to the system on spark-a, less than the reserve 8.0 GiB"),
        (0.90, 110.0, "stop answering"),
        (0.85, None, "stops where less is free. A GB10 usually has"),
        (0.92, None, "at its start and usually stops. A GB10 usually has"),
        (0.99, None, "on startup is less than desired"),
    ],
)
def test_the_share_is_checked_against_what_is_free(share: float, free: float | None, words: str) -> None:
    answer = plan(nodes(1, free), model("llama-8b", 40.0), _of(share, 8192), VLLM)
    assert words in " ".join(answer["reasons"])
    assert answer["changes"][0]["settings"] == {"gb10_plan_gpu_memory_utilization": 0}
    assert answer["changes"][0]["verdict"] == "fits"


def test_a_share_that_leaves_enough_fits_and_gets_the_engines_own_pool() -> None:
    answer = plan(nodes(1, 110.0), model("llama-8b", 40.0), _of(0.80, 8192), VLLM)
    rank = answer["ranks"][0]
    assert answer["verdict"] == "fits"
    taken = sum(rank[f"{part}_bytes"] for part in ("weights", "activation", "graphs", "non_torch"))
    assert rank["total_bytes"] * 0.80 - taken - answer["kv_cache_bytes"] == pytest.approx(0, abs=1024**2)


def test_graphs_come_on_top_of_an_old_engines_budget() -> None:
    pools = [
        plan(nodes(1), model("llama-8b", 40.0), _of(0.8, 8192), {"name": "vllm", "version": version})["kv_cache_bytes"]
        for version in ("0.20.2", "0.21.0")
    ]
    assert (pools[0] - pools[1]) / GIB == pytest.approx(0.7, abs=0.01)


def test_a_reserve_that_leaves_nothing_is_refused_and_named() -> None:
    found = plan(
        [{"host": "a"}], model("qwen3-235b-fp8", weights_gib=16), {"reserve_bytes": 105 * GIB}, {"name": "vllm"}
    )
    assert found["verdict"] == "refused"
    assert "105.0 GiB reserve" in found["reasons"][0]
