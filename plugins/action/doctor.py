# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path
from typing import Any, ClassVar

import yaml
from ansible import constants
from ansible.utils.display import Display

from ansible_collections.gb10.serving.plugins.plugin_utils import _doctor, _doctor_table, _hostvars
from ansible_collections.gb10.serving.plugins.plugin_utils._controller_action import ControllerAction

display = Display()

COLORS = {
    "": constants.COLOR_HIGHLIGHT,
    "ok": constants.COLOR_OK,
    "info": None,
    "unmeasured": constants.COLOR_SKIP,
    "warning": constants.COLOR_WARN,
    "error": constants.COLOR_ERROR,
}


GATES = ("fail", "warn", "off")


class ActionModule(ControllerAction):
    """Judges what the hosts registered, shows it as one table, and fails when something is an error."""

    SPEC: ClassVar = {
        "about": {"type": "str", "default": "nodes", "choices": ["inventory", "fabric", "nodes"]},
        "gpus": {"type": "str", "default": "all"},
        "rdma": {"type": "bool", "default": True},
        "ports": {"type": "dict", "default": {}},
        "mtu": {"type": "int", "default": 9000},
        "gate": {"type": "str", "default": "fail"},
        "expected_gbps": {"type": "float", "default": 0},
        "output": {"type": "path", "default": ""},
    }

    def answer(self, args: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        # YAML reads a bare off as false
        gate = "off" if args["gate"].lower() == "false" else args["gate"]
        if gate not in GATES:
            return {
                "failed": True,
                "msg": f"gb10_fabric_gate is '{gate}'. Expected: {', '.join(GATES)}. Next step: correct it in the "
                "inventory or after -e. Nothing has been looked at.",
            }
        hosts = _hosts(task_vars, args["about"])
        if not hosts:
            report = _doctor.no_hosts(_hostvars.GROUP)
        elif args["about"] == "inventory":
            return {}
        else:
            nodes = [_node(task_vars, host) for host in hosts]
            if args["about"] == "fabric":
                everybody = _hostvars.members(task_vars) or hosts
                reason = _doctor.not_testable([_node(task_vars, host) for host in everybody])
                return {"testable": not reason, "reason": reason}
            settings = _doctor.Settings(
                gpus=args["gpus"],
                rdma=args["rdma"],
                ports={purpose: int(port) for purpose, port in args["ports"].items() if port},
                mtu=args["mtu"],
                gate=gate,
                expected_gbps=args["expected_gbps"],
                total=len(_hostvars.members(task_vars) or hosts),
            )
            report = _doctor.examine(nodes, settings, _measured(task_vars, hosts))
        return self._result(report, hosts, args["output"])

    @staticmethod
    def _result(report: _doctor.Report, hosts: list[str], output: str) -> dict[str, Any]:
        for verdict, line in _doctor_table.lines(report.rows, shutil.get_terminal_size((160, 24)).columns):
            display.display(line, color=COLORS.get(verdict))
        display.display(report.summary, color=COLORS.get(report.verdict))
        result = {
            "time": time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime()),
            "version": collection_version(),
            "hosts": hosts,
            **report.as_dict(),
        }
        if output:
            path = os.path.expanduser(output)
            try:
                with open(path, "w", encoding="utf-8") as stream:
                    json.dump(result, stream, indent=2)
                    stream.write("\n")
            except OSError as error:
                return {
                    **result,
                    "failed": True,
                    "msg": f"The file for the result, {path}, cannot be written: {error.strerror}. Expected: a path in "
                    "a directory that exists on this machine. Next step: correct gb10_check_output.",
                }
        if report.verdict == "error":
            # The table has just said it all: the rows would be printed a second time as part of the failure.
            for key in ("rows", "bandwidth", "counts"):
                del result[key]
            wrong = ", ".join(f"{row.host} {row.what}" for row in report.rows if row.verdict == "error")
            result.update(
                failed=True,
                msg=f"Errors: {wrong}. Next step: the remedies in the table above. Nothing has been changed.",
            )
        return result


def collection_version() -> str | None:
    """The version of this collection: of the installed one by its manifest, of a checkout by galaxy.yml."""
    root = Path(__file__).resolve().parents[2]
    try:
        manifest = root / "MANIFEST.json"
        if manifest.exists():
            return str(json.loads(manifest.read_text(encoding="utf-8"))["collection_info"]["version"])
        return str(yaml.safe_load((root / "galaxy.yml").read_text(encoding="utf-8"))["version"])
    except (OSError, ValueError, KeyError, TypeError, yaml.YAMLError):
        return None


def _hosts(task_vars: dict[str, Any], about: str) -> list[str]:
    """The hosts of this run in rank order. Without the group, as with ``-i host,``, all hosts."""
    played = list(task_vars.get("ansible_play_hosts_all") or [])
    members = _hostvars.members(task_vars)
    if not members:
        return list(task_vars["groups"].get("all", [])) if about == "inventory" else played
    return [host for host in members if host in played] or members


def _measured(task_vars: dict[str, Any], hosts: list[str]) -> dict[str, Any]:
    """What the fabric test registered, as far as it got; each result is the same on all hosts that have it."""
    tested, failure, paths, speed = (
        next((found for host in hosts if (found := _hostvars.read(task_vars, host, name))), {})
        for name in ("__gb10_testable", "__gb10_fabric_failure", "__gb10_fabric_judged", "__gb10_fabric_measured")
    )
    words = f"the test failed: {' '.join(str(failure['msg']).split())}" if failure else ""
    return {
        "refused": failure.get("refused") or [],
        "paths": paths.get("findings"),
        "findings": speed.get("findings") or [],
        "fabric": speed.get("fabric") or {},
        "failed": bool(failure),
        "reason": tested.get("reason") or words or paths.get("reason") or "",
    }


def _node(task_vars: dict[str, Any], host: str) -> _doctor.Node:
    """What this run found out about one host, never what an older run left in a cache of facts."""
    probe = _hostvars.read(task_vars, host, "__gb10_probe")
    facts = dict((probe.get("ansible_facts") or {}).get("gb10") or {})
    # Read without sudo: the home and the rights are those of the user who logs in.
    first = _hostvars.read(task_vars, host, "__gb10_storage")
    storage = (first.get("ansible_facts") or {}).get("gb10") or {}
    if facts and storage:
        facts["storage"] = storage.get("storage")
    container = _hostvars.rank_state(task_vars, host).get("container") or {}
    return _doctor.Node(host, facts, str(probe.get("msg") or first.get("msg") or ""), bool(container.get("running")))
