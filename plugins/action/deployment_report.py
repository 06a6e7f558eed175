# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any, ClassVar

from ansible import constants
from ansible.utils.display import Display

from ansible_collections.gb10.serving.plugins.module_utils import _redact
from ansible_collections.gb10.serving.plugins.plugin_utils import _hostvars, _report, _report_end
from ansible_collections.gb10.serving.plugins.plugin_utils._controller_action import ControllerAction

display = Display()


class ActionModule(ControllerAction):
    """Gathers what the roles registered on each host and writes it once as JSON and once as Markdown with a picture."""

    SPEC: ClassVar = {
        "name": {"type": "str", "required": True},
        "directory": {"type": "path", "required": True},
        "failed": {"type": "bool", "default": False},
    }

    def answer(self, args: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        now = time.time()
        failure = _hostvars.causes(task_vars) if args["failed"] else ""
        report = collect(args["name"], failure, bool(self._task.check_mode), task_vars, now)
        secrets = _hostvars.secrets(task_vars, self._templar, report["spec"] or {})
        report, failure = _redact.whole(report, secrets), _redact.text(failure, secrets)
        result: dict[str, Any] = {"outcome": report["outcome"], "path": None}
        if not self._task.check_mode:
            result["path"] = str(write(Path(args["directory"]).expanduser(), report, now))
        where = f"Report: {result['path']}" if result["path"] else "No report is written in check mode."
        if failure:
            # Without the report itself: printed below the message, it would push the cause off the screen.
            return {**result, "failed": True, "msg": _report_end.ending(failure, report, where)}
        if self._task.check_mode:
            result["report"] = report
        for line in _report.summary(report):
            display.display(line)
        if report["completion"]:
            display.display(f"{report['spec']['model']['served_name']} answers: {report['completion']['text']!r}")
        display.display(f"deployment {args['name']}: {report['outcome']}. {where}", color=constants.COLOR_OK)
        return result


def write(directory: Path, report: dict[str, Any], now: float) -> Path:
    """Both forms of the report in a directory of their own; returns the Markdown file."""
    place = directory / report["name"] / time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(now))
    place.mkdir(parents=True, exist_ok=True)
    (place / "report.json").write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    if picture := _report.picture(report):
        (place / _report.PICTURE).write_text(picture, encoding="utf-8")
    markdown = place / "report.md"
    markdown.write_text(_report.markdown(report), encoding="utf-8")
    return markdown.resolve()


def collect(name: str, failure: str, predicted: bool, task_vars: dict[str, Any], now: float) -> dict[str, Any]:
    """Everything that the run found out, as one JSON-ready mapping; parts that it did not reach are empty."""
    hosts = _hostvars.members(task_vars)

    def seen(host: str, variable: str) -> dict[str, Any]:
        return _hostvars.read(task_vars, host, variable)

    head = hosts[0]
    started = seen(head, "__gb10_inventory").get("started_at")
    waits = {host: seen(host, "__gb10_wait") for host in hosts}
    report: dict[str, Any] = {
        "name": name,
        "outcome": "failed" if failure else "predicted" if predicted else "running",
        "failure": failure,
        "written_at": time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(now)),
        "nodes": [_node(host, facts) for host in hosts if (facts := _hostvars.facts(task_vars, host))],
        "rails": seen(head, "__gb10_fabric").get("rails", []),
        "fabric": seen(head, "__gb10_fabric_measured").get("fabric") or {},
        "plan": seen(head, "__gb10_plan").get("plan"),
        "spec": seen(head, "__gb10_spec").get("spec"),
        "completion": (seen(head, "__gb10_endpoint").get("endpoint") or {}).get("completion"),
        "engine_told": waits[head].get("told") or {},
        "start": _start(waits, seen(head, "__gb10_collective_verdict"), _hostvars.refusal(task_vars)),
        "was_running": bool(seen(head, "__gb10_spec").get("running")),
        "engines": [engine["name"] for engine in seen(head, "__gb10_recipe").get("engines") or []],
        "attempts": _attempts(task_vars, head, now, bool(failure), predicted),
        "engine_choice": seen(head, "__gb10_attempt").get("lines") or [],
        "copies": [*(seen(head, "__gb10_attempt").get("copies") or []), *_hostvars.copies(task_vars)],
    }
    stages = [
        {"stage": f"attempt with {attempt['engine']}", "seconds": attempt["seconds"]}
        for attempt in seen(head, "__gb10_attempt").get("attempts") or []
        if report["engines"][1:]
    ]
    if copies := _hostvars.copies(task_vars):  # side by side
        names = " and ".join(dict.fromkeys(copy["what"] for copy in copies))
        stages.append({"stage": f"copy of {names}", "seconds": max(copy["seconds"] for copy in copies)})
    if ready := [wait["seconds"] for wait in waits.values() if wait.get("ready")]:
        stages.append({"stage": "start of the ranks until ready", "seconds": max(ready)})
    if report["completion"]:
        streamed = (report["completion"].get("streamed") or {}).get("seconds") or 0
        stages.append({"stage": "completions", "seconds": report["completion"]["seconds"] + streamed})
    if started:
        total = now - started
        rest = total - sum(stage["seconds"] for stage in stages)
        stages.append({"stage": "checks, plan and everything else", "seconds": round(rest, 1)})
        stages.append({"stage": "whole run", "seconds": round(total, 1)})
    report["stages"] = stages
    report["plan_against_engine"] = _report.against(report["plan"] or {}, report["engine_told"])
    if report["outcome"] == "running" and not report["completion"]:
        report.update(outcome="unproven", failure="No completion came in this run.")
    report["serving_after"] = _report_end.serving_after(task_vars, report["outcome"])
    return report


def _attempts(task_vars: dict[str, Any], head: str, now: float, failed: bool, predicted: bool) -> list[dict[str, Any]]:
    """The engines that were tried, the one that runs last and without a cause."""
    before = list(_hostvars.read(task_vars, head, "__gb10_attempt").get("attempts") or [])
    spec = _hostvars.read(task_vars, head, "__gb10_spec").get("spec") or {}
    if failed or predicted or not spec:
        return before
    seconds = round(now - _hostvars.turn_begun_at(task_vars, now), 1)
    this = {"engine": spec["engine"]["name"], "release": spec["id"], "stage": "served", "cause": None, "why": None}
    return [*before, {**this, "seconds": seconds}]


def _start(waits: dict[str, dict[str, Any]], collective: dict[str, Any], refused: dict[str, Any]) -> dict[str, Any]:
    """How far each rank came, phase by phase, and why not further or not at all."""
    ended = [wait for wait in waits.values() if wait.get("phases")]
    kept = ("host", "rank", "ready", "phase", "seconds", "phases")
    ranks = sorted(({key: wait[key] for key in kept} for wait in ended), key=lambda entry: entry["rank"])
    named: dict[str, Any] = next((wait for wait in ended if wait["cause"]), {}) or refused
    if not named and collective.get("failed"):
        named = {"confidence": "high", **(collective.get("collective") or {})}
    return {"ranks": ranks, **{key: named.get(key) for key in ("cause", "remedy", "confidence", "evidence", "first")}}


def _node(host: str, facts: dict[str, Any]) -> dict[str, Any]:
    return {
        "host": host,
        "product": facts["platform"]["product"],
        "driver": facts["platform"]["driver"],
        "kernel": facts["platform"]["kernel"],
        "docker": facts["docker"]["version"],
        "memory_total_bytes": facts["memory"]["total_bytes"],
        "memory_available_bytes": facts["memory"]["available_bytes"],
    }
