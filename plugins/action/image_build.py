# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase

from ansible_collections.gb10.serving.plugins.plugin_utils._progress import sync


class ActionModule(ActionBase):
    """Runs the module of the same name and shows how a pull or build gets on."""

    TRANSFERS_FILES = False
    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        result.update(sync(self, "gb10.serving.image_build", "image", task_vars or {}))
        return result
