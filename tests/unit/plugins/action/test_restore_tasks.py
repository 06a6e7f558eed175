# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""restore.yml with ranks that are only told of: what is left on each host when not all of them come back."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[4]
RANK = """
from ansible.plugins.action import ActionBase

class ActionModule(ActionBase):
    def run(self, tmp=None, task_vars=None):
        host = task_vars["inventory_hostname"]
        what = self._task.args.get("state") or ("started" if "release" in self._task.args else "waited")
        memory = {"back": True}
        return {"msg": f"SEEN {what}.{host}", "failed": f"{what}.{host}" in task_vars["wrong"], "memory": memory}
"""
PLAY = """
- hosts: sparks
  gather_facts: false
  any_errors_fatal: true
  tasks:
    - name: Serve
      block:
        - name: Fail
          ansible.builtin.fail:
            msg: the new release did not start
          when: inventory_hostname == "b"
      rescue:
        - name: Restore
          ansible.builtin.include_role:
            name: gb10.serving.gb10_server
            tasks_from: restore
"""


def restore(folder: Path, *wrong: str) -> tuple[list[str], str]:
    """What was done to ranks, in order of the tasks, as verb.host; and all that was printed."""
    here = folder / "ansible_collections" / "gb10" / "serving"
    (here / "plugins" / "action").mkdir(parents=True)
    for name in ("roles", "meta", "galaxy.yml", "plugins/modules", "plugins/module_utils", "plugins/plugin_utils"):
        (here / name).symlink_to(ROOT / name)
    for name in ("rank", "rank_wait"):
        (here / "plugins" / "action" / f"{name}.py").write_text(RANK)
    (folder / "play.yml").write_text(PLAY)
    given = {"__gb10_stopped": {"memory": {}}, "__gb10_attempt": {"before": {"id": "main-old"}}, "wrong": wrong}
    hosts = {"sparks": {"hosts": {"a": {}, "b": {}}, "vars": {"ansible_connection": "local"}}}
    (folder / "hosts.json").write_text(json.dumps(hosts))
    done = subprocess.run(
        [
            Path(sys.executable).with_name("ansible-playbook"), "-v", "-i", folder / "hosts.json", folder / "play.yml",
            "-e", json.dumps(given),
        ],
        capture_output=True, text=True, check=False, cwd=folder, timeout=120,
        env={**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "ANSIBLE_COLLECTIONS_PATH": str(folder)},
    )  # fmt: skip
    said = done.stdout + done.stderr
    assert done.returncode != 0 and "the new release did not start" in said, said[-4000:]
    return re.findall(r"SEEN (\w+\.\w)", done.stdout), " ".join(said.split())


def test_what_ran_before_runs_again(tmp_path: Path) -> None:
    seen, said = restore(tmp_path)
    assert {"stopped.a", "stopped.b", "started.a", "started.b", "waited.a", "waited.b"} == set(seen)
    assert "could not be brought back" not in said


@pytest.mark.parametrize("wrong", ["started.b", "waited.a", "stopped.b"])
def test_no_rank_is_left_to_wait_for_one_that_does_not_come_back(tmp_path: Path, wrong: str) -> None:
    seen, said = restore(tmp_path, wrong)
    last = len(seen) - 1 - seen[::-1].index(wrong)
    if wrong == "stopped.b":  # it can be stopped neither before nor after
        assert seen.count("stopped.a") == 2 and "not every rank could be stopped" in said
        return
    assert {"stopped.a", "stopped.b"} <= set(seen[last:]) and "No rank is left running by this run" in said
    assert "Restore | Fail with the cause" in said
