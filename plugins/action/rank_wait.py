# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from types import ModuleType
from typing import Any

from ansible import constants
from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

from ansible_collections.gb10.serving.plugins.plugin_utils import _engines, _watch

display = Display()

POLL_SECONDS = 1.5
LOG_LINES = 400


class ActionModule(ActionBase):
    """Runs for every rank at once. The ranks share a folder on the controller, so that the first failure ends all."""

    TRANSFERS_FILES = False
    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        task_vars = task_vars or {}
        result = super().run(tmp, task_vars)
        _validation, args = self.validate_argument_spec(
            argument_spec={
                "spec": {"type": "dict", "required": True},
                "silence": {"type": "int", "default": 900},
                "timeout": {"type": "int", "default": 3600},
            },
        )
        if self._task.check_mode:
            return {**result, "skipped": True, "changed": False, "msg": "nothing was started in check mode"}
        host = str(task_vars["inventory_hostname"])
        spec = args["spec"]
        rank = next(entry for entry in spec["ranks"] if entry["host"] == host)
        board = Board(spec["id"])
        watch = Watch(self, rank, _engines.get(spec["engine"]["name"]), args["silence"], args["timeout"])
        outcome = watch.until_end(board)
        result.update(changed=False, host=host, rank=rank["rank"], **outcome)
        if result.get("failed"):
            display.display(f"{host}  rank {rank['rank']}  {outcome['reason']}", color=constants.COLOR_ERROR)
        return result


class Board:
    """The folder that the ranks of one start share: ``ready`` when rank 0 answers, ``failed`` with who failed first."""

    def __init__(self, release: str) -> None:
        # The run's own temporary directory: made by ansible-playbook before its workers, removed at its end.
        self.path = Path(str(constants.DEFAULT_LOCAL_TMP)) / f"gb10-wait-{release}"
        self.path.mkdir(parents=True, exist_ok=True)

    def claim_failure(self, host: str, rank: int) -> dict[str, Any] | None:
        """Enter this rank as the first to fail; None if it is, else who was first."""
        entry = self.path / f"failed.{rank}"
        entry.write_text(json.dumps({"host": host, "rank": rank}), encoding="utf-8")
        try:
            os.link(entry, self.path / "failed")
        except FileExistsError:
            return self.failure()
        return None

    def failure(self) -> dict[str, Any] | None:
        """Who failed first, or None."""
        try:
            return dict(json.loads((self.path / "failed").read_text(encoding="utf-8")))
        except FileNotFoundError:
            return None

    def announce_ready(self) -> None:
        (self.path / "ready").touch()

    def is_ready(self) -> bool:
        return (self.path / "ready").exists()


class Watch:
    """One rank under watch."""

    def __init__(
        self, action: ActionBase, rank: dict[str, Any], engine: ModuleType, silence: int, timeout: int
    ) -> None:
        self.action, self.rank, self.engine = action, rank, engine
        self.silence, self.timeout = silence, timeout
        self.started = time.monotonic()
        self.phase = ""
        self.look = _watch.Look(False, False, None, False)
        self.last_change = self.started
        self.told: dict[str, float] = {}

    def until_end(self, board: Board) -> dict[str, Any]:
        """Poll until this rank is ready, dead or silent for too long, or another one failed."""
        while True:
            try:
                self._poll()
            except AnsibleConnectionFailure:
                # The others must not wait for this rank until their own time is over.
                board.claim_failure(self.rank["host"], self.rank["rank"])
                raise
            now = time.monotonic()
            if not self.look.running:
                return self._failed(board, _watch.death(self.look, self.rank["container_name"]))
            if (first := board.failure()) is not None:
                return self._end(ready=False, reason=f"stopped waiting: rank {first['rank']} on {first['host']} failed")
            if self.rank["rank"] == 0 and self.phase == "ready":
                board.announce_ready()
            if board.is_ready():
                return self._end(ready=True, reason="ready")
            if now - self.last_change > self.silence:
                return self._failed(board, f"no new log line for {self.silence} s while {self.phase}")
            if now - self.started > self.timeout:
                return self._failed(board, f"not ready after {self.timeout} s; last phase: {self.phase}")
            time.sleep(POLL_SECONDS)

    def _poll(self) -> None:
        answer = self.action._low_level_execute_command(_watch.command(self.rank["container_name"], LOG_LINES))
        look = _watch.parse(answer["stdout"])
        if look.lines != self.look.lines:
            self.last_change = time.monotonic()
        self.look = look
        self.told.update(_watch.told(self.engine, look.lines))
        phase = _watch.phase(self.engine, look.lines, self.phase)
        if phase != self.phase:
            self.phase = phase
            display.display(f"{self.rank['host']}  rank {self.rank['rank']}  {phase}  {self._seconds():.0f} s")

    def _seconds(self) -> float:
        return time.monotonic() - self.started

    def _end(self, ready: bool, reason: str) -> dict[str, Any]:
        return {
            "ready": ready,
            "reason": reason,
            "phase": self.phase,
            "seconds": round(self._seconds(), 1),
            "told": self.told,
            "log": [],
        }

    def _failed(self, board: Board, reason: str) -> dict[str, Any]:
        first = board.claim_failure(self.rank["host"], self.rank["rank"])
        outcome = self._end(ready=False, reason=reason)
        outcome["log"] = self.look.lines[-_watch.SHOWN_LINES :]
        if first is not None:
            return outcome
        shown = "\n".join(f"    {line}" for line in outcome["log"]) or "    (it printed nothing)"
        cause = _watch.evidence(self.engine, self.look.lines)
        named = f" It said: {cause}." if cause else ""
        msg = (
            f"{self.rank['host']}: rank {self.rank['rank']} did not start: {reason}.{named} Its last lines:\n{shown}\n"
            "Expected: every rank running until rank 0 answers. Next step: mend what the lines name, then deploy again."
        )
        return {**outcome, "failed": True, "msg": msg}
