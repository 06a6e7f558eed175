# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 gb10.serving contributors
# Private to this collection: no stability promised.
"""What modules need to know of a rank on this node: its container, its releases, the last lines of its log."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable
from typing import Any

from ansible_collections.gb10.serving.plugins.module_utils import _redact

LABEL_NAME = "gb10.serving/name"
LABEL_RELEASE = "gb10.serving/release"
LABEL_RANK = "gb10.serving/rank"

#: What docker takes as a container's name and what is safe as a directory's.
NAME = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_.-]*")

#: (argv) -> (rc, stdout, stderr)
Runner = Callable[[list[str]], tuple[int, str, str]]


class RankError(Exception):
    """Docker or the release directory is not as expected; the text says what was seen and what to do."""


def directory_of(root: str, name: str) -> str:
    """The directory of the deployment ``name``.

    Raises:
        RankError: the name could lead elsewhere.
    """
    if not NAME.fullmatch(name):
        raise RankError(
            f"the deployment's name is {name!r}. Expected: letters, digits, '.', '_' and '-', beginning with a letter "
            "or digit. Next step: correct gb10_server_name."
        )
    return os.path.join(root, name)


def parse_inspect(text: str) -> list[dict[str, Any]]:
    """``docker inspect`` of containers to one small mapping each, in the order of the input."""
    containers = []
    for entry in json.loads(text or "[]"):
        labels = entry["Config"].get("Labels") or {}
        state = entry["State"]
        rank = labels.get(LABEL_RANK, "")
        containers.append(
            {
                "name": entry["Name"].lstrip("/"),
                "state": state["Status"],
                "running": bool(state["Running"]),
                "exit_code": None if state["Running"] else state["ExitCode"],
                "oom_killed": bool(state.get("OOMKilled")),
                "started_at": state["StartedAt"],
                "finished_at": None if state["Running"] else state["FinishedAt"],
                "release": labels.get(LABEL_RELEASE),
                "rank": int(rank) if rank.isdigit() else None,
                "image": entry["Config"].get("Image"),
            }
        )
    return containers


def containers(run: Runner, name: str) -> list[dict[str, Any]]:
    """All containers on this node, running or not, that belong to the deployment ``name``."""
    out = _docker(run, ["ps", "--all", "--quiet", "--no-trunc", "--filter", f"label={LABEL_NAME}={name}"])
    ids = out.split()
    return parse_inspect(_docker(run, ["container", "inspect", *ids])) if ids else []


def log_tail(run: Runner, container: str, lines: int, secrets: Iterable[str] = ()) -> list[str]:
    """The last non-empty lines that the container wrote, both streams together, without secrets."""
    rc, out, err = run(["docker", "logs", "--tail", str(lines), container])
    if rc != 0:
        return []
    return [_redact.text(line.rstrip(), secrets) for line in (out + err).splitlines() if line.strip()]


def secrets_of(directory: str, release: str | None) -> tuple[str, ...]:
    """What a release keeps in the two files that only root may read: its engine may print it."""
    found: list[object] = []
    for name in ("env", "key.yml"):
        try:
            with open(os.path.join(directory, "releases", str(release), name), encoding="utf-8") as stream:
                lines = stream.read().splitlines()
        except (OSError, ValueError):
            continue
        for line in lines:
            value = line.partition("=" if name == "env" else ":")[2].strip()
            try:
                found.append(json.loads(value) if value.startswith('"') else value)
            except ValueError:
                found.append(value)
    env: dict[str, Any] = {}
    for rank in (read_spec(directory, release) or {}).get("ranks") or []:
        env.update(rank.get("env") or {})
    return _redact.known([*found, *_redact.of_env(env)])


def linked_release(directory: str, link: str) -> str | None:
    """The release id that ``current`` or ``previous`` points to, or None when there is no such link."""
    path = os.path.join(directory, link)
    return os.path.basename(os.readlink(path)) if os.path.islink(path) else None


def read_spec(directory: str, release: str | None) -> dict[str, Any] | None:
    """The spec of a release on this node, or None when it cannot be read."""
    if release is None:
        return None
    try:
        with open(os.path.join(directory, "releases", release, "spec.json"), encoding="utf-8") as stream:
            spec = json.load(stream)
    except (OSError, ValueError):
        return None
    return spec if isinstance(spec, dict) else None


def set_link(directory: str, link: str, release: str | None) -> None:
    """Point ``current`` or ``previous`` at a release in one step, or take the link away."""
    path = os.path.join(directory, link)
    if release is None:
        if os.path.islink(path):
            os.unlink(path)
        return
    fresh = f"{path}.new"
    if os.path.islink(fresh):
        os.unlink(fresh)
    os.symlink(os.path.join("releases", release), fresh)
    os.replace(fresh, path)


def _docker(run: Runner, args: list[str]) -> str:
    rc, out, err = run(["docker", *args])
    if rc != 0:
        raise RankError(
            f"'docker {args[0]}' ended with {rc}: {(err or out).strip()[-400:]} "
            "Expected: a Docker engine that answers. Next step: 'sudo docker info' on this node."
        )
    return out
