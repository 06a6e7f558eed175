# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

import contextlib
import os
import shlex
import time
from typing import Any

from ansible.errors import AnsibleError
from ansible.plugins.action import ActionBase

from ansible_collections.gb10.serving.plugins.module_utils._job import detach
from ansible_collections.gb10.serving.plugins.module_utils._lock import FILE
from ansible_collections.gb10.serving.plugins.plugin_utils import _hostvars, _lock_owner
from ansible_collections.gb10.serving.plugins.plugin_utils._problems import message

#: A sign of life this often; much less than any time after which a lock counts as stale.
BEAT_SECONDS = 15.0
LOOK_SECONDS = 0.5


class ActionModule(ActionBase):
    """Takes the lock on the head for this run of Ansible, and renews it for as long as the run lives.

    A run that was interrupted, or whose end did not come to the head, gives it back all the same.
    """

    TRANSFERS_FILES = False
    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        task_vars = task_vars or {}
        result: dict[str, Any] = super().run(tmp, task_vars)
        host = str(task_vars["inventory_hostname"])
        args = dict(self._task.args)
        state = args.get("state", "held")
        if self._task.check_mode or (state != "cleared" and host != _hostvars.members(task_vars)[0]):
            return {**result, "changed": False}
        if state != "held":
            return {**result, **self._execute_module(module_args=args, task_vars=task_vars)}
        run = os.getppid()
        owner = args["owner"] = _lock_owner.owner(run)
        answer = self._execute_module(module_args=args, task_vars=task_vars)
        holder = answer.get("holder")
        if holder and _lock_owner.has_ended(holder):
            answer = self._execute_module(module_args={**args, "gone": holder.get("token")}, task_vars=task_vars)
            holder = answer.get("holder")
        result.update(answer)
        if holder:
            stale = float(args.get("stale") or 120)
            return {**result, "failed": True, "msg": message([_lock_owner.refusal(host, holder, stale)])}
        if not result.get("failed"):
            result["token"] = owner["token"]
            path = os.path.join(str(args["root"]), FILE)
            detach(lambda: self._follow(path, owner["token"], run, owner["started"]))
        return result

    def _follow(self, path: str, token: str, run: int, started: str | None) -> None:
        if self._beat(path, token, run, started):
            with contextlib.suppress(AnsibleError):  # a node that is gone; the lock grows stale
                self._low_level_execute_command(give_back(path, token), sudoable=True)

    def _beat(self, path: str, token: str, run: int, started: str | None) -> bool:
        """In a process of its own: renews the lock until the run has ended, or the lock has. Whether it was the run."""
        file = shlex.quote(path)
        renew = f"grep -qs {token} {file} && touch -c {file}"
        due = time.monotonic() + BEAT_SECONDS
        while _lives(run, started):
            time.sleep(LOOK_SECONDS)
            if time.monotonic() < due:
                continue
            due = time.monotonic() + BEAT_SECONDS
            answer = self._low_level_execute_command(renew, sudoable=True)
            if answer["rc"] in (1, 2):  # grep's answers: somebody else's, or nobody's
                return False
        return True


def give_back(path: str, token: str) -> str:
    """The command that removes the lock if it still has this token, guarded like all that write it."""
    file, root = shlex.quote(path), shlex.quote(os.path.dirname(path))
    remove = f"grep -qs {token} {file} && rm -f {file} && rmdir {root} 2>/dev/null"
    # From inside, since flock makes a file of a name that is not there.
    return f"cd {root} 2>/dev/null && flock -w 5 . sh -c {shlex.quote(remove)}"


def _lives(run: int, started: str | None) -> bool:
    if started is not None:
        return _lock_owner.started(run) == started
    try:
        os.kill(run, 0)
    except OSError:
        return False
    return True
