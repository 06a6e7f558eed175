# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""Archives as docker save makes them, in both layouts, from layers that a test names."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from typing import Any

#: What an engine writes of a layer that is not the last; it says nothing of the image.
EMPTY: dict[str, Any] = {"Hostname": "", "Env": None, "Cmd": None, "Image": "", "Labels": None}


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def chains(layers: list[bytes]) -> list[str]:
    found: list[str] = []
    for layer in layers:
        diff = f"sha256:{digest(layer)}"
        found.append(f"sha256:{digest(f'{found[-1]} {diff}'.encode())}" if found else diff)
    return found


def diffs(layers: list[bytes]) -> list[str]:
    return [f"sha256:{digest(layer)}" for layer in layers]


def pack(members: list[tuple[str, bytes | str]], form: int = tarfile.PAX_FORMAT) -> bytes:
    """A tar archive; a member whose content is text is a link to it."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form) as archive:
        for name, content in members:
            info = tarfile.TarInfo(name)
            if isinstance(content, str):
                info.type, info.linkname = tarfile.SYMTYPE, content
                archive.addfile(info)
            else:
                info.size = len(content)
                archive.addfile(info, io.BytesIO(content))
        end = archive.offset + 2 * tarfile.BLOCKSIZE
    return out.getvalue()[:end]


def legacy(layers: list[bytes], config: dict[str, Any] | None = None) -> list[tuple[str, bytes | str]]:
    """Members as engines before 25 write them: folders named by a hash, sorted by it, the manifest last."""
    parent, folders = "", {}
    seen: dict[bytes, str] = {}
    top = config or {"Env": ["A=<1> & 2"], "Cmd": ["serve"]}
    for number, (layer, chain) in enumerate(zip(layers, chains(layers), strict=True)):
        last = number == len(layers) - 1
        # Written out by hand in the order of the keys: what names the folder and what is in it differ.
        body = f'"container_config":{go(EMPTY)},"created":"1970-01-01T00:00:00Z","layer_id":"{chain}"'
        if last:
            body = f'"architecture":"arm64","config":{go(top)},{body},"os":"linux"'
        if parent:
            body += f',"parent":"sha256:{parent}"'
        name = digest(("{" + body + "}").encode())
        text = f'{{"id":"{name}",' + (f'"parent":"{parent}",' if parent else "")
        text += f'"created":"1970-01-01T00:00:00Z","container_config":{go(EMPTY)}'
        text += f',"config":{go(top)},"architecture":"arm64"' if last else ""
        content: bytes | str = f"../{seen[layer]}/layer.tar" if layer in seen else layer
        seen.setdefault(layer, name)
        folders[name] = [("VERSION", b"1.0"), ("json", (text + ',"os":"linux"}').encode()), ("layer.tar", content)]
        parent = name
    members: list[tuple[str, bytes | str]] = [
        (f"{name}/{part}", content) for name in sorted(folders) for part, content in folders[name]
    ]
    return [*members, ("manifest.json", json.dumps([{"Layers": [f"{name}/layer.tar" for name in folders]}]).encode())]


def go(value: Any) -> str:
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def oci(layers: list[bytes]) -> list[tuple[str, bytes | str]]:
    """Members as newer engines write them: each layer once, under its digest."""
    blobs = {digest(layer): layer for layer in layers}
    members: list[tuple[str, bytes | str]] = [(f"blobs/sha256/{name}", blobs[name]) for name in sorted(blobs)]
    manifest = [{"Layers": [f"blobs/sha256/{digest(layer)}" for layer in layers]}]
    return [*members, ("index.json", b"{}"), ("manifest.json", json.dumps(manifest).encode())]
