# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 gb10.serving contributors
# Private to gb10.serving: runs one rank of the collective test in its container, bounded in time.
from __future__ import annotations

import os
import subprocess
import tempfile
import time
from typing import Any

from ansible_collections.gb10.serving.plugins.module_utils import (
    _collective,
    _collective_script,
    _image_docker,
    _rank_refused,
    _redact,
)
from ansible_collections.gb10.serving.plugins.module_utils._job import JobError

#: Seconds that Docker may take to remove a container.
REMOVE_SECONDS = 20
#: Seconds that its client may take to notice.
REST_SECONDS = 5.0


def script() -> str:
    """The source of the script; from a file, or out of the archive that Ansible makes of a module."""
    found = _collective_script.__spec__
    source = found.loader.get_source(found.name) if found and found.loader else None  # type: ignore[attr-defined]
    return str(source)


def run(argv: list[str], name: str, until: float) -> tuple[str, int | None]:
    """Output and exit code of the container, which is None when it had to be ended."""
    # Not run_command: it cannot be bounded, and a container outlives the client that started it.
    with subprocess.Popen(  # pylint: disable=ansible-bad-function
        argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    ) as process:
        try:
            output, _none = process.communicate(timeout=max(1.0, until - time.monotonic()))
            return output, process.returncode
        except subprocess.TimeoutExpired:
            remove(name)
            return rest(process), None
        except BaseException:
            process.kill()
            raise


def rest(process: subprocess.Popen[str]) -> str:
    """What a client printed whose container is gone; not waited for longer than need be."""
    told: Any = ""
    for stop in (lambda: None, process.kill):
        stop()
        try:
            return process.communicate(timeout=REST_SECONDS)[0]
        except subprocess.TimeoutExpired as error:
            told = error.output or ""
    return told.decode(errors="replace") if isinstance(told, bytes) else str(told)


def remove(*names: str) -> None:
    """Whether they were there does not matter."""
    _image_docker.run(["docker", "rm", "--force", "--volumes", *names], REMOVE_SECONDS)


def leftovers(name: str) -> list[str]:
    """Containers of tests of this deployment, whatever rank the node had then."""
    argv = ["docker", "ps", "--all", "--quiet", "--filter", f"label={_collective.LABEL}={name}"]
    return _image_docker.run(argv, REMOVE_SECONDS)[1].split()


def image_here(spec: dict[str, Any]) -> dict[str, Any]:
    """The image that the test would run; empty when Docker does not say, which its start will show."""
    try:
        return _image_docker.inspect(spec["engine"]["image"]["ref"])
    except JobError:
        return {}


def test(spec: dict[str, Any], number: int, timeout: int, port: int) -> dict[str, Any]:
    begun = time.monotonic()
    image = image_here(spec)
    wrong = _rank_refused.other_image(spec, image) if image else None
    if wrong:
        # Nothing is run: what another image adds up says nothing of this deployment.
        answer = _collective.read(spec, number, "", None, port, time.monotonic() - begun)
        reason = f"{wrong['seen'].removesuffix('.')}, not {wrong['expected'].removesuffix('.')}"
        answer.update(stage="image", skipped=False, cause=_rank_refused.CAUSE, reason=reason, remedy=wrong["remedy"])
        return {**answer, "image": image["content"]}
    name = _collective.container_name(spec, number)
    handle, env_path = tempfile.mkstemp(prefix="gb10-collective-")  # mode 0600
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(_collective.env_file(spec, number))
        remove(name, *leftovers(spec["name"]))
        left = timeout - (time.monotonic() - begun)
        told = _collective.settings(spec, number, port, time.time(), left)
        argv = _collective.command(spec, number, env_path, script(), told)
        try:
            output, code = run(argv, name, begun + timeout - _collective.CONTAINER_GRACE)
        except FileNotFoundError:
            output, code = "docker is not installed on this node", 127
    finally:
        os.unlink(env_path)
        remove(name)
    secrets = _redact.known(_redact.of_env(_collective.rank_of(spec, number)["env"]))
    output = _redact.text(output, secrets)
    answer = _collective.read(spec, number, output, code, port, time.monotonic() - begun)
    return {**answer, "image": image.get("content")}
