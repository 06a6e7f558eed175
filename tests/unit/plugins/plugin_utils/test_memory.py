# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors

from __future__ import annotations

import copy
from typing import Any

import pytest

from ansible_collections.gb10.serving.plugins.plugin_utils._memory import plan
from ansible_collections.gb10.serving.plugins.plugin_utils._memory_model import Model
from ansible_collections.gb10.serving.tests.unit.plugins.plugin_utils.memory_models import (
    GIB,
    TOTAL,
    model,
    nodes,
)

VLLM = {"name": "vllm", "version": "0.33.0"}

# What was seen to serve: model, GiB of weights by rank (None: from the config), nodes, wishes
SERVED: list[tuple[str, float | None, int, dict[str, Any]]] = [
    ("qwen3.5-122b-fp8", None, 2, {}),
    ("qwen3.5-35b", None, 1, {}),
    ("qwen3.5-122b", 62.65, 1, {"context_length": 262144}),
    ("qwen3.5-122b", 75.17, 1, {"context_length": 262144, "kv_cache_dtype": "fp8", "speculative_tokens": 1}),
    ("minimax-m2", 122.0, 2, {"context_length": 196608}),
    ("qwen3-235b-fp8", 115.28, 2, {"context_length": 40960}),
    ("glm-4.6-fp8", None, 4, {"context_length": 32768}),
    ("llama-70b-fp8", None, 1, {"context_length": 8192}),
    ("llama-70b-fp8", None, 2, {"context_length": 65536}),
]
# What was seen to fail for memory, or is known to be too large
FAILED: list[tuple[str, int]] = [
    ("qwen3.5-122b-fp8", 1),
    ("minimax-m2", 2),
    ("glm-4.6-fp8", 2),
    ("kimi-k2-fp8", 4),
    ("deepseek-v3", 4),
]


@pytest.mark.parametrize(("name", "weights", "count", "wishes"), SERVED)
def test_what_was_served_fits(name: str, weights: float | None, count: int, wishes: dict[str, Any]) -> None:
    answer = plan(nodes(count), model(name, weights), wishes, VLLM)
    assert answer["verdict"] in ("fits", "borderline"), answer["reasons"]


@pytest.mark.parametrize(("name", "count"), FAILED)
def test_what_failed_is_refused_for_its_weights(name: str, count: int) -> None:
    answer = plan(nodes(count), model(name), {"context_length": 8192}, VLLM)
    assert answer["verdict"] == "refused"
    assert "The weights do not fit" in answer["reasons"][0]
    assert answer["ranks"][0]["short_bytes"] > 0


def test_the_122b_over_two_nodes() -> None:
    answer = plan(nodes(2), model("qwen3.5-122b-fp8"), {}, VLLM)
    rank = answer["ranks"][0]
    assert rank["weights_bytes"] / GIB == pytest.approx(57.9, abs=0.1)
    assert (answer["verdict"], answer["tp"], answer["context_length"]) == ("fits", 2, 262144)
    assert answer["gpu_memory_utilization"] == 0.825
    assert answer["kv_cache_bytes"] == pytest.approx(38 * GIB, abs=GIB / 2)
    assert answer["max_concurrency_estimate"] == pytest.approx(12, abs=0.3)
    assert answer["basis"] == "measured on spark-a"
    assert answer["weights_source"] == "config.json"
    assert answer["remedies"] == answer["reasons"] == answer["changes"] == answer["notes"] == []
    assert [(c["tp"], c["pp"], c["verdict"], c["reason"]) for c in answer["candidates"]] == [(2, 1, "fits", "taken")]


def test_the_122b_on_one_node_says_what_would_help() -> None:
    answer = plan(nodes(1), model("qwen3.5-122b-fp8"), {}, VLLM)
    assert any("Use 2 nodes (tensor parallel 2)" in remedy for remedy in answer["remedies"])
    assert "stronger quantisation" in answer["remedies"][0], "no node is needed for it"
    assert not any("fp8" in remedy.split(":")[0] for remedy in answer["remedies"]), "a smaller cache cannot help"


@pytest.mark.parametrize("name", ["qwen3.5-122b-fp8", "llama-8b", "glm-4.7-flash", "tiny"])
@pytest.mark.parametrize("wishes", [{}, {"kv_cache_bytes": GIB, "context_length": 1024}, {"overhead_bytes": GIB}])
def test_each_rank_adds_up(name: str, wishes: dict[str, Any]) -> None:
    for rank in plan(nodes(2), model(name), wishes, VLLM)["ranks"]:
        parts = ("weights", "state", "kv", "activation", "graphs", "non_torch", "reserve", "free")
        assert sum(rank[f"{part}_bytes"] for part in parts) == rank["available_bytes"] + rank["short_bytes"]
        used = rank["available_bytes"] - rank["free_bytes"] + rank["short_bytes"]
        assert sum(term["bytes"] for term in rank["terms"]) == used
        assert all(t["formula"] and t["uncertainty_bytes"] >= 0 for t in rank["terms"])


def test_the_settings_follow_the_node_that_has_least() -> None:
    poor = nodes(2)
    poor[1]["available_bytes"] = 80 * GIB
    rich, answer = plan(nodes(2), model("qwen3.5-122b-fp8"), {}, VLLM), plan(poor, model("qwen3.5-122b-fp8"), {}, VLLM)
    assert rich["kv_cache_bytes"] - answer["kv_cache_bytes"] == 29 * GIB
    assert answer["basis"] == "measured on spark-b"
    assert answer["gpu_memory_utilization"] <= (80 - 8) * GIB / TOTAL
    assert answer["ranks"][0]["free_bytes"] >= 29 * GIB


def test_without_measured_memory_a_prior_is_named() -> None:
    bare: list[dict[str, Any]] = [
        {"host": "spark-a"},
        {"host": "spark-b", "available_bytes": None, "total_bytes": None},
    ]
    answer = plan(bare, model("qwen3.5-122b-fp8"), {}, VLLM)
    assert (answer["basis"], answer["verdict"]) == ("prior", "fits")
    assert answer["ranks"][1]["available_bytes"] == 109 * GIB


@pytest.mark.parametrize("available", [70.0, 80.5, 95.3, 109.0, 119.0])
@pytest.mark.parametrize("reserve", [0, 4 * GIB, 10 * GIB])
def test_utilisation_leaves_the_reserve(available: float, reserve: int) -> None:
    answer = plan(nodes(2, available), model("qwen3.5-122b-fp8"), {"reserve_bytes": reserve}, VLLM)
    share = answer["gpu_memory_utilization"]
    assert share * TOTAL <= available * GIB - reserve
    assert share * 200 == pytest.approx(round(share * 200), abs=1e-9)
    assert answer["kv_cache_bytes"] % (1024**2) == 0


def test_utilisation_covers_no_more_than_the_plan_takes_when_the_cache_is_fixed() -> None:
    answer = plan(nodes(2), model("qwen3.5-122b-fp8"), {"kv_cache_bytes": 4 * GIB}, VLLM)
    rank = answer["ranks"][0]
    taken = rank["available_bytes"] - rank["free_bytes"] - rank["reserve_bytes"]
    assert answer["kv_cache_bytes"] == 4 * GIB
    assert 0 <= taken / TOTAL - answer["gpu_memory_utilization"] < 0.005


def test_the_rehearsal_is_exact() -> None:
    wishes = {"kv_cache_bytes": 256 * 1024**2, "overhead_bytes": GIB, "context_length": 512}
    answer = plan(nodes(2), model("tiny", 0.01), wishes, {"name": "vllm", "version": "0.32.0+cpu"})
    assert (answer["verdict"], answer["kv_tokens_estimate"], answer["max_concurrency_estimate"]) == (
        "fits",
        174720,
        341.25,
    )
    assert answer["ranks"][0]["non_torch_bytes"] == GIB
    assert plan(nodes(1), model("tiny", 0.01), {**wishes, "overhead_bytes": 0}, VLLM)["gpu_memory_utilization"] == 0.005


# available GiB, wishes -> the first remedy, and a change that must then make it fit
TIGHT: list[tuple[float, dict[str, Any], str, dict[str, Any]]] = [
    (80.0, {"context_length": 131072}, "Set the KV cache dtype to fp8", {"kv_cache_dtype": "fp8"}),
    (
        85.0,
        {"context_length": 131072, "kv_cache_dtype": "fp8", "kv_cache_bytes": GIB},
        "Set the context length to",
        {"kv_cache_bytes": 12 * GIB},
    ),
    (
        109.0,
        {"context_length": 131072, "max_num_batched_tokens": 65536, "kv_cache_bytes": 95 * GIB},
        "Lower gb10_plan_kv_cache_gib to at most",
        {"kv_cache_bytes": None},
    ),
]


@pytest.mark.parametrize(("available", "wishes", "first", "change"), TIGHT)
def test_a_refusal_names_changes_that_work(
    available: float, wishes: dict[str, Any], first: str, change: dict[str, Any]
) -> None:
    weights = 55.0
    answer = plan(nodes(1, available), model("llama-8b", weights), wishes, VLLM)
    assert answer["verdict"] == "refused"
    assert any(remedy.startswith(first) for remedy in answer["remedies"][:3]), answer["remedies"]
    again = plan(nodes(1, available), model("llama-8b", weights), {**wishes, **change}, VLLM)
    assert again["verdict"] != "refused", again["reasons"]


def test_the_proposed_context_is_the_longest() -> None:
    def at(length: int) -> dict[str, Any]:
        return plan(nodes(1), model("llama-8b", 85.0), {"context_length": length, "max_num_seqs": 256}, VLLM)

    answer = at(131072)
    assert answer["verdict"] == "refused"
    lengths = [
        c["settings"]["gb10_plan_context_length"] for c in answer["changes"] if "context length to" in c["change"]
    ]
    assert [at(length)["verdict"] for length in lengths] == ["fits", "borderline"]
    assert [at(length + 1024)["verdict"] for length in lengths] == ["borderline", "refused"]
    assert all(length % 1024 == 0 for length in lengths)


def test_a_context_that_nobody_asked_for_is_the_longest_that_fits() -> None:
    wishes = {"max_num_seqs": 256}
    answer = plan(nodes(1), model("llama-8b", 85.0), wishes, VLLM)
    length = answer["context_length"]
    assert (answer["verdict"], length % 1024) == ("fits", 0)
    assert f"The model allows a context of 131072 tokens; {length} is the longest that fits" in answer["notes"][0]
    longer = plan(nodes(1), model("llama-8b", 85.0), {**wishes, "context_length": length + 1024}, VLLM)
    assert longer["verdict"] == "borderline"


def test_fewer_batched_tokens_are_proposed_when_they_suffice() -> None:
    wishes = {"max_num_batched_tokens": 65536, "context_length": 8192}
    answer = plan(nodes(1), model("qwen3.5-122b", 75.0), wishes, VLLM)
    assert answer["verdict"] == "refused"
    assert any(r.startswith("Set gb10_plan_max_num_batched_tokens to 2048") for r in answer["remedies"])
    wishes["max_num_batched_tokens"] = 2048
    assert plan(nodes(1), model("qwen3.5-122b", 75.0), wishes, VLLM)["verdict"] == "fits"


def test_less_than_the_noise_is_borderline() -> None:
    free = plan(nodes(1), model("llama-8b", 60.0), {"context_length": 8192}, VLLM)["slack_bytes"]
    weights = 60.0 + (free - 2 * GIB) / GIB
    answer = plan(nodes(1), model("llama-8b", weights), {"context_length": 8192}, VLLM)
    assert answer["verdict"] == "borderline"
    assert "Only 2.0 GiB stay on spark-a" in answer["reasons"][0]


def test_the_same_question_gets_the_same_answer_and_leaves_its_input_alone() -> None:
    machines, of = nodes(2), model("qwen3.5-122b-fp8")
    before = copy.deepcopy((machines, of))
    assert plan(machines, of, {}, VLLM) == plan(machines, of, {}, VLLM)
    assert (machines, of) == before


def test_a_running_server_keeps_its_plan() -> None:
    first = plan(nodes(2), model("qwen3.5-122b-fp8"), {}, VLLM)
    busy = nodes(2, 9.0)
    assert plan(busy, model("qwen3.5-122b-fp8"), {}, VLLM, first) == {**first, "kept": True}
    for changed in (
        plan(busy, model("qwen3.5-122b-fp8"), {"context_length": 4096}, VLLM, first),
        plan(busy, {**model("qwen3.5-122b-fp8"), "digest": "other"}, {}, VLLM, first),
        plan(busy, model("qwen3.5-122b-fp8"), {}, {"name": "vllm", "version": "0.34.0"}, first),
    ):
        assert (changed["kept"], changed["verdict"]) == (False, "refused")


def test_a_refusal_is_not_kept() -> None:
    refused = plan(nodes(2, 20.0), model("qwen3.5-122b-fp8"), {}, VLLM)
    assert plan(nodes(2), model("qwen3.5-122b-fp8"), {}, VLLM, refused)["verdict"] == "fits"


def test_the_other_engine_takes_its_share_of_what_is_free() -> None:
    answer = plan(nodes(2), model("qwen3.5-122b-fp8"), {}, {"name": "sglang", "version": "0.5.23"})
    rank = answer["ranks"][0]
    used = rank["weights_bytes"] + rank["kv_bytes"] + rank["state_bytes"]
    assert used == int(rank["available_bytes"] * answer["mem_fraction_static"])
    assert answer["kv_tokens_estimate"] == rank["kv_bytes"] // answer["kv_bytes_per_token"]


@pytest.mark.parametrize(
    ("own", "wish", "factor"),
    [("bfloat16", "auto", 1), ("bfloat16", "float32", 2), ("bfloat16", "float16", 1), ("float32", "auto", 0.5),
     ("float32", "float32", 1)],
)  # fmt: skip
def test_the_dtype_of_weights_that_are_not_quantised(own: str, wish: str, factor: float) -> None:
    seen = Model({"dtype": own}, {"attention": 1000}, "config.json", None)
    assert seen.loaded_as(wish).by_class == {"attention": 1000 * factor}
    assert seen.loaded_as(wish).dtype_bytes == (4 if wish == "float32" else 2)


def test_a_quantised_model_keeps_its_matrices_whatever_the_dtype() -> None:
    seen = Model({"dtype": "bfloat16"}, {"attention": 1000}, "config.json", {"method": "fp8"})
    assert seen.loaded_as("float16").by_class == {"attention": 1000}


@pytest.mark.parametrize(
    ("version", "share", "expected"),
    [
        ("0.20.1", 0.85, (8192, 1024)),
        ("0.33.0", 0.85, (2048, 256)),
        ("", 0.85, (2048, 256)),
        ("0.20.1", None, (2048, 256)),
    ],
)
def test_a_start_with_a_share_is_foretold_with_what_that_version_takes(
    version: str, share: float | None, expected: tuple[int, int]
) -> None:
    found = plan(nodes(2), model("qwen3.5-122b-fp8"), {"gpu_memory_utilization": share}, {"version": version})
    assert (found["max_num_batched_tokens"], found["max_num_seqs"]) == expected
