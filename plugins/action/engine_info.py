# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase

from ansible_collections.gb10.serving.plugins.plugin_utils import _engines


class ActionModule(ActionBase):
    """Tells the module which engines there are: what is known of an engine stands in one file on the controller."""

    TRANSFERS_FILES = False
    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        args = dict(self._task.args)
        args["engines"] = args.get("engines") or _engines.probes()
        result.update(self._execute_module("gb10.serving.engine_info", module_args=args, task_vars=task_vars))
        return result
