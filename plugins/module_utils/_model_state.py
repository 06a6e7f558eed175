# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 gb10.serving contributors
# Private to gb10.serving: is this model directory the one that is wanted?
from __future__ import annotations

import hashlib
import json
import os
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ansible_collections.gb10.serving.plugins.module_utils import _disk, _model, _model_journal
from ansible_collections.gb10.serving.plugins.module_utils._job import JobError, write_json
from ansible_collections.gb10.serving.plugins.module_utils._model_directory import Directory

MARKER = ".gb10-model.json"
_WHOLE_LIMIT = 64 << 20
_HEADER_LIMIT = 100_000_000


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


def marked_digest(folder: str) -> str | None:
    """The digest that the marker of a verified copy names, or None without a marker that can be read."""
    try:
        with open(os.path.join(folder, MARKER), encoding="utf-8") as stream:
            digest = json.load(stream)["digest"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return digest if isinstance(digest, str) else None


@dataclass(frozen=True)
class Destination:
    """Where a model shall be, and what it shall be."""

    path: str
    sizes: dict[str, int]
    digest: str

    @property
    def staging(self) -> str:
        parent, name = os.path.split(self.path)
        return os.path.join(parent, f".{name}.gb10-partial")

    @staticmethod
    def marker(folder: str) -> str:
        return os.path.join(folder, MARKER)

    def mark(self, folder: str, revision: str | None = None) -> None:
        """The note of a verified copy, in which the next run believes."""
        note = {"digest": self.digest, "bytes": sum(self.sizes.values()), "files": len(self.sizes)}
        write_json(self.marker(folder), dict(note, revision=revision) if revision else note)

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

    def observe(self) -> tuple[str, list[str]]:
        """("ok", []), ("unmarked", []) when all is there but the marker, or ("incomplete", names to copy at least)."""
        wrong = self.wrong_sizes()
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
    return Destination(full, check_manifest(manifest), str(manifest["digest"]))
