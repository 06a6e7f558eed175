# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from ansible import context
from ansible.errors import AnsibleError
from ansible.utils.display import Display

from ansible_collections.gb10.serving.plugins.plugin_utils import _chain, _checks, _hostvars, _parity, _spec
from ansible_collections.gb10.serving.plugins.plugin_utils._controller_action import ControllerAction
from ansible_collections.gb10.serving.plugins.plugin_utils._problems import Problem, message, refusal
from ansible_collections.gb10.serving.plugins.plugin_utils._rails import pair_rails

display = Display()

#: Terms of a plan that a running rank holds.
HELD = ("weights_bytes", "state_bytes", "kv_bytes", "activation_bytes", "graphs_bytes", "non_torch_bytes")

Answer = tuple[Sequence[Problem | str], dict[str, Any]]


class ActionModule(ControllerAction):
    """Asks one set of questions about all hosts at once and answers with every problem in one message."""

    SPEC: ClassVar = {
        "about": {
            "type": "str",
            "required": True,
            "choices": ["inventory", "nodes", "fabric", "sources", "offers", "parity"],
        },
        "gpus": {"type": "str", "default": ""},
        "ports": {"type": "dict", "default": {}},
        "image": {"type": "str"},
        "copy": {"type": "str", "choices": ["image", "model"]},
        "verify_model": {"type": "bool", "default": False},
    }
    REQUIRED_IF: ClassVar = [("about", "sources", ["image"]), ("about", "offers", ["copy"])]

    def answer(self, args: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        ask: Callable[[dict[str, Any], dict[str, Any]], Answer] = getattr(self, f"_{args['about']}")
        problems, answer = ask(args, task_vars)
        answer["started_at"] = time.time()
        if problems:
            answer.update(failed=True, msg=answer.get("msg") or message(problems), **refusal(problems))
        return answer

    def _inventory(self, _args: dict[str, Any], task_vars: dict[str, Any]) -> Answer:
        hosts = list(task_vars["groups"].get(_hostvars.GROUP, []))
        hostvars = task_vars["hostvars"]
        members = [
            _checks.Member(host, str(hostvars[host].get("ansible_host", host)), _rank(hostvars[host])) for host in hosts
        ]
        limited = context.CLIARGS.get("subset")
        reached = task_vars.get("ansible_play_hosts_all", hosts) if limited else hosts
        if "localhost" in reached:
            reached = hosts
        problems = _checks.check_inventory(_hostvars.GROUP, members, reached)
        # Known bad before any node is asked.
        problems += _spec.check_key(self._key(task_vars))
        forks = int(context.CLIARGS.get("forks") or len(hosts))
        if forks < len(hosts):
            problems.append(
                Problem(
                    "ansible",
                    f"it works on {forks} hosts at a time.",
                    f"all {len(hosts)} at once, because ranks wait for each other.",
                    f"run with '--forks {len(hosts)}', or set forks in ansible.cfg.",
                )
            )
        return problems, {"hosts": _hostvars.members(task_vars) if not problems else hosts}

    def _key(self, task_vars: dict[str, Any]) -> str:
        key = task_vars.get("gb10_server_api_key") or ""
        try:
            return str(self._templar.template(key)) if key else ""
        except AnsibleError:
            return ""  # A vault that is closed is told where the key is used.

    def _nodes(self, args: dict[str, Any], task_vars: dict[str, Any]) -> Answer:
        hosts = _hostvars.members(task_vars)
        ports = {purpose: int(port) for purpose, port in args["ports"].items() if port}
        states = {host: _hostvars.rank_state(task_vars, host) for host in hosts}
        facts = {host: _hostvars.facts(task_vars, host) for host in hosts}
        head = states[hosts[0]]
        own = _checks.own_ports(head.get("spec") or {}) if (head.get("container") or {}).get("running") else set()
        return _checks.check_nodes(facts, args["gpus"], ports, own), {}

    def _fabric(self, _args: dict[str, Any], task_vars: dict[str, Any]) -> Answer:
        hosts = _hostvars.members(task_vars)
        pairing = pair_rails({host: _hostvars.facts(task_vars, host)["fabric"] for host in hosts})
        for problem in pairing.problems:
            if problem.level == "warning":
                display.warning(f"fabric: {problem}")
        found = pairing.as_dict()
        return [str(problem) for problem in pairing.errors], {key: found[key] for key in ("rails", "topology")}

    def _sources(self, args: dict[str, Any], task_vars: dict[str, Any]) -> Answer:
        hosts = _hostvars.members(task_vars)
        facts = {host: _hostvars.facts(task_vars, host) for host in hosts}
        images = {host: _hostvars.read(task_vars, host, "__gb10_image")["engine"]["image"] for host in hosts}
        models = {host: _hostvars.read(task_vars, host, "__gb10_model")["model"] for host in hosts}
        image_source, problems = _checks.check_image(args["image"], images, facts)
        model_source, model_problems = _checks.check_model(models)
        problems = [*problems, *model_problems]
        if image_source is None or model_source is None or problems:
            return problems, {}
        image, model = images[image_source], models[model_source]
        without_image = _checks.lacking_image(images, image_source)
        without_model = _checks.lacking_model(models, model_source)
        if args["verify_model"]:  # every copy is compared with the source, which may have to send parts of it
            without_model = [host for host in hosts if host != model_source]
        with_image = [image_source, *(h for h in hosts if h not in (image_source, *without_image))]
        # Further files beside a model change its digest, so that such a node cannot vouch for it.
        with_model = [
            model_source,
            *(h for h in hosts if h not in (model_source, *without_model) and models[h]["digest"] == model["digest"]),
        ]
        ways = _Ways(hosts, task_vars)
        image_copy = ways.copy("image", with_image, without_image)
        model_copy = ways.copy("model", with_model, without_model)
        if ways.problems:
            return ways.problems, {}
        return [], {
            "engine": _hostvars.read(task_vars, image_source, "__gb10_image")["engine"],
            "model": model,
            "model_places": {host: {key: models[host][key] for key in ("path", "mounts")} for host in hosts},
            "image_copy": {**image_copy, "content": image["content"], "size_bytes": image["size_bytes"]},
            "model_copy": {**model_copy, "content": model["digest"], "size_bytes": model["total_bytes"]},
            **_memory(hosts, facts, {host: _hostvars.rank_state(task_vars, host) for host in hosts}),
        }

    def _offers(self, args: dict[str, Any], task_vars: dict[str, Any]) -> Answer:
        hosts = _hostvars.members(task_vars)
        found = _hostvars.read(task_vars, hosts[0], "__gb10_sources")[f"{args['copy']}_copy"]
        opened = {host: _hostvars.read(task_vars, host, f"__gb10_{args['copy']}_offer") for host in found["plan"]}
        return [], {"sources": _chain.offers(found["plan"], opened)}

    def _parity(self, _args: dict[str, Any], task_vars: dict[str, Any]) -> Answer:
        hosts = _hostvars.members(task_vars)
        spec = _hostvars.read(task_vars, hosts[0], "__gb10_spec")["spec"]
        images = {host: _hostvars.read(task_vars, host, "__gb10_parity_image")["image"] for host in hosts}
        models = {host: _hostvars.read(task_vars, host, "__gb10_parity_model")["model"] for host in hosts}
        problems = _parity.check_ranks(spec, images, models)
        return problems, {"msg": _parity.message(problems)} if problems else {}


class _Ways:
    """Who sends what to whom, over which addresses, and how fast the fabric test saw that link."""

    def __init__(self, hosts: Sequence[str], task_vars: dict[str, Any]) -> None:
        rails = _hostvars.read(task_vars, hosts[0], "__gb10_fabric")["rails"]
        self.addresses = {
            host: [f"{rail['members'][host]['address']}/{rail['subnet'].partition('/')[2]}" for rail in rails]
            for host in hosts
        }
        fabric = _hostvars.read(task_vars, hosts[0], "__gb10_fabric_measured").get("fabric") or {}
        self.entries: list[dict[str, Any]] = fabric.get("entries") or []
        self.problems: list[Problem] = []

    def copy(self, what: str, holders: list[str], receivers: list[str]) -> dict[str, Any]:
        answer, problems = _chain.plan(self.addresses, holders, receivers, what)
        self.problems += problems
        for host, part in answer["plan"].items():
            way = part["sources"][:1]
            part["measured_rate"] = _chain.measured(self.entries, way[0]["host"], host) if way else None
        return {"source": holders[0], **answer}


def _rank(hostvars: Any) -> int | None:
    rank = hostvars.get("gb10_rank")
    return None if rank is None else int(rank)


def _memory(hosts: list[str], facts: dict[str, Any], states: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """What the plan may count on: measured memory, plus what a rank of this deployment will give back when it stops.

    While ranks run, the plan that they run by is handed on, so that an unchanged deployment keeps it.
    """
    nodes: list[dict[str, Any]] = []
    previous: dict[str, Any] = {}
    for host in hosts:
        memory, state = facts[host]["memory"], states[host]
        available = memory["available_bytes"]
        plan = (state.get("spec") or {}).get("plan") or {}
        if plan and (state.get("container") or {}).get("running"):
            previous = plan
            held: dict[str, int] = next((rank for rank in plan["ranks"] if rank["host"] == host), {})
            # Never more than was measured before it started: a rank that still loads does not hold all of it yet.
            most = held.get("available_bytes") or available
            available = max(available, min(available + sum(held.get(key, 0) for key in HELD), most))
        nodes.append(
            {
                "host": host,
                "total_bytes": memory["total_bytes"],
                "available_bytes": min(available, memory["total_bytes"]),
            }
        )
    return {"nodes": nodes, "previous_plan": previous}
