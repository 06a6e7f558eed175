# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 gb10.serving contributors
# Private to gb10.serving: pulls or builds an image on this node.
from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import subprocess
from collections import deque
from collections.abc import Callable
from typing import IO, Any, cast

from ansible_collections.gb10.serving.plugins.module_utils import _image, _image_errors
from ansible_collections.gb10.serving.plugins.module_utils._image_docker import Runner, docker_root, inspect, run
from ansible_collections.gb10.serving.plugins.module_utils._job import JobError, Progress

#: On an image that was built here: what it was built from.
LABEL = "gb10.serving/image-build"


def build_digest(context: str, dockerfile: str, args: dict[str, str]) -> str:
    """Over all that a build depends on: arguments, the Dockerfile, and the files of the context."""
    total = hashlib.sha256(json.dumps([dockerfile, sorted(args.items())]).encode())
    file = os.path.join(context, dockerfile)
    if not os.path.isfile(file):
        raise JobError(
            f"there is no Dockerfile at {file}. Expected a folder (context) with the file {dockerfile} in it on this "
            "node. Copy it here or correct gb10_image_build."
        )
    for folder, folders, names in os.walk(context):
        folders.sort()
        for name in sorted(names):
            path = os.path.join(folder, name)
            total.update(f"\0{os.path.relpath(path, context)}\0".encode())
            if os.path.islink(path):
                total.update(os.readlink(path).encode())
            elif os.path.isfile(path):
                total.update(str(os.stat(path).st_mode & 0o777).encode() + b"\0")
                with open(path, "rb") as stream:
                    while data := stream.read(1 << 20):
                        total.update(data)
    return total.hexdigest()


def built_from(ref: str, runner: Runner = run) -> str | None:
    """What the image here was built from, if it was built here."""
    form = '{{with .Config.Labels}}{{index . "' + LABEL + '"}}{{end}}'
    code, out, _err = runner(["docker", "image", "inspect", "--format", form, ref])
    return out.strip() or None if code == 0 else None


def _watched(
    argv: list[str], progress: Progress, stage: Callable[[str], str | None], env: dict[str, str] | None = None
) -> tuple[int, str]:
    """Runs the command; the stage of the progress follows its lines. Its exit code and last lines."""
    root = docker_root()

    def free() -> object:
        with contextlib.suppress(OSError):
            return os.statvfs(root).f_bfree if root else None
        return None

    lines: deque[str] = deque(maxlen=30)
    count = 0
    progress.signs = lambda: (count, free())
    # Not run_command: this runs in the detached worker, and its lines tell how far it is.
    with subprocess.Popen(  # pylint: disable=ansible-bad-function
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env={**os.environ, "LC_ALL": "C", **(env or {})},
    ) as process:
        progress.on_abort(process.kill)
        for line in cast(IO[str], process.stdout):
            count += 1
            lines.append(line.rstrip())
            told = stage(line.rstrip())
            if told:
                progress.begin(told)
        code = process.wait()
    progress.check()
    return code, "\n".join(line for line in lines if line)


class _Layers:
    """Counts the layers of a pull."""

    def __init__(self) -> None:
        self._known: set[str] = set()
        self._done: set[str] = set()

    def __call__(self, line: str) -> str | None:
        found = re.match(r"([0-9a-f]{12}): (.+)", line)
        if not found:
            return None
        self._known.add(found.group(1))
        if found.group(2) in ("Pull complete", "Already exists"):
            self._done.add(found.group(1))
        return f"pull, {len(self._done)} of {len(self._known)} layers"


def _checked(ref: str, architecture: str, runner: Runner) -> dict[str, Any]:
    image = inspect(ref, runner)
    if image["architecture"] == architecture:
        return image
    runner(["docker", "image", "rm", ref])
    raise JobError(
        f"{ref} is built for {image['architecture']}, this node is {architecture}. Use one for {architecture}."
    )


def pull(ref: str, architecture: str, progress: Progress, runner: Runner = run) -> dict[str, Any]:
    progress.begin("pull")
    code, text = _watched(["docker", "pull", "--platform", f"linux/{architecture}", ref], progress, _Layers())
    if code != 0:
        problem = _image_errors.pull_problem(text, architecture)
        raise JobError(f"'docker pull' ended with {code}: {text[-600:]}. In short: {problem}.")
    return _checked(ref, architecture, runner)


def build(
    ref: str, plan: dict[str, Any], digest: str, architecture: str, progress: Progress, runner: Runner = run
) -> dict[str, Any]:
    """Builds under the reference. The image before stays as REPOSITORY:gb10-previous, as after a copy."""
    before = inspect(ref, runner)
    argv = ["docker", "build", "--force-rm", "--tag", ref, "--label", f"{LABEL}={digest}"]
    argv += ["--file", os.path.join(plan["context"], plan["dockerfile"])]
    for key, value in sorted(plan["args"].items()):
        argv += ["--build-arg", f"{key}={value}"]
    progress.begin("build")
    code, text = _watched(
        [*argv, plan["context"]],
        progress,
        lambda line: f"build, step {step}" if (step := _image_errors.step_of(line)) else None,
        {"BUILDKIT_PROGRESS": "plain"},
    )
    try:
        if code != 0:
            problem = _image_errors.build_problem(text, architecture)
            raise JobError(f"'docker build' ended with {code}: {text[-1200:]}. In short: {problem}.")
        image = _checked(ref, architecture, runner)
    except JobError:
        if before["present"]:  # as it was
            runner(["docker", "tag", before["id"], ref])
        raise
    if before["present"] and before["content"] != image["content"]:
        runner(["docker", "tag", before["id"], _image.previous_ref(ref)])
    return image
