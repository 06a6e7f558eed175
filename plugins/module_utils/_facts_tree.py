# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 gb10.serving contributors
"""Private: opens files so that nothing can hang or lead astray: regular files only, and links of a captured tree end
inside it, as they would for a process whose root it is."""

from __future__ import annotations

import os
import stat

LIMIT = 1024 * 1024
MOST_LINKS = 40
#: A tree with this file in it joins captured files to the live machine that it stands on: its links may lead there.
LIVE_LINKS = ".gb10-live-links"


def read_regular(path: str) -> bytes:
    """The first bytes of a regular file. A FIFO, socket or device is refused: reading one may wait for ever."""
    number = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(number).st_mode):
            raise OSError(f"{path} is not a regular file")
        # in small pieces: sysfs files are a few bytes, and there are hundreds of them
        data = piece = os.read(number, 4096)
        while piece and len(data) < LIMIT:
            piece = os.read(number, 65536)
            data += piece
        return data
    finally:
        os.close(number)


def resolve(root: str, path: str, last: bool = True) -> str:
    """Where an absolute path leads inside a root, its links followed within that root; the last part's too if wanted.

    What does not exist is taken as it is written. A loop of links leads to a name that cannot exist.
    """
    todo = [part for part in path.split("/") if part not in ("", ".")][::-1]
    done: list[str] = []
    links = 0
    while todo:
        part = todo.pop()
        if part == "..":
            done = done[:-1]
            continue
        here = "/".join([root.rstrip("/"), *done, part])
        try:
            target = os.readlink(here) if todo or last else None
        except (OSError, ValueError):
            target = None
        if target is None:
            done.append(part)
            continue
        links += 1
        if links > MOST_LINKS:
            return "/".join([root.rstrip("/"), *done, "\0"])
        if target.startswith("/"):
            done = []
        todo += [item for item in target.split("/") if item not in ("", ".")][::-1]
    return "/".join([root.rstrip("/"), *done]) or "/"
