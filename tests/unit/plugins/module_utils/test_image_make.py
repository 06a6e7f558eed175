# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
from __future__ import annotations

import json
import pathlib
import sys
from typing import Any

import pytest

from ansible_collections.gb10.serving.plugins.module_utils import _image_errors, _image_make
from ansible_collections.gb10.serving.plugins.module_utils._job import JobError, Progress

DAEMON = "Error response from daemon: "
UNREACHABLE = 'Get "http://127.0.0.1:5055/v2/": dial tcp 127.0.0.1:5055: connect: connection refused'


@pytest.mark.parametrize(
    ("text", "meaning"),
    [  # as docker 20.10 says it
        (DAEMON + "unauthorized", "docker login"),
        (DAEMON + "denied", "docker login"),
        (
            DAEMON + "pull access denied for a/b, repository does not exist or may require 'docker login': denied: "
            "requested access to the resource is denied",
            "docker login",
        ),
        (DAEMON + "toomanyrequests: You have reached your pull rate limit.", "limit of pulls"),
        ("1: Pulling from a/b\nno matching manifest for linux/arm64/v8 in the manifest list entries", "linux/arm64"),
        (DAEMON + "manifest unknown", "no such image or tag"),
        (DAEMON + "manifest for a/b:1 not found: manifest unknown: manifest unknown", "no such image or tag"),
        (DAEMON + UNREACHABLE, "cannot be reached"),
        (
            DAEMON + 'Get "https://registry-1.docker.io/v2/": dial tcp: lookup registry-1.docker.io on 127.0.0.11:53: '
            "read udp 127.0.0.1:40600->127.0.0.11:53: i/o timeout",
            "cannot be reached",
        ),
        (DAEMON + 'Get "https://r/v2/": http: server gave HTTP response to HTTPS client', "insecure-registries"),
        (DAEMON + 'Get "https://r/v2/": x509: certificate signed by unknown authority', "certificate"),
        ("failed to register layer: write /a: no space left on device", "data root is full"),
        ("Cannot connect to the Docker daemon at unix:///var/run/docker.sock.", "become"),
        ("something new", "see the text"),
    ],
)
def test_pull_problem(text: str, meaning: str) -> None:
    assert meaning in _image_errors.pull_problem(text, "arm64")


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        (
            "unable to prepare context: unable to evaluate symlinks in Dockerfile path: lstat /b/x: no such file",
            "not where it is said to be",
        ),
        (f"Step 1/1 : FROM 127.0.0.1:5055/a:1\n{UNREACHABLE}", "of its base image: the registry cannot be reached"),
        (DAEMON + "dockerfile parse error line 2: unknown instruction: RUNX", "has an error"),
        ("The command '/bin/sh -c pip install x' returned a non-zero code: 1", "command of the Dockerfile failed"),
        (
            "ERROR: no version: connection refused\nThe command '/bin/sh -c pip' returned a non-zero code: 1",
            "command of the Dockerfile failed",
        ),
        ("standard_init_linux.go:228: exec user process caused: exec format error", "another architecture"),
        ("write /a: no space left on device", "data root is full"),
        ("something new", "see the text"),
    ],
)
def test_build_problem(text: str, meaning: str) -> None:
    assert meaning in _image_errors.build_problem(text, "arm64")


@pytest.mark.parametrize(
    ("line", "step"),
    [
        ("Step 2/5 : RUN pip install x", "2/5"),
        ("#7 [2/5] RUN pip install x", "2/5"),
        ("#7 [stage-1 3/5] COPY a b", "3/5"),
        ("#1 [internal] load build definition", None),
        ("Collecting x", None),
    ],
)
def test_step_of(line: str, step: str | None) -> None:
    assert _image_errors.step_of(line) == step


def test_build_digest_sees_all_that_a_build_depends_on(tmp_path: pathlib.Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "Dockerfile").write_text("FROM a\n")
    (tmp_path / "sub/file").write_text("one")
    seen = [_image_make.build_digest(str(tmp_path), "Dockerfile", {"A": "1"})]
    assert _image_make.build_digest(str(tmp_path), "Dockerfile", {"A": "1"}) == seen[0]
    seen.append(_image_make.build_digest(str(tmp_path), "Dockerfile", {"A": "2"}))
    (tmp_path / "sub/file").write_text("two")
    seen.append(_image_make.build_digest(str(tmp_path), "Dockerfile", {"A": "1"}))
    (tmp_path / "sub/file").chmod(0o755)
    seen.append(_image_make.build_digest(str(tmp_path), "Dockerfile", {"A": "1"}))
    (tmp_path / "sub/file").rename(tmp_path / "file")
    seen.append(_image_make.build_digest(str(tmp_path), "Dockerfile", {"A": "1"}))
    (tmp_path / "link").symlink_to("nowhere")
    seen.append(_image_make.build_digest(str(tmp_path), "Dockerfile", {"A": "1"}))
    assert len(set(seen)) == len(seen)
    with pytest.raises(JobError, match=r"no Dockerfile at .*Other"):
        _image_make.build_digest(str(tmp_path), "Other", {})


class Docker:
    """Its images; a program in the place of the command that pulls or builds."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, says: str, code: int = 0, becomes: str = "new arm64") -> None:
        self.images: dict[str, str] = {}
        self.says, self.code, self.becomes = says, code, becomes
        self.argv: list[str] = []
        self._watched = _image_make._watched
        monkeypatch.setattr(_image_make, "_watched", self.watched)
        monkeypatch.setattr(_image_make, "docker_root", lambda: None)

    def watched(self, argv: list[str], progress: Progress, stage: Any, env: Any = None) -> tuple[int, str]:
        self.argv = argv
        if self.code == 0:
            self.images["img:v"] = self.becomes
        program = f"print({self.says!r}); raise SystemExit({self.code})"
        return self._watched([sys.executable, "-c", program], progress, stage, env)

    def __call__(self, argv: list[str]) -> tuple[int, str, str]:
        match argv[1:]:
            case ["image", "inspect", ref]:
                if ref not in self.images:
                    return 1, "", "Error: No such image"
                name, architecture = self.images[ref].split()
                entry = {"Id": self.images[ref], "Architecture": architecture, "RootFS": {"Layers": [name]}}
                return 0, json.dumps([entry]), ""
            case ["image", "rm", ref]:
                del self.images[ref]
            case ["tag", image, ref]:
                self.images[ref] = image
        return 0, "", ""


PLAN = {"context": "/c", "dockerfile": "Dockerfile", "args": {"B": "2", "A": "1"}}


def test_pull(monkeypatch: pytest.MonkeyPatch) -> None:
    one, two = "0123456789ab", "1123456789ab"
    says = f"v: Pulling from img\n{one}: Pulling fs layer\n{two}: Pulling fs layer\n{one}: Pull complete"
    docker, progress = Docker(monkeypatch, says), Progress()
    assert _image_make.pull("img:v", "arm64", progress, docker)["architecture"] == "arm64"
    assert docker.argv == ["docker", "pull", "--platform", "linux/arm64", "img:v"]
    assert progress.stage == "pull, 1 of 2 layers"


def test_pull_that_fails_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(JobError, match=r"ended with 1: .*unauthorized.*In short: .*docker login"):
        _image_make.pull("img:v", "arm64", Progress(), Docker(monkeypatch, DAEMON + "unauthorized", 1))


def test_an_image_of_another_architecture_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    docker = Docker(monkeypatch, "", becomes="new amd64")
    with pytest.raises(JobError, match="built for amd64, this node is arm64"):
        _image_make.pull("img:v", "arm64", Progress(), docker)
    assert docker.images == {}


def test_build_keeps_the_image_before(monkeypatch: pytest.MonkeyPatch) -> None:
    docker, progress = Docker(monkeypatch, "Step 3/4 : RUN x"), Progress()
    docker.images["img:v"] = "old arm64"
    _image_make.build("img:v", PLAN, "d1", "arm64", progress, docker)
    assert docker.images == {"img:v": "new arm64", "img:gb10-previous": "old arm64"}
    assert progress.stage == "build, step 3/4"
    assert docker.argv[-5:] == ["--build-arg", "A=1", "--build-arg", "B=2", "/c"]
    assert f"{_image_make.LABEL}=d1" in docker.argv and "/c/Dockerfile" in docker.argv


@pytest.mark.parametrize(("code", "becomes"), [(1, "new arm64"), (0, "new amd64")])
def test_a_build_that_fails_leaves_the_image_as_it_was(
    monkeypatch: pytest.MonkeyPatch, code: int, becomes: str
) -> None:
    docker = Docker(monkeypatch, "x", code, becomes)
    docker.images["img:v"] = "old arm64"
    with pytest.raises(JobError):
        _image_make.build("img:v", PLAN, "d1", "arm64", Progress(), docker)
    assert docker.images == {"img:v": "old arm64"}
