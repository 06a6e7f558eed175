# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 gb10.serving contributors
# Private to gb10.serving: the releases of a deployment on one node.
"""Which release the links name, and which ones go."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable

from ansible_collections.gb10.serving.plugins.module_utils import _rank, _rank_failed

#: What the collection keeps beside the deployments.
CACHE = ".cache"


def set_links(directory: str, release: str, current: str | None, previous: str | None, keep: Iterable[str]) -> None:
    """``current`` to what starts, ``previous`` to what it was or shall be; what nothing points to any more goes."""
    kept: set[str | None] = set(keep)
    if previous is not None:
        # The log of what failed stays until the next start.
        kept.add(current)
        there = bool(previous) and os.path.isdir(os.path.join(directory, "releases", previous))
        _rank.set_link(directory, "previous", previous if there and previous != release else None)
    elif current != release:
        _rank.set_link(directory, "previous", current)
    if current != release:
        _rank.set_link(directory, "current", release)
    _forget(directory, kept)


def _forget(directory: str, kept: set[str | None]) -> None:
    """Keep the current and the previous release, those that are remembered for their failure, and ``kept``."""
    place = os.path.join(directory, "releases")
    kept |= {_rank.linked_release(directory, link) for link in ("current", "previous")}
    kept |= {failure.get("release") for failure in _rank_failed.read(directory)}
    for release in set(os.listdir(place)) - kept:
        shutil.rmtree(os.path.join(place, release))


def leftovers(directory: str, root: str) -> list[str]:
    """What a removal takes away: the deployment's directory, and the root's cache if no other deployment is in it."""
    others = set(os.listdir(root)) - {os.path.basename(directory), CACHE} if os.path.isdir(root) else set()
    wanted = [directory] if others else [directory, os.path.join(root, CACHE), root]
    return [path for path in wanted if os.path.isdir(path)]
