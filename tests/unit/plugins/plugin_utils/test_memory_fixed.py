# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""A cache of a fixed size, alone and beside a share: what is refused, for which reason, and what mends it."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gb10.serving.plugins.plugin_utils._memory import plan
from ansible_collections.gb10.serving.tests.unit.plugins.plugin_utils.memory_models import GIB, model, nodes

ORDER = ("fits", "borderline", "refused")
SHARE = "gpu_memory_utilization"


def _planned(free: float | None = None, engine: str = "vllm", **wishes: Any) -> dict[str, Any]:
    if "gib" in wishes:
        wishes["kv_cache_bytes"] = int(wishes.pop("gib") * GIB)
    return plan(nodes(2, free), model("qwen3.5-122b-fp8"), wishes, {"name": engine})


# free, wishes, verdict, words of the reason; the room is 109 less 8 in reserve and 63 of weights and overhead
CASES: list[tuple[float | None, dict[str, Any], str, str]] = [
    (None, {"gib": 120, SHARE: 0.3}, "refused", "gb10_plan_kv_cache_gib is 120.0 GiB, but 38.1 GiB are left"),
    (None, {"gib": 60, SHARE: 0.3}, "refused", "gb10_plan_kv_cache_gib is 60.0 GiB"),
    (None, {"gib": 45, SHARE: 0.3}, "borderline", "45.0 GiB KV cache (gb10_plan_kv_cache_gib)"),
    (None, {"gib": 30, SHARE: 0.3}, "fits", ""),
    (None, {"gib": 30, SHARE: 0.9}, "borderline", "vLLM asks for 109.5 GiB at its start and usually stops"),
    (None, {"gib": 30, SHARE: 0.97}, "refused", "on startup is less than desired GPU memory utilization (0.97"),
    (109.0, {"gib": 45, SHARE: 0.3}, "refused", "gb10_plan_kv_cache_gib is 45.0 GiB"),
    (109.0, {"gib": 30, SHARE: 0.92}, "refused", "on startup is less than desired"),
    (None, {"gib": 120}, "refused", "gb10_plan_kv_cache_gib is 120.0 GiB"),
    (None, {"gib": 1, "context_length": 262144}, "refused", "1.0 GiB are set"),
]


@pytest.mark.parametrize(("free", "wishes", "verdict", "words"), CASES)
def test_a_fixed_cache_is_held_against_the_node(
    free: float | None, wishes: dict[str, Any], verdict: str, words: str
) -> None:
    answer = _planned(free, **wishes)
    said = " ".join(answer["reasons"])
    assert (answer["verdict"], words in said) == (verdict, True), said
    assert not any(rank["short_bytes"] for rank in answer["ranks"]) or verdict != "fits"
    if SHARE in wishes and verdict != "fits" and "KV cache" in words:
        assert "gb10_plan_gpu_memory_utilization" not in said


@pytest.mark.parametrize(("free", "wishes", "verdict", "words"), [case for case in CASES if case[2] != "fits"])
def test_what_is_proposed_mends_it(free: float | None, wishes: dict[str, Any], verdict: str, words: str) -> None:
    answer = _planned(free, **wishes)
    verdicts = [change["verdict"] for change in answer["changes"]]
    assert verdicts[0] == "fits" and verdicts == sorted(verdicts, key=ORDER.index), answer["remedies"]
    assert all(ORDER.index(found) < ORDER.index(verdict) for found in verdicts)
    first = answer["changes"][0]["settings"]
    if "gb10_plan_kv_cache_gib" in words or "are set" in words:
        assert list(first) == ["gb10_plan_kv_cache_gib"]
    again = {**wishes, **({"gib": first["gb10_plan_kv_cache_gib"]} if "gb10_plan_kv_cache_gib" in first else {})}
    if "gb10_plan_gpu_memory_utilization" in first:
        again.pop(SHARE)
    assert _planned(free, **again)["verdict"] == "fits"
    # It is not the model that is too large.
    assert not any("gb10_model_id" in change["settings"] for change in answer["changes"]), answer["remedies"]


def test_nothing_is_proposed_that_does_not_help() -> None:
    small = _planned(60.0, gib=3)
    assert "weights do not fit" in small["reasons"][0]
    assert not any("Raise" in remedy for remedy in small["remedies"])
    assert any("gb10_model_id" in change["settings"] for change in small["changes"]), "here it is the model"


def test_the_plans_own_pool_may_be_fixed() -> None:
    answer = _planned()
    again = _planned(kv_cache_bytes=answer["kv_cache_bytes"], **{SHARE: answer[SHARE]})
    assert (again["verdict"], again["kv_cache_bytes"]) == ("fits", answer["kv_cache_bytes"])


@pytest.mark.parametrize("share", [0.97, 1.0])
def test_a_share_of_the_other_engine_is_not_the_models_fault(share: float) -> None:
    answer = _planned(engine="sglang", mem_fraction_static=share)
    assert answer["verdict"] != "fits"
    assert answer["changes"][0]["verdict"] == "fits"
    assert not any("gb10_model_id" in change["settings"] for change in answer["changes"])


def test_the_other_engine_is_told_a_share_alone() -> None:
    (reason,) = _planned(engine="sglang", mem_fraction_static=0.5, gib=60)["reasons"]
    assert "gb10_plan_mem_fraction_static and gb10_plan_kv_cache_gib are both set" in reason


def test_fewer_bits_come_before_more_nodes() -> None:
    answer = plan(nodes(4, None), model("qwen3.5-397b-fp8", None, quantization_config={}), {}, {"name": "vllm"})
    found = [(change["verdict"], "gb10_model_id" in change["settings"]) for change in answer["changes"]]
    assert found[0] == ("fits", True) and ("fits", False) in found[1:]


# free, GiB, share: each of them is in the way, and none alone mends it
TOGETHER: list[tuple[float | None, float, float]] = [
    (None, 60, 0.98),
    (97.8, 60, 0.92),
    (None, 1, 0.98),
    (None, 60, 0.95),
    (None, 45, 0.95),
]


@pytest.mark.parametrize(("free", "gib", "share"), TOGETHER)
def test_a_cache_and_a_share_that_are_in_the_way_together(free: float | None, gib: float, share: float) -> None:
    asked: dict[str, Any] = {"gib": gib, SHARE: share, "context_length": 262144}
    answer = _planned(free, **asked)
    first, second = answer["changes"][:2]
    assert answer["verdict"] != "fits"
    for change in (first, second):
        assert list(change["settings"]) == ["gb10_plan_gpu_memory_utilization", "gb10_plan_kv_cache_gib"]
        assert change["verdict"] == "fits" and change["effect_bytes"] > 0
        size = change["settings"]["gb10_plan_kv_cache_gib"]
        held: dict[str, Any] = {"gib": size} if size else {}
        assert _planned(free, context_length=262144, **held)["verdict"] == "fits"
    assert second["settings"]["gb10_plan_kv_cache_gib"] == 0 < first["settings"]["gb10_plan_kv_cache_gib"]


def test_what_leaving_a_cache_open_gives_is_no_more_than_the_node_has() -> None:
    share: dict[str, Any] = {SHARE: 0.95}
    answer = _planned(gib=60, **share)
    (alone,) = [c for c in answer["changes"] if c["settings"] == {"gb10_plan_kv_cache_gib": 0}]
    (lowered,) = [c for c in answer["changes"] if c["change"].startswith("Lower ")]
    assert alone["effect_bytes"] == pytest.approx(lowered["effect_bytes"], abs=GIB // 2)


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
@pytest.mark.parametrize("reserve", [60, 200])
def test_a_reserve_that_leaves_no_room_is_to_be_lowered(engine: str, reserve: int) -> None:
    answer = _planned(engine=engine, reserve_bytes=reserve * GIB, context_length=8192)
    first = answer["changes"][0]
    size = first["settings"]["gb10_plan_reserve_gib"]
    assert first["change"].startswith("Lower gb10_plan_reserve_gib to ") and 8 <= size < reserve
    assert first["verdict"] == "fits"
    assert _planned(engine=engine, reserve_bytes=size * GIB, context_length=8192)["verdict"] == "fits"
    assert not any("gb10_model_id" in change["settings"] for change in answer["changes"])
