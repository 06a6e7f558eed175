# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

import json
import os
from typing import Any, ClassVar

from ansible import constants
from ansible.utils.display import Display

from ansible_collections.gb10.serving.plugins.module_utils._model import inspect
from ansible_collections.gb10.serving.plugins.module_utils._model_hub import inspect_id
from ansible_collections.gb10.serving.plugins.plugin_utils import (
    _hostvars,
    _plan_document,
    _plan_svg,
    _plan_text,
    _plan_variables,
)
from ansible_collections.gb10.serving.plugins.plugin_utils._controller_action import ControllerAction
from ansible_collections.gb10.serving.plugins.plugin_utils._memory import plan
from ansible_collections.gb10.serving.plugins.plugin_utils._plan_options import Option, by_context, laid_out, options_of
from ansible_collections.gb10.serving.plugins.plugin_utils._problems import Problem, message

display = Display()

COLORS = {"fits": constants.COLOR_OK, "borderline": constants.COLOR_WARN, "refused": constants.COLOR_ERROR}
GB10_MEMORY = 130_562_000_000  # the default of gb10_plan_memory_bytes: then what is available is a prior, too


class ActionModule(ControllerAction):
    """Plans without nodes, from variables and a config.json; shows, writes, and fails when it does not fit."""

    SPEC: ClassVar = {
        "about": {"type": "str", "default": "plan", "choices": ["variables", "plan"]},
        "variables": {"type": "dict", "default": {}},
        "model_root": {"type": "str", "default": ""},
        "image_ref": {"type": "str", "default": ""},
        "args": {"type": "list", "elements": "str", "default": []},
    }

    def answer(self, args: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        if args["about"] == "variables":
            return self._checked(task_vars)
        variables = args["variables"]
        base, problems = _plan_variables.read_all(variables)
        if not base.get("gb10_plan_engine_version") and (version := _plan_variables.version_of(args["image_ref"])):
            base["gb10_plan_engine_version"] = version
        options, wrong = options_of(variables.get("gb10_plan_options"), base)
        problems += wrong
        self._models: dict[str, dict[str, Any]] = {}
        self._problems: list[Problem] = []
        models = [self._model(option, args["model_root"]) for option in options] if not problems else []
        problems += self._problems
        measured = _measured(task_vars) if base.get("gb10_plan_measure") else []
        problems += _unmeasured(task_vars, measured) if base.get("gb10_plan_measure") else []
        if problems:
            return self._wrong(problems, base)
        if len(options) == 1 and not variables.get("gb10_plan_options") and not base.get("gb10_plan_context_length"):
            limit = (models[0].get("config") or {}).get("max_position_embeddings")
            options = by_context(options[0], limit if isinstance(limit, int) else None)
            models = models * len(options)
        main = _planned(options[0], models[0], args["args"], measured)
        if not variables.get("gb10_plan_options") and main[0]["ranks"]:
            taken, count = _plan_document.settings_of(main[0]), main[1]["nodes"]["count"]
            options = [options[0], *(laid_out(option, taken, count) for option in options[1:])]
        others = zip(options[1:], models[1:], strict=True)
        planned = [main, *(_planned(option, model, args["args"], measured) for option, model in others)]
        rows = [
            _plan_document.summary_of(option.name or "as asked", found, about)
            for option, (found, about) in zip(options, planned, strict=True)
        ]
        if not variables.get("gb10_plan_options"):
            # One of the usual contexts may be what the plan takes by itself.
            taken = rows[0]["settings"]["context_length"]
            rows = [rows[0], *(row for row in rows[1:] if row["settings"]["context_length"] != taken)]
        document = _plan_document.document(*planned[0], rows)
        return self._result(document, base)

    def _checked(self, task_vars: dict[str, Any]) -> dict[str, Any]:
        """What the user set, before any of it is used: all that is wrong in one message."""
        known = {
            name: self._templar.template(task_vars[name]) for name in _plan_variables.VARIABLES if name in task_vars
        }
        found, problems = _plan_variables.read_all(known)
        problems += _plan_variables.unknown(task_vars)
        problems += options_of(known.get("gb10_plan_options"), found)[1]
        if problems:
            return self._wrong(problems, found)
        return {"variables": sorted(found)}

    def _wrong(self, problems: list[Problem], base: dict[str, Any]) -> dict[str, Any]:
        """What is asked makes no sense. The files say so too, so that nobody takes an older one for the answer."""
        unique = list(dict.fromkeys(map(str, problems)))
        refused = {**plan([], {}), "reasons": unique, "remedies": [], "changes": []}
        _written, unwritten = _write(_plan_document.document(refused, {}), base)
        return {"failed": True, "msg": message([*unique, *unwritten])}

    def _model(self, option: Option, root: str) -> dict[str, Any]:
        """The folder if it is there, else the hub. A folder that is not there is a problem when no id is given."""
        wanted, name = str(option.values.get("gb10_model_dir") or ""), str(option.values.get("gb10_model_id") or "")
        path = os.path.abspath(os.path.expanduser(wanted)) if wanted else ""
        if os.path.basename(path) == "config.json":
            path = os.path.dirname(path)
        nothing = not wanted or path == os.path.abspath(os.path.expanduser(root or "."))
        if nothing and not name:
            self._problems.append(
                Problem(
                    "gb10_model_dir",
                    "no model is named.",
                    "a folder on this machine that holds config.json, or gb10_model_id.",
                    "add -e gb10_model_dir=FOLDER, -e gb10_model_id=ORGANISATION/NAME or -e gb10_recipe=NAME.",
                )
            )
            return {}
        on_disk = not nothing and os.path.isdir(path)
        if not on_disk and not name:
            self._problems.append(
                Problem(
                    "gb10_model_dir",
                    f"it is {wanted!r}, and there is no folder {path} on this machine.",
                    "a folder that holds config.json (weights are not needed).",
                    "correct the path, or set gb10_model_id to ask the hub.",
                )
            )
            return {}
        key = path if on_disk else name
        if key not in self._models:
            self._models[key] = inspect(path) if on_disk else inspect_id(name, None, None, None)
            self._models[key]["name"] = os.path.basename(path) if on_disk else name
        return self._models[key]

    @staticmethod
    def _result(document: dict[str, Any], base: dict[str, Any]) -> dict[str, Any]:
        for number, line in enumerate(_plan_text.lines(document)):
            display.display(line, color=None if number else COLORS[document["verdict"]])
        written, problems = _write(document, base)
        for path in written:
            display.display(f"Written: {path}")
        result = {"verdict": document["verdict"], "document": document, "written": written}
        if document["verdict"] == "refused" and base.get("gb10_plan_fail", True):
            # All of it stands above and in the file: it would be printed a second time as part of the failure.
            del result["document"]
            said = "Why, and what would help, is said above."
            result.update(failed=True, msg="\n".join([f"{_plan_text.headline(document)} {said}", *problems]))
        elif problems:
            del result["document"]
            result.update(failed=True, msg=message(problems))
        return result


def _write(document: dict[str, Any], base: dict[str, Any]) -> tuple[list[str], list[str]]:
    """(the files that were written, what kept others from being written)."""
    written, problems = [], []
    for name, render in (
        ("gb10_plan_output", lambda: json.dumps(document, indent=2) + "\n"),
        ("gb10_plan_svg", lambda: _plan_svg.svg(document)),
    ):
        if not base.get(name):
            continue
        path = os.path.abspath(os.path.expanduser(str(base[name])))
        try:
            with open(path, "w", encoding="utf-8") as stream:
                stream.write(render())
            written.append(path)
        except (OSError, ValueError) as error:
            problem = Problem(
                name,
                f"{path!r} cannot be written: {getattr(error, 'strerror', None) or error}.",
                "a file in a directory that exists on this machine.",
                f"correct {name}.",
            )
            problems.append(str(problem))
    return written, problems


def _measured(task_vars: dict[str, Any]) -> list[dict[str, Any]]:
    """Memory of the nodes that this run has just asked, in the order of their ranks."""
    found = []
    for host in _hostvars.members(task_vars):
        memory = _hostvars.facts(task_vars, host).get("memory") or {}
        if memory.get("total_bytes"):
            figures = {key: memory.get(key) for key in ("total_bytes", "available_bytes")}
            found.append({"host": host, **figures})
    return found


def _unmeasured(task_vars: dict[str, Any], measured: list[dict[str, Any]]) -> list[Problem]:
    """Nodes that were to be measured and were not: no prior takes their place in silence."""
    known = {node["host"] for node in measured}
    missing = [host for host in _hostvars.members(task_vars) if host not in known]
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


def _nodes(option: Option, measured: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The measured nodes, and priors for those beyond them. All measured ones where no number is said."""
    said = any(option.values.get(name) for name in ("gb10_plan_nodes", "gb10_plan_tp", "gb10_plan_pp"))
    count = option.nodes if said or not measured else len(measured)
    memory = option.values.get("gb10_plan_memory_bytes") or GB10_MEMORY
    kind: dict[str, Any] = {"total_bytes": memory}
    if free := option.values.get("gb10_plan_available_bytes"):
        kind.update(available_bytes=free, source="as set (gb10_plan_available_bytes)")
    priors = [{"host": f"node {number + 1}", **kind} for number in range(len(measured), count)]
    return [*measured[:count], *priors]


def _planned(
    option: Option, model: dict[str, Any], args: list[str], measured: list[dict[str, Any]]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """(the plan, what it is about)."""
    nodes = _nodes(option, measured)
    wishes, _problems = _plan_variables.wishes(option.values, args)
    found = _plan_variables.named_plan(plan(nodes, model, wishes, option.engine))
    if not found["ranks"]:
        found["reasons"] = [*found["reasons"], _asked(option)]
    about = {
        "model": {
            "name": model.get("name"),
            "path": model.get("path"),
            "weights_source": found.get("weights_source"),
            "problems": model.get("problems") or [],
        },
        "engine": option.engine,
        "nodes": {
            "count": len(nodes),
            "memory_bytes": min(node["total_bytes"] for node in nodes),
            "measured": min(len(measured), len(nodes)),
        },
    }
    return found, about


def _asked(option: Option) -> str:
    """What was set, by the names under which a user sets it. Defaults and files are left out."""
    usual = {"gb10_plan_memory_bytes": GB10_MEMORY, "gb10_plan_reserve_gib": 8, "gb10_server_engine": "vllm"}
    hidden = ("gb10_plan_output", "gb10_plan_svg", "gb10_plan_fail", "gb10_plan_options", "gb10_plan_measure")
    pairs = {
        name: value
        for name, value in {"gb10_plan_nodes": option.nodes, **option.values}.items()
        if name not in hidden and value != "auto" and usual.get(name) != value
    }
    return "Set: " + ", ".join(f"{name}={value}" for name, value in sorted(pairs.items())) + "."
