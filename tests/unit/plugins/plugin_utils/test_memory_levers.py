# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""A plan that fits says what each setting would still give, and each figure is the one that planning it anew gives."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gb10.serving.plugins.plugin_utils import _plan_args, _plan_variables
from ansible_collections.gb10.serving.plugins.plugin_utils._memory import plan
from ansible_collections.gb10.serving.tests.unit.plugins.plugin_utils.memory_models import model as of_config

WISH_OF = {"gb10_plan_kv_cache_dtype": "kv_cache_dtype", "gb10_plan_max_num_seqs": "max_num_seqs"}


@pytest.fixture(scope="module")
def model() -> dict[str, Any]:
    return of_config("qwen3.5-122b-fp8")


def planned(model: dict[str, Any], nodes: int = 2, **wishes: Any) -> dict[str, Any]:
    return plan([{"host": f"spark-{n}"} for n in range(nodes)], model, wishes, {"name": "vllm", "version": "0.33.0"})


def test_each_lever_gives_what_planning_with_it_gives(model: dict[str, Any]) -> None:
    before = planned(model)
    assert before["verdict"] == "fits"
    known = 0
    for lever in before["levers"]:
        wishes = {WISH_OF[key]: value for key, value in lever["settings"].items() if key in WISH_OF}
        if not wishes:
            continue
        after = planned(model, **wishes)
        assert after["kv"]["max_concurrency"] == lever["max_concurrency"] > before["kv"]["max_concurrency"]
        assert after["kv_cache_bytes"] - before["kv_cache_bytes"] == lever["cache_bytes"]
        known += 1
    assert known


def test_more_nodes_are_a_lever(model: dict[str, Any]) -> None:
    (more,) = [lever for lever in planned(model)["levers"] if "gb10_plan_nodes" in lever["settings"]]
    assert more["settings"] == {"gb10_plan_nodes": 4, "gb10_plan_tp": 4}
    assert planned(model, 4)["kv"]["max_concurrency"] == more["max_concurrency"]


def test_what_is_set_already_is_no_lever(model: dict[str, Any]) -> None:
    settings = [lever["settings"] for lever in planned(model, kv_cache_dtype="fp8")["levers"]]
    assert not any("gb10_plan_kv_cache_dtype" in setting for setting in settings)


def test_what_does_not_fit_has_changes_instead(model: dict[str, Any]) -> None:
    refused = planned(model, 1)
    assert refused["verdict"] == "refused"
    assert refused["levers"] == [] and refused["changes"]


PICKED: tuple[tuple[str, int, str, dict[str, Any]], ...] = (
    ("qwen3.5-122b-fp8", 2, "vllm", {"kv_cache_bytes": 2 * 2**30}),
    ("llama-70b-fp8", 1, "vllm", {"kv_cache_bytes": 3 * 2**30}),
    ("llama-70b-fp8", 1, "sglang", {}),
    ("minimax-m2", 4, "vllm", {}),
    ("qwen3.5-122b-fp8", 2, "sglang", {}),
)
WISHES = {f"gb10_plan_{short}": wish for short, wish in {"tp": "tensor_parallel", "pp": "pipeline_parallel"}.items()}
WISHES |= {
    "gb10_plan_ep": "expert_parallel",
    "gb10_plan_context_length": "context_length",
    "gb10_plan_max_num_batched_tokens": "max_num_batched_tokens",
    **WISH_OF,
}


@pytest.mark.parametrize(("name", "count", "engine", "asked"), PICKED)
def test_a_lever_holds_with_what_the_plan_picked(name: str, count: int, engine: str, asked: dict[str, Any]) -> None:
    """The context was nobody's wish: with a lever set the plan would take another, so the lever says which it is of."""
    of, machines = of_config(name), [{"host": f"n{n}"} for n in range(16)]
    before, known = plan(machines[:count], of, asked, {"name": engine}), 0
    assert before["verdict"] == "fits"
    for lever in before["levers"]:
        settings = dict(lever["settings"])
        size, args = settings.pop("gb10_plan_nodes", count), settings.pop("gb10_server_args", {"add": [], "remove": []})
        if args["remove"]:
            continue
        more = _plan_args.from_args(args["add"], engine)[0]
        wishes = {**asked, **more, **{WISHES[key]: value for key, value in settings.items()}}
        after = plan(machines[:size], of, wishes, {"name": engine})
        assert (after["verdict"], after["context_length"]) == ("fits", before["context_length"]), lever
        assert after["kv"]["max_concurrency"] == pytest.approx(lever["max_concurrency"], rel=0.02), lever
        known += 1
    assert known


def test_the_pool_of_sglang_is_divided_for_the_length_that_is_served() -> None:
    """Long requests of a hybrid need few slots and many tokens."""
    of, machines = of_config("qwen3.5-122b-fp8"), [{"host": f"n{n}"} for n in range(2)]
    before = plan(machines, of, {"context_length": 131072}, {"name": "sglang"})
    (lever,) = [one for one in before["levers"] if "--mamba-full-memory-ratio" in one["change"]]
    (flag,) = lever["settings"]["gb10_server_args"]["add"]
    assert flag.startswith("--mamba-full-memory-ratio=0.") and flag in lever["change"]
    assert lever["max_concurrency"] > 1.3 * before["kv"]["max_concurrency"]
    assert before["request_bytes"] < before["kv_cache_bytes"] / before["kv"]["max_concurrency"]


@pytest.mark.parametrize(
    ("wishes", "setting"),
    [
        ({"pools": {"state_slots": 15}}, "gb10_server_args"),
        ({"prefix_caching": False, "max_num_seqs": 2}, "gb10_plan_max_num_seqs"),
    ],
)
def test_slots_that_bound_the_requests_are_a_lever(model: dict[str, Any], wishes: dict[str, Any], setting: str) -> None:
    nodes = [{"host": f"spark-{n}"} for n in range(2)]
    asked = {"context_length": 32768, **wishes}
    before = plan(nodes, model, asked, {"name": "sglang"})
    lever = next(lever for lever in before["levers"] if "state slots for" in lever["change"])
    assert set(lever["settings"]) == {setting}
    value = lever["settings"][setting]
    if setting == "gb10_server_args":
        assert value["remove"] == ["--max-mamba-cache-size"]
        again = {"pools": {"state_slots": int(value["add"][0].partition("=")[2])}}
    else:
        again = {"max_num_seqs": value}
    after = plan(nodes, model, {**asked, **again}, {"name": "sglang"})
    assert after["verdict"] == "fits"
    assert after["kv"]["requests_at_once"] == lever["requests_at_once"] > before["kv"]["requests_at_once"]


@pytest.mark.parametrize("args", [[], ["--speculative-config", '{"method": "mtp", "num_speculative_tokens": 2}']])
def test_drafts_are_turned_off_where_they_were_asked_for(model: dict[str, Any], args: list[str]) -> None:
    variables = {} if args else {"gb10_plan_speculative_tokens": 2}
    wishes, problems = _plan_variables.wishes(variables, args)
    assert problems == []
    (lever,) = [x for x in planned(model, **wishes)["levers"] if x["change"].startswith("Turn speculative decoding")]
    settings = lever["settings"]
    assert settings["gb10_plan_speculative_tokens"] == 0
    gone = settings.get("gb10_server_args", {}).get("remove", [])
    assert gone == (["--speculative-config"] if args else [])
    left = [] if gone else args
    without, _problems = _plan_variables.wishes({**variables, "gb10_plan_speculative_tokens": 0}, left)
    assert planned(model, **without)["kv"]["max_concurrency"] == lever["max_concurrency"]
