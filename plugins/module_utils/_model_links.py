# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 gb10.serving contributors
# Private to this collection: no stability promised.
"""What a container must see beside a model directory whose files are links, as in a Hugging Face cache."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterable

#: Where launch scripts mount the model directory in every container; the paths on the nodes may differ.
CONTAINER_PATH = "/model"


def directories_beside(root: str, names: Iterable[str], inside: str = CONTAINER_PATH) -> dict[str, str]:
    """Directories that links of the model lead to, outside of it.

    A container that mounts ``root`` as ``inside`` follows the same link texts from there, so each directory has to be
    mounted where the links look for it: ``../../blobs/x`` from ``/model/x`` is ``/blobs/x``.

    Args:
        root: the model directory on this node.
        names: its files, relative to it.
        inside: where the container mounts ``root``.

    Returns:
        Directory (or file) on this node by its place in the container; empty for a directory of plain files.
    """
    wanted: dict[str, str] = {}
    for name in names:
        here, there = os.path.join(root, name), posixpath.join(inside, name)
        # A chain of links is short; the limit only keeps a loop from being one.
        for _step in range(8):
            if not os.path.islink(here):
                break
            text = os.readlink(here)
            # The directory itself may be reached over a link, which the texts of its files do not know.
            here = os.path.normpath(os.path.join(os.path.realpath(os.path.dirname(here)), text))
            there = posixpath.normpath(posixpath.join(posixpath.dirname(there), text))
            if not there.startswith(inside + "/"):
                place = posixpath.dirname(there)
                # Nothing can be mounted over the container's root, so a file that has to lie there comes alone.
                wanted[there if place == "/" else place] = here if place == "/" else os.path.dirname(here)
    return wanted
