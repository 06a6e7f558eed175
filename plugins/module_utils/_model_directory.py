# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 gb10.serving contributors
#
# Private to this collection: may change without notice.
"""A model that lies in a directory or in a Hugging Face cache."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from typing import Protocol

from ansible_collections.gb10.serving.plugins.module_utils._safetensors import Shard, read_shard

_LONGEST_NAME = 255


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


def _why(exc: OSError | ValueError) -> str:
    """What hinders, as the end of a sentence, and the next step."""
    if isinstance(exc, OSError) and exc.errno == errno.ELOOP:
        return "is a link that leads in a circle. Remove the link, then download the model again"
    if isinstance(exc, OSError) and exc.errno in (errno.EACCES, errno.EPERM):
        return "cannot be looked at: Permission denied. Check owner and permissions, also of the directories above it"
    return f"cannot be looked at: {getattr(exc, 'strerror', None) or exc}. Correct the path"


_ABSENT = (errno.ENOENT, errno.ENOTDIR)


def _main_commit(entry: str) -> tuple[str, str | None]:
    """(the snapshot that refs/main of a cache entry names, or "", what hindered to read it). Raises SourceError."""
    path = os.path.join(entry, "refs", "main")
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            return "", None
        with open(path, "rb") as stream:
            raw = stream.read(_LONGEST_NAME + 2).strip()
    except OSError as exc:
        return "", None if exc.errno in _ABSENT else f"{path} {_why(exc)}."
    commit = raw.decode("utf-8", "backslashreplace")
    # A name of one directory, and nothing that leads out of snapshots/.
    if raw and (commit in (".", "..") or not commit.isprintable() or "/" in commit or len(raw) > _LONGEST_NAME):
        raise SourceError(
            f"{path} holds {commit[:60]!r}; expected the name of one directory in snapshots, a commit. "
            "Download the model again, or give the path of a snapshot."
        )
    return commit, None


def resolve(path: str) -> tuple[str, str | None]:
    """The directory with the files: a Hugging Face cache entry leads to its snapshot. (path, problem)."""
    path = os.path.abspath(os.path.expanduser(path))
    snapshots = os.path.join(path, "snapshots")
    if not (os.path.basename(path).startswith("models--") and os.path.isdir(snapshots)):
        return path, None
    try:
        commit, problem = _main_commit(path)
    except SourceError as exc:
        return path, str(exc)
    if commit and os.path.isdir(os.path.join(snapshots, commit)):
        return os.path.join(snapshots, commit), None
    try:
        with os.scandir(snapshots) as entries:
            found = sorted(entry.name for entry in entries if entry.is_dir())
    except OSError as exc:
        return path, f"{snapshots} cannot be listed: {exc.strerror}. Check owner and permissions."
    if len(found) == 1:
        return os.path.join(snapshots, found[0]), None
    if not found:
        return path, f"{snapshots} holds no snapshot: the download has not begun or was removed. Download the model."
    return path, problem or (
        f"{snapshots} holds {len(found)} snapshots and refs/main names none of them. "
        f"Give the path of one: {', '.join(os.path.join(snapshots, name) for name in found[:3])}."
    )


def _unreachable(entry: os.DirEntry[str], name: str, exc: OSError) -> str:
    """Why this file does not count: nothing is where its link leads, or it is there and must not be looked at."""
    target = os.readlink(entry.path) if entry.is_symlink() else None
    if exc.errno in _ABSENT:
        what = "does not exist: the download was interrupted or the cache was pruned. Download the model again."
        return f"{name} is a link to {target}, which {what}" if target else f"{name} is gone again. Inspect once more."
    return f"{name} is a link to {target}, which {_why(exc)}." if target else f"{name} {_why(exc)}."


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
            except OSError as exc:
                problems.append(_unreachable(entry, name, exc))
                continue
            if stat.S_ISREG(info.st_mode):
                files.append((name, info.st_size))
                if not name.isascii() and name != name.encode("utf-8", "replace").decode():
                    problems.append(
                        f"{name} has a name that is not UTF-8; expected one that every tool can write. "
                        "Rename the file, or remove it when it is no part of the model."
                    )

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
        try:
            kind = os.stat(self.path).st_mode
        except (OSError, ValueError) as exc:
            if isinstance(exc, OSError) and exc.errno in _ABSENT:
                raise SourceError(
                    f"{self.path} does not exist; expected a model directory. Download the model or correct the path."
                ) from exc
            raise SourceError(f"{self.path} {_why(exc)}.") from exc
        if not stat.S_ISDIR(kind):
            raise SourceError(
                f"{self.path} is a file; expected a model directory. Download the model or correct the path."
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
