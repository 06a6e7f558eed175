# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase

from ansible_collections.gb10.serving.plugins.plugin_utils import _progress


class ActionModule(ActionBase):
    """Follows the copies that image_sync and model_sync started on this node, both in one line."""

    TRANSFERS_FILES = False
    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        task_vars = task_vars or {}
        result: dict[str, Any] = super().run(tmp, task_vars)
        _validation, args = self.validate_argument_spec(
            argument_spec={
                "image": {"type": "str", "default": ""},
                "model": {"type": "str", "default": ""},
                "measured_rate": {"type": "float"},
                "cancel": {"type": "bool", "default": False},
            },
        )
        host = str(task_vars.get("inventory_hostname", "node"))
        jobs = {noun: args[noun] for noun in ("image", "model") if args[noun]}
        result["changed"] = False
        if args["cancel"]:
            _progress.cancel(self, list(jobs.values()))
            return result
        outcomes = _progress.follow(self, jobs, host, args["measured_rate"])
        for noun, outcome in outcomes.items():
            result[noun] = _progress.said(outcome, f"the {noun}", host)
        broken = [outcome for outcome in outcomes.values() if outcome.get("failed")]
        if broken:
            result.update(failed=True, msg="\n".join(str(outcome.get("msg")) for outcome in broken))
        else:
            result["changed"] = any(outcome.get("changed") for outcome in outcomes.values())
        return result
