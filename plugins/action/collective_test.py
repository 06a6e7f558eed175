# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible import constants
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

from ansible_collections.gb10.serving.plugins.module_utils._collective import container_name
from ansible_collections.gb10.serving.plugins.plugin_utils._collective_ender import Ender, Remover, ended
from ansible_collections.gb10.serving.plugins.plugin_utils._watch_board import Board

display = Display()


class ActionModule(ActionBase):
    """Runs the module for the rank of this host. Ansible runs it for all hosts at once, and so do they meet.

    They share a folder on the controller, so that a rank which cannot come is not waited for.
    """

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
        base = Path(str(constants.DEFAULT_LOCAL_TMP)) / f"gb10-collective-{args['spec']['id']}"
        return {**result, **self._run_beside_others(Board(base, args["rank"]), host, given, task_vars)}

    def _run_beside_others(
        self, board: Board, host: str, given: dict[str, Any], task_vars: dict[str, Any]
    ) -> dict[str, Any]:
        name = container_name(given["spec"], given["rank"])
        ender = Ender(lambda: board.failure() is not None, Remover(name, self._ask))
        ran: dict[str, Any] = {}
        try:
            ran = self._execute_module(
                module_name="gb10.serving.collective_test", module_args=given, task_vars=task_vars
            )
        finally:
            by_others = ender.close()
            collective = ran.get("collective") or {}
            # One that has met the others tells them itself. One that was not reached has no answer at all.
            if not by_others and not collective.get("arrived"):
                board.claim_failure({"host": host, "rank": given["rank"]})
        first = board.failure()
        if by_others and first and collective:
            ran["collective"] = ended(collective, first)
        return ran

    def _ask(self, command: str) -> tuple[int, str]:
        done = self._low_level_execute_command(command, sudoable=True)
        return int(done["rc"]), f"{done['stdout']}\n{done['stderr']}"
