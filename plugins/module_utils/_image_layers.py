# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 gb10.serving contributors
# Private to gb10.serving: which layers of an archive a daemon has. Pure.
"""Chain IDs, and which member of a ``docker save`` archive holds which layer."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

from ansible_collections.gb10.serving.plugins.module_utils._image_tar import Member

_LEGACY_LAYER = re.compile(r"([0-9a-f]{64})/layer\.tar")
_LEGACY_JSON = re.compile(r"([0-9a-f]{64})/json")
_BLOB = re.compile(r"blobs/sha256/([0-9a-f]{64})")
#: No request names more layers than this.
MOST = 10_000


def chain_ids(diff_ids: Sequence[str]) -> list[str]:
    """The chain ID of each layer: what a layer is, together with all below it."""
    chains: list[str] = []
    for diff in diff_ids:
        chains.append(diff if not chains else "sha256:" + hashlib.sha256(f"{chains[-1]} {diff}".encode()).hexdigest())
    return chains


def held_chains(inspected: str) -> list[str]:
    """All chains of the images in the output of ``docker image inspect --format '{{json .RootFS.Layers}}'``."""
    found: dict[str, None] = {}
    for line in inspected.splitlines():
        if line.strip():
            found.update(dict.fromkeys(chain_ids(json.loads(line) or [])))
    return list(found)[:MOST]


def droppable(diff_ids: Sequence[str], held: Iterable[str]) -> set[str]:
    """The chains that may be left out: also where the same layer stands twice, each place must be held."""
    there, chains = set(held), chain_ids(diff_ids)
    wanted = {diff for diff, chain in zip(diff_ids, chains, strict=False) if chain not in there}
    return {chain for diff, chain in zip(diff_ids, chains, strict=False) if diff not in wanted}


def dropped_layers(diff_ids: Sequence[str], held: Iterable[str]) -> set[str]:
    """The layers that may be left out, by what is in them."""
    chains = droppable(diff_ids, held)
    return {diff for diff, chain in zip(diff_ids, chain_ids(diff_ids), strict=False) if chain in chains}


def _go_json(value: Any) -> str:
    """As Go writes it, which is what the names in an archive were made of."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    for char in "<>&\u2028\u2029":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return text


def legacy_name(description: dict[str, Any], chain: str, with_os: bool) -> str:
    """The folder of a layer in an archive of before Docker 25, from the json file in it and the layer's chain."""
    fields = {key: value for key, value in description.items() if key != "id" and (with_os or key != "os")}
    if "parent" in fields:
        fields["parent"] = f"sha256:{fields['parent']}"
    fields["layer_id"] = chain
    return hashlib.sha256(_go_json(dict(sorted(fields.items()))).encode()).hexdigest()


class LayerChoice:
    """Decides for TarFilter. A member that cannot be told for sure is kept."""

    def __init__(self, diff_ids: Sequence[str], held: Iterable[str]) -> None:
        held = set(held)
        self.chains = droppable(diff_ids, held)
        self._blobs = {diff.removeprefix("sha256:") for diff in dropped_layers(diff_ids, held)}
        self._legacy: set[str] = set()

    def note(self, name: str, content: bytes) -> None:
        match = _LEGACY_JSON.fullmatch(name)
        if not match or not self.chains:
            return
        try:
            description = json.loads(content)
        except ValueError:
            return
        if isinstance(description, dict) and any(
            legacy_name(description, chain, with_os) == match.group(1)
            for chain in self.chains
            for with_os in (False, True)
        ):
            self._legacy.add(match.group(1))

    def drop(self, member: Member) -> bool:
        if member.kind != "0":
            return False
        match = _LEGACY_LAYER.fullmatch(member.name)
        if match:
            return match.group(1) in self._legacy
        match = _BLOB.fullmatch(member.name)
        return bool(match and match.group(1) in self._blobs)
