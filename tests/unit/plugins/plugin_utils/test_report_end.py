# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""What serves after a run, and the end of one that failed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ansible_collections.gb10.serving.plugins.action import deployment_report
from ansible_collections.gb10.serving.plugins.plugin_utils import _report, _report_end

OLD = {"container": {"running": True, "release": "main-old"}, "spec": {"id": "main-old"}, "current": "main-old"}
NONE: dict[str, Any] = {"container": None, "error": None, "spec": None, "current": None}
RAN = {"__gb10_rank": {"rank_state": OLD}}
STOPPED = {**RAN, "__gb10_stopped": {"changed": True}, "__gb10_cleared": {"changed": True}}
READY = {**STOPPED, "__gb10_restored": {"ready": True}}
WRONG = {**STOPPED, "__gb10_restored": {"ready": False, "failed": True}, "__gb10_left_off": {"changed": True}}
KEPT = "Release main-old was never stopped and still serves."
NOT_BACK = "release main-old could not be brought back"


def variables(before: str | None = "main-old", **hosts: dict[str, Any]) -> dict[str, Any]:
    common = {"__gb10_spec": {"spec": {"id": "main-new"}, "before": {"id": before} if before else {}}}
    return {
        "groups": {"sparks": ["a", "b"]},
        "hostvars": {host: {**common, **hosts.get(host, {})} for host in "ab"},
        "ansible_play_hosts": ["a", "b"],
    }


@pytest.mark.parametrize(
    ("a", "b", "release", "restored", "words"),
    [
        (READY, READY, "main-old", True, "Release main-old serves again."),
        (READY, WRONG, None, False, f"Nothing serves now: {NOT_BACK}. Next step: mend the cause"),
        (WRONG, STOPPED, None, False, f"Nothing serves now: {NOT_BACK}. Next step: mend the cause"),
        (
            WRONG,
            {**WRONG, "__gb10_left_off": {"failed": True}},
            None,
            False,
            "and on b a rank may still run. Next step:",
        ),
        (WRONG, RAN, None, False, "and on b a rank may still run. Next step: run the stop playbook once b answers"),
        (RAN, RAN, "main-old", False, KEPT),
        (RAN, {"__gb10_rank": {"rank_state": NONE}}, None, False, "Nothing serves now, as before this run. Next step:"),
        ({}, {}, None, False, "This run stopped no rank: what served before it still does."),
        (
            {**RAN, "__gb10_wait": {"failed": True}},
            RAN,
            None,
            False,
            "was never stopped, but does not answer. Next step:",
        ),
        ({**RAN, "__gb10_endpoint": {"endpoint": {"ok": False}}}, RAN, None, False, "but does not answer. Next step:"),
    ],
)
def test_what_serves_after_a_failure(
    a: dict[str, Any], b: dict[str, Any], release: str | None, restored: bool, words: str
) -> None:
    found = _report_end.serving_after(variables(a=a, b=b), "failed")
    assert (found["release"], found["restored"]) == (release, restored)
    assert words in found["words"]


def test_nothing_to_bring_back() -> None:
    found = _report_end.serving_after(variables(None, a=STOPPED, b=STOPPED), "failed")
    assert found["release"] is None and "there was no other release to bring back" in found["words"]


@pytest.mark.parametrize(
    ("state", "words"), [(RAN, "b did not answer to the end"), (READY | WRONG, "on b a rank may still run")]
)
def test_a_host_that_is_lost_keeps_anybody_from_knowing(state: dict[str, Any], words: str) -> None:
    given = {**variables(a=state, b=state), "ansible_play_hosts": ["a"]}
    found = _report_end.serving_after(given, "failed")
    assert found["release"] is None and words in found["words"]


@pytest.mark.parametrize(
    ("outcome", "release"), [("running", "main-new"), ("unproven", None), ("predicted", "main-old")]
)
def test_what_serves_without_a_failure(outcome: str, release: str | None) -> None:
    assert _report_end.serving_after(variables(a=RAN, b=RAN), outcome)["release"] == release


def test_the_end_has_cause_evidence_step_and_what_serves() -> None:
    failure = "b: rank 1 did not start: bad_flag.\nWhy: so.\nNext step: take the flag out."
    report = {"start": {"evidence": ["error: --odd"], "remedy": "r"}, "serving_after": {"words": KEPT}}
    assert _report_end.ending(failure, report, "Report: /r").splitlines() == [
        "b: rank 1 did not start: bad_flag.",
        "It said: error: --odd",
        "Next step: take the flag out.",
        KEPT,
        "Report: /r",
    ]


def test_the_end_is_short_and_names_the_problems() -> None:
    problems = "\n".join(f"  - a: {number}. Next step: do it." for number in range(5))
    failure = f"5 problems found; nothing has been changed.\n{problems}\n\nb: it is red."
    lines = _report_end.ending(failure, {"serving_after": {"words": KEPT}}, "Report: /r").splitlines()
    assert len(lines) == 6 and lines[1] == "  - a: 0. Next step: do it."
    assert lines[3] == "(4 more: above and in the report)"


def test_the_report_has_it_under_what_stopped_it() -> None:
    bare = {"name": "main", "written_at": "now", "outcome": "failed", "failure": "it is red"}
    assert KEPT in _report.markdown({**bare, "serving_after": {"words": KEPT}}).split("## ")[1]


@pytest.mark.parametrize("failed", [True, False])
def test_only_a_run_that_did_not_fail_hands_the_report_out(failed: bool) -> None:
    action = deployment_report.ActionModule.__new__(deployment_report.ActionModule)
    action._task = SimpleNamespace(check_mode=True)
    action._templar = SimpleNamespace(template=lambda text: text)
    for_b = {**RAN, "ansible_failed_result": {"msg": "b: it is red."}}
    given = variables(a=RAN, b=for_b)
    for host in "ab":
        del given["hostvars"][host]["__gb10_spec"]
    result = action.answer({"name": "main", "failed": failed, "directory": "unused"}, given)
    assert ("report" in result) is not failed
    if failed:
        assert result["msg"].splitlines()[0] == "b: it is red." and KEPT in result["msg"]
