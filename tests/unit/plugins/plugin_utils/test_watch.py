# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path

import pytest

from ansible_collections.gb10.serving.plugins.plugin_utils import _watch
from ansible_collections.gb10.serving.plugins.plugin_utils._engines import vllm
from ansible_collections.gb10.serving.plugins.plugin_utils._watch import Look, Stamped, nanoseconds
from ansible_collections.gb10.serving.plugins.plugin_utils._watch_log import LONGEST, Log

ID = "0123456789abcdef" * 4
T0 = nanoseconds("2026-11-30T10:00:00Z")


def output(state: dict[str, object] | None, log: str) -> str:
    return f"{f'{_watch.STATE} {ID} {json.dumps(state)}' if state else ''}\n{_watch.SEPARATOR}\n{log}"


@pytest.mark.parametrize(
    ("text", "since_t0"),
    [
        ("2026-11-30T10:00:00.000000001Z x", 1),
        ("2026-11-30T10:00:00.5Z", 500_000_000),
        ("2026-11-30T11:00:01+01:00 x", 10**9),
        ("2026-11-30T09:30:00-00:30 x", 0),
        ("hello 2026-11-30T10:00:00Z", -T0),
        ("", -T0),
    ],
)
def test_times_of_docker(text: str, since_t0: int) -> None:
    assert nanoseconds(text) - T0 == since_t0


def test_running_rank() -> None:
    state = {"Running": True, "ExitCode": 0, "OOMKilled": False, "StartedAt": "2026-11-30T10:00:00Z"}
    log = "cut off\n2026-11-30T10:00:01Z one\n2026-11-30T10:00:01Z \nmore\n2026-11-30T10:00:02Z  two \n"
    look = _watch.parse(output(state, log))
    assert (look.exists, look.running, look.exit_code, look.container) == (True, True, None, ID)
    assert look.started_at == T0
    second = 10**9
    assert look.lines == [Stamped(T0 + second, "one"), Stamped(T0 + second, "more"), Stamped(T0 + 2 * second, " two")]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (f"Error: No such container: c\n{_watch.SEPARATOR}\n", "container c is gone"),
        (f"Error response from daemon: No such container: c\n{_watch.SEPARATOR} 1\n", "container c is gone"),
        (f"Cannot connect to the Docker daemon\n{_watch.SEPARATOR}\n", "docker on h does not answer: Cannot connect"),
        (f"dial unix docker.sock: connect: no such file or directory\n{_watch.SEPARATOR} 1\n", "docker on h does not"),
        (f"{_watch.SEPARATOR} 124\n", "docker on h does not answer: `docker container inspect` did not end within 10"),
        (f"Killed\n{_watch.SEPARATOR} 137\n", "does not answer: `docker container inspect` did not end within 10 s"),
        ("", "docker on h does not answer: it says nothing"),
        (
            output({"Running": True}, f"WARNING: x\n{_watch.LATE}\n"),
            "does not answer: `docker logs` did not end within",
        ),
        (output({"Running": False, "ExitCode": 1, "OOMKilled": False}, "x"), "container c ended with exit code 1"),
        (
            output({"Running": False, "ExitCode": 137, "OOMKilled": True}, "x"),
            "killed for lack of memory (exit code 137)",
        ),
    ],
)
def test_dead_rank(text: str, words: str) -> None:
    look = _watch.parse(text)
    assert not look.running
    assert words in _watch.death(look, "c", "h")


@pytest.mark.parametrize(
    "other",
    [
        "WARNING: Error loading config file: /root/.docker/config.json: permission denied\n",
        "Emulate Docker CLI using podman. Create /etc/containers/nodocker to quiet msg.\n",
        "sudo: unable to resolve host spark-a: Name or service not known\r\n",
    ],
)
def test_what_others_say_beside_the_state_does_not_count(other: str) -> None:
    state = {"Running": True, "ExitCode": 0, "StartedAt": "2026-11-30T10:00:00Z"}
    log = f"{other}2026-11-30T10:00:01Z one\n"
    for text in (other + output(state, log), output(state, log).replace(_watch.SEPARATOR, other + _watch.SEPARATOR)):
        look = _watch.parse(text)
        assert (look.exists, look.running, look.container, look.problem) == (True, True, ID, "")
        assert [line.text for line in look.lines] == ["one"]


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ({"Running": False}, "ended without an exit code"),
        ({"Running": False, "ExitCode": None}, "without an exit code"),
    ],
)
def test_a_state_without_exit_code(state: dict[str, object], words: str) -> None:
    look = _watch.parse(output(state, ""))
    assert look.exists and not look.running and words in _watch.death(look, "c", "h")


@pytest.mark.parametrize("state", ["[1]", '{"Status": "x"}', "{", "null"])
def test_a_state_that_is_none(state: str) -> None:
    text = f"{_watch.STATE} {ID} {state}\n{_watch.SEPARATOR}\n2026-11-30T10:00:01Z one\n"
    assert not _watch.parse(text).exists


def test_a_time_that_is_none() -> None:
    state = {"Running": True, "StartedAt": "2026-13-01T00:00:00Z"}
    log = "2026-11-30T10:00:01Z one\n2026-13-99T99:99:99Z x\n2026-02-31T10:00:00Z y\n"
    look = _watch.parse(output(state, log))
    assert look.started_at == 0 and [line.at for line in look.lines] == [T0 + 10**9] * 3


def node(folder: Path, docker: str, command: str) -> tuple[str, float]:
    """What the command prints where docker is this script, and how long that takes."""
    (folder / "docker").write_text(f"#!/bin/sh\n{docker}\n")
    (folder / "docker").chmod(0o755)
    begun = time.monotonic()
    done = subprocess.run(
        ["/bin/sh", "-c", command], stdout=subprocess.PIPE, text=True, check=False, timeout=60,
        env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"},
    )  # fmt: skip
    return done.stdout, time.monotonic() - begun


STATE = """{"Running": true, "StartedAt": "2026-11-30T10:00:00Z"}"""


def test_the_command_as_a_shell_runs_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_watch, "STATE_SECONDS", 1)
    monkeypatch.setattr(_watch, "LOG_SECONDS", 1)
    warns = "echo 'WARNING: config.json: permission denied' >&2"
    state = f"echo '{_watch.STATE} {ID} {STATE}'"
    well = f"{warns}; case $1 in logs) echo 2026-11-30T10:00:01Z one ;; *) {state} ;; esac"
    told, _seconds = node(tmp_path, well, _watch.command("c", 0))
    look = _watch.parse(told)
    assert look.running and [line.text for line in look.lines] == ["one"]
    assert abs(look.now / 1e9 - time.time()) < 60
    told, seconds = node(tmp_path, "exec sleep 30", _watch.command("c", 0))
    assert _watch.parse(told).hangs and seconds < 8
    for since in (0, 1):  # a log that is not printed to its end is one all the same
        slow = f"case $1 in logs) echo 2026-11-30T10:00:01Z one; exec sleep 30 ;; *) {state} ;; esac"
        told, seconds = node(tmp_path, slow, _watch.command("c", since))
        look = _watch.parse(told)
        assert look.running and [line.text for line in look.lines] == ["one"] and seconds < 8
    told, seconds = node(tmp_path, f"case $1 in logs) exec sleep 30 ;; *) {state} ;; esac", _watch.command("c", 0))
    assert _watch.parse(told).unanswered and seconds < 8
    told, _seconds = node(tmp_path, "echo Error: No such container: c >&2; exit 1", _watch.command("c", 0))
    assert _watch.parse(told) == Look(False, False)


def test_only_what_is_missing_is_asked_for() -> None:
    assert "--since" not in _watch.command("c", 0) and "head -c" in _watch.command("c", 0)
    assert "--since 12.000000034 c " in _watch.command("c", 12 * 10**9 + 34)
    assert "'c; reboot'" in _watch.command("c; reboot", 0)


def lines(*seconds_and_texts: tuple[float, str]) -> list[Stamped]:
    return [Stamped(T0 + int(seconds * 10**9), text) for seconds, text in seconds_and_texts]


def test_no_line_comes_twice_or_is_lost() -> None:
    log = Log()
    assert log.add(lines((0, "a"), (1, "b"), (1, "b"), (5, "c"))) == ["a", "b", "b", "c"]
    # Asked from 3 s on; a docker that cuts by whole seconds, or not at all, answers more.
    assert log.since == T0 + 3 * 10**9
    assert log.add(lines((1, "b"), (4.9, "late"), (5, "c"), (5, "c"), (5, "d"))) == ["late", "c", "d"]
    assert log.add(lines((4.9, "late"), (5, "c"), (5, "c"), (5, "d"))) == []
    assert log.add([]) == []
    assert [line.text for line in log.lines()] == ["a", "b", "b", "c", "late", "c", "d"]
    assert log.last(2) == ["c", "d"]


def test_a_clock_that_is_set_back() -> None:
    log, now = Log(), T0 + 100 * 10**9
    assert log.add(lines((90, "a"), (99, "b"), (99, "b")), now) == ["a", "b", "b"]
    assert log.add(lines((100.5, "c")), now) == ["c"]  # written while docker answered
    assert log.since == T0 + 98.5 * 10**9
    assert log.add([], T0 + 40 * 10**9) == []  # by 60 s; from now on there are lines of that time
    assert log.since < T0 + 30 * 10**9
    again = [*lines((90, "a"), (99, "b"), (99, "b"), (100.5, "c")), *lines((39, "d"), (39, "d"))]
    assert log.add(again, T0 + 41 * 10**9) == ["d", "d"]
    assert log.since == T0 + 37 * 10**9
    assert log.add([*again, *lines((42, "e"))], T0 + 43 * 10**9) == ["e"]


def test_a_log_without_end_keeps_its_begin_and_its_end() -> None:
    log = Log()
    for second in range(400):
        log.add(lines((second, f"{second} " + 9000 * "x")))
    kept = log.lines()
    assert kept[0].text.startswith("0 ") and kept[-1].text.startswith("399 ")
    assert sum(len(line.text) for line in kept) < _watch.HEAD_BYTES + _watch.TAIL_BYTES + LONGEST
    assert len(kept) > 90


def test_numbers_that_the_engine_tells() -> None:
    start = [
        "(EngineCore pid=80) INFO 11-30 10:00:25 CPU KV cache size: 174,720 tokens",
        "(EngineCore pid=80) INFO 11-30 10:00:25 Maximum concurrency for 512 tokens per request: 341.25x",
        "(EngineCore pid=80) INFO 11-30 10:00:25 CPU KV cache size: 174,721 tokens",
    ]
    assert _watch.told(vllm, start) == {"kv_cache_tokens": 174721, "max_concurrency": 341.25}


def test_traces_of_a_killed_process_and_of_connections() -> None:
    look = Look(True, True, container=ID, started_at=T0)
    now = T0 // 10**9 + 100
    answer = (
        f"5000.00\n{now}\n"
        f"[ 4950.1] oom-kill:constraint=CONSTRAINT_NONE,task_memcg=/system.slice/docker-{ID}.scope,task=python3,pid=7\n"
        f"[ 4950.1] oom-kill:constraint=CONSTRAINT_NONE,task_memcg=/system.slice/docker-{'f' * 64}.scope,task=x,pid=8\n"
        "[ 4899.0] NVRM: Xid (PCI:000f:01:00): 79, before it ran\n"
        "[ 4901.0] NVRM: Xid (PCI:000f:01:00): 79, since it runs\n"
        f"{_watch.SEPARATOR}\n"
        "ESTAB    0 0 10.0.0.1:1 10.0.0.2:2 users:((x))\nSYN-SENT 0 1 10.0.0.1:1 192.168.1.9:3 users:((x))\n"
    )
    traces = _watch.traces(answer, look)
    assert [line[10:20] for line in traces.kernel] == ["oom-kill:c", "NVRM: Xid "]
    assert "since it runs" in traces.kernel[1]
    assert [line.split()[0] for line in traces.sockets] == ["SYN-SENT", "ESTAB"]


@pytest.mark.parametrize("answer", ["", "sh: cut: not found", f"1\n\n{_watch.SEPARATOR}", "x\ny\n[ 1.0] NVRM: Xid\n"])
def test_a_node_that_shows_nothing(answer: str) -> None:
    assert _watch.traces(answer, Look(True, False, started_at=T0)) == _watch.Traces()
