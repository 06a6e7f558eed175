# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""Write an image archive that `docker load` takes, without a Docker daemon. Same trees in, same bytes out."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import tarfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import IO, Any

CREATED = "2000-01-01T00:00:00Z"


def write_layer(target: Path, root: Path, paths: Iterable[Path]) -> None:
    """A layer with the given files and trees below `root`, and the directories that lead to them."""
    members: set[Path] = set()
    for path in paths:
        members.update(parent for parent in path.parents if parent.is_relative_to(root) and parent != root)
        members.add(path)
        members.update(path.rglob("*"))
    with tarfile.open(target, "w", format=tarfile.PAX_FORMAT) as tar:
        for member in sorted(members):
            tar.add(member, arcname=str(member.relative_to(root)), recursive=False, filter=_plain)


def _plain(info: tarfile.TarInfo) -> tarfile.TarInfo:
    info.mtime = info.uid = info.gid = 0
    info.uname = info.gname = "root"
    info.mode = 0o755 if info.isdir() or info.mode & 0o100 else 0o644
    return info


def write_image(
    target: Path, tag: str, architecture: str, layers: Mapping[str, Path], runtime: Mapping[str, Any]
) -> None:
    """`layers` in order: what made each of them, and its tar file."""
    digests = {name: _sha256(path) for name, path in layers.items()}
    config = {
        "architecture": architecture,
        "os": "linux",
        "created": CREATED,
        "config": dict(runtime),
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}" for digest in digests.values()]},
        "history": [{"created": CREATED, "created_by": name} for name in layers],
    }
    text = json.dumps(config, sort_keys=True).encode()
    name = f"{hashlib.sha256(text).hexdigest()}.json"
    inside = [f"{digest}/layer.tar" for digest in digests.values()]
    manifest = json.dumps([{"Config": name, "RepoTags": [tag], "Layers": inside}]).encode()
    with tarfile.open(target, "w", format=tarfile.PAX_FORMAT) as tar:
        for member, path in zip(inside, layers.values(), strict=True):
            tar.add(path, arcname=member, filter=_plain)
        for member, data in ((name, text), ("manifest.json", manifest)):
            info = tarfile.TarInfo(member)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))


def read_layers(archive: Path, folder: Path, names: Iterable[str]) -> dict[str, Path]:
    """Layers of an image that `write_image` wrote, by what made them, as tar files in `folder`."""
    found = {}
    with tarfile.open(archive) as tar:
        (manifest,) = json.loads(_member(tar, "manifest.json").read())
        config = json.loads(_member(tar, manifest["Config"]).read())
        inside = dict(zip((entry["created_by"] for entry in config["history"]), manifest["Layers"], strict=True))
        for name in names:
            found[name] = folder / f"{name}.tar"
            with found[name].open("wb") as file:
                shutil.copyfileobj(_member(tar, inside[name]), file, 1 << 20)
    return found


def _member(tar: tarfile.TarFile, name: str) -> IO[bytes]:
    member = tar.extractfile(name)
    if member is None:
        raise ValueError(f"{tar.name!r} has no file {name}")
    return member


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
