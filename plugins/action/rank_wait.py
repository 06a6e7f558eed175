# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from ansible import constants
from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

from ansible_collections.gb10.serving.plugins.module_utils import _redact
from ansible_collections.gb10.serving.plugins.plugin_utils import _engines, _hostvars, _watch_sockets, _watch_stall
from ansible_collections.gb10.serving.plugins.plugin_utils._watch_board import Board
from ansible_collections.gb10.serving.plugins.plugin_utils._watch_means import Limits, Means
from ansible_collections.gb10.serving.plugins.plugin_utils._watch_rank import Watch

display = Display()


class ActionModule(ActionBase):
    """Runs for every rank at once. The ranks share a folder on the controller, so that the first failure ends all."""

    TRANSFERS_FILES = False
    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        task_vars = task_vars or {}
        result: dict[str, Any] = super().run(tmp, task_vars)
        _validation, args = self.validate_argument_spec(
            argument_spec={
                "spec": {"type": "dict", "required": True},
                "allowance_factor": {"type": "float", "default": 1.0},
                "allowances": {"type": "dict", "default": {}},
                "timeout": {"type": "int", "default": 3600},
            },
        )
        host = str(task_vars["inventory_hostname"])
        try:
            allowances = _watch_stall.allowances(args["allowance_factor"], args["allowances"])
        except ValueError as error:
            return {**result, "failed": True, "msg": f"{host}: rank_wait: {error}"}
        if self._task.check_mode:
            return {**result, "skipped": True, "changed": False, "msg": "nothing was started in check mode"}
        spec = args["spec"]
        self._secrets = _hostvars.secrets(task_vars, self._templar, spec)
        rank = next(entry for entry in spec["ranks"] if entry["host"] == host)
        # The run's own temporary directory: made by ansible-playbook before its workers, removed at its end.
        board = Board(Path(str(constants.DEFAULT_LOCAL_TMP)) / f"gb10-wait-{spec['id']}", rank["rank"])
        means = Means(self._ask, time.monotonic, time.sleep, display.display)
        engine = _engines.get(spec["engine"]["name"])
        net = _watch_sockets.network(spec, engine)
        watch = Watch(rank, engine, Limits(allowances, args["timeout"]), means, board, net)
        try:
            outcome = watch.until_end()
        except AnsibleConnectionFailure:
            watch.lost()
            raise
        result.update(changed=False, host=host, rank=rank["rank"], **outcome)
        if result.get("failed"):
            display.display(f"{host}  rank {rank['rank']}  {outcome['reason']}", color=constants.COLOR_ERROR)
        return result

    def _ask(self, command: str) -> str:
        return _redact.text(str(self._low_level_execute_command(command)["stdout"]), self._secrets)
