# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
# Private to this collection: no stability promised.
"""What an action that speaks for the whole deployment needs from the hosts of the group."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.gb10.serving.plugins.module_utils import _redact

GROUP = "sparks"

BETWEEN_CAUSES = "\n\n"


def members(task_vars: Mapping[str, Any]) -> list[str]:
    """Host names of group ``sparks`` in rank order: by ``gb10_rank`` where given, else inventory order."""
    hosts = list(task_vars["groups"].get(GROUP, []))
    hostvars = task_vars["hostvars"]
    return sorted(hosts, key=lambda host: int(hostvars[host].get("gb10_rank", hosts.index(host))))


def read(task_vars: Mapping[str, Any], host: str, name: str) -> dict[str, Any]:
    """Variable ``name`` of one host (a registered result, mostly), or an empty mapping when it has none."""
    value = task_vars["hostvars"][host].get(name)
    return dict(value) if isinstance(value, Mapping) else {}


def facts(task_vars: Mapping[str, Any], host: str) -> dict[str, Any]:
    """The ``gb10`` facts of one host, or an empty mapping when it was not probed."""
    return dict(read(task_vars, host, "ansible_facts").get("gb10") or {})


def rank_state(task_vars: Mapping[str, Any], host: str) -> dict[str, Any]:
    """What ``rank_info`` found on one host, or an empty mapping when it was not asked or not reached."""
    return dict(read(task_vars, host, "__gb10_rank").get("rank_state") or {})


def secrets(task_vars: Mapping[str, Any], templar: Any, spec: Mapping[str, Any]) -> tuple[str, ...]:
    """Secrets that an engine of this deployment has been given, and may print."""
    found = [templar.template(task_vars.get("gb10_server_api_key") or "")]
    hidden = task_vars.get("gb10_server_secret_env")
    hidden = templar.template(hidden) if hidden else {}
    found += list(hidden.values()) if isinstance(hidden, Mapping) else []
    for rank in spec.get("ranks") or []:
        found += _redact.of_env(rank.get("env") or {})
    return _redact.known(found)


def refusal(task_vars: Mapping[str, Any]) -> dict[str, Any]:
    """Why no engine was started, where that has a cause: ``cause``, ``remedy``, ``first``, ``why``; or empty."""
    for name in ("__gb10_spec", "__gb10_parity", "__gb10_start"):
        for host in members(task_vars):
            result = read(task_vars, host, name)
            if result.get("failed") and result.get("cause"):
                first = dict(result.get("first") or {"host": host})
                ranks = read(task_vars, host, "__gb10_spec").get("spec", {}).get("ranks") or []
                first["rank"] = next((rank["rank"] for rank in ranks if rank["host"] == first["host"]), None)
                kept = {key: result.get(key) for key in ("cause", "remedy")}
                return {**kept, "first": first, "why": result.get("msg"), "confidence": "high", "evidence": []}
    return {}


def spec_of_turn(task_vars: Mapping[str, Any], engine: str) -> dict[str, Any]:
    """The spec that was built for this engine, or an empty mapping when it did not come to that."""
    spec = dict(read(task_vars, members(task_vars)[0], "__gb10_spec").get("spec") or {})
    return spec if (spec.get("engine") or {}).get("name") == engine else {}


def turn_begun_at(task_vars: Mapping[str, Any], now: float) -> float:
    """When the present engine's turn began: with the run, or with the end of the attempt before."""
    head = members(task_vars)[0]
    attempt, inventory = read(task_vars, head, "__gb10_attempt"), read(task_vars, head, "__gb10_inventory")
    return float(attempt.get("begun_at") or inventory.get("started_at") or now)


def copies(task_vars: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What was copied in this turn: what, from where, to where, how much and for how long."""
    hosts = members(task_vars)
    found = []
    for what in ("image", "model"):
        parts = (read(task_vars, hosts[0], "__gb10_sources").get(f"{what}_copy") or {}).get("plan") or {}
        for host in hosts:
            copy = read(task_vars, host, "__gb10_copies").get(what) or read(task_vars, host, f"__gb10_{what}_sync")
            if copy.get("moved_bytes"):
                senders = (parts.get(host) or {}).get("sources") or []
                found.append(
                    {
                        "what": what,
                        "source": next((sender["host"] for sender in senders), None),
                        "host": host,
                        "moved_bytes": copy["moved_bytes"],
                        "seconds": copy.get("seconds") or 0,
                    }
                )
    return found


def causes(task_vars: Mapping[str, Any]) -> str:
    """What failed on which host, each cause once."""
    hosts = members(task_vars)
    judged = read(task_vars, hosts[0], "__gb10_attempt")
    if judged.get("failed_because") and judged.get("next") is None:
        return str(judged["failed_because"])  # what the hosts have is the failure that followed from it
    found: dict[str, list[str]] = {}
    for host in hosts:
        failed = read(task_vars, host, "ansible_failed_result")
        if text := failed.get("msg"):
            found.setdefault(str(text), []).append(host)
    if len(found) > 1:
        # What the role gb10_server says for a host that only went down with another.
        found = {text: on for text, on in found.items() if not text.startswith("another host failed")}
    lost = [host for host in hosts if host not in task_vars.get("ansible_play_hosts", [])]
    if lost and not found:
        found[f"{', '.join(lost)} could not be reached, or failed as the message above says"] = []
    # What a node's own module says does not have the name that the inventory gives the node.
    named = [
        text if not on or any(host in text for host in hosts) else f"{', '.join(on)}: {text}"
        for text, on in found.items()
    ]
    return BETWEEN_CAUSES.join(named) or "a task failed; its message stands above"
