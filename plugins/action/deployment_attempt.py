# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

import time
from typing import Any, ClassVar

from ansible import constants
from ansible.utils.display import Display

from ansible_collections.gb10.serving.plugins.plugin_utils import _fallback, _hostvars
from ansible_collections.gb10.serving.plugins.plugin_utils._controller_action import ControllerAction

display = Display()

#: What a turn registers. It is emptied before the next one, which must not take it for its own.
OF_A_TURN = (
    "__gb10_image_offer",
    "__gb10_image_sync",
    "__gb10_model_offer",
    "__gb10_model_sync",
    "__gb10_copies",
    "__gb10_collective",
    "__gb10_collective_verdict",
    "__gb10_parity",
    "__gb10_start",
    "__gb10_wait",
    "__gb10_endpoint",
    "ansible_failed_result",
)


class ActionModule(ControllerAction):
    """Says which engine's turn it is. What it answers is registered for all hosts, so that all take the same branch."""

    SPEC: ClassVar = {
        "about": {"type": "str", "required": True, "choices": ["begin", "failure"]},
        "engines": {"type": "list", "elements": "dict", "required": True},
        "retry": {"type": "bool", "default": False},
    }

    def answer(self, args: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        engines = args["engines"]
        if args["about"] == "begin":
            return self._begin(engines, args["retry"], task_vars)
        return self._failure(engines, task_vars)

    def _begin(self, engines: list[dict[str, Any]], retry: bool, task_vars: dict[str, Any]) -> dict[str, Any]:
        known: dict[str, dict[str, Any]] = {}
        for host in reversed(_hostvars.members(task_vars)):  # rank 0 has the last word
            known.update({entry["key"]: entry for entry in _hostvars.rank_state(task_vars, host).get("failed") or []})
        turn, lines = (0, []) if retry else _fallback.first(engines, known)
        later = [engine["name"] for engine in engines[turn + 1 :]]
        if self._task.check_mode and later:
            lines.append(f"{engines[turn]['name']} is planned; {', then '.join(later)} if it does not start.")
        for line in lines:
            display.display(line, color=constants.COLOR_WARN)
        return {
            "turn": turn,
            "known": [engine["key"] for engine in engines if engine["key"] in known],
            "left_out": [engine["name"] for engine in engines[:turn]],
            "key": engines[turn]["key"],
            "variables": [*engines[turn]["variables"], {"name": "__gb10_turn", "value": turn}],
            "attempts": [],
            "copies": [],
            "lines": lines,
            "next": None,
            "begun_at": time.time(),
        }

    def _failure(self, engines: list[dict[str, Any]], task_vars: dict[str, Any]) -> dict[str, Any]:
        hosts = _hostvars.members(task_vars)
        state: dict[str, Any] = {"turn": 0, "attempts": [], "copies": [], "lines": [], "known": [], "left_out": []}
        state.update(_hostvars.read(task_vars, hosts[0], "__gb10_attempt"))
        turn = int(state["turn"])
        spec = _hostvars.spec_of_turn(task_vars, engines[turn]["name"])
        lost = [host for host in hosts if int(task_vars["hostvars"][host].get("__gb10_left", -1)) != turn]
        found = {
            host: {
                "wait": _hostvars.read(task_vars, host, "__gb10_wait"),
                "collective": _hostvars.read(task_vars, host, "__gb10_collective_verdict"),
                "endpoint": _hostvars.read(task_vars, host, "__gb10_endpoint"),
            }
            for host in hosts
        }
        ended = _fallback.failure(found, lost, _hostvars.refusal(task_vars))
        # A release that ran already and does not answer is not for a deploy to take away.
        started = bool(_hostvars.read(task_vars, hosts[0], "__gb10_stopped"))
        able = started and _fallback.moves_on(ended)
        after = _fallback.following(engines, turn, state["left_out"]) if able else None
        because = _hostvars.causes(task_vars)
        now = time.time()
        attempt = {
            "engine": engines[turn]["name"],
            "release": spec.get("id"),
            "stage": ended["stage"],
            "cause": ended["cause"],
            "why": ended["why"],
            "seconds": round(now - _hostvars.turn_begun_at(task_vars, now), 1),
        }
        failure: dict[str, Any] | None = None
        if len(engines) > 1 and able and spec:
            failure = {key: attempt[key] for key in ("engine", "release", "cause", "seconds")}
            failure.update(key=engines[turn]["key"], image=spec["engine"]["image"])
        answer = {
            **state,
            "attempts": [*state["attempts"], attempt],
            # What ran before the first attempt; a release that fails is nothing to return to.
            "before": state.get("before", _hostvars.read(task_vars, hosts[0], "__gb10_spec").get("before") or {}),
            "failure": failure,
            "failed_because": because,
            "next": after,
            "begun_at": now,
        }
        if len(engines) > 1 and started:
            line = _fallback.line(attempt["engine"], ended, engines[after]["name"] if after is not None else None)
            display.display(line, color=constants.COLOR_WARN)
            answer["lines"] = [*state["lines"], line]
        if after is not None:
            emptied: list[dict[str, Any]] = [{"name": name, "value": {}} for name in OF_A_TURN]
            emptied.append({"name": "__gb10_turn", "value": after})
            answer.update(turn=after, key=engines[after]["key"], variables=[*engines[after]["variables"], *emptied])
            answer["copies"] = [*state["copies"], *_hostvars.copies(task_vars)]
        return answer
