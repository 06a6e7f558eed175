# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""A data root of docker as its overlay2 store keeps an image, from layers that a test names."""

from __future__ import annotations

import base64
import gzip
import io
import json
import os
import pathlib
import tarfile
from typing import Any

from ansible_collections.gb10.serving.tests.unit.plugins.module_utils.image_archives import chains, diffs, digest


def tar(*members: dict[str, Any], form: int = tarfile.GNU_FORMAT, padding: int = 0) -> bytes:
    """A layer. A member has a name, optionally data, and any property of a TarInfo."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form, errors="surrogateescape") as archive:
        for member in members:
            info = tarfile.TarInfo(member["name"])
            data = member.get("data", b"")
            info.size = len(data)
            for key in member.keys() - {"name", "data"}:
                setattr(info, key, member[key])
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue() + bytes(padding)


def split(layer: bytes, folder: pathlib.Path) -> list[dict[str, Any]]:
    """What the store writes down of a layer; the files themselves go into the folder."""
    folder.mkdir(parents=True)
    entries: list[dict[str, Any]] = []

    def add(**entry: Any) -> None:
        entries.append({**entry, "position": len(entries)})

    def raw(begin: int, end: int) -> None:
        add(type=2, payload=base64.b64encode(layer[begin:end]).decode())

    done = 0
    with tarfile.open(fileobj=io.BytesIO(layer), mode="r:", errors="surrogateescape") as archive:
        members = archive.getmembers()
    for member in members:
        raw(done, member.offset_data)
        done = member.offset_data + (member.size if member.isreg() else 0)
        name = os.fsencode(member.name)
        try:
            named: dict[str, Any] = {"name": name.decode()}
        except UnicodeDecodeError:
            named = {"name_raw": base64.b64encode(name).decode()}
        if member.isreg() and member.size:
            path = os.path.join(os.fsencode(folder), name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as stream:
                stream.write(layer[member.offset_data : done])
            add(type=1, **named, size=member.size, payload="AAAAAAAAAAA=")
        else:
            add(type=1, **named, payload=None)
    raw(done, len(layer))
    return entries


def write_split(path: pathlib.Path, entries: list[dict[str, Any]]) -> None:
    lines = [json.dumps(entry, separators=(",", ":"), ensure_ascii=False) + "\n" for entry in entries]
    path.write_bytes(gzip.compress("".join(lines).encode()))


def layer_folder(root: pathlib.Path, chain: str) -> pathlib.Path:
    return root / "image/overlay2/layerdb/sha256" / chain.removeprefix("sha256:")


def fill(root: pathlib.Path, layers: list[bytes]) -> str:
    """Writes the store of one image; the image's ID."""
    for number, (layer, chain, diff) in enumerate(zip(layers, chains(layers), diffs(layers), strict=True)):
        folder = layer_folder(root, chain)
        folder.mkdir(parents=True)
        entries = split(layer, root / f"overlay2/cache{number}/diff")
        write_split(folder / "tar-split.json.gz", entries)
        for name, text in (("diff", diff), ("cache-id", f"cache{number}"), ("size", str(len(layer)))):
            (folder / name).write_text(text)
    config = json.dumps({"rootfs": {"type": "layers", "diff_ids": diffs(layers)}}).encode()
    path = root / "image/overlay2/imagedb/content/sha256" / digest(config)
    path.parent.mkdir(parents=True)
    path.write_bytes(config)
    return f"sha256:{digest(config)}"
