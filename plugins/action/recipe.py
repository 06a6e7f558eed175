# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

import os
from typing import Any, ClassVar

from ansible.errors import AnsibleActionFail

from ansible_collections.gb10.serving.plugins.plugin_utils import _hostvars, _recipe
from ansible_collections.gb10.serving.plugins.plugin_utils._controller_action import ControllerAction

#: What decides besides the recipe whether an engine can start: a failure is remembered only as long as it stays.
PLACE = ("gb10_server_gpus", "gb10_server_rdma", "gb10_server_ulimits")


class ActionModule(ControllerAction):
    """Reads a recipe on the controller and keeps those values that inventory and command line leave open."""

    SPEC: ClassVar = {"name": {"type": "str", "required": True}}

    def answer(self, args: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        directory = os.path.join(str(task_vars.get("playbook_dir", os.curdir)), "recipes")
        try:
            path = _recipe.locate(args["name"], [directory])
            values = _recipe.check(self._loader.load_from_file(path), path)
            given = {key: self._templar.template(task_vars[key]) for key in sorted(_recipe.KEYS & set(task_vars))}
            place = {key: self._templar.template(task_vars[key]) for key in PLACE if key in task_vars}
            place["hosts"] = list(task_vars["groups"].get(_hostvars.GROUP, []))
            engines = _recipe.engines(values, given, place, path)
        except ValueError as error:
            raise AnsibleActionFail(str(error)) from error
        taken = {key: value for key, value in values.items() if key not in task_vars}
        # What the first engine sets; the settings of the others are taken when it is their turn.
        taken.update({entry["name"]: entry["value"] for entry in engines[0]["variables"]})
        return {
            "path": path,
            "variables": _recipe.as_variables(taken),
            "overridden": sorted(set(values) - set(taken)),
            "engines": engines,
        }
