# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

display = Display()


class ActionModule(ActionBase):
    """Runs the module for the rank of this host. Ansible runs it for all hosts at once, and so do they meet."""

    TRANSFERS_FILES = False
    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        task_vars = task_vars or {}
        result: dict[str, Any] = super().run(tmp, task_vars)
        _validation, args = self.validate_argument_spec(
            argument_spec={
                "spec": {"type": "dict", "required": True},
                "rank": {"type": "int"},
                "timeout": {"type": "int", "default": 60},
                "port": {"type": "int"},
            },
        )
        if self._task.check_mode:
            return {**result, "skipped": True, "changed": False, "msg": "nothing is started in check mode"}
        ranks = args["spec"].get("ranks") or []
        if len(ranks) < 2:
            return {**result, "skipped": True, "changed": False, "msg": "a single rank has nobody to talk to"}
        host = str(task_vars["inventory_hostname"])
        if args["rank"] is None:
            args["rank"] = next((entry["rank"] for entry in ranks if entry["host"] == host), None)
        if args["rank"] is None:
            names = ", ".join(entry["host"] for entry in ranks)
            return {
                **result,
                "failed": True,
                "msg": f"{host} has no rank in the spec. Expected: one of {names}. Next step: run this on those hosts.",
            }
        if args["rank"] == 0:
            display.display(f"{host}  testing the collective of {len(ranks)} ranks, {args['timeout']} s at most")
        given = {key: value for key, value in args.items() if value is not None}
        ran = self._execute_module(module_name="gb10.serving.collective_test", module_args=given, task_vars=task_vars)
        return {**result, **ran}
