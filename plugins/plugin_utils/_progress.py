# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
# Private to gb10.serving: follows a detached job on a node and shows how far it is.
from __future__ import annotations

import json
import re
import shlex
import time
from typing import TYPE_CHECKING, Any

from ansible.utils.display import Display

if TYPE_CHECKING:
    from ansible.plugins.action import ActionBase

POLL_SECONDS = 1.0
LINE_SECONDS = 3.0
DEAD_SECONDS = 90.0
_JOB = re.compile(r"/(?:[A-Za-z0-9._-]+/)*gb10-job-[A-Za-z0-9_]+\Z")

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


def line(host: str, noun: str, snapshot: dict[str, Any], stage_seconds: float = 0) -> str:
    """One line for the user: how far, how fast, how long still."""
    done, total, rate = int(snapshot.get("bytes_done") or 0), snapshot.get("bytes_total"), snapshot.get("rate") or 0
    unit, name = (1e9, "GB") if max(done, total or 0) >= 1e9 else (1e6, "MB")
    stage = str(snapshot.get("stage"))
    if stage != "copy":
        return f"{host}  {noun} {stage}  {done / unit:.1f} {name}  for {eta_text(stage_seconds)}"
    speed = f"  {rate_text(rate)}" if rate else ""
    if not total or done > total:
        return f"{host}  {noun} {done / unit:.1f} {name}{speed}"
    eta = f"  ETA {eta_text((total - done) / rate)}" if rate and done < total else ""
    return f"{host}  {noun} {done / unit:.1f}/{total / unit:.1f} {name}  {done * 100 // total} %{speed}{eta}"


def follow(action: ActionBase, job: str, host: str, noun: str) -> dict[str, Any]:
    """Polls until the job is done and returns its result; the job's folder is gone afterwards."""
    if not _JOB.fullmatch(job):
        return {"failed": True, "msg": f"{host}: the job folder has the unexpected name {job!r}."}
    quoted = shlex.quote(job)
    poll = f"touch -c {quoted}/alive && cat {quoted}/progress.json"
    shown = time.monotonic()
    beat, beat_at, misses = -1, time.monotonic(), 0
    snapshot: dict[str, Any] = {}
    stage, stage_at = "", shown
    while True:
        answer = action._low_level_execute_command(poll, sudoable=True)
        now = time.monotonic()
        try:
            snapshot = json.loads(answer["stdout"]) if answer["rc"] == 0 else {}
        except ValueError:
            snapshot = {}
        misses = 0 if snapshot else misses + 1
        if misses >= 5:
            said = (answer.get("stderr") or answer.get("stdout") or "").strip()[-300:]
            return {
                "failed": True,
                "msg": (
                    f"{host}: the {noun} copy is gone: {job} cannot be read ({said}). Was the node restarted? "
                    "Run again; the copy goes on where it stopped."
                ),
            }
        if snapshot.get("done"):
            action._low_level_execute_command(f"rm -rf -- {quoted}", sudoable=True)
            return dict(snapshot.get("result") or {})
        if snapshot.get("beat", beat) != beat:
            beat, beat_at = snapshot["beat"], now
        elif now - beat_at > DEAD_SECONDS:
            action._low_level_execute_command(f"rm -rf -- {quoted}", sudoable=True)
            return {
                "failed": True,
                "msg": f"{host}: the worker of the {noun} copy gave no sign for {DEAD_SECONDS:g} s in stage "
                f"'{snapshot.get('stage')}'. It was killed or the node hangs. Look at the node's memory and journal, "
                "then run again; the copy goes on where it stopped.",
            }
        if snapshot.get("stage", stage) != stage:
            stage, stage_at = snapshot["stage"], now
        if snapshot and now - shown >= LINE_SECONDS:
            display.display(line(host, noun, snapshot, now - stage_at))
            shown = now
        time.sleep(POLL_SECONDS)


def sync(action: ActionBase, module: str, noun: str, task_vars: dict[str, Any]) -> dict[str, Any]:
    """Runs the module; a copy runs detached there and is followed from here."""
    args = dict(action._task.args)
    if args.get("state", "present") == "present":
        args["detach"] = True
    result: dict[str, Any] = action._execute_module(module_name=module, module_args=args, task_vars=task_vars)
    job = result.pop("job", None)
    if not job:
        return result
    host = str(task_vars.get("inventory_hostname", "node"))
    outcome = follow(action, job, host, noun)
    error = outcome.pop("error", None)
    if error:
        what = args.get("image") or args.get("path")
        outcome.update(failed=True, msg=f"{what} on {host}: {error}")
    if outcome.get("failed"):
        result["changed"] = False
    result.update(outcome)
    return result
