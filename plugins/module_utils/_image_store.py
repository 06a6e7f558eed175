# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 gb10.serving contributors
# Private to gb10.serving: reads an image where docker keeps it, without docker save.
"""The archive of an image straight from the data of docker's overlay2 store, with the layers that are wanted only.

docker save of that store writes all layers to the disk before its first byte, also those that nobody needs.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import tarfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from ansible_collections.gb10.serving.plugins.module_utils import _image_docker
from ansible_collections.gb10.serving.plugins.module_utils._image_layers import chain_ids, droppable
from ansible_collections.gb10.serving.plugins.module_utils._tar_split import LayerArchive, Unsuited

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_CACHE = re.compile(r"[0-9a-z]{1,128}")
_END = bytes(2 * tarfile.BLOCKSIZE)
_MOST_CONFIG = 1 << 24


def _hex(digest: str) -> str:
    if not _DIGEST.fullmatch(digest):
        raise Unsuited(f"{digest!r} is no SHA-256 digest")
    return digest.removeprefix("sha256:")


def _blob(digest: str) -> str:
    return f"blobs/sha256/{_hex(digest)}"


def _header(name: str, size: int) -> bytes:
    info = tarfile.TarInfo(name)
    info.size, info.mode = size, 0o644
    return info.tobuf(tarfile.GNU_FORMAT)


def _padding(size: int) -> bytes:
    return bytes(-size % tarfile.BLOCKSIZE)


def _member(name: str, content: bytes) -> bytes:
    return _header(name, len(content)) + content + _padding(len(content))


def tag_of(ref: str, tags: Iterable[str]) -> str:
    """The reference as docker lists it. A reference that is an image ID has no tag that could be loaded."""
    full = ref if ":" in ref.rpartition("/")[2] else f"{ref}:latest"
    for tag in tags:
        if full in (tag, f"docker.io/{tag}", f"docker.io/library/{tag}", f"index.docker.io/{tag}"):
            return tag
    raise Unsuited(f"{ref} is not one of the tags of its image ({', '.join(tags) or 'it has none'})")


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as stream:
            return stream.read(_MOST_CONFIG)
    except OSError as error:
        raise Unsuited(f"cannot read {path}: {error.strerror or error}") from error


@dataclass(frozen=True)
class _Layer:
    diff: str
    content_bytes: int
    archive: LayerArchive


class Store:
    """One image in the store. Unsuited when this is not a store, or not an image, as it is known here."""

    def __init__(self, root: str, image_id: str, diff_ids: list[str], tag: str) -> None:
        self._id, self._tag, self._diffs = image_id, tag, diff_ids
        self._data = os.path.join(root, "overlay2")
        self._meta = os.path.join(root, "image", "overlay2")
        self._config = _read(os.path.join(self._meta, "imagedb", "content", "sha256", _hex(image_id)))
        if hashlib.sha256(self._config).hexdigest() != _hex(image_id):
            raise Unsuited(f"the configuration of {image_id} in {root} has another digest")
        if not diff_ids:
            raise Unsuited(f"the image {image_id} has no layers")
        pairs = zip(diff_ids, chain_ids(diff_ids), strict=True)
        self._layers = [self._layer(diff, chain) for diff, chain in pairs]

    def _layer(self, diff: str, chain: str) -> _Layer:
        folder = os.path.join(self._meta, "layerdb", "sha256", _hex(chain))
        told = {name: _read(os.path.join(folder, name)).decode("ascii", "replace").strip()
                for name in ("diff", "cache-id", "size")}  # fmt: skip
        if told["diff"] != diff or not _CACHE.fullmatch(told["cache-id"]) or not told["size"].isdigit():
            raise Unsuited(f"the layer at {folder} is described in an unknown way: {told}")
        split = os.path.join(folder, "tar-split.json.gz")
        if not os.access(split, os.R_OK):
            raise Unsuited(f"cannot read {split}")
        return _Layer(diff, int(told["size"]), LayerArchive(split, os.path.join(self._data, told["cache-id"], "diff")))

    def stream(self, held: Iterable[str]) -> Stream:
        """The archive without the layers that are not needed where these chains are."""
        chains = chain_ids(self._diffs)
        left_out = droppable(self._diffs, held)
        wanted: dict[str, _Layer] = {}
        omitted: dict[str, _Layer] = {}
        for layer, chain in zip(self._layers, chains, strict=True):
            (omitted if chain in left_out else wanted).setdefault(layer.diff, layer)
        manifest = [
            {"Config": _blob(self._id), "RepoTags": [self._tag], "Layers": [_blob(diff) for diff in self._diffs]}
        ]
        first = _member(_blob(self._id), self._config) + _member("manifest.json", json.dumps(manifest).encode())
        return Stream(first, list(wanted.values()), sum(layer.content_bytes for layer in omitted.values()))


class Stream:
    """One archive. Its layers are looked through when it is made, and compared with their digests while they go."""

    def __init__(self, first: bytes, layers: list[_Layer], left_out_bytes: int) -> None:
        self._first, self._layers, self._left_out = first, layers, left_out_bytes
        self._sizes = [layer.archive.measure() for layer in layers]

    def note(self) -> dict[str, Any]:
        """What each layer takes in the stream, and all the rest."""
        takes = {
            layer.diff: tarfile.BLOCKSIZE + size + len(_padding(size))
            for layer, size in zip(self._layers, self._sizes, strict=True)
        }
        return {"layers": takes, "rest": len(self._first) + len(_END)}

    def feed(self, sink: Callable[[bytes], None]) -> dict[str, Any]:
        sink(self._first)
        for layer, size in zip(self._layers, self._sizes, strict=True):
            sink(_header(_blob(layer.diff), size))
            found, sent = hashlib.sha256(), 0
            for piece in layer.archive.pieces():
                found.update(piece)
                sink(piece)
                sent += len(piece)
            if sent != size or f"sha256:{found.hexdigest()}" != layer.diff:
                raise Unsuited(
                    f"the layer {layer.diff} became sha256:{found.hexdigest()} ({sent} bytes, {size} expected): "
                    "its files in docker's data root are not what they were"
                )
            if padding := _padding(size):
                sink(padding)
        sink(_END)
        return {"rc": 0, "error": "", "left_out_bytes": self._left_out}


def find_or_why_not(ref: str, runner: _image_docker.Runner = _image_docker.run) -> Store | str:
    """The image in this node's store, or why docker save is needed."""
    root, driver = _image_docker.store(runner)
    if driver != "overlay2":
        return f"docker's store is {driver or 'unknown'}, expected overlay2"
    image_id, tags, diff_ids = _image_docker.identity(ref, runner)
    try:
        return Store(root, image_id, diff_ids, tag_of(ref, tags))
    except Unsuited as error:
        return str(error)
