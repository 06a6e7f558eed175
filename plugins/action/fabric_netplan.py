# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

from ansible_collections.gb10.serving.plugins.plugin_utils import _hostvars

display = Display()

MODULE = "gb10.serving.fabric_netplan"
#: What a run in check mode registered on each host.
PLANNED = "__gb10_netplan"


class ActionModule(ActionBase):
    """Gives each node its host number in rank order, and starts no change that the others would not take part in."""

    TRANSFERS_FILES = False
    _supports_check_mode = True
    _supports_diff = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        task_vars = task_vars or {}
        result: dict[str, Any] = super().run(tmp, task_vars)
        host = str(task_vars["inventory_hostname"])
        hosts = _hostvars.members(task_vars) or [host]
        problem = "" if self._task.check_mode else mixed(task_vars, hosts)
        if problem:
            return {**result, "failed": True, "changed": False, "msg": problem}
        args = dict(self._task.args)
        first = int(args.get("first_host", 11))
        if args.get("number") is None and host in hosts:
            args["number"] = first + hosts.index(host)
            args["peers"] = [first + rank for rank, name in enumerate(hosts) if name != host]
        result.update(self._execute_module(module_name=MODULE, module_args=args, task_vars=task_vars))
        if result.get("state") == "foreign":
            display.display(f"{host}: {result['reason']}. It is left as it is.")
        return result


def mixed(task_vars: dict[str, Any], hosts: list[str]) -> str:
    """Why the nodes would not find each other, from what a run in check mode saw; empty when they would."""
    states = {host: _hostvars.read(task_vars, host, PLANNED) for host in hosts}
    foreign = {host: state for host, state in states.items() if state.get("state") == "foreign"}
    writing = [host for host, state in states.items() if state.get("state") == "would_write"]
    if not foreign or not writing:
        return ""
    seen = "; ".join(f"{host}: {state.get('reason')}" for host, state in foreign.items())
    return (
        f"{', '.join(writing)} would get addresses that the others do not share. Seen: {seen}. Expected: all nodes set "
        "up by the same hand. Nothing has been changed. Next step: give the remaining nodes addresses in the subnets "
        "that are there already, or remove that set-up and run this again."
    )
