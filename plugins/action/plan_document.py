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
    _plan_case,
    _plan_document,
    _plan_names,
    _plan_svg,
    _plan_text,
    _plan_variables,
)
from ansible_collections.gb10.serving.plugins.plugin_utils._controller_action import ControllerAction
from ansible_collections.gb10.serving.plugins.plugin_utils._memory import plan
from ansible_collections.gb10.serving.plugins.plugin_utils._plan_args import version_of
from ansible_collections.gb10.serving.plugins.plugin_utils._plan_options import (
    Option,
    by_context,
    laid_out,
    options_of,
    too_many,
)
from ansible_collections.gb10.serving.plugins.plugin_utils._problems import Problem, message

display = Display()

COLORS = {"fits": constants.COLOR_OK, "borderline": constants.COLOR_WARN, "refused": constants.COLOR_ERROR}


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
        compared = bool(variables.get("gb10_plan_options"))
        options, wrong = options_of(variables.get("gb10_plan_options"), base)
        problems += [*too_many(base), *wrong]
        if version := version_of(args["image_ref"]):
            options = [
                option
                if option.values.get("gb10_plan_engine_version")
                else option.pick(gb10_plan_engine_version=version)
                for option in options
            ]
        for option in options:
            problems += _plan_case.argument_problems(option, args["args"])
        self._models: dict[str, dict[str, Any]] = {}
        self._problems: list[Problem] = []
        where = "gb10_plan_options[{}]: " if compared else ""
        models = [
            self._model(option, args["model_root"], where.format(number))
            for number, option in enumerate(options if not problems else [])
        ]
        problems += self._problems
        measured = _plan_case.measured_nodes(task_vars) if base.get("gb10_plan_measure") else []
        problems += _plan_case.unmeasured(task_vars, measured) if base.get("gb10_plan_measure") else []
        if problems:
            return self._wrong(problems, base)
        if not compared and not base.get("gb10_plan_context_length"):
            limit = (models[0].get("config") or {}).get("max_position_embeddings")
            options = by_context(options[0], limit if isinstance(limit, int) else None)
            models = models * len(options)
        main = _plan_case.planned(options[0], models[0], args["args"], measured)
        if not compared and main[0]["ranks"]:
            taken, count = _plan_document.settings_of(main[0]), main[1]["nodes"]["count"]
            options = [options[0], *(laid_out(option, taken, count) for option in options[1:])]
        others = zip(options[1:], models[1:], strict=True)
        planned = [main, *(_plan_case.planned(option, model, args["args"], measured) for option, model in others)]
        rows = [
            _plan_document.summary_of(option.name or "as asked", found, about)
            for option, (found, about) in zip(options, planned, strict=True)
        ]
        if not compared:
            # One of the usual contexts may be what the plan takes by itself.
            taken = rows[0]["settings"]["context_length"]
            rows = [rows[0], *(row for row in rows[1:] if row["settings"]["context_length"] != taken)]
        found, about = planned[0]
        about = {**about, "option": options[0].name if compared else None}
        return self._result(_plan_document.document(found, about, rows), base)

    def _checked(self, task_vars: dict[str, Any]) -> dict[str, Any]:
        """What the user set, before any of it is used: all that is wrong in one message."""
        known = {
            name: self._templar.template(task_vars[name]) for name in _plan_variables.VARIABLES if name in task_vars
        }
        found, problems = _plan_variables.read_all(known)
        problems += [*_plan_names.unknown(task_vars), *too_many(found)]
        problems += options_of(known.get("gb10_plan_options"), found)[1]
        if problems:
            return self._wrong(problems, found)
        return {"variables": sorted(found)}

    def _wrong(self, problems: list[Problem], base: dict[str, Any]) -> dict[str, Any]:
        """What is asked makes no sense. The files say so too, so that nobody takes an older one for the answer."""
        unique = list(dict.fromkeys(map(str, problems)))
        refused = {**plan([], {}), "reasons": unique, "remedies": [], "changes": []}
        _written, unwritten = _write(_plan_document.document(refused, {}), base)
        return {"failed": True, "msg": f"The plan cannot be made: {message([*unique, *unwritten])}"}

    def _model(self, option: Option, root: str, where: str = "") -> dict[str, Any]:
        """The folder if it is there, else the hub. A folder that is not there is a problem when no id is given."""
        wanted, name = str(option.values.get("gb10_model_dir") or ""), str(option.values.get("gb10_model_id") or "")
        path = os.path.abspath(os.path.expanduser(wanted)) if wanted else ""
        if os.path.basename(path) == "config.json":
            path = os.path.dirname(path)
        nothing = not wanted or path == os.path.abspath(os.path.expanduser(root or "."))
        if nothing and not name:
            self._problems.append(
                Problem(
                    f"{where}gb10_model_dir",
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
                    f"{where}gb10_model_dir",
                    f"it is {_plan_variables.shown(wanted)}, and there is no folder {path} on this machine.",
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
        rows = document["options"] if document["option"] else []
        some = any(row["verdict"] != "refused" for row in rows)
        if document["verdict"] == "refused" and not some and base.get("gb10_plan_fail", True):
            # All of it stands above and in the file: it would be printed a second time as part of the failure.
            del result["document"]
            said = "Why, and what would help, is said above." if document["changes"] else "Why is said above."
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
