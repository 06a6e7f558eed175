# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""The check as a user runs it, and the addressing's action: who gets which number."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest
import yaml

from ansible_collections.gb10.serving.plugins.action import doctor, fabric_netplan
from ansible_collections.gb10.serving.plugins.modules import doctor as stub

ROOT = Path(__file__).resolve().parents[4]


def run(module: Any, variables: dict[str, Any], check: bool = False, **args: Any) -> dict[str, Any]:
    task = MagicMock(args=args, async_val=0, check_mode=check, diff=False)
    action = module.ActionModule(task, MagicMock(), MagicMock(), MagicMock(), MagicMock(), MagicMock())
    action._execute_module = lambda **kwargs: {"changed": False, "given": kwargs["module_args"]}
    return action.run(None, variables)


def variables(played: list[str], **hosts: dict[str, Any]) -> dict[str, Any]:
    return {
        "inventory_hostname": played[0] if played else "localhost",
        "groups": {"sparks": list(hosts), "all": list(hosts)},
        "hostvars": hosts,
        "ansible_play_hosts_all": played,
    }


def probed(**docker: Any) -> dict[str, Any]:
    gb10 = {"platform": {"is_gb10": True, "kernel": "6.17.0", "arch": "aarch64", "driver": "580.1"}, "docker": docker}
    return {"__gb10_probe": {"ansible_facts": {"gb10": gb10}}}


def test_the_verdict_fails_the_task_only_when_it_is_error(tmp_path: Path) -> None:
    output = tmp_path / "check.json"
    failed = run(doctor, variables(["a"], a=probed(available=False, error="gone")), output=str(output))
    assert (failed["failed"], failed["changed"], failed["verdict"]) == (True, False, "error")
    assert "a docker" in failed["msg"] and "rows" not in failed
    assert json.loads(output.read_text())["verdict"] == "error"
    fine = run(doctor, variables(["a"], a=probed(available=True, nvidia=True, root_free_bytes=6 * 10**9)))
    assert (fine.get("failed"), fine["verdict"]) == (None, "warning")
    assert set(fine) >= {"verdict", "summary", "rows"}


def test_hosts_left_out_by_a_limit_are_no_rows_and_old_facts_are_not_used() -> None:
    stale = {"ansible_facts": {"gb10": {"docker": {"available": True}}}}
    found = run(doctor, variables(["a"], a=probed(available=True, nvidia=True), b=stale))
    assert {row["host"] for row in found["rows"]} == {"a", "fabric"}
    found = run(doctor, variables(["a", "b"], a=probed(available=True), b=stale), about="fabric")
    assert (found["testable"], "b could not be probed" in found["reason"]) == (False, True)


def test_a_test_that_broke_off_is_said_to_have() -> None:
    words = {"__gb10_fabric_failure": {"msg": "no\n  route"}, "__gb10_fabric_measured": {"failed": True}}
    hosts = {"a": probed(available=True, nvidia=True), "b": {**probed(available=True, nvidia=True), **words}}
    rows = run(doctor, variables(["a", "b"], **hosts), output="")
    assert rows["failed"] and "fabric no fabric address" in rows["msg"]
    assert doctor._measured(variables(["a", "b"], **hosts), ["a", "b"]) == {
        "refused": [],
        "paths": None,
        "findings": [],
        "fabric": {},
        "failed": True,
        "reason": "the test failed: no route",
    }


@pytest.mark.parametrize(("gate", "fails"), [("nope", True), ("fail", False), ("warn", False), (False, False)])
def test_a_gate_that_does_not_exist_is_refused(gate: Any, fails: bool) -> None:
    for about in ("inventory", "nodes"):
        found = run(doctor, variables(["a"], a=probed(available=True, nvidia=True)), about=about, gate=gate)
        assert bool(found.get("failed")) == fails
        assert not fails or "gb10_fabric_gate is 'nope'. Expected: fail, warn, off." in found["msg"]


def test_the_file_says_when_of_whom_and_by_which_version(tmp_path: Path) -> None:
    output = tmp_path / "check.json"
    run(doctor, variables(["a"], a=probed(available=True, nvidia=True), b={}), output=str(output))
    written = json.loads(output.read_text())
    assert written["hosts"] == ["a"] and written["time"].endswith(" UTC")
    assert written["version"] == yaml.safe_load((ROOT / "galaxy.yml").read_text())["version"]
    assert {"bandwidth", "counts", "rows", "summary", "verdict"} <= set(written)


def playbook(tmp_path: Path, name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A playbook on this machine, with an empty captured tree."""
    python = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable, "ansible_become": False}
    (tmp_path / "tree/commands").mkdir(parents=True)
    (tmp_path / "tree/commands/ip-j-addr.txt").write_text('[{"ifname": "lo"}]')
    hosts = {"here": {**python, "gb10_sysroot": str(tmp_path / "tree")}}
    (tmp_path / "hosts.yml").write_text(yaml.safe_dump({"sparks": {"hosts": hosts}}))
    command = [sys.executable, "-m", "ansible", "playbook", str(ROOT / "playbooks" / name)]
    return subprocess.run(
        [*command, "-i", str(tmp_path / "hosts.yml"), *arguments], capture_output=True, text=True, check=False, cwd=ROOT
    )


def test_numbers_and_switches_may_come_from_the_command_line(tmp_path: Path) -> None:
    words = {"port": "1", "first_host": "21", "configure": "false", "configure_timeout": "30"}
    done = playbook(
        tmp_path, "configure_fabric.yml", *(item for k, v in words.items() for item in ("-e", f"gb10_fabric_{k}={v}"))
    )
    assert done.returncode == 2 and "Expected: a link on port 1" in " ".join(done.stdout.split()), done.stdout


def test_the_check_refuses_a_gate_that_does_not_exist(tmp_path: Path) -> None:
    done = playbook(tmp_path, "check.yml", "-e", "gb10_fabric_gate=nope")
    assert done.returncode == 2 and "Expected: fail, warn, off" in " ".join(done.stdout.split()), done.stdout


def test_an_inventory_without_nodes_fails_and_a_single_node_does_not() -> None:
    assert "inventory nodes" in run(doctor, variables([]), about="inventory")["msg"]
    assert not run(doctor, variables([], a={}), about="inventory").get("failed")


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    path = str(tmp_path / "no" / "check.json")
    found = run(doctor, variables(["a"], a=probed(available=True, nvidia=True)), output=path)
    assert found["failed"] and path in found["msg"] and "gb10_check_output" in found["msg"]


def test_the_documentation_names_the_arguments() -> None:
    options = yaml.safe_load(stub.DOCUMENTATION)["options"]
    keys = ("type", "default", "choices")
    assert {n: {k: o[k] for k in keys if k in o} for n, o in options.items()} == doctor.ActionModule.SPEC


def test_the_playbook_goes_on_when_a_host_is_gone(tmp_path: Path) -> None:
    python = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable, "ansible_become": False}
    gone = {"ansible_connection": "ssh", "ansible_host": "127.0.0.1", "ansible_port": 9}
    hosts = {"here": {**python, "gb10_sysroot": str(tmp_path)}, "gone": gone}
    (tmp_path / "hosts.yml").write_text(yaml.safe_dump({"sparks": {"hosts": hosts}}))
    output = tmp_path / "check.json"
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "ansible",
            "playbook",
            str(ROOT / "playbooks/check.yml"),
            "-i",
            str(tmp_path / "hosts.yml"),
            "-e",
            f"gb10_check_output={output}",
        ],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env={**os.environ, "ANSIBLE_SSH_TIMEOUT": "2"},
    )
    assert done.returncode == 2, done.stdout + done.stderr
    rows = {(row["host"], row["what"]): row for row in json.loads(output.read_text())["rows"]}
    assert "Cannot reach gone" in rows["gone", "probe"]["seen"] and "ssh -p 9" in rows["gone", "probe"]["remedy"]
    assert rows["here", "platform"]["verdict"] == "unmeasured"
    assert "expected" in done.stdout and "remedy" in done.stdout


@pytest.mark.parametrize(("host", "number", "peers"), [("a", 21, [22, 23]), ("b", 23, [21, 22]), ("c", 22, [21, 23])])
def test_host_numbers_follow_the_ranks(host: str, number: int, peers: list[int]) -> None:
    hosts = {"a": {"gb10_rank": 0}, "b": {"gb10_rank": 2}, "c": {"gb10_rank": 1}}
    found = run(fabric_netplan, {**variables(["a"], **hosts), "inventory_hostname": host}, first_host=21)
    assert (found["given"]["number"], found["given"]["peers"]) == (number, peers)


@pytest.mark.parametrize(
    ("one", "two", "check", "stopped"),
    [
        ({"state": "foreign", "reason": "set up by x"}, {"state": "would_write"}, False, True),
        ({"state": "foreign", "reason": "set up by x"}, {"state": "would_write"}, True, False),
        ({"state": "foreign"}, {"state": "foreign"}, False, False),
        ({"state": "present"}, {"state": "would_write"}, False, False),
        ({}, {"state": "would_write"}, False, False),
    ],
)
def test_nodes_that_would_not_find_each_other_are_not_touched(
    one: dict[str, Any], two: dict[str, Any], check: bool, stopped: bool
) -> None:
    found = run(fabric_netplan, variables(["a", "b"], a={"__gb10_netplan": one}, b={"__gb10_netplan": two}), check)
    assert bool(found.get("failed")) == stopped
    if stopped:
        assert "b would get addresses" in found["msg"] and "a: set up by x" in found["msg"]
