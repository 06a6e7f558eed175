# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
# Private to this collection: no stability promised.
"""What serves after a run, and the few lines that end one that failed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.gb10.serving.plugins.plugin_utils import _hostvars, _status

#: Lines of the end that say what stopped it: cause, evidence and next step.
CAUSE_LINES = 4

#: Characters of a line of evidence.
EVIDENCE_WIDTH = 240

NEXT = "Next step:"
AGAIN = f"{NEXT} mend the cause, then deploy again."


def serving_after(task_vars: Mapping[str, Any], outcome: str) -> dict[str, Any]:
    """``release`` that serves (None: none, or nobody knows), whether it was ``restored``, and both in ``words``."""
    hosts = _hostvars.members(task_vars)
    spec = _hostvars.read(task_vars, hosts[0], "__gb10_spec")
    if outcome == "running":
        return _said((spec.get("spec") or {}).get("id"), "Release {} serves.")
    if outcome == "unproven":
        return _said(None, "What runs gave no answer in this run.")
    if not any(_hostvars.read(task_vars, host, "__gb10_stopped") for host in hosts):
        return _never_stopped(task_vars, hosts)
    before = _hostvars.read(task_vars, hosts[0], "__gb10_attempt").get("before", spec.get("before")) or {}
    restored = [_hostvars.read(task_vars, host, "__gb10_restored") for host in hosts]
    if before and all(result.get("ready") and not _wrong(result) for result in restored):
        return {**_said(before["id"], "Release {} serves again."), "restored": True}
    why = f"release {before['id']} could not be brought back" if before else "there was no other release to bring back"
    left = [host for host in hosts if _may_run(task_vars, host)]
    if left:
        stop = f"{NEXT} run the stop playbook once {', '.join(left)} answers, mend the cause, then deploy again."
        return _said(None, f"Nothing serves now: {why}, and on {', '.join(left)} a rank may still run. {stop}")
    return _said(None, f"Nothing serves now: {why}. {AGAIN}")


def _never_stopped(task_vars: Mapping[str, Any], hosts: list[str]) -> dict[str, Any]:
    states = [_hostvars.rank_state(task_vars, host) for host in hosts]
    if not all(states) or any(state.get("error") for state in states):
        return _said(None, "This run stopped no rank: what served before it still does.")
    ran = (_status.running_spec(states) or {}).get("id")
    if ran is None:
        return _said(None, f"Nothing serves now, as before this run. {AGAIN}")
    if lost := _lost(task_vars):
        words = f"Release {ran} was never stopped; {', '.join(lost)} did not answer to the end: it may not serve."
        return _said(None, f"{words} {NEXT} run the status playbook.")
    if any(_gave_no_answer(task_vars, host) for host in hosts):
        words = f"Nothing serves now: release {ran} was never stopped, but does not answer."
        return _said(None, f"{words} {NEXT} deploy again with -e gb10_server_restart=true.")
    return _said(ran, "Release {} was never stopped and still serves.")


def _lost(task_vars: Mapping[str, Any]) -> list[str]:
    hosts = _hostvars.members(task_vars)
    return [host for host in hosts if host not in task_vars.get("ansible_play_hosts", hosts)]


def _said(release: str | None, words: str) -> dict[str, Any]:
    return {"release": release, "restored": False, "words": words.format(release)}


def _wrong(result: Mapping[str, Any]) -> bool:
    return bool(result.get("failed") or result.get("unreachable"))


def _may_run(task_vars: Mapping[str, Any], host: str) -> bool:
    """Whether the last stop of this host's rank failed, or never came to it."""
    if host in _lost(task_vars):
        return True
    stops = [_hostvars.read(task_vars, host, name) for name in ("__gb10_left_off", "__gb10_cleared")]
    last = next((stop for stop in stops if stop), {})
    return not last or _wrong(last)


def _gave_no_answer(task_vars: Mapping[str, Any], host: str) -> bool:
    endpoint = _hostvars.read(task_vars, host, "__gb10_endpoint")
    asked = endpoint.get("endpoint")
    return (
        _wrong(_hostvars.read(task_vars, host, "__gb10_wait"))
        or _wrong(endpoint)
        or bool(asked and not asked.get("ok"))
    )


def ending(failure: str, report: Mapping[str, Any], where: str) -> str:
    """The last message of a run that failed, six lines at most. The whole cause stands above and in the report."""
    lines = _causes(failure)
    start = report.get("start") or {}
    told = "\n".join(lines)
    if (evidence := start.get("evidence") or []) and evidence[0] not in told and len(lines) < CAUSE_LINES:
        lines.append(f"It said: {evidence[0].strip()[:EVIDENCE_WIDTH]}")
    if NEXT not in told and len(lines) < CAUSE_LINES and (step := _next_step(failure) or start.get("remedy")):
        lines.append(f"{NEXT} {step}")
    if words := (report.get("serving_after") or {}).get("words"):
        lines.append(words)
    return "\n".join([*lines, where])


def _causes(failure: str) -> list[str]:
    """The first line of each cause, or the entries of one that is a list; two of them, and how many more there are."""
    heads = []
    for cause in failure.split(_hostvars.BETWEEN_CAUSES):
        first, *rest = cause.splitlines() or [""]
        entries = [line for line in rest if line.startswith("  - ")]
        heads += [first, *entries]
    more = len(heads) - (CAUSE_LINES - 1)
    if more <= 0:
        return heads
    return [*heads[: CAUSE_LINES - 1], f"({more} more: above and in the report)"]


def _next_step(failure: str) -> str:
    """What the first cause that has one says to do."""
    return next((line.split(NEXT, 1)[1].strip() for line in failure.splitlines() if NEXT in line), "")
