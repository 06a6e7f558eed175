# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""The environment that a user gives, in the check mode and in the run: both refuse the same."""

from __future__ import annotations

from typing import Any
from unittest.mock import MagicMock

import pytest

from ansible_collections.gb10.serving.plugins.action import deployment_spec
from ansible_collections.gb10.serving.plugins.plugin_utils._rails import pair_rails
from ansible_collections.gb10.serving.tests.unit.plugins.plugin_utils.test_spec import ENGINE, PLAN, SPARKS, settings

WRONG = {"GLOO_SOCKET_IFNAME": "eth0", "VLLM_HOST_IP": "127.0.0.1"}


def run(check_mode: bool = False, **changes: Any) -> dict[str, Any]:
    engine = {**ENGINE, "reason": None, "flags": None}
    places = {host: {"path": "/m", "mounts": []} for host in SPARKS}
    sources = {"engine": engine, "model": {"digest": "sha256:bb"}, "model_places": places}
    rails = pair_rails(SPARKS).as_dict()["rails"]
    args = {**settings(**changes), "rails": rails, "plan": PLAN, "sources": sources}
    task = MagicMock(args=args, async_val=0, check_mode=check_mode, diff=False)
    task_vars = {"groups": {"sparks": list(SPARKS)}, "hostvars": {host: {} for host in SPARKS}}
    action = deployment_spec.ActionModule(task, MagicMock(), MagicMock(), MagicMock(), MagicMock(), MagicMock())
    return dict(action.run(None, task_vars))


@pytest.mark.parametrize("check_mode", [False, True])
def test_all_that_is_wrong_is_said_before_anything_is_changed(check_mode: bool) -> None:
    result = run(check_mode, env=WRONG, port=70000)
    assert result["failed"] and "spec" not in result
    assert "3 problems found; nothing has been changed." in result["msg"]
    for word in ("GLOO_SOCKET_IFNAME is 'eth0'", "VLLM_HOST_IP is '127.0.0.1'", "gb10_server_port: it is 70000"):
        assert word in result["msg"]


def test_who_means_it_gets_it_with_warnings(monkeypatch: pytest.MonkeyPatch) -> None:
    display = MagicMock()
    monkeypatch.setattr(deployment_spec, "display", display)
    result = run(env=WRONG, env_override=True)
    assert not result.get("failed"), result
    assert {rank["env"]["VLLM_HOST_IP"] for rank in result["spec"]["ranks"]} == {"127.0.0.1"}
    said = [call.args[0] for call in display.warning.call_args_list]
    assert [word for word in WRONG if any(f"{word} is" in line for line in said)] == list(WRONG)
    display.reset_mock()
    plain = run()
    assert not any("gb10_server_env" in call.args[0] for call in display.warning.call_args_list)
    # To be allowed to is not part of what runs.
    assert run(env_override=True)["spec"] == plain["spec"]
