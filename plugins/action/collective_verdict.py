# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

from typing import Any, ClassVar

from ansible.utils.display import Display

from ansible_collections.gb10.serving.plugins.plugin_utils import _collective_verdict, _hostvars
from ansible_collections.gb10.serving.plugins.plugin_utils._controller_action import ControllerAction

display = Display()


class ActionModule(ControllerAction):
    """Judges what collective_test found on all hosts; fails once, for the rank that matters."""

    SPEC: ClassVar = {
        "spec": {"type": "dict", "required": True},
        "timeout": {"type": "int", "default": 60},
    }

    def answer(self, args: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        spec = args["spec"]
        found = {
            entry["host"]: _hostvars.read(task_vars, entry["host"], "__gb10_collective").get("collective") or {}
            for entry in spec["ranks"]
            if entry["host"] in task_vars["hostvars"]
        }
        verdict = _collective_verdict.judge(spec, found, args["timeout"])
        problem = verdict.pop("problem")
        for warning in verdict["warnings"]:
            display.warning(f"collective: {warning}")
        if problem is not None:
            msg = f"The ranks cannot work together, so none of them was started.\n  - {problem}"
            return {"failed": True, "msg": msg, "collective": verdict}
        if verdict["ok"]:
            display.display(verdict["summary"])
        return {"collective": verdict}
