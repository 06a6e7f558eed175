# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""A lock goes with the run that holds it, however the run ends."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gb10.serving.plugins.action import deployment_lock
from ansible_collections.gb10.serving.plugins.module_utils import _lock

ROOT = Path(__file__).resolve().parents[4]
PLAY = """
- hosts: all
  gather_facts: false
  tasks:
    - name: Lock
      gb10.serving.deployment_lock:
        root: "{{ root }}"
    - name: Wait
      ansible.builtin.wait_for:
        timeout: 120
"""


def action() -> deployment_lock.ActionModule:
    made = deployment_lock.ActionModule.__new__(deployment_lock.ActionModule)

    def run(command: str, sudoable: bool = True) -> dict[str, Any]:
        done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
        return {"rc": done.returncode, "stdout": done.stdout}

    made._low_level_execute_command = run
    return made


@pytest.mark.parametrize(
    ("token", "other", "left"),
    [("0a1b", None, []), ("ffff", None, [_lock.FILE]), ("0a1b", "main", ["main"])],
)
def test_the_end_of_the_run_gives_it_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, token: str, other: str | None, left: list[str]
) -> None:
    root = tmp_path / "the root's place"
    assert _lock.take(str(root), {"token": "0a1b"}, 120) is None
    if other:
        (root / other).mkdir()
    monkeypatch.setattr(deployment_lock, "_lives", lambda _run, _started: False)
    action()._follow(str(root / _lock.FILE), token, 1, None)
    assert (os.listdir(root) if root.exists() else []) == left


def test_nothing_is_made_where_the_folder_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deployment_lock, "_lives", lambda _run, _started: False)
    action()._follow(str(tmp_path / "root" / _lock.FILE), "0a1b", 1, None)
    assert os.listdir(tmp_path) == []


def test_a_lock_that_was_given_back_is_followed_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deployment_lock, "BEAT_SECONDS", 0.0)
    monkeypatch.setattr(deployment_lock, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(deployment_lock, "_lives", lambda _run, _started: True)
    assert action()._beat(str(tmp_path / _lock.FILE), "0a1b", 1, None) is False


def test_a_run_that_is_killed_leaves_no_lock(tmp_path: Path) -> None:
    (tmp_path / "play.yml").write_text(PLAY)
    local = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    (tmp_path / "hosts.json").write_text(json.dumps({"sparks": {"hosts": {"a": local}}}))
    root = tmp_path / "root"
    with subprocess.Popen(
        [
            Path(sys.executable).with_name("ansible-playbook"), "-i", tmp_path / "hosts.json", tmp_path / "play.yml",
            "-e", f"root={root}",
        ],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL, cwd=tmp_path,
        start_new_session=True,
        env={
            **os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
            "ANSIBLE_COLLECTIONS_PATH": str(ROOT / "collections"), "ANSIBLE_LOCAL_TEMP": str(tmp_path / "tmp"),
        },
    ) as process:  # fmt: skip
        until = time.monotonic() + 30
        while not (root / _lock.FILE).exists():
            assert time.monotonic() < until and process.poll() is None
            time.sleep(0.05)
        os.killpg(process.pid, 9)
    until = time.monotonic() + 15
    while root.exists():
        assert time.monotonic() < until, os.listdir(root)
        time.sleep(0.05)
