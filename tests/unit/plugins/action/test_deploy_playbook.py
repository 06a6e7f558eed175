# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""deploy.yml with roles that only say where they were: what is tidied on which host after a failure.

Ansible passes over the rescue or the always of all hosts but the first when a task that runs once fails beside it.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[4]
HOSTS = ("a", "b", "c")
#: Entry points of the roles, which all say their name and that of the host.
ENTRIES = {
    "gb10_preflight": ("main",),
    "gb10_fabric": ("main",),
    "gb10_plan": ("main",),
    "gb10_image": ("start", "close"),
    "gb10_model": ("start", "close"),
    "gb10_server": ("lock", "unlock", "render", "serve", "clear", "restore"),
    "gb10_report": ("main",),
}
ENDS: dict[str, list[dict[str, Any]]] = {
    # What the others wait for has the cause that another engine may do better with.
    "serve": [
        {"ansible.builtin.set_fact": {
            "__gb10_stopped": {"changed": True},
            "__gb10_wait": {"failed": True, "ready": False, "cause": "nccl_init_hang", "reason": "silence"},
        }},
    ],
    "restore": [{"ansible.builtin.fail": {"msg": "it did not start"}}],
    "gb10_report": [
        {"ansible.builtin.fail": {"msg": "it failed"}, "run_once": True, "when": "gb10_report_failed | default(false)"}
    ],
    "gb10_plan": [
        {"ansible.builtin.set_fact": {
            "__gb10_sources": {"image_copy": {"receivers": ["b"]}, "model_copy": {"receivers": ["b"]}},
            "__gb10_spec": {"spec": {"id": "main-1", "engine": {"name": "{{ gb10_server_engine }}", "image": {}}}},
        }},
    ],
}  # fmt: skip
#: Ways to fail: on all hosts for a task that runs once, on one host, or as a host that is not reached any more.
WAYS: dict[str, list[dict[str, Any]]] = {
    "once": [{"ansible.builtin.fail": {"msg": "it is wrong"}, "run_once": True}],
    "b": [{"ansible.builtin.fail": {"msg": "b is wrong"}, "when": "inventory_hostname == 'b'"}],
    "lost": [
        {"ansible.builtin.set_fact": {"ansible_connection": "ssh", "ansible_port": 1},
         "when": "inventory_hostname == 'b'"},
        {"ansible.builtin.raw": "true"},
    ],
}  # fmt: skip


def place(folder: Path, where: str, way: str) -> Path:
    """A collection with the real plugins and playbooks, and roles that fail at one place in one way."""
    here = folder / "ansible_collections" / "gb10" / "serving"
    (here / "roles").mkdir(parents=True)
    for name in ("plugins", "playbooks", "meta", "galaxy.yml"):
        (here / name).symlink_to(ROOT / name)
    for role, entries in ENTRIES.items():
        tasks = here / "roles" / role / "tasks"
        tasks.mkdir(parents=True)
        for entry in entries:
            name = role if entry == "main" else entry
            note = {"ansible.builtin.debug": {"msg": f"SEEN {role}.{entry}.{{{{ inventory_hostname }}}}"}}
            wrong = WAYS[way] if where == f"{role}.{entry}" else []
            block = [note, *ENDS.get(name, []), *wrong]
            (tasks / f"{entry}.yml").write_text(yaml.safe_dump([{"block": block, "when": True}]))
    return here


def deploy(folder: Path, where: str, way: str, engines: list[str]) -> set[str]:
    """Which entry points were reached on which hosts, as role.entry.host; the run has to fail."""
    here = place(folder, where, way)
    recipe: dict[str, Any] = {"gb10_model_id": "a/b", "gb10_image_ref": "x:1"}
    if engines:
        settings = {name: {"gb10_image_ref": f"{name}:1"} for name in engines}
        recipe.update(gb10_server_engines=engines, gb10_server_engine_settings=settings)
    (folder / "recipe.yml").write_text(
        yaml.safe_dump({**recipe, **({} if engines else {"gb10_server_engine": "vllm"})})
    )
    local = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable, "ansible_become": False}
    hosts = {host: {"ansible_host": f"127.0.0.{number}"} for number, host in enumerate(HOSTS, 1)}
    (folder / "hosts.json").write_text(json.dumps({"sparks": {"hosts": hosts, "vars": local}}))
    done = subprocess.run(
        [
            Path(sys.executable).with_name("ansible-playbook"), here / "playbooks" / "deploy.yml",
            "-i", folder / "hosts.json", "-e", f"gb10_recipe={folder / 'recipe.yml'}",
        ],
        capture_output=True, text=True, check=False, cwd=folder, timeout=120,
        env={
            **os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "ANSIBLE_COLLECTIONS_PATH": str(folder),
            "ANSIBLE_SSH_RETRIES": "0", "ANSIBLE_TIMEOUT": "3",
        },
    )  # fmt: skip
    assert done.returncode != 0 and "FAILED" in done.stdout + done.stderr, done.stdout[-3000:] + done.stderr[-2000:]
    return set(re.findall(r"SEEN ([\w.]+)", done.stdout))


def on_all(entry: str, hosts: tuple[str, ...] = HOSTS) -> set[str]:
    return {f"{entry}.{host}" for host in hosts}


@pytest.mark.parametrize("engines", [[], ["sglang", "vllm"]], ids=["one", "several"])
@pytest.mark.parametrize("way", ["once", "b"])
def test_a_start_that_failed_is_taken_back_on_every_host(tmp_path: Path, way: str, engines: list[str]) -> None:
    seen = deploy(tmp_path, "gb10_server.serve", way, engines)
    assert on_all("gb10_server.restore") <= seen and on_all("gb10_server.unlock") <= seen
    assert (on_all("gb10_server.clear") <= seen) is bool(engines)


@pytest.mark.parametrize("where", ["gb10_preflight.main", "gb10_plan.main"])
def test_every_host_is_unlocked(tmp_path: Path, where: str) -> None:
    assert on_all("gb10_server.unlock") <= deploy(tmp_path, where, "once", ["sglang", "vllm"])


def test_copies_are_closed_on_every_host(tmp_path: Path) -> None:
    seen = deploy(tmp_path, "gb10_server.render", "once", [])
    assert on_all("gb10_image.close") | on_all("gb10_model.close") | on_all("gb10_server.unlock") <= seen


def test_a_copy_that_cannot_be_closed_does_not_keep_the_other_open(tmp_path: Path) -> None:
    seen = deploy(tmp_path, "gb10_image.close", "b", [])
    assert on_all("gb10_model.close") | on_all("gb10_server.unlock") <= seen


@pytest.mark.parametrize("where", ["gb10_server.serve", "gb10_server.render"])
def test_a_host_that_is_lost_leaves_the_others_tidy(tmp_path: Path, where: str) -> None:
    seen = deploy(tmp_path, where, "lost", ["sglang", "vllm"])
    there = ("a", "c")
    assert on_all("gb10_server.unlock", there) <= seen
    if where.endswith("serve"):
        assert on_all("gb10_server.restore", there) <= seen
    else:
        assert on_all("gb10_image.close", there) | on_all("gb10_model.close", there) <= seen


def blocks(tasks: list[Any]) -> Iterator[dict[str, Any]]:
    for task in tasks or []:
        if isinstance(task, dict) and "block" in task:
            yield task
        for part in ("tasks", "block", "rescue", "always"):
            yield from blocks(task.get(part) or [] if isinstance(task, dict) else [])


FILES = sorted([*(ROOT / "playbooks").rglob("*.yml"), *(ROOT / "roles").glob("*/tasks/*.yml")])


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_what_runs_once_does_not_stand_beside_what_all_hosts_need(path: Path) -> None:
    found = []
    for block in blocks(yaml.safe_load(path.read_text()) or []):
        before = [*(block["block"] if {"rescue", "always"} & set(block) else [])]
        before += block.get("rescue", []) if "always" in block else []
        found += [task["name"] for task in before if task.get("run_once") and "include_tasks" not in str(task)]
    assert found == []
