# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

from ansible_collections.gb10.serving.plugins.plugin_utils import _hostvars

display = Display()

Rails = Sequence[Mapping[str, Any]]


def own_rails(rails: Rails, host: str) -> list[dict[str, Any]]:
    """The ends of one host, as the module wants them."""
    return [
        {"number": number, **{key: rail["members"][host][key] for key in ("netdev", "address", "hca", "gid_index")}}
        for number, rail in enumerate(rails)
        if host in rail["members"]
    ]


def peers_of(rails: Rails, host: str, hosts: Sequence[str]) -> list[dict[str, Any]]:
    """The ends of all others."""
    return [
        {
            "host": other,
            "rails": [{"number": end["number"], "address": end["address"]} for end in own_rails(rails, other)],
        }
        for other in hosts
        if other != host
    ]


class ActionModule(ActionBase):
    """Fills in rails and peers from what earlier tasks registered, and runs the module where there is work."""

    TRANSFERS_FILES = False
    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        task_vars = task_vars or {}
        result: dict[str, Any] = super().run(tmp, task_vars)
        args = dict(self._task.args)
        args.update({key: value for key, value in self._found(args, task_vars).items() if key not in args})
        if args.get("state") == "measured":
            if not args.get("peers"):
                return {**result, "changed": False, "bandwidth": []}
            names = ", ".join(str(peer["host"]) for peer in args["peers"])
            display.display(f"{task_vars.get('inventory_hostname')}  measuring the rails to {names}")
        if args.get("state") == "closed" and not args.get("sessions"):
            return {**result, "changed": False}
        ran = self._execute_module(module_name="gb10.serving.fabric_test", module_args=args, task_vars=task_vars)
        return {**result, **ran}

    def _found(self, args: Mapping[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Options that nobody gave."""
        host = str(task_vars.get("inventory_hostname"))
        hosts = _hostvars.members(task_vars) if _hostvars.GROUP in task_vars.get("groups", {}) else []
        rails = _hostvars.read(task_vars, host, "__gb10_fabric").get("rails") or [] if hosts else []
        if host not in hosts or not rails:
            return {}
        state = args.get("state", "reached")
        if state == "closed":
            listeners = _listener(task_vars, host).get("listeners") or []
            return {"sessions": [item["session"] for item in listeners]}
        if state != "measured":
            return {"rails": own_rails(rails, host), "peers": peers_of(rails, host, hosts)}
        peers = [
            {"host": other, "listeners": told["listeners"], "tools": told["tools"]}
            for other in hosts[hosts.index(host) + 1 :]
            if (told := _listener(task_vars, other)).get("listeners")
        ]
        return {"rails": own_rails(rails, host), "peers": peers}


def _listener(task_vars: dict[str, Any], host: str) -> dict[str, Any]:
    return _hostvars.read(task_vars, host, "__gb10_fabric_listener")
