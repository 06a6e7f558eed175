# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

import json
import os
from typing import Any, ClassVar

from ansible import constants
from ansible.utils.display import Display

from ansible_collections.gb10.serving.plugins.plugin_utils import _hostvars, _status
from ansible_collections.gb10.serving.plugins.plugin_utils._controller_action import ControllerAction

display = Display()


class ActionModule(ControllerAction):
    """Puts together what ``rank_info`` saw on each host and ``endpoint_info`` on the head."""

    SPEC: ClassVar = {"name": {"type": "str", "required": True}, "output": {"type": "path", "default": ""}}

    def answer(self, args: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        hosts = _hostvars.members(task_vars)
        states = [_hostvars.rank_state(task_vars, host) for host in hosts]
        ranks = [_status.rank_status(host, number, states[number]) for number, host in enumerate(hosts)]
        endpoint = _hostvars.read(task_vars, hosts[0], "__gb10_endpoint").get("endpoint")
        state, reason = _status.overall(ranks, endpoint)
        spec = next((found["spec"] for found in states if found.get("spec")), None) or {}
        status = {
            "name": args["name"],
            "state": state,
            "reason": reason,
            "release": spec.get("id"),
            "model": spec.get("model", {}).get("served_name"),
            "endpoint": spec.get("endpoint"),
            "ranks": ranks,
        }
        self._show(status)
        if args["output"] and not self._task.check_mode:
            with open(os.path.expanduser(args["output"]), "w", encoding="utf-8") as stream:
                json.dump(status, stream, indent=2)
                stream.write("\n")
        return {"status": status}

    @staticmethod
    def _show(status: dict[str, Any]) -> None:
        color = constants.COLOR_OK if status["state"] == _status.RUNNING else constants.COLOR_WARN
        if status["state"] == _status.FAILED:
            color = constants.COLOR_ERROR
        display.display(f"deployment {status['name']}: {status['state']} ({status['reason']})", color=color)
        for rank in status["ranks"]:
            line = f"  rank {rank['rank']}  {rank['host']}  {rank['state']}"
            if rank["reason"]:
                line += f": {rank['reason']}"
            if rank["state"] not in ("running", "absent") and rank["last_line"]:
                line += f"\n    last line: {rank['last_line']}"
            display.display(line, color=color)
