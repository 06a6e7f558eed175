# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

import os
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

from ansible_collections.gb10.serving.plugins.plugin_utils import _recipe


class ActionModule(ActionBase):
    """Reads a recipe on the controller and keeps those values that inventory and command line leave open."""

    TRANSFERS_FILES = False
    _requires_connection = False
    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        task_vars = task_vars or {}
        result = super().run(tmp, task_vars)
        _validation, args = self.validate_argument_spec(argument_spec={"name": {"type": "str", "required": True}})
        directory = os.path.join(str(task_vars.get("playbook_dir", os.curdir)), "recipes")
        try:
            path = _recipe.locate(args["name"], [directory])
            values = _recipe.check(self._loader.load_from_file(path), path)
        except ValueError as error:
            raise AnsibleActionFail(str(error)) from error
        taken = {key: value for key, value in values.items() if key not in task_vars}
        result.update(
            changed=False,
            path=path,
            variables=[{"name": key, "value": value} for key, value in sorted(taken.items())],
            overridden=sorted(set(values) - set(taken)),
        )
        return result
