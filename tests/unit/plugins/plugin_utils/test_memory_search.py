# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""What was left open is picked and explained; what a change promises holds when it is made."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gb10.serving.plugins.plugin_utils._memory import plan
from ansible_collections.gb10.serving.plugins.plugin_utils._memory_model import Wishes
from ansible_collections.gb10.serving.plugins.plugin_utils._memory_nodes import read_nodes
from ansible_collections.gb10.serving.tests.unit.plugins.plugin_utils.memory_models import GIB, model, nodes

VLLM = {"name": "vllm"}
WISH = {
    "gb10_plan_tp": "tensor_parallel",
    "gb10_plan_pp": "pipeline_parallel",
    "gb10_plan_ep": "expert_parallel",
    "gb10_plan_context_length": "context_length",
    "gb10_plan_max_num_seqs": "max_num_seqs",
    "gb10_plan_max_num_batched_tokens": "max_num_batched_tokens",
    "gb10_plan_kv_cache_dtype": "kv_cache_dtype",
    "gb10_plan_gpu_memory_utilization": "gpu_memory_utilization",
    "gb10_plan_mem_fraction_static": "mem_fraction_static",
    "gb10_plan_speculative_tokens": "speculative_tokens",
}
ARGUMENT: dict[str, dict[str, Any]] = {
    "--speculative-config": {"speculative_tokens": 0},
    "--load-format": {"load_format": "auto"},
    "--language-model-only": {"language_model_only": True},
    "--enforce-eager": {"enforce_eager": True},
}


def _made(wishes: dict[str, Any], settings: dict[str, Any]) -> dict[str, Any]:
    """The wishes after a change was made as its settings say."""
    made = dict(wishes)
    for variable, value in settings.items():
        if variable == "gb10_server_args":
            for argument in (*value["add"], *value["remove"]):
                made.update(ARGUMENT[argument])
        elif variable == "gb10_plan_kv_cache_gib":
            made["kv_cache_bytes"] = int(value * GIB) or None
        elif variable in WISH:
            made[WISH[variable]] = value or None
    return made


# model, GiB of weights in all, nodes, GiB free, wishes
TIGHT: list[tuple[str, float | None, int, float | None, dict[str, Any]]] = [
    ("llama-8b", 55.0, 1, 80.0, {"context_length": 131072}),
    ("llama-8b", 55.0, 1, 85.0, {"context_length": 131072, "kv_cache_dtype": "fp8", "kv_cache_bytes": GIB}),
    ("llama-8b", 55.0, 1, 109.0, {"context_length": 131072, "kv_cache_bytes": 95 * GIB}),
    ("qwen3.5-122b", 75.0, 1, 109.0, {"context_length": 8192, "max_num_batched_tokens": 65536}),
    ("qwen3.5-122b", 94.0, 1, 109.0, {"context_length": 16384, "speculative_tokens": 2}),
    ("qwen3.5-122b", 91.0, 1, 109.0, {"context_length": 65536, "load_format": "fastsafetensors"}),
    ("qwen3.5-122b-fp8", None, 1, 109.0, {}),
    ("glm-4.6-fp8", None, 2, 109.0, {"context_length": 32768}),
    ("minimax-m2", 120.0, 2, 109.0, {"context_length": 196608, "gpu_memory_utilization": 0.75}),
    ("llama-8b", 60.0, 1, 110.0, {"context_length": 8192, "gpu_memory_utilization": 0.92}),
]


@pytest.mark.parametrize(("name", "weights", "count", "free", "wishes"), TIGHT)
def test_a_change_keeps_its_promise(
    name: str, weights: float | None, count: int, free: float | None, wishes: dict[str, Any]
) -> None:
    of, asked = model(name, weights), {"max_num_seqs": 256, "tensor_parallel": count, **wishes}
    answer = plan(nodes(count, free), of, asked, VLLM)
    assert answer["verdict"] != "fits"
    assert answer["changes"]
    assert [change["change"] for change in answer["changes"]] == answer["remedies"]
    order = ("fits", "borderline", "refused")
    for change in answer["changes"]:
        if change["verdict"] is None or "gb10_model_id" in change["settings"]:
            continue
        assert order.index(change["verdict"]) < order.index(answer["verdict"]), change
        assert change["effect_bytes"] > 0
        size = change["settings"].get("gb10_plan_nodes", count)
        again = plan(nodes(size, free), of, _made(asked, change["settings"]), VLLM)
        assert again["verdict"] == change["verdict"], (change, again["reasons"])


def test_the_cheapest_change_comes_first() -> None:
    wishes = {"context_length": 32768, "max_num_batched_tokens": 16384, "speculative_tokens": 1}
    answer = plan(nodes(1), model("qwen3.5-122b", 91.0), wishes, VLLM)
    assert answer["verdict"] == "refused"
    found = [(change["verdict"], next(iter(change["settings"]))) for change in answer["changes"]]
    assert [verdict for verdict, _name in found] == sorted((v for v, _name in found), key=("fits", "borderline").index)
    some = [name for verdict, name in found if verdict == "borderline"]
    assert some[0] == "gb10_plan_max_num_batched_tokens"
    all_of_it = [name for verdict, name in found if verdict == "fits"]
    assert all_of_it.index("gb10_model_id") < all_of_it.index("gb10_plan_nodes")


# model, nodes, wishes -> (tp, pp), words on a layout that was not taken
LAYOUTS: list[tuple[str, int, dict[str, Any], tuple[int, int], str]] = [
    ("qwen3.5-122b-fp8", 2, {}, (2, 1), "taken"),
    ("qwen3.5-122b-fp8", 4, {}, (4, 1), "taken"),
    ("qwen3.5-122b-fp8", 3, {}, (1, 3), "must be divisible by tensor parallel size (3)"),
    ("qwen3.5-122b-fp8", 2, {"pipeline_parallel": 2}, (1, 2), "taken"),
    ("glm-4.7-flash", 8, {}, (4, 2), "(20) must be divisible by tensor parallel size (8)"),
    ("llama-8b", 2, {"tensor_parallel": 1}, (1, 1), "taken"),
]


@pytest.mark.parametrize(("name", "count", "wishes", "taken", "words"), LAYOUTS)
def test_ranks_are_laid_out_over_all_nodes(
    name: str, count: int, wishes: dict[str, Any], taken: tuple[int, int], words: str
) -> None:
    answer = plan(nodes(count), model(name), {"context_length": 8192, **wishes}, VLLM)
    assert (answer["settings"]["tp"], answer["settings"]["pp"]) == taken
    assert answer["world_size"] == len(answer["ranks"]) == taken[0] * taken[1]
    assert any(words in candidate["reason"] for candidate in answer["candidates"])
    assert all(candidate["reason"] for candidate in answer["candidates"])


def test_fewer_sequences_are_taken_before_a_tight_fit() -> None:
    loose = plan(nodes(1), model("gemma-3-27b", 80.0), {"context_length": 8192}, VLLM)
    spare = loose["slack_bytes"] - loose["margin_bytes"]
    answer = plan(nodes(1), model("gemma-3-27b", 80.0 + spare / GIB + 0.2), {"context_length": 8192}, VLLM)
    assert (loose["max_num_seqs"], answer["max_num_seqs"], answer["verdict"]) == (256, 64, "fits")
    assert "64 sequences at once instead of 256" in answer["notes"][0]


@pytest.mark.parametrize(
    ("total", "available", "reserve", "source"),
    [
        (None, 109.0, 8.0, "prior: GB10"),
        (121.6, 109.0, 8.0, "prior: GB10"),
        (119.65, 107.05, 8.0, "prior: GB10"),
        (118.0, 105.4, 8.0, "prior: GB10"),
        (107.0, 100.45, 4.0, "prior: between a discrete GPU and a GB10"),
        (96.0, 95.5, 0.0, "prior: discrete GPU"),
        (79.19, 78.69, 0.0, "prior: discrete GPU"),
        (24.0, 23.5, 0.0, "prior: discrete GPU"),
    ],
)
def test_the_memory_of_a_node_that_nobody_measured(
    total: float | None, available: float, reserve: float, source: str
) -> None:
    node = {"host": "a", "total_bytes": None if total is None else int(total * GIB)}
    answer = plan([node], model("qwen3-0.6b"), {}, VLLM)
    rank = answer["ranks"][0]
    assert rank["available_bytes"] / GIB == pytest.approx(available, abs=0.06)
    assert rank["reserve_bytes"] / GIB == reserve
    assert any(term["source"].startswith(source) for term in answer["terms"])


@pytest.mark.parametrize("reserve", [None, 0, 4 * GIB, 8 * GIB, 20 * GIB])
def test_more_memory_never_gives_less_room(reserve: int | None) -> None:
    before = (-100 * GIB,) * 3
    for total in range(8 * GIB, 160 * GIB, GIB // 2):
        (node,), problems = read_nodes([{"host": "a", "total_bytes": total}], Wishes(reserve_bytes=reserve))
        assert not problems and node.low <= node.available <= node.high <= total
        assert reserve is None or node.reserve == reserve
        now = (node.available - node.reserve, node.high - node.reserve, node.low)
        assert all(here >= there for here, there in zip(now, before, strict=True)), total / GIB
        before = now


def test_every_term_says_where_it_is_from() -> None:
    wishes = {"speculative_tokens": 1, "load_format": "instanttensor"}
    for of in (model("qwen3.5-122b-fp8"), model("minimax-m2", 61.0), model("step-3.7-fp8", 90.0)):
        answer = plan(nodes(2), of, wishes, VLLM)
        assert all(term["source"] and term["formula"] for term in answer["terms"]), answer["terms"]
    measured = plan(nodes(2), model("qwen3.5-122b-fp8"), {}, VLLM)
    assert {term["source"] for term in measured["terms"] if term["name"] == "kv"} == {"measured on spark-a"}


def test_what_loading_takes_is_beside_the_sum() -> None:
    answer = plan(nodes(1), model("qwen3.5-122b", 75.0), {"context_length": 8192}, VLLM)
    peak = answer["load_peak"]
    assert peak["bytes"] > answer["ranks"][0]["weights_bytes"] + 6 * GIB
    assert "load_peak" not in {term["name"] for term in answer["terms"]}
    wishes = {"context_length": 2048, "overhead_bytes": 0, "reserve_bytes": 0}
    tight = plan(nodes(1, 100.0), model("llama-8b", 95.5), wishes, VLLM)
    assert "While it loads" in " ".join(tight["reasons"])


def test_the_log_is_told_in_the_engines_words() -> None:
    answer = plan(nodes(2), model("qwen3.5-122b-fp8"), {}, VLLM)
    lines = [entry["line"] for entry in answer["expected_log"]]
    assert f"GPU KV cache size: {answer['kv_tokens_estimate']:,} tokens" in lines
    assert f"Maximum concurrency for 262,144 tokens per request: {answer['max_concurrency_estimate']:.2f}x" in lines
    answer = plan(nodes(2), model("llama-8b"), {}, {"name": "sglang"})
    assert f"max_total_num_tokens={answer['kv_tokens_estimate']}" in [e["line"] for e in answer["expected_log"]]
    assert answer["settings"]["gpu_memory_utilization"] is None


@pytest.mark.parametrize("fraction", [0.5, 0.85])
def test_the_other_engines_share_is_of_what_is_free(fraction: float) -> None:
    wishes = {"mem_fraction_static": fraction, "context_length": 8192}
    answer = plan(nodes(1, 100.0), model("llama-8b", 15.0), wishes, {"name": "sglang"})
    assert answer["mem_fraction_static"] == fraction
    assert answer["kv_cache_bytes"] / GIB == pytest.approx(100 * fraction - 15, abs=0.01)
    refused = plan(
        nodes(1, 100.0), model("llama-8b", 15.0), {**wishes, "mem_fraction_static": 0.99}, {"name": "sglang"}
    )
    assert refused["verdict"] == "refused"
