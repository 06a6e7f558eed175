# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 gb10.serving contributors
# Private to gb10.serving: where the files of a model wait until they are whole, and how they take their place.
from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
from collections.abc import Callable, Iterator

from ansible_collections.gb10.serving.plugins.module_utils._job import JobError, write_json
from ansible_collections.gb10.serving.plugins.module_utils._model_state import Destination


@contextlib.contextmanager
def staged(staging: str, digest: str, own: Callable[[str], None]) -> Iterator[None]:
    """The staging folder, locked, for this digest only."""
    parent = os.path.dirname(staging)
    try:
        missing = []
        place = parent
        while not os.path.isdir(place):
            missing.append(place)
            place = os.path.dirname(place)
        os.makedirs(parent, exist_ok=True)
        for folder in missing:
            own(folder)
        os.makedirs(staging, exist_ok=True)
    except OSError as error:
        raise JobError(
            f"cannot make the folder {error.filename}: {error.strerror}. Give a path that this user may write, or "
            "use become."
        ) from error
    lock = os.open(staging, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise JobError(
                f"another run is copying into {staging} right now. Wait for it to end, then run again."
            ) from error
        note = os.path.join(staging, ".gb10-staging.json")
        known = None
        with contextlib.suppress(OSError, ValueError), open(note, encoding="utf-8") as stream:
            known = json.load(stream).get("digest")
        if known != digest:
            for entry in list(os.scandir(staging)):
                shutil.rmtree(entry.path) if entry.is_dir(follow_symlinks=False) else os.unlink(entry.path)
            write_json(note, {"digest": digest})
        yield
    finally:
        os.close(lock)


def publish(destination: Destination, staging: str, names: list[str], own: Callable[[str], None]) -> None:
    """Puts verified files in place: a new folder by one rename, else file by file with the marker last."""
    for name in names:
        own(os.path.join(staging, name))
    if not os.path.isdir(destination.path):
        os.unlink(os.path.join(staging, ".gb10-staging.json"))
        destination.mark(staging)
        for folder, _folders, _files in os.walk(staging):
            own(folder)
        own(destination.marker(staging))
        os.rename(staging, destination.path)
    else:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(destination.marker(destination.path))
        for name in names:
            target = os.path.join(destination.path, name)
            folder = os.path.dirname(target)
            if not os.path.isdir(folder):
                os.makedirs(folder)
                own(folder)
            os.replace(os.path.join(staging, name), target)
        shutil.rmtree(staging)
        destination.mark(destination.path)
        own(destination.marker(destination.path))
    for folder in (os.path.dirname(destination.path), destination.path):
        number = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)
