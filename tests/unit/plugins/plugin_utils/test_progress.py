# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
from __future__ import annotations

import json
from typing import Any

import pytest

from ansible_collections.gb10.serving.plugins.plugin_utils import _progress


@pytest.mark.parametrize(
    ("snapshot", "seconds", "text"),
    [
        (
            {"stage": "copy", "bytes_done": 43_100_000_000, "bytes_total": 127_000_000_000, "rate": 3_100_000_000},
            0,
            "model 43.1/127.0 GB  33 %  3.1 GB/s  ETA 27 s",
        ),
        (
            {"stage": "copy", "bytes_done": 43_100_000, "bytes_total": 127_000_000, "rate": 310_000},
            0,
            "model 43.1/127.0 MB  33 %  0 MB/s  ETA 4 min 31 s",
        ),
        (
            {"stage": "copy", "bytes_done": 0, "bytes_total": 2_000_000_000, "rate": 0},
            0,
            "model 0.0/2.0 GB  0 %",
        ),
        (
            {"stage": "copy", "bytes_done": 5_000_000, "bytes_total": None, "rate": 9e6},
            0,
            "model 5.0 MB  9 MB/s",
        ),
        (
            {"stage": "copy", "bytes_done": 6_000_000, "bytes_total": 5_000_000, "rate": 9e6},
            0,
            "model 6.0 MB  9 MB/s",
        ),
        (
            {"stage": "copy", "bytes_done": 5_000_000, "bytes_total": 5_000_000, "rate": 9e6},
            0,
            "model 5.0/5.0 MB  100 %  9 MB/s",
        ),
        (
            {"stage": "verify", "bytes_done": 2_000_000_000, "bytes_total": 2_000_000_000, "rate": 9},
            12.4,
            "model verify  2.0 GB  for 12 s",
        ),
    ],
)
def test_line(snapshot: dict[str, Any], seconds: float, text: str) -> None:
    assert _progress.part("model", snapshot, seconds) == text


def test_line_with_the_share_of_what_the_fabric_test_measured() -> None:
    snapshot = {"stage": "copy", "bytes_done": 0, "bytes_total": 2_000_000_000, "rate": 1_500_000_000}
    assert _progress.part("model", snapshot, 0, 2e9) == "model 0.0/2.0 GB  0 %  1.5 GB/s (75 % of the fabric)  ETA 1 s"


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0 s"), (99.4, "99 s"), (100, "1 min 40 s"), (3599, "59 min 59 s"), (7260, "2 h 01 min")]
)
def test_eta_text(seconds: float, text: str) -> None:
    assert _progress.eta_text(seconds) == text


class Action:
    """Answers the polls from a list; the last answer stays."""

    def __init__(self, answers: list[dict[str, Any] | None]) -> None:
        self.answers, self.commands = answers, []

    commands: list[str]

    def _low_level_execute_command(self, command: str, sudoable: bool) -> dict[str, Any]:
        assert sudoable
        self.commands.append(command)
        if command.startswith("rm "):
            return {"rc": 0, "stdout": ""}
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return (
            {"rc": 1, "stdout": "", "stderr": "cat: no such file"}
            if answer is None
            else {"rc": 0, "stdout": json.dumps(answer)}
        )


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Shown lines; a second passes with every poll."""
    shown: list[str] = []
    clock = [0.0]

    def sleep(seconds: float) -> None:
        clock[0] += seconds

    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    monkeypatch.setattr("time.sleep", sleep)
    monkeypatch.setattr(_progress.display, "display", shown.append)
    return shown


JOB = "/run/gb10-job-ab_12"


def moving(beat: int) -> dict[str, Any]:
    return {
        "stage": "copy",
        "bytes_done": beat * 10**6,
        "bytes_total": 10**8,
        "rate": 10**6,
        "beat": beat,
        "done": False,
    }


def follow(action: Action, job: str = JOB) -> dict[str, Any]:
    return _progress.follow(action, {"model": job}, "spark-b")["model"]


def test_follow_shows_few_lines_returns_the_result_and_cleans_up(lines: list[str]) -> None:
    action = Action([*(moving(beat) for beat in range(10)), {"beat": 10, "done": True, "result": {"moved_bytes": 5}}])
    assert follow(action) == {"moved_bytes": 5}
    assert len(lines) == 3 and all(line.startswith("spark-b  model ") for line in lines)
    assert action.commands[0] == f"touch -c {JOB}/alive && cat {JOB}/progress.json"
    assert action.commands[-1] == f"rm -rf -- {JOB}" and sum(c.startswith("rm ") for c in action.commands) == 1


def test_follow_survives_a_lost_poll(lines: list[str]) -> None:
    assert follow(Action([moving(1), None, None, moving(2), {"done": True, "result": {"ok": 1}}])) == {"ok": 1}


def test_follow_notices_a_job_that_is_gone(lines: list[str]) -> None:
    result = follow(Action([moving(1), None]))
    assert result["failed"] and "spark-b" in result["msg"] and "no such file" in result["msg"]


def test_follow_notices_a_killed_worker_at_once(lines: list[str]) -> None:
    class Killed(Action):
        def _low_level_execute_command(self, command: str, sudoable: bool) -> dict[str, Any]:
            answer = super()._low_level_execute_command(command, sudoable)
            gone = f" {_progress._GONE}" if "[ -e /proc/77 ]" in command else ""
            return {**answer, "stdout": answer["stdout"] + gone}

    action = Killed([{**moving(1), "pid": 77}])
    result = follow(action)
    assert result["failed"] and "was killed in stage 'copy'" in result["msg"]
    assert len(action.commands) == 3 and action.commands[-1].startswith("rm ")


def test_follow_takes_the_result_of_a_worker_that_is_gone_by_now(lines: list[str]) -> None:
    action = Action([{**moving(1), "pid": 77}, {"done": True, "result": {"ok": 1}}])
    assert follow(action) == {"ok": 1}


def test_follow_notices_a_dead_worker(lines: list[str]) -> None:
    action = Action([moving(1)])
    result = follow(action)
    assert result["failed"] and "gave no sign for 90 s in stage 'copy'" in result["msg"]
    assert action.commands[-1].startswith("rm ")


@pytest.mark.parametrize(
    "job",
    [
        "/etc",
        "/run/../etc/gb10-job-x",
        "/./gb10-job-x",
        "/run/gb10-job-x/../y",
        "/run/gb10-job-",
        "/run/gb10-job-a b",
        "gb10-job-a",
        "/run/gb10-job-a\n",
    ],
)
def test_follow_touches_no_other_folder(lines: list[str], job: str) -> None:
    action = Action([moving(1)])
    assert follow(action, job)["failed"] and not action.commands


def test_nobody_follows_for_a_run_that_was_killed(lines: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    parents = [7, 7, 7, 1]
    monkeypatch.setattr("os.getppid", lambda: parents.pop(0) if len(parents) > 1 else parents[0])
    action = Action([moving(1)])
    assert "was killed" in follow(action)["error"]
    assert len(action.commands) == 3 and action.commands[-1] == f"rm -rf -- {JOB}"


OTHER = "/run/gb10-job-cd"


class Two(Action):
    """Both jobs in one answer; those of a job that is over are asked for no more."""

    def _low_level_execute_command(self, command: str, sudoable: bool) -> dict[str, Any]:
        self.commands.append(command)
        if command.startswith("rm "):
            return {"rc": 0, "stdout": ""}
        answer = self.answers.pop(0) or {}
        asked = [noun for noun, job in (("image", OTHER), ("model", JOB)) if job in command]
        return {"rc": 0, "stdout": f"\n{_progress._BETWEEN}\n".join(json.dumps(answer[noun]) for noun in asked)}


def test_two_jobs_share_a_line(lines: list[str]) -> None:
    done = {"done": True, "result": {"ok": 1}}
    both = [{"image": moving(beat), "model": moving(beat)} for beat in range(5)]
    action = Two([*both, {"image": done, "model": moving(6)}, {"model": done}])
    answer = _progress.follow(action, {"image": OTHER, "model": JOB}, "spark-b", 2e6)
    assert answer == {"image": {"ok": 1}, "model": {"ok": 1}}
    assert lines[0] == (
        "spark-b  image 3.0/100.0 MB  3 %  1 MB/s (50 % of the fabric)  ETA 97 s"
        " | model 3.0/100.0 MB  3 %  1 MB/s (50 % of the fabric)  ETA 97 s"
    )
    assert [command for command in action.commands if command.startswith("rm ")] == [
        f"rm -rf -- {OTHER}",
        f"rm -rf -- {JOB}",
    ]


def test_a_failure_ends_the_other_job(lines: list[str]) -> None:
    action = Two([{"image": {"done": True, "result": {"error": "no space."}}, "model": moving(1)}])
    answer = _progress.follow(action, {"image": OTHER, "model": JOB}, "spark-b")
    assert answer["image"] == {"error": "no space."}
    assert "the copy of the image failed" in answer["model"]["error"]
    assert action.commands[-1] == f"rm -rf -- {JOB}"


class Task:
    def __init__(self, **args: Any) -> None:
        self.args = args


class Syncing(Action):
    def __init__(self, args: dict[str, Any], module: dict[str, Any], answers: list[dict[str, Any] | None]) -> None:
        super().__init__(answers)
        self._task, self.module, self.ran = Task(**args), module, {}

    ran: dict[str, Any]

    def _execute_module(
        self, module_name: str, module_args: dict[str, Any], task_vars: dict[str, Any]
    ) -> dict[str, Any]:
        self.ran = {"name": module_name, **module_args}
        return dict(self.module)


def sync(action: Syncing) -> dict[str, Any]:
    return _progress.sync(action, "gb10.serving.model_sync", "model", {"inventory_hostname": "spark-b"})


def test_sync_takes_the_answer_of_a_module_that_had_nothing_to_do(lines: list[str]) -> None:
    action = Syncing({"path": "/m"}, {"changed": False, "moved_bytes": 0}, [None])
    assert sync(action) == {"changed": False, "moved_bytes": 0}
    assert action.ran["detach"] is True and not action.commands


def test_sync_does_not_detach_the_other_states(lines: list[str]) -> None:
    action = Syncing({"path": "/m", "state": "offered"}, {"changed": True}, [None])
    assert sync(action) == {"changed": True} and "detach" not in action.ran


def test_sync_joins_what_the_job_found(lines: list[str]) -> None:
    done = {"done": True, "result": {"changed": True, "moved_bytes": 7}}
    action = Syncing({"path": "/m"}, {"changed": True, "job": JOB, "diff": {}}, [done])
    assert sync(action) == {"changed": True, "moved_bytes": 7, "diff": {}}


def test_sync_names_host_and_path_of_a_failure(lines: list[str]) -> None:
    action = Syncing(
        {"path": "/m"}, {"changed": True, "job": JOB}, [{"done": True, "result": {"error": "the link is down."}}]
    )
    assert sync(action) == {"changed": False, "failed": True, "msg": "/m on spark-b: the link is down."}


def test_sync_leaves_the_job_to_somebody_else(lines: list[str]) -> None:
    action = Syncing({"path": "/m", "wait": False}, {"changed": True, "job": JOB}, [None])
    assert sync(action) == {"changed": True, "job": JOB}
    assert not action.commands and "wait" not in action.ran


class Saying(Action):
    """Answers with the text as it is, as a node would on which nothing runs."""

    def __init__(self, text: str) -> None:
        super().__init__([None])
        self.text = text

    def _low_level_execute_command(self, command: str, sudoable: bool) -> dict[str, Any]:
        return {**super()._low_level_execute_command(command, sudoable), "stdout": self.text, "rc": 0}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[1]", "cannot be read"),
        ("5", "cannot be read"),
        ("[" * 100_000, "cannot be read"),
        ("{{{", "cannot be read"),
        ('{"done":true,"result":[1]}', "without a result"),
        ('{"done":true,"result":"x"}', "without a result"),
        ('{"done":false,"stage":["copy"],"bytes_done":"x","bytes_total":[1],"rate":{},"beat":[2]}', "no sign for 90 s"),
        ('{"done":false,"stage":"copy","bytes_done":1e400,"rate":NaN,"bytes_total":-Infinity}', "no sign for 90 s"),
        ('{"done":false,"stage":"copy","pid":4} gb10-worker-gone', "was killed"),
    ],
)
def test_what_no_worker_would_write_is_said(lines: list[str], text: str, said: str) -> None:
    result = follow(Saying(text))
    assert said in result.get("msg", "") + result.get("error", "")


def test_a_result_may_hold_any_words(lines: list[str]) -> None:
    words = "gb10-worker-gone --- gb10 job ---"
    assert follow(Saying(json.dumps({"done": True, "result": {"said": words}}))) == {"said": words}
