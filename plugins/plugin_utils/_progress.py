# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
# Private to gb10.serving: follows detached jobs on a node and shows how far they are.
from __future__ import annotations

import json
import os
import re
import shlex
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ansible.module_utils.parsing.convert_bool import boolean
from ansible.utils.display import Display

if TYPE_CHECKING:
    from ansible.plugins.action import ActionBase

POLL_SECONDS = 1.0
LINE_SECONDS = 3.0
DEAD_SECONDS = 90.0
MISSES = 5
_JOB = re.compile(r"/(?:(?!\.\.?/)[A-Za-z0-9._-]+/)*gb10-job-[A-Za-z0-9_]+\Z")
_BETWEEN = "--- gb10 job ---"
_BORDER = re.compile(rf"^{_BETWEEN}\s*$", re.MULTILINE)
_GONE = "gb10-worker-gone"

display = Display()


def rate_text(rate: float) -> str:
    return f"{rate / 1e9:.1f} GB/s" if rate >= 1e9 else f"{rate / 1e6:.0f} MB/s"


def eta_text(seconds: float) -> str:
    whole = round(seconds)
    if whole < 100:
        return f"{whole} s"
    return (
        f"{whole // 60} min {whole % 60:02d} s" if whole < 3600 else f"{whole // 3600} h {whole % 3600 // 60:02d} min"
    )


def part(noun: str, snapshot: Mapping[str, Any], stage_seconds: float = 0, measured: float | None = None) -> str:
    """How far, how fast, what share of the rate that the fabric test measured, how long still."""
    done, total, rate = int(snapshot.get("bytes_done") or 0), snapshot.get("bytes_total"), snapshot.get("rate") or 0
    unit, name = (1e9, "GB") if max(done, total or 0) >= 1e9 else (1e6, "MB")
    stage = str(snapshot.get("stage"))
    if stage != "copy":
        return f"{noun} {stage}  {done / unit:.1f} {name}  for {eta_text(stage_seconds)}"
    share = f" ({rate * 100 / measured:.0f} % of the fabric)" if measured and rate else ""
    speed = f"  {rate_text(rate)}{share}" if rate else ""
    if not total or done > total:
        return f"{noun} {done / unit:.1f} {name}{speed}"
    eta = f"  ETA {eta_text((total - done) / rate)}" if rate and done < total else ""
    return f"{noun} {done / unit:.1f}/{total / unit:.1f} {name}  {done * 100 // total} %{speed}{eta}"


def _number(value: object) -> int | None:
    plain = isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 1e18
    return int(value) if plain else None  # type: ignore[call-overload]


def told_by(text: str) -> dict[str, Any]:
    """What a worker tells; nothing when it is not what one tells."""
    try:
        seen = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    if not isinstance(seen, dict):
        return {}
    seen["stage"] = str(seen.get("stage"))[:40]
    for key in ("bytes_done", "bytes_total", "rate", "pid"):
        seen[key] = _number(seen.get(key))
    if seen.get("done") and not isinstance(seen.get("result"), dict):
        seen["result"] = {"error": "the worker ended without a result that can be read; run again"}
    return seen


class Job:
    """One detached job as it is seen from here."""

    def __init__(self, noun: str, job: str, host: str) -> None:
        self.noun, self.job, self.host = noun, job, host
        self.quoted = shlex.quote(job)
        self._touch = f"touch -c {self.quoted}/alive && cat {self.quoted}/progress.json"
        self.snapshot: dict[str, Any] = {}
        self.result: dict[str, Any] | None = None
        self.misses, self.beat, self.beat_at = 0, -1, time.monotonic()
        self.stage, self.stage_at = "", self.beat_at
        if not _JOB.fullmatch(job):
            self.result = {"failed": True, "msg": f"{host}: the job folder has the unexpected name {job!r}."}

    @property
    def poll(self) -> str:
        """What to ask the node. A worker ends only after its result was fetched, so one that is gone was killed."""
        pid = self.snapshot.get("pid")
        gone = f"; [ -e /proc/{pid} ] || printf ' {_GONE}'" if isinstance(pid, int) else ""
        return self._touch + gone

    def shown(self, now: float, measured: float | None) -> str:
        return part(self.noun, self.snapshot, now - self.stage_at, measured)

    def take(self, text: str, complaint: str, now: float) -> None:
        """One answer of the node; sets result when the job is over."""
        text = text.rstrip()
        told = text.removesuffix(_GONE)
        killed, seen = told != text, told_by(told)
        self.misses = 0 if seen else self.misses + 1
        if self.misses >= MISSES:
            self.result = {
                "failed": True,
                "msg": (
                    f"{self.host}: the {self.noun} copy is gone: {self.job} cannot be read ({complaint}). Was the node "
                    "restarted? Run again; the copy goes on where it stopped."
                ),
            }
        if not seen:
            return
        self.snapshot = seen
        if seen.get("done"):
            self.result = dict(seen["result"])
        elif killed:
            self.result = {
                "failed": True,
                "msg": f"{self.host}: the worker of the {self.noun} copy was killed in stage '{seen.get('stage')}'. "
                "Look at the node's memory and journal, then run again; the copy goes on where it stopped.",
            }
        elif seen.get("beat", self.beat) != self.beat:
            self.beat, self.beat_at = seen["beat"], now
        elif now - self.beat_at > DEAD_SECONDS:
            self.result = {
                "failed": True,
                "msg": f"{self.host}: the worker of the {self.noun} copy gave no sign for {DEAD_SECONDS:g} s in stage "
                f"'{seen.get('stage')}'. It was killed or the node hangs. Look at the node's memory and journal, "
                "then run again; the copy goes on where it stopped.",
            }
        if seen.get("stage", self.stage) != self.stage:
            self.stage, self.stage_at = seen["stage"], now


def failed(result: Mapping[str, Any]) -> bool:
    return bool(result.get("failed") or result.get("error"))


def cancel(action: ActionBase, jobs: list[str]) -> None:
    """Takes the folders away: the workers see that nobody is interested any more, and end."""
    quoted = " ".join(shlex.quote(job) for job in jobs if _JOB.fullmatch(job))
    if quoted:
        action._low_level_execute_command(f"rm -rf -- {quoted}", sudoable=True)


def follow(
    action: ActionBase, jobs: Mapping[str, str], host: str, measured: float | None = None
) -> dict[str, dict[str, Any]]:
    """Polls until all jobs (by noun) are done and returns their results by noun; their folders are gone afterwards.

    When one fails, the others of this node are ended too: what they have brought is kept, and nobody waits for it.
    When the run that this belongs to was killed, all are ended, for nobody would use them.
    """
    run = os.getppid()
    followed = [Job(noun, job, host) for noun, job in jobs.items()]
    shown = time.monotonic()
    while running := [job for job in followed if job.result is None]:
        script = f"; echo; echo '{_BETWEEN}'; ".join(job.poll for job in running)
        if os.getppid() != run:
            cancel(action, [job.job for job in running])
            return {job.noun: {"error": "the run of Ansible was killed"} for job in followed}
        answer = action._low_level_execute_command(script, sudoable=True)
        now = time.monotonic()
        parts = _BORDER.split(str(answer.get("stdout") or ""))
        complaint = (answer.get("stderr") or answer.get("stdout") or "").strip()[-300:]
        for number, job in enumerate(running):
            job.take(parts[number] if number < len(parts) else "", complaint, now)
            if job.result is not None:
                cancel(action, [job.job])
        broken = [job.noun for job in followed if job.result is not None and failed(job.result)]
        if broken:
            for job in followed:
                if job.result is None:
                    cancel(action, [job.job])
                    job.result = {"error": f"it was ended because the copy of the {broken[0]} failed; run again"}
            break
        running = [job for job in running if job.result is None]
        if running and now - shown >= LINE_SECONDS and any(job.snapshot for job in running):
            display.display(f"{host}  " + " | ".join(job.shown(now, measured) for job in running))
            shown = now
        if running:
            time.sleep(POLL_SECONDS)
    return {job.noun: job.result or {} for job in followed}


def said(outcome: dict[str, Any], what: str, host: str) -> dict[str, Any]:
    """The outcome of a job as the result of a task."""
    error = outcome.pop("error", None)
    if error:
        outcome.update(failed=True, msg=f"{what} on {host}: {error}")
    if outcome.get("failed"):
        outcome["changed"] = False
    return outcome


def sync(action: ActionBase, module: str, noun: str, task_vars: dict[str, Any]) -> dict[str, Any]:
    """Runs the module; a copy runs detached there and is followed from here, or by copy_wait when wait is false."""
    args = dict(action._task.args)
    wait = boolean(args.pop("wait", True), strict=False)
    if args.get("state", "present") == "present":
        args["detach"] = True
    result: dict[str, Any] = action._execute_module(module_name=module, module_args=args, task_vars=task_vars)
    if not result.get("job") or not wait:
        return result
    host = str(task_vars.get("inventory_hostname", "node"))
    outcome = follow(action, {noun: result.pop("job")}, host)[noun]
    result.update(said(outcome, str(args.get("image") or args.get("path")), host))
    return result
