# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ansible_collections.gb10.serving.plugins.action import deployment_attempt, deployment_report

ENGINES = [
    {"name": "sglang", "key": "s", "variables": [{"name": "gb10_image_ref", "value": "s:1"}]},
    {"name": "vllm", "key": "v", "variables": [{"name": "gb10_image_ref", "value": "v:1"}]},
]
IMAGE = {"ref": "s:1", "content": "sha256:s"}
HANG = {"failed": True, "ready": False, "cause": "message_queue_address", "reason": "no progress"}
FLAG = {**HANG, "cause": "bad_flag"}


def spec(engine: str) -> dict[str, Any]:
    return {"id": f"main-{engine}", "engine": {"name": engine, "image": IMAGE}}


def variables(turn: int = 0, engine: str = "sglang", **registered: Any) -> dict[str, Any]:
    """What the hosts of a run know when an attempt has failed on host b."""
    common = {"__gb10_spec": {"spec": spec(engine), "before": {"id": "main-old"}}, "__gb10_left": turn}
    common.update({"__gb10_stopped": {"changed": True}, **registered})
    failed = {"ansible_failed_result": {"msg": "b: it did not start"}}
    other = {"ansible_failed_result": {"msg": "another host failed or could not be reached"}}
    return {"groups": {"sparks": ["a", "b"]}, "hostvars": {"a": {**common, **other}, "b": {**common, **failed}}}


def ask(about: str, task_vars: dict[str, Any], engines: Any = ENGINES, retry: bool = False) -> dict[str, Any]:
    action = deployment_attempt.ActionModule.__new__(deployment_attempt.ActionModule)
    action._task = SimpleNamespace(check_mode=False)
    return action.answer({"about": about, "engines": engines, "retry": retry}, task_vars)


def test_a_hang_is_for_the_next_engine() -> None:
    found = ask("failure", variables(__gb10_wait=HANG))
    assert (found["turn"], found["next"], found["key"]) == (1, 1, "v")
    assert found["before"] == {"id": "main-old"}
    (attempt,) = found["attempts"]
    assert (attempt["engine"], attempt["release"], attempt["cause"]) == (
        "sglang",
        "main-sglang",
        "message_queue_address",
    )
    assert found["failure"]["key"] == "s" and found["failure"]["image"] == IMAGE
    taken = {entry["name"]: entry["value"] for entry in found["variables"]}
    assert taken["gb10_image_ref"] == "v:1" and taken["__gb10_turn"] == 1
    # What this turn registered is not to be taken for the next one's.
    assert taken["__gb10_wait"] == taken["__gb10_image_sync"] == taken["ansible_failed_result"] == {}


def test_the_last_engine_has_none_after_it() -> None:
    first = ask("failure", variables(__gb10_wait=HANG))
    last = ask("failure", variables(1, "vllm", __gb10_wait=HANG, __gb10_attempt=first))
    assert last["next"] is None and [entry["engine"] for entry in last["attempts"]] == ["sglang", "vllm"]
    assert last["failure"]["key"] == "v" and last["failed_because"] == "b: it did not start"
    assert last["before"] == {"id": "main-old"}


def test_before_is_what_ran_before_the_first_attempt() -> None:
    first = ask("failure", variables(__gb10_wait=HANG))
    second = variables(1, "vllm", __gb10_wait=HANG, __gb10_attempt=first)
    for hostvars in second["hostvars"].values():
        hostvars["__gb10_spec"]["before"] = {}
    assert ask("failure", second)["before"] == {"id": "main-old"}


@pytest.mark.parametrize(
    ("change", "recorded"),
    [
        ({"__gb10_wait": FLAG}, "bad_flag"),
        ({}, None),
        ({"__gb10_wait": HANG, "__gb10_stopped": None}, "message_queue_address"),  # it ran already
    ],
)
def test_it_stays_with_this_engine(change: dict[str, Any], recorded: str | None) -> None:
    found = ask("failure", variables(**change))
    assert found["next"] is None and found["failure"] is None
    assert found["attempts"][0]["cause"] == recorded


def test_a_refused_start_is_recorded_with_its_cause() -> None:
    task_vars = variables()
    task_vars["hostvars"]["b"]["__gb10_start"] = {"failed": True, "cause": "ranks_disagree", "msg": "it differs"}
    found = ask("failure", task_vars)
    assert (found["next"], found["failure"], found["attempts"][0]["cause"]) == (None, None, "ranks_disagree")
    task_vars["hostvars"]["a"]["__gb10_attempt"] = found
    report = deployment_report.collect("main", "b: it differs", False, task_vars, found["begun_at"])
    assert report["start"]["cause"] == "ranks_disagree" and report["start"]["first"]["host"] == "b"
    assert report["attempts"][0]["cause"] == "ranks_disagree"


def test_the_report_names_the_cause_of_the_collective() -> None:
    verdict = {"cause": "rank_missing", "remedy": "Look.", "first": {"host": "b", "rank": 1}, "evidence": []}
    task_vars = variables(__gb10_collective_verdict={"failed": True, "collective": verdict})
    start = deployment_report.collect("main", "it failed", False, task_vars, 0.0)["start"]
    assert (start["cause"], start["remedy"], start["first"]) == ("rank_missing", "Look.", {"host": "b", "rank": 1})


def test_a_lost_node_ends_it() -> None:
    task_vars = variables(__gb10_wait=HANG)
    del task_vars["hostvars"]["b"]["__gb10_left"]
    found = ask("failure", task_vars)
    assert found["next"] is None and "b could not be reached" in found["attempts"][0]["why"]


def test_one_engine_remembers_nothing() -> None:
    found = ask("failure", variables(__gb10_wait=HANG), ENGINES[:1])
    assert found["next"] is None and found["failure"] is None and found["lines"] == []


def test_what_failed_before_is_left_out_unless_asked_for() -> None:
    task_vars = variables()
    entry = {"key": "s", "cause": "nccl_init_hang", "at": "then"}
    task_vars["hostvars"]["b"]["__gb10_rank"] = {"rank_state": {"failed": [entry]}}
    found = ask("begin", task_vars)
    assert (found["turn"], found["left_out"], found["known"], found["key"]) == (1, ["sglang"], ["s"], "v")
    assert {"name": "gb10_image_ref", "value": "v:1"} in found["variables"]
    again = ask("begin", task_vars, retry=True)
    assert (again["turn"], again["left_out"], again["known"], again["key"]) == (0, [], ["s"], "s")


def test_a_turn_without_a_spec_of_its_own_has_no_release() -> None:
    first = ask("failure", variables(__gb10_wait=HANG))
    found = ask("failure", variables(1, "sglang", __gb10_attempt=first))
    assert found["attempts"][1]["release"] is None and found["next"] is None


def test_the_report_has_all_attempts() -> None:
    first = ask("failure", variables(__gb10_wait=HANG))
    recipe = {"engines": ENGINES}
    task_vars = variables(1, "vllm", __gb10_attempt=first, __gb10_recipe=recipe, __gb10_wait={}, __gb10_endpoint={})
    for hostvars in task_vars["hostvars"].values():
        hostvars["__gb10_spec"]["spec"].update(model={}, ranks=[], endpoint={})
    report = deployment_report.collect("main", "", False, task_vars, first["begun_at"] + 5)
    assert [(entry["engine"], entry["cause"], entry["stage"]) for entry in report["attempts"]] == [
        ("sglang", "message_queue_address", "start"),
        ("vllm", None, "served"),
    ]
    assert report["attempts"][1]["seconds"] == 5.0
    assert report["engine_choice"] == first["lines"]
