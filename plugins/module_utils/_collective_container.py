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
#: Seconds beyond its time that the test may take to remove its container, and the least that a command of Docker gets.
OVER_SECONDS, LEAST_SECONDS = 5.0, 1.0


def script() -> str:
    """The source of the script; from a file, or out of the archive that Ansible makes of a module."""
    found = _collective_script.__spec__
    source = found.loader.get_source(found.name) if found and found.loader else None  # type: ignore[attr-defined]
    return str(source)


def left(until: float) -> float:
    return max(LEAST_SECONDS, until - time.monotonic())


def run(argv: list[str], name: str, until: float, last: float) -> tuple[str, int | None]:
    """Output and exit code of the container, None when it had to be ended, which is given up at ``last``."""
    # Not run_command: it cannot be bounded, and a container outlives the client that started it.
    with subprocess.Popen(  # pylint: disable=ansible-bad-function
        argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    ) as process:
        try:
            output, _none = process.communicate(timeout=left(until))
            return output, process.returncode
        except subprocess.TimeoutExpired:
            remove(last, name)
            return rest(process, last), None
        except BaseException:
            process.kill()
            raise


def rest(process: subprocess.Popen[str], until: float) -> str:
    """What a client printed whose container is gone; not waited for longer than need be."""
    told: Any = ""
    for stop in (lambda: None, process.kill):
        stop()
        try:
            return process.communicate(timeout=min(REST_SECONDS, left(until)))[0]
        except subprocess.TimeoutExpired as error:
            told = error.output or ""
    return told.decode(errors="replace") if isinstance(told, bytes) else str(told)


def remove(until: float, *names: str) -> None:
    """Whether they were there does not matter. Docker goes on removing when it is not waited for any more."""
    _image_docker.run(["docker", "rm", "--force", "--volumes", *names], min(REMOVE_SECONDS, left(until)))


def leftovers(until: float, name: str) -> list[str]:
    """Containers of tests of this deployment, whatever rank the node had then."""
    argv = ["docker", "ps", "--all", "--quiet", "--filter", f"label={_collective.LABEL}={name}"]
    return _image_docker.run(argv, min(REMOVE_SECONDS, left(until)))[1].split()


def image_here(until: float, spec: dict[str, Any]) -> dict[str, Any]:
    """The image that the test would run; empty when Docker does not say, which its start will show."""
    try:
        return _image_docker.inspect(spec["engine"]["image"]["ref"], lambda argv: _image_docker.run(argv, left(until)))
    except JobError:
        return {}


def test(spec: dict[str, Any], number: int, timeout: int, port: int) -> dict[str, Any]:
    begun = time.monotonic()
    end = begun + timeout
    last = end + OVER_SECONDS
    image = image_here(end, spec)
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
        remove(end, name, *leftovers(end, spec["name"]))
        told = _collective.settings(spec, number, port, time.time(), end - time.monotonic())
        argv = _collective.command(spec, number, env_path, script(), told)
        try:
            output, code = run(argv, name, end - _collective.CONTAINER_GRACE, last)
        except FileNotFoundError:
            output, code = "docker is not installed on this node", 127
    finally:
        os.unlink(env_path)
        remove(last, name)
    secrets = _redact.known(_redact.of_env(_collective.rank_of(spec, number)["env"]))
    output = _redact.text(output, secrets)
    answer = _collective.read(spec, number, output, code, port, time.monotonic() - begun)
    return {**answer, "image": image.get("content")}
