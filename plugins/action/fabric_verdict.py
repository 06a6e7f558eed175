# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, ClassVar

from ansible.utils.display import Display

from ansible_collections.gb10.serving.plugins.plugin_utils import _fabric_class, _fabric_kept, _fabric_path, _hostvars
from ansible_collections.gb10.serving.plugins.plugin_utils._controller_action import ControllerAction
from ansible_collections.gb10.serving.plugins.plugin_utils._fabric_types import Finding
from ansible_collections.gb10.serving.plugins.plugin_utils._problems import message

display = Display()

#: Below this, two rails cannot be measured alone and together, both ways: six tests of a second and what starts them.
LEAST_SECONDS = 8


class ActionModule(ControllerAction):
    """Judges what fabric_test found on all hosts; all that is wrong comes in one message."""

    SPEC: ClassVar = {
        "about": {"type": "str", "required": True, "choices": ["paths", "bandwidth"]},
        "name": {"type": "str", "required": True},
        "directory": {"type": "path", "required": True},
        "gate": {"type": "str", "choices": ["fail", "warn"], "default": "fail"},
        "measure": {"type": "str", "choices": ["auto", "always", "never"], "default": "auto"},
        "rdma": {"type": "bool", "default": True},
        "expected_gbps": {"type": "float", "default": 0},
        "seconds": {"type": "float", "default": 10},
    }

    def answer(self, args: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        if args["about"] == "paths" and args["measure"] != "never" and args["seconds"] < LEAST_SECONDS:
            # in the shape of a role's own refusal, so that the check knows it from a fault of the fabric
            wrong = (
                f"gb10_fabric_seconds is {args['seconds']:g}. Expected: {LEAST_SECONDS} or more, time for each rail "
                "and all rails together, both ways. Next step: correct it, or set gb10_fabric_measure=never."
            )
            return {"failed": True, "msg": wrong, "argument_errors": [wrong]}
        hosts = _hostvars.members(task_vars)
        self.looks = {host: _hostvars.read(task_vars, host, "__gb10_fabric_paths") for host in hosts}
        self.kept = _fabric_kept.read(_fabric_kept.path(args["directory"], args["name"]))
        self.links = _fabric_kept.fingerprint(self.looks)
        found, result = self._paths(args, task_vars) if args["about"] == "paths" else self._bandwidth(args, task_vars)
        result["findings"] = [finding.as_dict() for finding in found]
        stopping = [finding for finding in found if finding.level == "error" and args["gate"] == "fail"]
        for finding in found:
            if finding not in stopping and finding.level != "note":
                display.warning(f"fabric: {finding}")
        if stopping:
            result.update(failed=True, msg=message([finding.problem for finding in stopping]))
        return result

    def _paths(self, args: dict[str, Any], task_vars: dict[str, Any]) -> tuple[list[Finding], dict[str, Any]]:
        serving = any(
            (_hostvars.rank_state(task_vars, host).get("container") or {}).get("running") for host in self.looks
        )
        predicted = bool(self._task.check_mode)
        measure, reason = _fabric_kept.wanted(args["measure"], self.kept, self.links, serving, predicted)
        rails = _hostvars.read(task_vars, next(iter(self.looks)), "__gb10_fabric").get("rails") or []
        return _fabric_path.judge_paths(rails, self.looks), {"measure": measure, "reason": reason}

    def _bandwidth(self, args: dict[str, Any], task_vars: dict[str, Any]) -> tuple[list[Finding], dict[str, Any]]:
        figures = [
            {**item, "source": one, "target": two}
            for host in self.looks
            for item in _hostvars.read(task_vars, host, "__gb10_fabric_bandwidth").get("bandwidth") or []
            for one, two in [(host, item["host"]) if item["direction"] == "to" else (item["host"], host)]
        ]
        if not figures:
            holds = _fabric_kept.holds(self.kept, self.links)
            return [], {"fabric": {**self.kept, "kept": True} if holds else {"entries": [], "kept": False}}
        entries = _fabric_class.judge(
            figures,
            self._expected(args, task_vars),
            args["rdma"],
            self.kept.get("entries") or [],
            self._places(task_vars) if args["rdma"] else {},
        )
        fabric = {
            "links": self.links,
            "measured_at": time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime()),
            "entries": entries,
            "kept": False,
        }
        if not self._task.check_mode:
            _fabric_kept.write(_fabric_kept.path(args["directory"], args["name"]), fabric)
        display.display("\n".join(_lines(entries)))
        return _fabric_class.findings(entries), {"fabric": fabric}

    def _expected(self, args: dict[str, Any], task_vars: dict[str, Any]) -> dict[tuple[str, int], int | None]:
        """By host and rail: what the inventory says, else what the NIC's port and PCIe link allow."""
        given = round(args["expected_gbps"] * 1e9) or None
        # without RDMA nothing says that the interface is the NIC of the facts
        return {
            key: given or (_fabric_class.expected_bits(hca) if hca and args["rdma"] else None)
            for key, hca in self._devices(task_vars).items()
        }

    def _places(self, task_vars: dict[str, Any]) -> dict[tuple[str, int], _fabric_class.Place]:
        """By host and rail: which PCIe link and which port the rail shares with others."""
        return {key: _fabric_class.place(hca) for key, hca in self._devices(task_vars).items() if hca}

    def _devices(self, task_vars: dict[str, Any]) -> dict[tuple[str, int], dict[str, Any] | None]:
        """By host and rail: the facts of the RDMA device."""
        found = {}
        for host in self.looks:
            hcas = {hca["name"]: hca for hca in _hostvars.facts(task_vars, host).get("fabric", {}).get("hcas") or []}
            rails = _hostvars.read(task_vars, host, "__gb10_fabric").get("rails") or []
            for number, rail in enumerate(rails):
                found[host, number] = hcas.get(rail["members"][host]["hca"])
        return found


def _lines(entries: Sequence[dict[str, Any]]) -> list[str]:
    """One line for each pair and set of rails, both directions."""
    lines = []
    for item in entries:
        back = next(
            (e for e in entries if (e["source"], e["target"]) == (item["target"], item["source"])
             and e["rails"] == item["rails"]), None,
        )  # fmt: skip
        if back is None or entries.index(item) < entries.index(back):
            name = f"rail {item['rails'][0]}" if len(item["rails"]) == 1 else "all rails"
            rates = " / ".join(_fabric_class.gbps(e["bits_per_second"]) for e in (item, back) if e)
            shown = _fabric_class.worded(rates, item["class"])
            lines.append(f"{item['source']} <-> {item['target']}  {name}: {shown}")
    return lines
