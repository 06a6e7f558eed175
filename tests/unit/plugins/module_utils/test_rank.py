# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gb10.serving.plugins.module_utils import _rank


def inspected(running: bool, **labels: str) -> dict[str, Any]:
    """One entry of ``docker container inspect``, cut to what is read."""
    return {
        "Name": "/gb10-main-rank1",
        "Config": {"Labels": {f"gb10.serving/{key}": value for key, value in labels.items()}, "Image": "x:1"},
        "State": {
            "Status": "running" if running else "exited",
            "Running": running,
            "OOMKilled": False,
            "ExitCode": 0 if running else 137,
            "StartedAt": "2026-11-30T10:00:00.1Z",
            "FinishedAt": "0001-01-01T00:00:00Z" if running else "2026-11-30T10:01:00.1Z",
        },
    }


def test_running_container() -> None:
    (found,) = _rank.parse_inspect(json.dumps([inspected(True, name="main", release="main-1", rank="1")]))
    assert found == {
        "name": "gb10-main-rank1",
        "state": "running",
        "running": True,
        "exit_code": None,
        "oom_killed": False,
        "started_at": "2026-11-30T10:00:00.1Z",
        "finished_at": None,
        "release": "main-1",
        "rank": 1,
        "image": "x:1",
    }


def test_dead_container_of_another_hand() -> None:
    (found,) = _rank.parse_inspect(json.dumps([inspected(False)]))
    assert (found["exit_code"], found["release"], found["rank"]) == (137, None, None)


def test_no_container_asks_docker_once() -> None:
    calls = []

    def run(argv: list[str]) -> tuple[int, str, str]:
        calls.append(argv)
        return 0, "", ""

    assert _rank.containers(run, "main") == []
    assert calls == [["docker", "ps", "--all", "--quiet", "--no-trunc", "--filter", "label=gb10.serving/name=main"]]


def test_docker_that_fails_is_named() -> None:
    with pytest.raises(_rank.RankError, match=r"'docker ps' ended with 1: Cannot connect.*Next step"):
        _rank.containers(lambda argv: (1, "", "Cannot connect to the Docker daemon"), "main")


def test_links_move_in_one_step_and_go(tmp_path: Path) -> None:
    place = str(tmp_path)
    assert _rank.linked_release(place, "current") is None
    _rank.set_link(place, "current", "one")
    _rank.set_link(place, "current", "two")
    assert _rank.linked_release(place, "current") == "two"
    assert [entry.name for entry in tmp_path.iterdir()] == ["current"]
    _rank.set_link(place, "current", None)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("content", [None, "{", "[]"])
def test_spec_that_cannot_be_read(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "releases" / "one").mkdir(parents=True)
        (tmp_path / "releases" / "one" / "spec.json").write_text(content)
    assert _rank.read_spec(str(tmp_path), "one") is None
    assert _rank.read_spec(str(tmp_path), None) is None


def test_log_tail_joins_both_streams_without_blank_lines() -> None:
    assert _rank.log_tail(lambda argv: (0, "a\n\n", "b \n"), "c", 5) == ["a", "b"]
    assert _rank.log_tail(lambda argv: (1, "", "No such container"), "c", 5) == []


def test_log_tail_leaves_the_secrets_of_the_release_out(tmp_path: Path) -> None:
    """SGLang prints its key at each start, and some errors print it in words of their own."""
    release = tmp_path / "releases" / "one"
    release.mkdir(parents=True)
    (release / "env").write_text("VLLM_API_KEY=first-one\n", encoding="utf-8")
    (release / "key.yml").write_text('api-key: "second-\\u00e9"\n', encoding="utf-8")
    (release / "spec.json").write_text('{"ranks": [{"env": {"HF_TOKEN": "third-one", "NCCL_DEBUG": "WARNING"}}]}')
    secrets = _rank.secrets_of(str(tmp_path), "one")
    assert {"first-one", "second-é", "third-one"} <= set(secrets)
    log = "said first-one, second-é and third-one\nserver_args=ServerArgs(api_key='other', port=1) WARNING\n"
    assert _rank.log_tail(lambda argv: (0, log, ""), "c", 5, secrets) == [
        "said ********, ******** and ********",
        "server_args=ServerArgs(api_key='********', port=1) WARNING",
    ]
    assert _rank.secrets_of(str(tmp_path), "two") == () == _rank.secrets_of(str(tmp_path), None)
