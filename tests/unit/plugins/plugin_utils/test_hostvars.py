# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""What the hosts registered becomes one cause, and a text that names the host."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gb10.serving.plugins.plugin_utils import _hostvars

SPEC = {"spec": {"ranks": [{"host": "a", "rank": 0}, {"host": "b", "rank": 1}]}}
DIFFERS = {"failed": True, "cause": "ranks_disagree", "remedy": "Deploy again.", "msg": "the image differs."}


def variables(**hosts: dict[str, Any]) -> dict[str, Any]:
    return {
        "groups": {"sparks": ["a", "b"]},
        "hostvars": {host: {"__gb10_spec": SPEC, **hosts.get(host, {})} for host in "ab"},
        "ansible_play_hosts": ["a", "b"],
    }


def test_a_refused_start_has_its_host_and_rank() -> None:
    found = _hostvars.refusal(variables(b={"__gb10_start": DIFFERS}))
    assert (found["cause"], found["first"]) == ("ranks_disagree", {"host": "b", "rank": 1})
    assert found["why"] == "the image differs." and found["remedy"] == "Deploy again."


def test_an_answer_for_all_hosts_names_the_one_that_differs() -> None:
    judged = {"__gb10_parity": {**DIFFERS, "first": {"host": "b"}}}
    assert _hostvars.refusal(variables(a=judged, b=judged))["first"] == {"host": "b", "rank": 1}


def test_wishes_that_differ_have_no_ranks_yet() -> None:
    refused = {"__gb10_spec": {**DIFFERS, "first": {"host": "b"}}}
    assert _hostvars.refusal(variables(a=refused, b=refused))["first"] == {"host": "b", "rank": None}


@pytest.mark.parametrize("result", [{}, {"failed": True}, {"cause": "x"}, {"failed": True, "cause": None}])
def test_no_refusal(result: dict[str, Any]) -> None:
    assert _hostvars.refusal(variables(b={"__gb10_start": result})) == {}


@pytest.mark.parametrize(
    ("failed", "text"),
    [
        ({"b": "it is red."}, "b: it is red."),
        ({"b": "on b: it is red."}, "on b: it is red."),
        ({"a": "it is red.", "b": "it is red."}, "a, b: it is red."),
        ({"a": "another host failed or could not be reached", "b": "it is red."}, "b: it is red."),
        ({}, "a task failed; its message stands above"),
    ],
)
def test_causes_name_the_host(failed: dict[str, str], text: str) -> None:
    hosts = {host: {"ansible_failed_result": {"msg": said}} for host, said in failed.items()}
    assert _hostvars.causes(variables(**hosts)) == text
