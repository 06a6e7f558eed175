# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

from typing import Any, ClassVar

from ansible.utils.display import Display

from ansible_collections.gb10.serving.plugins.plugin_utils import (
    _checks,
    _engines,
    _env_wishes,
    _flags,
    _hostvars,
    _parity,
    _spec,
    _status,
)
from ansible_collections.gb10.serving.plugins.plugin_utils._controller_action import ControllerAction
from ansible_collections.gb10.serving.plugins.plugin_utils._problems import Problem, message, refusal

display = Display()


class ActionModule(ControllerAction):
    """Builds the spec from what was observed and planned, and says whether exactly that runs already."""

    SPEC: ClassVar = {
        "name": {"type": "str", "required": True},
        "engine": {"type": "str", "required": True},
        "image_ref": {"type": "str", "required": True},
        "model_id": {"type": "str", "required": True},
        "served_name": {"type": "str", "default": ""},
        "args": {"type": "list", "elements": "str", "default": []},
        "env": {"type": "dict", "default": {}},
        "secret_env": {"type": "dict", "default": {}, "no_log": True},
        "env_override": {"type": "bool", "default": False},
        "bind": {"type": "str", "default": "127.0.0.1"},
        "port": {"type": "int", "default": 8000},
        "api_key": {"type": "str", "default": "", "no_log": True},
        "rendezvous_port": {"type": "int"},
        "gpus": {"type": "str", "default": "all"},
        "rdma": {"type": "bool", "default": True},
        "ulimits": {"type": "dict", "default": {}},
        "rails": {"type": "list", "elements": "dict", "required": True},
        "plan": {"type": "dict", "required": True},
        "sources": {"type": "dict", "required": True},
    }

    def answer(self, args: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        sources = args["sources"]
        hosts = _hostvars.members(task_vars)
        plan = {**args["plan"], "world_size": len(hosts)}
        given = {host: task_vars["hostvars"][host] for host in hosts}
        problems = _parity.check_wishes(args, given, str(task_vars.get("inventory_hostname", hosts[0])))
        problems += _spec.check_settings(args, sources["engine"], plan)
        contradictions = _env_wishes.check(args, hosts, args["rails"])
        problems += [] if args["env_override"] else contradictions
        if problems:
            return {"failed": True, "msg": message(problems), **refusal(problems)}
        spec = _spec.build(
            args, hosts, args["rails"], plan, sources["model"], sources["engine"], sources["model_places"]
        )
        problems = _flags.check_spec(spec, sources["engine"]) + _ports(spec, task_vars)
        if problems:
            return {"failed": True, "msg": message(problems), **refusal(problems)}
        warnings = [_env_wishes.warning(one) for one in contradictions]
        for warning in warnings + _flags.check(args["args"], sources["engine"]).warnings:
            display.warning(warning)
        states = [_hostvars.rank_state(task_vars, host) for host in hosts]
        now = _status.running_spec(states)
        running = now is not None and now["id"] == spec["id"]
        return {"spec": spec, "running": running, "before": {} if running else now or {}}


def _ports(spec: dict[str, Any], task_vars: dict[str, Any]) -> list[Problem]:
    """Which ports of the ranks are taken by others, on nodes whose facts are known."""
    engine = _engines.get(spec["engine"]["name"])
    facts, wanted, own = {}, {}, {}
    for rank in spec["ranks"]:
        host = rank["host"]
        if not (fact := _hostvars.facts(task_vars, host)):
            continue
        facts[host], wanted[host] = fact, engine.ports(spec, rank["rank"])
        state = _hostvars.rank_state(task_vars, host)
        if (state.get("container") or {}).get("running"):
            own[host] = _checks.own_ports(state.get("spec") or {})
    return _checks.check_ports(facts, wanted, own)
