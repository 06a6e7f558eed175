# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
# Private to this collection: no stability promised.
"""What an action that speaks for the whole deployment needs from the hosts of the group."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

GROUP = "sparks"


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
