# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""The module with a Docker that is a script: a start that is refused names its cause."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gb10.serving.plugins.module_utils._image import content_identity
from ansible_collections.gb10.serving.plugins.modules import rank, rank_info

IMAGE = {"Id": "sha256:1", "Size": 5, "RootFS": {"Layers": ["sha256:a"]}, "Config": {}}
DOCKER = """#!/bin/sh
here=$(dirname "$0")
echo "$*" >> "$here/calls"
case $1 in
image) cat "$here/image"; cat "$here/error" >&2; exit "$(cat "$here/code")" ;;
esac
"""


@pytest.fixture
def node(tmp_path: Path) -> Path:
    (tmp_path / "docker").write_text(DOCKER)
    (tmp_path / "docker").chmod(0o755)
    release = tmp_path / "root" / "main" / "releases" / "main-1"
    release.mkdir(parents=True)
    image = {"ref": "x:1", "content": content_identity(IMAGE)}
    (release / "spec.json").write_text(json.dumps({"id": "main-1", "engine": {"image": image}}))
    (release / "launch.sh").write_text('#!/bin/sh\necho "$SAYS" >&2; touch started; exit 125\n')
    (release / "launch.sh").chmod(0o755)
    found(tmp_path, IMAGE)
    return tmp_path


def found(node: Path, image: dict[str, Any] | None, error: str = "", code: int = 0) -> None:
    (node / "image").write_text(json.dumps([image] if image else []))
    (node / "error").write_text(error)
    (node / "code").write_text(str(code))


def run(module: Any, node: Path, says: str = "", **options: Any) -> dict[str, Any]:
    arguments = {"name": "main", "root": str(node / "root"), "_ansible_remote_tmp": str(node), **options}
    done = subprocess.run(
        [sys.executable, module.__file__, json.dumps({"ANSIBLE_MODULE_ARGS": arguments})],
        capture_output=True, text=True, check=False, cwd=node,
        env={
            **os.environ, "PATH": f"{node}:{os.environ['PATH']}", "SAYS": says,
            "PYTHONPATH": str(Path(__file__).parents[4] / "collections"),
        },
    )  # fmt: skip
    return dict(json.loads(done.stdout))


@pytest.mark.parametrize(
    ("image", "error", "code", "words"),
    [
        ({**IMAGE, "RootFS": {"Layers": ["sha256:b"]}}, "", 0, "the image x:1 on this node is sha256:"),
        (None, "Error: No such image: x:1", 1, "the image x:1 on this node is gone"),
    ],
)
def test_another_image_is_not_started(
    node: Path, image: dict[str, Any] | None, error: str, code: int, words: str
) -> None:
    found(node, image, error, code)
    answer = run(rank, node, release="main-1")
    assert answer["failed"] and answer["cause"] == "ranks_disagree" and answer["remedy"]
    for word in (words, "(ranks_disagree). Expected: sha256:", "with which release main-1 was made. Next step:"):
        assert word in answer["msg"]
    assert not (node / "started").exists()


def test_a_docker_that_does_not_answer_is_said(node: Path) -> None:
    found(node, None, "Cannot connect", 1)
    answer = run(rank, node, release="main-1")
    assert answer["failed"] and "Cannot connect" in answer["msg"] and "cause" not in answer


@pytest.mark.parametrize(
    ("says", "cause"),
    [
        (
            'docker: Error response from daemon: could not select device driver "" with capabilities: [[gpu]]',
            "gpu_not_visible",
        ),
        ("docker: something else.", None),
    ],
)
def test_what_docker_refuses_has_a_cause_where_it_is_known(node: Path, says: str, cause: str | None) -> None:
    answer = run(rank, node, says, release="main-1")
    assert answer["failed"] and (node / "started").exists() and says in answer["msg"]
    assert answer.get("cause") == cause and bool(answer.get("remedy")) == (cause is not None)
    assert "ended with 125" in answer["msg"] and "Next step:" in answer["msg"]


def test_an_image_is_looked_for(node: Path) -> None:
    assert run(rank_info, node, image="x:1")["image"]["content"] == content_identity(IMAGE)
    assert "image" not in run(rank_info, node)
    found(node, None, "No such image", 1)
    assert run(rank_info, node, image="x:1")["image"]["present"] is False
