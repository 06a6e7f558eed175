# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 gb10.serving contributors
#
# Private to this collection: may change without notice.
"""A model that lies in a directory or in a Hugging Face cache."""

from __future__ import annotations

import hashlib
import os
from typing import Protocol

from ansible_collections.gb10.serving.plugins.module_utils._safetensors import Shard, read_shard


class SourceError(Exception):
    """Nothing can be said of the model. The text says what was seen, what was expected and what to do."""


class Source(Protocol):
    """Where a model is. Reads of single files raise OSError."""

    path: str

    def files(self) -> tuple[list[tuple[str, int]], list[str]]:
        """(name, size) of all files but hidden ones, sorted; and problems. Raises SourceError."""

    def content(self, name: str) -> bytes: ...

    def content_sha256(self, name: str) -> str: ...

    def shard(self, name: str, size: int) -> Shard: ...


def resolve(path: str) -> tuple[str, str | None]:
    """The directory with the files: a Hugging Face cache entry leads to its snapshot. (path, problem)."""
    path = os.path.abspath(os.path.expanduser(path))
    snapshots = os.path.join(path, "snapshots")
    if not (os.path.basename(path).startswith("models--") and os.path.isdir(snapshots)):
        return path, None
    try:
        with open(os.path.join(path, "refs", "main"), encoding="utf-8") as stream:
            commit = stream.read().strip()
        if commit and os.path.isdir(os.path.join(snapshots, commit)):
            return os.path.join(snapshots, commit), None
    except (OSError, ValueError):
        pass
    found = sorted(entry.name for entry in os.scandir(snapshots) if entry.is_dir())
    if len(found) == 1:
        return os.path.join(snapshots, found[0]), None
    if not found:
        return path, f"{snapshots} holds no snapshot: the download has not begun or was removed. Download the model."
    return path, (
        f"{snapshots} holds {len(found)} snapshots and refs/main names none of them. "
        f"Give the path of one: {', '.join(os.path.join(snapshots, name) for name in found[:3])}."
    )


def list_files(directory: str) -> tuple[list[tuple[str, int]], list[str]]:
    """(relative name, size) of all files but hidden ones, sorted; links are followed, dangling ones are problems."""
    files: list[tuple[str, int]] = []
    problems: list[str] = []

    def visit(folder: str, prefix: str) -> None:
        with os.scandir(folder) as entries:
            found = sorted(entries, key=lambda e: e.name)
        for entry in found:
            if entry.name.startswith("."):
                continue
            name = prefix + entry.name
            if entry.is_dir(follow_symlinks=False):
                visit(entry.path, name + "/")
                continue
            try:
                info = entry.stat()
            except OSError:
                target = os.readlink(entry.path) if entry.is_symlink() else "?"
                problems.append(
                    f"{name} is a link to {target}, which does not exist: the download was interrupted or the cache "
                    "was pruned. Download the model again."
                )
                continue
            if entry.is_file():
                files.append((name, info.st_size))

    visit(directory, "")
    return sorted(files), problems


class Directory:
    """A model on this machine."""

    def __init__(self, path: str) -> None:
        self.path, self._problem = resolve(path)

    @property
    def exists(self) -> bool:
        return os.path.isdir(self.path)

    def files(self) -> tuple[list[tuple[str, int]], list[str]]:
        if self._problem:
            raise SourceError(self._problem)
        if not self.exists:
            what = "is a file" if os.path.exists(self.path) else "does not exist"
            raise SourceError(
                f"{self.path} {what}; expected a model directory. Download the model or correct the path."
            )
        try:
            return list_files(self.path)
        except OSError as exc:
            raise SourceError(
                f"{exc.filename or self.path} cannot be listed: {exc.strerror}. Check owner and permissions."
            ) from exc

    def content(self, name: str) -> bytes:
        with open(os.path.join(self.path, name), "rb") as stream:
            return stream.read()

    def content_sha256(self, name: str) -> str:
        return hashlib.sha256(self.content(name)).hexdigest()

    def shard(self, name: str, size: int) -> Shard:
        return read_shard(self.path, name)
