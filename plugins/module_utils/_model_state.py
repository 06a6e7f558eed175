# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 gb10.serving contributors
# Private to gb10.serving: is this model directory the one that is wanted?
from __future__ import annotations

import hashlib
import json
import os
import re
import stat
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.gb10.serving.plugins.module_utils import _disk, _model, _model_journal
from ansible_collections.gb10.serving.plugins.module_utils._job import JobError, write_json
from ansible_collections.gb10.serving.plugins.module_utils._model_directory import Directory
from ansible_collections.gb10.serving.plugins.module_utils._model_manifest import present_sums

MARKER = ".gb10-model.json"
_WHOLE_LIMIT = 64 << 20
_HEADER_LIMIT = 100_000_000
_SHA256 = re.compile(r"[0-9a-f]{64}")


def files_digest(directory: str, sizes: Mapping[str, int]) -> str:
    """The digest of model_info, over these files only: a file of the user's beside them changes nothing."""
    return _model.digest(Directory(directory), sizes)


def signature(path: str) -> str:
    """Tells two files of one name and size apart without reading the weights: small files whole, else their head."""
    with open(path, "rb") as stream:
        size = os.fstat(stream.fileno()).st_size
        count = size if size <= _WHOLE_LIMIT and not path.endswith(".safetensors") else 1 << 20
        if path.endswith(".safetensors") and size >= 8:
            count = 8 + min(struct.unpack("<Q", stream.read(8))[0], _HEADER_LIMIT)
            stream.seek(0)
        return hashlib.sha256(stream.read(count)).hexdigest()


def check_manifest(manifest: Mapping[str, Any]) -> dict[str, int]:
    """name -> size. JobError for a manifest that is cut, empty or would leave the directory."""
    files = manifest.get("files") or []
    count = manifest.get("files_count")
    if not files or not str(manifest.get("digest") or "").startswith("sha256:"):
        raise JobError(
            "The manifest needs digest and files as gb10.serving.model_info returns them for a complete model; look "
            "at its problems first."
        )
    if count is not None and count != len(files):
        raise JobError(
            f"The manifest lists {len(files)} of {count} files. A model of so many files cannot be copied; is the "
            "path right?"
        )
    sizes: dict[str, int] = {}
    for entry in files:
        name, size = str(entry["name"]), int(entry["size"])
        if os.path.isabs(name) or ".." in name.split("/") or name.startswith(".gb10") or not name or size < 0:
            raise JobError(
                f"The manifest names {name!r} with {size} bytes; expected plain names below the model directory."
            )
        sizes[name] = size
    return sizes


def manifest_sums(manifest: Mapping[str, Any]) -> dict[str, str]:
    """name -> SHA-256, of the files of which the manifest says it."""
    known = {str(entry["name"]): str(entry.get("sha256")) for entry in manifest.get("files") or []}
    return {name: digest for name, digest in known.items() if _SHA256.fullmatch(digest)}


def _note(folder: str) -> dict[str, Any]:
    try:
        with open(os.path.join(folder, MARKER), encoding="utf-8") as stream:
            note = json.load(stream)
    except (OSError, ValueError, RecursionError):
        return {}
    return note if isinstance(note, dict) else {}


def marked_digest(folder: str) -> str | None:
    """The digest that the marker of a copy names, or None without a marker that can be read."""
    digest = _note(folder).get("digest")
    return digest if isinstance(digest, str) else None


@dataclass(frozen=True)
class Destination:
    """Where a model shall be, and what it shall be."""

    path: str
    sizes: dict[str, int]
    digest: str
    sums: dict[str, str] = field(default_factory=dict)  # SHA-256 of the files of which the manifest knows it

    @property
    def staging(self) -> str:
        parent, name = os.path.split(self.path)
        return os.path.join(parent, f".{name}.gb10-partial")

    @staticmethod
    def marker(folder: str) -> str:
        return os.path.join(folder, MARKER)

    def mark(self, folder: str, revision: str | None = None, verified: bool = True) -> None:
        """The note in which the next run believes. Without verified it says of sizes and heads only."""
        note = {"digest": self.digest, "bytes": sum(self.sizes.values()), "files": len(self.sizes)}
        note["verified"] = verified
        write_json(self.marker(folder), dict(note, revision=revision) if revision else note)

    def verified(self) -> bool:
        """Whether the marker says that the content of every file was compared."""
        return self.marked() and _note(self.path).get("verified", True) is True

    def provable(self) -> bool:
        """Whether the manifest says of each file what it holds."""
        return self.sizes.keys() <= self.sums.keys()

    def marked(self) -> bool:
        return marked_digest(self.path) == self.digest

    def wrong_sizes(self) -> list[str]:
        """Names that are absent, no files, or of another size."""
        wrong = []
        for name, size in self.sizes.items():
            path = os.path.join(self.path, name)
            if not os.path.isfile(path) or os.path.getsize(path) != size:
                wrong.append(name)
        return wrong

    def wrong(self) -> list[str]:
        """Besides those, names of which it is known without reading weights that they hold something else."""
        wrong = self.wrong_sizes()
        sizes = {name: self.sizes[name] for name in self.sums if name in self.sizes and name not in wrong}
        here = present_sums(self.path, sizes)
        return wrong + [name for name in sizes if here.get(name, self.sums[name]) != self.sums[name]]

    def obstacle(self) -> str | None:
        """Why files could not be put in their place after a copy: what stands there, or another file system."""
        if not os.path.isdir(self.path):
            return None
        parent = os.path.dirname(self.path)
        device = os.stat(parent).st_dev
        for folder in sorted({"", *(head for name in self.sizes for head in _heads(name))}):
            path = os.path.join(self.path, folder).rstrip("/")
            if not os.path.lexists(path):
                continue
            if not os.path.isdir(path):
                return f"{path} is no folder; the model has a folder of that name. Move it away and run again."
            if os.stat(path).st_dev != device:
                what = "is a mount point" if os.path.ismount(path) else f"leads to {os.path.realpath(path)}"
                return (
                    f"{path} {what}: another file system than {parent}, where files are collected before a rename puts "
                    "them in place; expected one file system. "
                    + (
                        f"Give a folder inside it, such as {os.path.join(path, 'model')}."
                        if not folder
                        else "Remove that link or mount and run again."
                    )
                )
        for name in self.sizes:
            path = os.path.join(self.path, name)
            if os.path.lexists(path) and stat.S_ISDIR(os.lstat(path).st_mode):
                return f"{path} is a folder; the model has a file of that name. Move the folder away and run again."
        return None

    def observe(self) -> tuple[str, list[str]]:
        """("ok", []), ("unmarked", []) when all is there but the marker, or ("incomplete", names to copy at least)."""
        wrong = self.wrong()
        if wrong:
            return "incomplete", wrong
        if self.marked():
            return "ok", []
        return ("unmarked", []) if files_digest(self.path, self.sizes) == self.digest else ("incomplete", [])

    def staged_bytes(self, names: list[str]) -> int:
        """What of these files an interrupted run has brought."""
        came = _model_journal.resumable(self.staging, self.digest, {name: self.sizes[name] for name in names})
        return sum(came.have(name) for name in names)

    def lack_of_space(self, size: int) -> str | None:
        return _disk.lack_of_space(os.path.dirname(self.path), size) if size else None


def destination(path: str, manifest: Mapping[str, Any]) -> Destination:
    full = os.path.realpath(os.path.expanduser(path))
    if os.path.dirname(full) == full or (os.path.exists(full) and not os.path.isdir(full)):
        raise JobError(
            f"{full} cannot be a model directory: expected a directory or a path that does not exist yet. Correct "
            "the path."
        )
    sizes = check_manifest(manifest)
    return Destination(full, sizes, str(manifest["digest"]), manifest_sums(manifest))


def _heads(name: str) -> list[str]:
    """The folders that hold a file, the outermost first."""
    parts = name.split("/")[:-1]
    return ["/".join(parts[: count + 1]) for count in range(len(parts))]
