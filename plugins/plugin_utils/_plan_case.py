# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
#
# Private to this collection: may change without notice.
"""One variant of plan.yml from its variables to its plan: nodes, wishes, and what was set. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.gb10.serving.plugins.plugin_utils import _hostvars, _plan_args, _plan_variables
from ansible_collections.gb10.serving.plugins.plugin_utils._engines import ENGINES
from ansible_collections.gb10.serving.plugins.plugin_utils._memory import plan
from ansible_collections.gb10.serving.plugins.plugin_utils._plan_document import engine_of
from ansible_collections.gb10.serving.plugins.plugin_utils._plan_names import named_plan
from ansible_collections.gb10.serving.plugins.plugin_utils._plan_options import Option
from ansible_collections.gb10.serving.plugins.plugin_utils._plan_switches import against
from ansible_collections.gb10.serving.plugins.plugin_utils._problems import Problem

GB10_MEMORY = 130_562_000_000  # the default of gb10_plan_memory_bytes: then what is available is a prior, too
#: Set by default, or not about the model's memory.
_USUAL = {"gb10_plan_memory_bytes": GB10_MEMORY, "gb10_server_engine": "vllm"}
_HIDDEN = (
    "gb10_model_dir",
    "gb10_model_id",
    "gb10_plan_output",
    "gb10_plan_svg",
    "gb10_plan_fail",
    "gb10_plan_options",
    "gb10_plan_measure",
)


def measured_nodes(task_vars: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Memory of the nodes that this run has just asked, in the order of their ranks."""
    found = []
    for host in _hostvars.members(dict(task_vars)):
        memory = _hostvars.facts(dict(task_vars), host).get("memory") or {}
        if memory.get("total_bytes"):
            figures = {key: memory.get(key) for key in ("total_bytes", "available_bytes")}
            found.append({"host": host, **figures})
    return found


def unmeasured(task_vars: Mapping[str, Any], measured: Sequence[Mapping[str, Any]]) -> list[Problem]:
    """Nodes that were to be measured and were not: no prior takes their place in silence."""
    known = {node["host"] for node in measured}
    missing = [host for host in _hostvars.members(dict(task_vars)) if host not in known]
    if known and not missing:
        return []
    seen = f"{', '.join(missing)} told nothing of memory." if missing else f"group '{_hostvars.GROUP}' has no host."
    return [
        Problem(
            "gb10_plan_measure",
            seen,
            "an inventory with the nodes, and all of them within reach.",
            "see what was said of them above, or leave gb10_plan_measure out to plan with a prior.",
        )
    ]


def argument_problems(option: Option, args: Sequence[str]) -> list[Problem]:
    """What is wrong with the engine's arguments for one variant."""
    engine = str(option.engine["name"])
    _wishes, problems = _plan_variables.wishes(option.values, args, engine)
    said, _problems = _plan_args.from_args([str(arg) for arg in args], engine)
    return [*_plan_args.decided(args, engine), *problems, *against(option.values, args, said)]


def _nodes(option: Option, measured: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The measured nodes, and priors for those beyond them. All measured ones where no number is said."""
    said = any(option.values.get(name) for name in ("gb10_plan_nodes", "gb10_plan_tp", "gb10_plan_pp"))
    count = option.nodes if said or not measured else len(measured)
    memory = option.values.get("gb10_plan_memory_bytes") or GB10_MEMORY
    kind: dict[str, Any] = {"total_bytes": memory}
    if free := option.values.get("gb10_plan_available_bytes"):
        kind.update(available_bytes=free, source="as given: gb10_plan_available_bytes")
    priors = [{"host": f"node {number + 1}", **kind} for number in range(len(measured), count)]
    return [*measured[:count], *priors]


def _shards(model: Mapping[str, Any], found: Mapping[str, Any]) -> list[str]:
    """A model that is there in part is planned from its config.json."""
    if found.get("weights_source") != "config.json":
        return []
    told = (re.match(r"(\d+) of (\d+) files ", str(problem)) for problem in model.get("problems") or [])
    return [
        f"{one[1]} of {one[2]} shards {'is' if one[1] == '1' else 'are'} there; planned from config.json."
        for one in told
        if one
    ]


def planned(
    option: Option, model: dict[str, Any], args: Sequence[str], measured: list[dict[str, Any]]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """(the plan, what it is about)."""
    nodes = _nodes(option, measured)
    engine = str(option.engine["name"])
    wishes, _problems = _plan_variables.wishes(option.values, args, engine)
    found = named_plan(plan(nodes, model, wishes, option.engine))
    if not found["ranks"] and (set_ := asked(option)):
        found["reasons"] = [*found["reasons"], set_]
    if "gb10_plan_tp" in option.picked:  # nodes that the plan itself leaves out are no news of this row
        found["notes"] = [note for note in found["notes"] if " nodes are used: " not in note]
    found["notes"] = [*_shards(model, found), *found["notes"]]
    about = {
        "model": {
            "name": model.get("name"),
            "path": model.get("path"),
            "weights_source": found.get("weights_source"),
            "problems": model.get("problems") or [],
        },
        "engine": engine_of(option.engine),
        "args": [*_by_variables(option, args), *args],
        "nodes": {
            "count": len(nodes),
            "memory_bytes": min(node["total_bytes"] for node in nodes),
            "memory_given": option.values.get("gb10_plan_memory_bytes", GB10_MEMORY) != GB10_MEMORY,
            "measured": min(len(measured), len(nodes)),
        },
    }
    return found, about


def _by_variables(option: Option, args: Sequence[str]) -> list[str]:
    """Flags for what variables ask for that no argument says yet."""
    said, _problems = _plan_args.from_args(list(args), str(option.engine["name"]))
    dtype = "auto" if "dtype" in said else str(option.values.get("gb10_plan_dtype") or "auto")
    drafts = 0 if "speculative_tokens" in said else int(option.values.get("gb10_plan_speculative_tokens") or 0)
    engine = ENGINES.get(str(option.engine["name"]))
    found: list[str] = engine.wish_args(dtype, drafts) if engine else []
    return found


def asked(option: Option) -> str:
    """What was set, by the names under which a user sets it. Defaults, files and what the plan picked are left out."""
    pairs = {
        name: value
        for name, value in option.values.items()
        if name not in _HIDDEN and name not in option.picked and value != "auto" and _USUAL.get(name) != value
    }
    words = ", ".join(f"{name}={value}" for name, value in sorted(pairs.items()))
    return f"You had set: {words}." if words else ""
