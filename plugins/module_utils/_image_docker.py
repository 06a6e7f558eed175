# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 gb10.serving contributors
# Private to gb10.serving: asks a node's docker about its images.
from __future__ import annotations

import contextlib
import functools
import json
import os
import stat
import subprocess
import tempfile
from collections.abc import Callable
from typing import Any

from ansible_collections.gb10.serving.plugins.module_utils import _image, _image_layers
from ansible_collections.gb10.serving.plugins.module_utils._job import JobError, write_json

#: Like AnsibleModule.run_command for one argv: (rc, stdout, stderr)
Runner = Callable[[list[str]], "tuple[int, str, str]"]
#: Images of which one command asks.
_AT_ONCE = 200


def run(argv: list[str], timeout: float | None = 120) -> tuple[int, str, str]:
    try:
        # Not run_command: this also runs in the detached worker, where there is no module any more.
        done = subprocess.run(  # pylint: disable=ansible-bad-function
            argv,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout,
            check=False,
        )
    except FileNotFoundError:
        return 127, "", f"{argv[0]} is not installed on this node"
    except subprocess.TimeoutExpired:
        return 124, "", f"'{' '.join(argv[:3])}' did not answer within {timeout:g} s"
    return done.returncode, done.stdout, done.stderr


def must(runner: Runner, argv: list[str]) -> None:
    code, _out, err = runner(argv)
    if code != 0:
        raise JobError(f"'{' '.join(argv)}' ended with {code}: {err.strip()[-500:]}")


def inspect(ref: str, runner: Runner = run) -> dict[str, Any]:
    """The image facts; absent is an answer, a Docker that does not answer is a JobError."""
    code, out, err = runner(["docker", "image", "inspect", ref])
    if code == 0:
        return _image.describe(ref, out)
    if "no such image" in err.lower():
        return _image.absent(ref)
    raise JobError(
        f"'docker image inspect {ref}' ended with {code}: {err.strip()[-500:]}. Expected the image or 'No such "
        "image'. "
        "Is Docker installed and running on this node, and may this user talk to it (become, or group docker)?"
    )


def identity(ref: str, runner: Runner = run) -> tuple[str, list[str], list[str]]:
    """ID, tags, and the layers from the lowest of an image here; nothing when it is not here."""
    form = "[{{json .Id}},{{json .RepoTags}},{{json .RootFS.Layers}}]"
    code, out, _err = runner(["docker", "image", "inspect", "--format", form, ref])
    if code != 0 or not out.strip():
        return "", [], []
    image_id, tags, layers = json.loads(out)
    return str(image_id), list(tags or []), list(layers or [])


def held_chains(runner: Runner = run) -> list[str]:
    """The chains of layers that this daemon has; none when it does not say."""
    root, driver = store(runner)
    if driver == "overlay2":  # its folders have the names of the chains, which spares two slow commands
        with contextlib.suppress(OSError):
            names = os.listdir(os.path.join(root, "image", driver, "layerdb", "sha256"))
            return [f"sha256:{name}" for name in sorted(names)][: _image_layers.MOST]
    code, out, _err = runner(["docker", "image", "ls", "--all", "--quiet", "--no-trunc"])
    images = list(dict.fromkeys(out.split())) if code == 0 else []
    text = ""
    for begin in range(0, len(images), _AT_ONCE):
        # An image that was removed meanwhile makes the command fail, the others are answered all the same.
        _code, out, _err = runner(
            ["docker", "image", "inspect", "--format", "{{json .RootFS.Layers}}", *images[begin : begin + _AT_ONCE]]
        )
        text += out
    return _image_layers.held_chains(text)


@functools.cache
def _info(runner: Runner) -> tuple[str, str, str, str]:
    """Root folder, version, storage driver and its status, asked once: 'docker info' is slow on a busy node."""
    form = "{{.DockerRootDir}}\t{{.ServerVersion}}\t{{.Driver}}\t{{json .DriverStatus}}"
    code, out, _err = runner(["docker", "info", "--format", form])
    words = out.strip().split("\t") if code == 0 else []
    return (words[0], words[1], words[2], words[3]) if len(words) == 4 else ("", "", "", "")


def docker_root(runner: Runner = run) -> str | None:
    return _info(runner)[0] or None


def store(runner: Runner = run) -> tuple[str, str]:
    """Root folder and kind of the store that keeps the images; each is empty when Docker does not say."""
    root, _version, driver, status = _info(runner)
    return root, "containerd" if "io.containerd" in status else driver


def daemon_name(runner: Runner = run) -> str:
    """What decides whether a daemon takes an archive without the layers that it has."""
    _root, version, driver, status = _info(runner)
    return f"{version} {driver}{' containerd' if 'io.containerd' in status else ''}"


def _memory() -> str:
    """Where this user remembers which daemon wanted all layers, until the next boot."""
    base = "/run" if os.geteuid() == 0 and os.access("/run", os.W_OK) else tempfile.gettempdir()
    return os.path.join(base, f"gb10-image-whole-{os.geteuid()}.json")


def wants_all(daemon: str) -> bool:
    with contextlib.suppress(OSError, ValueError), open(_memory(), encoding="utf-8") as stream:
        info = os.fstat(stream.fileno())
        if stat.S_ISREG(info.st_mode) and info.st_uid == os.geteuid():
            return bool(json.load(stream).get("daemon") == daemon)
    return False


def remember_wants_all(daemon: str) -> None:
    with contextlib.suppress(OSError):
        write_json(_memory(), {"daemon": daemon})
