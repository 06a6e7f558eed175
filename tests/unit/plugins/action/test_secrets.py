# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""What an engine prints of its secrets is neither shown nor written."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible import constants

from ansible_collections.gb10.serving.plugins.action import deployment_report, rank_wait
from ansible_collections.gb10.serving.plugins.module_utils._engine_log import classify
from ansible_collections.gb10.serving.plugins.plugin_utils import _hostvars, _watch

KEY, TOKEN, OTHER = "own-key-of-mine", "own-hub-token", "third-key-of-all"
#: The key in SGLang's arguments, in words that no pattern knows, and a token of the environment.
LINES = (
    f"[2026-01-02 10:00:00] server_args=ServerArgs(model_path='/m', api_key='{OTHER}', nnodes=1)",
    f"[2026-01-02 10:00:01] Traceback (most recent call last):\nValueError: odd key {KEY} and {TOKEN}",
)
TEMPLAR = SimpleNamespace(template=lambda text: text.replace("{{ vaulted }}", KEY))


def spec() -> dict[str, Any]:
    rank = {"host": "a", "rank": 0, "address": "10.9.0.1", "container_name": "c0", "env": {"HF_TOKEN": TOKEN}}
    return {"id": "x-1", "ranks": [rank], "engine": {"name": "sglang"}, "endpoint": {"port": 8000}}


def test_rank_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "DEFAULT_LOCAL_TMP", str(tmp_path), raising=False)
    shown: list[str] = []
    monkeypatch.setattr(rank_wait.display, "display", lambda text, **_more: shown.append(text))
    state = json.dumps({"Running": False, "ExitCode": 1, "StartedAt": "2026-01-02T10:00:00Z"})
    log = "\n".join(f"2026-01-02T10:00:0{at}Z {line}" for at, line in enumerate("\n".join(LINES).split("\n")))

    def command(_self: Any, _command: str) -> dict[str, str]:
        return {"stdout": f"{_watch.STATE} {'a' * 64} {state}\n{_watch.SEPARATOR}\n{log}\n"}

    monkeypatch.setattr(rank_wait.ActionModule, "_low_level_execute_command", command)
    task = SimpleNamespace(check_mode=False, args={"spec": spec()}, async_val=0, diff=False)
    connection = SimpleNamespace(_shell=SimpleNamespace(tmpdir="/x"))
    action = rank_wait.ActionModule(task, connection, SimpleNamespace(), None, TEMPLAR, None)
    monkeypatch.setattr(action, "validate_argument_spec", lambda argument_spec: (None, {
        "spec": spec(), "allowance_factor": 1.0, "allowances": {}, "timeout": 60,
    }))  # fmt: skip
    variables = {"inventory_hostname": "a", "gb10_server_api_key": "{{ vaulted }}"}
    result = action.run(task_vars=variables)
    told = json.dumps([result, shown])
    assert "server_args=ServerArgs(model_path='/m', api_key='********', nnodes=1)" in told
    assert "odd key ******** and ********" in told and result["failed"]
    assert not any(secret in told for secret in (KEY, TOKEN, OTHER))


def test_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def collect(name: str, failure: str, *_rest: Any) -> dict[str, Any]:
        return {"name": name, "outcome": "failed", "failure": failure, "written_at": "now", "spec": None,
                "start": {"evidence": [LINES[0]], "ranks": []}, "attempts": [{"env": {"HF_TOKEN": TOKEN}}]}  # fmt: skip

    monkeypatch.setattr(deployment_report, "collect", collect)
    monkeypatch.setattr(_hostvars, "causes", lambda _vars: f"a: odd key {KEY}\nTOKEN={TOKEN}")
    action = deployment_report.ActionModule(
        SimpleNamespace(check_mode=False), SimpleNamespace(), SimpleNamespace(), None, TEMPLAR, None
    )
    args = {"name": "main", "failed": True, "directory": str(tmp_path)}
    result = action.answer(args, {"gb10_server_api_key": KEY})
    written = "".join(path.read_text(encoding="utf-8") for path in tmp_path.rglob("report.*"))
    assert "odd key ********" in written and "api_key='********'" in written
    assert not any(secret in written + json.dumps(result) for secret in (KEY, TOKEN, OTHER))


def test_secret_environment_is_known() -> None:
    names = {"gb10_server_secret_env": {"ODD": "hush-odd"}}
    assert _hostvars.secrets(names, SimpleNamespace(template=lambda value: value), {}) == ("hush-odd",)


def test_engine_log_info() -> None:
    answer = classify(f"vLLM API server version 1\nOddError: no --api-key {OTHER} here\n")
    assert answer["evidence"] == ["OddError: no --api-key ******** here"]
