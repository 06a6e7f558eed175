# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""The process beside a rank: ends the rank when another one has failed, and goes with its action."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ansible_collections.gb10.serving.plugins.plugin_utils import _collective_ender
from ansible_collections.gb10.serving.plugins.plugin_utils._collective_ender import Ender, Remover


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_collective_ender, "GRACE", 0.1)
    monkeypatch.setattr(_collective_ender, "LOOK", 0.05)
    monkeypatch.setattr(_collective_ender, "AGAIN", 0.1)


def mark(path: Path) -> bool:
    path.touch()
    return True


def wait_for(path: Path) -> None:
    until = time.monotonic() + 10
    while not path.exists():
        assert time.monotonic() < until
        time.sleep(0.02)


def test_nothing_is_removed_while_all_is_well(tmp_path: Path) -> None:
    ender = Ender(lambda: False, lambda: mark(tmp_path / "removed"))
    time.sleep(0.4)
    begun = time.monotonic()
    assert ender.close() is False and time.monotonic() - begun < 5
    assert not (tmp_path / "removed").exists()


def test_a_failure_of_another_ends_the_rank(tmp_path: Path) -> None:
    ender = Ender((tmp_path / "failed").exists, lambda: mark(tmp_path / "removed"))
    time.sleep(0.3)
    assert not (tmp_path / "removed").exists()
    (tmp_path / "failed").touch()
    wait_for(tmp_path / "removed")
    assert ender.close() is True


def test_a_container_that_is_not_there_yet_is_tried_again(tmp_path: Path) -> None:
    def remove() -> bool:
        with (tmp_path / "tries").open("a") as stream:
            stream.write("x")
        if (tmp_path / "tries").stat().st_size == 1:
            raise OSError("the node did not answer")
        if (tmp_path / "tries").stat().st_size == 3:
            (tmp_path / "removed").touch()
            return True
        return False

    ender = Ender(lambda: True, remove)
    wait_for(tmp_path / "removed")
    assert ender.close() is True and (tmp_path / "tries").read_text() == "xxx"


def test_one_that_was_never_there_was_not_ended(tmp_path: Path) -> None:
    ender = Ender(lambda: True, lambda: not mark(tmp_path / "tried"))
    wait_for(tmp_path / "tried")
    assert ender.close() is False


@pytest.mark.parametrize(
    ("answers", "was_there"),
    [
        ([(0, "c\n")], [True]),
        ([(0, "WARNING: config\nc\n")], [True]),
        ([(1, "Error: No such container: c"), (0, "c")], [False, True]),
        ([(0, "")], [False]),
        ([(124, ""), (1, "Error: No such container: c")], [None, True]),
        ([(137, ""), (1, "removal of container c is already in progress")], [None, True]),
        ([(1, "Cannot connect"), (1, "Error: No such container: c")], [False, False]),
    ],
)
def test_what_docker_says_of_the_removal(answers: list[tuple[int, str]], was_there: list[bool | None]) -> None:
    asked: list[str] = []
    left = list(answers)

    def ask(command: str) -> tuple[int, str]:
        asked.append(command)
        return left.pop(0)

    remove = Remover("c", ask)
    assert [remove() for _answer in answers] == was_there
    assert all(command.startswith("timeout ") and "docker rm --force --volumes c " in command for command in asked)


def test_one_whose_removal_hangs_was_ended(tmp_path: Path) -> None:
    def remove() -> None:
        mark(tmp_path / "tried")

    ender = Ender(lambda: True, remove)
    wait_for(tmp_path / "tried")
    time.sleep(0.1)
    assert ender.close() is True


def test_one_that_hangs_is_left_alone_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_collective_ender, "LAST", 0.5)
    ender = Ender(lambda: True, lambda: bool(time.sleep(30)))  # type: ignore[func-returns-value]
    time.sleep(0.4)
    begun = time.monotonic()
    assert ender.close() is False and time.monotonic() - begun < 5


def test_it_goes_when_its_action_is_killed(tmp_path: Path) -> None:
    code = (
        "import sys, time\n"
        "from ansible_collections.gb10.serving.plugins.plugin_utils._collective_ender import Ender\n"
        "ender = Ender(lambda: False, lambda: True)\n"
        "print(ender._child, flush=True)\n"
        "time.sleep(60)\n"
    )
    root = str(Path(__file__).parents[4] / "collections")
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": root}
    ) as process:
        assert process.stdout
        child = int(process.stdout.readline())
        process.kill()
    until = time.monotonic() + 10
    while Path(f"/proc/{child}").exists() and "Z" not in Path(f"/proc/{child}/stat").read_text().rpartition(")")[2]:
        assert time.monotonic() < until
        time.sleep(0.05)
