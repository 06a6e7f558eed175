# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""What a plan advises, done as it says: the verdict that was promised, in the layout that was planned."""

from __future__ import annotations

import re
from typing import Any

import pytest

from ansible_collections.gb10.serving.plugins.plugin_utils._memory import plan
from ansible_collections.gb10.serving.tests.unit.plugins.plugin_utils.memory_models import GIB, model, nodes
from ansible_collections.gb10.serving.tests.unit.plugins.plugin_utils.test_memory_search import _made

ORDER = ("fits", "borderline", "refused")
MODELS = ("qwen3.5-122b-fp8", "gemma-3-27b", "llama-70b-fp8", "glm-4.7-flash", "minimax-m2")
SHARE = {"vllm": "gpu_memory_utilization", "sglang": "mem_fraction_static"}
SHARES = {"vllm": (None, 0.85, 0.92), "sglang": (None, 0.875, 0.9)}
CASES = [
    (name, engine, share, count) for name in MODELS for engine in SHARE for share in SHARES[engine] for count in (2, 3)
]


def _planned(name: str, engine: str, count: int, wishes: dict[str, Any]) -> dict[str, Any]:
    return plan(nodes(count, None), model(name), wishes, {"name": engine})


@pytest.mark.parametrize(("name", "engine", "share", "count"), CASES)
def test_advice_that_is_followed_gives_what_was_promised(
    name: str, engine: str, share: float | None, count: int
) -> None:
    asked: dict[str, Any] = {} if share is None else {SHARE[engine]: share}
    answer = _planned(name, engine, count, asked)
    for advice in (*answer["changes"], *answer["levers"]):
        promised = advice.get("verdict", "fits")
        settings = {key: value for key, value in advice["settings"].items() if key != "gb10_server_args"}
        if promised is None or not settings or "gb10_model_id" in settings:
            continue
        size = settings.get("gb10_plan_nodes", count)
        made = _made(asked, advice["settings"]) if settings == advice["settings"] else None
        if made is not None:
            after = _planned(name, engine, size, made)
            assert ORDER.index(after["verdict"]) <= ORDER.index(promised), (advice, after["reasons"])
        if named := re.search(r"or set it to ([\d.]+\d):", advice["change"]):
            after = _planned(name, engine, count, {SHARE[engine]: float(named.group(1))})
            assert after["verdict"] == promised, (advice, after["reasons"])


@pytest.mark.parametrize(("name", "engine"), [(name, engine) for name in MODELS[:4] for engine in SHARE])
@pytest.mark.parametrize("reserve", [4 * GIB, 8 * GIB])
def test_the_share_of_a_plan_may_be_set(name: str, engine: str, reserve: int) -> None:
    wishes = {"reserve_bytes": reserve}
    answer = _planned(name, engine, 2, wishes)
    assert answer["verdict"] == "fits"
    after = _planned(name, engine, 2, {**wishes, SHARE[engine]: answer[SHARE[engine]]})
    layout = ("tp", "pp", "ep")
    assert after["verdict"] == "fits", after["reasons"]
    assert [after["settings"][key] for key in layout] == [answer["settings"][key] for key in layout]
    if engine == "sglang":
        assert after["kv"]["tokens"] == answer["kv"]["tokens"]


def test_a_share_above_what_is_usually_free_is_told_so() -> None:
    answer = _planned("qwen3.5-122b-fp8", "vllm", 2, {"gpu_memory_utilization": 0.92})
    assert answer["verdict"] == "borderline"
    assert "asks for 111.9 GiB at its start and usually stops" in answer["reasons"][0]
    assert "109.1 GiB free after a boot (101 to 116 are seen)" in answer["reasons"][0]
    assert not re.search(r"-\d", " ".join(answer["reasons"]))


def test_what_fits_only_with_more_free_than_usual_is_told_so() -> None:
    wishes = {"context_length": 16384, "kv_cache_bytes": 1_811_939_328}
    answer = plan(nodes(4, None), model("glm-5.2", 416.0), wishes, {"name": "vllm"})
    assert answer["verdict"] == "borderline"
    assert "it usually fails" in answer["reasons"][0] and "(101 to 116 are seen)" in answer["reasons"][0]


def test_one_node_more_is_tried_before_twice_as_many() -> None:
    answer = plan(nodes(2), model("minimax-m2"), {"context_length": 32768}, {"name": "vllm"})
    (more,) = [c for c in answer["changes"] if c["verdict"] == "fits" and "gb10_plan_nodes" in c["settings"]]
    assert more["settings"] == {"gb10_plan_nodes": 3, "gb10_plan_tp": 1, "gb10_plan_pp": 3}
    assert "Use 3 nodes (tensor parallel 1, pipeline parallel 3)" in more["change"]
    fixed = plan(nodes(2), model("minimax-m2"), {"context_length": 32768, "pipeline_parallel": 1}, {"name": "vllm"})
    (more,) = [c for c in fixed["changes"] if c["verdict"] == "fits" and "gb10_plan_nodes" in c["settings"]]
    assert more["settings"] == {"gb10_plan_nodes": 4, "gb10_plan_tp": 4, "gb10_plan_pp": 1}


def test_a_size_that_does_not_divide_leads_to_a_pipeline_where_one_fits() -> None:
    answer = _planned("qwen3.5-122b-fp8", "vllm", 3, {"tensor_parallel": 3})
    assert [(change["change"], change["verdict"], change["settings"]) for change in answer["changes"]] == [
        ("Set gb10_plan_tp to 2 on 3 nodes: with tensor parallel 2 it fits.", "fits", {"gb10_plan_tp": 2}),
        (
            "Leave gb10_plan_tp out: with tensor parallel 1, pipeline parallel 3 it fits.",
            "fits",
            {"gb10_plan_tp": 0},
        ),
    ]
    said = _planned("qwen3.5-122b-fp8", "vllm", 3, {"tensor_parallel": 3, "pipeline_parallel": 1})
    assert len(said["remedies"]) == 1


FOUR = {"gb10_plan_nodes": 4, "gb10_plan_tp": 4}


@pytest.mark.parametrize(
    ("name", "count", "wishes", "settings"),
    [
        ("qwen3.5-122b-fp8", 2, {"tensor_parallel": 4}, [{"gb10_plan_tp": 2}, FOUR]),
        ("minimax-m2", 3, {"tensor_parallel": 3, "pipeline_parallel": 1}, [FOUR]),
        ("kimi-k2-fp8", 3, {"tensor_parallel": 3, "reserve_bytes": 90 * GIB}, [{"gb10_model_id": None}]),
    ],
)
def test_a_layout_that_is_named_was_planned(
    name: str, count: int, wishes: dict[str, Any], settings: list[dict[str, Any]]
) -> None:
    answer = _planned(name, "vllm", count, {"context_length": 8192, **wishes})
    assert (answer["verdict"], answer["ranks"]) == ("refused", [])
    found = [{k: v for k, v in change["settings"].items() if k != "gb10_plan_pp"} for change in answer["changes"]]
    assert found[: len(settings)] == settings


def test_an_estimate_of_graphs_is_taken_off_by_a_profile_alone() -> None:
    def graphs(**wishes: Any) -> float:
        return plan(nodes(4), model("minimax-m2"), wishes, {"name": "vllm"})["ranks"][0]["graphs_bytes"] / GIB

    assert graphs(gpu_memory_utilization=0.8) == pytest.approx(5.1, abs=0.01)
    assert graphs() == pytest.approx(0.7, abs=0.01)
    assert graphs(gpu_memory_utilization=0.8, kv_cache_bytes=10 * GIB) == pytest.approx(0.7, abs=0.01)


def test_a_request_is_of_one_size_in_text_and_table() -> None:
    answer = _planned("qwen3.5-122b-fp8", "vllm", 2, {})
    (fp8,) = [lever for lever in answer["levers"] if "gb10_plan_kv_cache_dtype" in lever["settings"]]
    assert f"instead of {answer['request_bytes'] / GIB:.1f} GiB" in fp8["change"]
    after = _planned("qwen3.5-122b-fp8", "vllm", 2, {"kv_cache_dtype": "fp8"})
    assert f"then takes {after['request_bytes'] / GIB:.1f} GiB" in fp8["change"]
