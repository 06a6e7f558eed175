# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""Bring an image or a model directory to one node. Private to the rehearsal tool."""

from __future__ import annotations

import json
import os
import subprocess
import tarfile
import time
from pathlib import Path
from typing import Any

from ._engine import Engine
from ._settings import MODELS, USER, Node
from ._shell import Problem, say

LISTING = r"cd {0} 2>/dev/null && find -L . -type f -printf '%P\t%s\t%Ts\n'"


def tar_layers(path: Path) -> tuple[list[str], list[str]]:
    """References and layer digests (uncompressed) of the first image in a `docker save` archive."""
    try:
        with tarfile.open(path) as archive:
            manifest = _member_json(archive, "manifest.json")[0]
            config = _member_json(archive, manifest["Config"])
    except (tarfile.TarError, KeyError, IndexError, ValueError) as error:
        raise Problem(f"{path} is not an archive made by 'docker save': {error}") from error
    return list(manifest.get("RepoTags") or []), list(config["rootfs"]["diff_ids"])


def _member_json(archive: tarfile.TarFile, name: str) -> Any:
    member = archive.extractfile(name)
    if member is None:
        raise KeyError(name)
    return json.loads(member.read())


def _layers(engine: Engine, prefix: list[str], ref: str) -> list[str] | None:
    done = engine.try_docker(*prefix, "image", "inspect", "-f", "{{json .RootFS.Layers}}", ref)
    return json.loads(done.stdout) if done.returncode == 0 else None


def load_image(engine: Engine, node: Node, source: str) -> bool:
    """Stream an archive, or an image of this machine's engine, into the node's dockerd. False: already there."""
    inside = ["exec", node.container, "docker"]
    archive = Path(source)
    if archive.is_file():
        refs, wanted = tar_layers(archive)
        producer = ["cat", str(archive)]
    else:
        refs = [source]
        found = _layers(engine, [], source)
        if found is None:
            raise Problem(f"{source} is neither a file nor an image of the docker engine at {engine.docker_host}.")
        wanted, producer = found, ["docker", "save", source]
    if refs and all(_layers(engine, inside, ref) == wanted for ref in refs):
        say("image", f"{refs[0]} is already on {node.name}")
        return False
    say("image", f"loading {source} into {node.name}")
    seconds = _pipe(engine, producer, ["docker", "exec", "-i", node.container, "docker", "load", "-q"])
    say("image", f"{source} loaded in {seconds:.1f} s")
    return True


def model_listing(folder: Path) -> str:
    """Name, size and time of each file, sorted: what find prints inside a node."""
    lines = []
    for path in folder.rglob("*"):
        if path.is_file():
            status = path.stat()
            lines.append(f"{path.relative_to(folder)}\t{status.st_size}\t{int(status.st_mtime)}")
    return "\n".join(sorted(lines))


def put_model(engine: Engine, node: Node, folder: Path) -> bool:
    """Copy a model directory to the node's models folder. False: already there."""
    folder = folder.resolve()
    if not folder.is_dir():
        raise Problem(f"{folder} is not a directory; expected a model directory with config.json in it.")
    target = f"{MODELS}/{folder.name}"
    listed = engine.try_docker("exec", node.container, "sh", "-c", LISTING.format(f"'{target}'")).stdout
    if sorted(listed.splitlines()) == model_listing(folder).splitlines() and listed:
        say("model", f"{target} is already on {node.name}")
        return False
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    say("model", f"copying {folder} ({size / 1e6:.1f} MB) to {node.name}:{target}")
    unpack = f"rm -rf '{target}' && tar -C {MODELS} -xf -"
    seconds = _pipe(
        engine,
        ["tar", "-C", str(folder.parent), "-chf", "-", folder.name],
        ["docker", "exec", "-i", "-u", USER, node.container, "sh", "-c", unpack],
    )
    say("model", f"copied in {seconds:.1f} s ({size / 1e6 / max(seconds, 0.001):.0f} MB/s)")
    return True


def _pipe(engine: Engine, producer: list[str], consumer: list[str]) -> float:
    started = time.monotonic()
    env = {**os.environ, **engine.env()}
    with subprocess.Popen(producer, stdout=subprocess.PIPE, env=env) as first:
        done = subprocess.run(consumer, stdin=first.stdout, capture_output=True, text=True, env=env, check=False)
        if first.stdout:
            first.stdout.close()
        first_code = first.wait()
    if done.returncode != 0 or first_code != 0:
        raise Problem(
            f"The transfer broke: {producer[0]} ended with {first_code}, {consumer[0]} with {done.returncode} "
            f"(expected 0 and 0).\n{(done.stdout + done.stderr).strip()[-1500:]}"
        )
    return time.monotonic() - started
