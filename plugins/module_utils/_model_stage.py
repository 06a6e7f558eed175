# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 gb10.serving contributors
# Private to gb10.serving: where the files of a model wait until they are whole, and how they take their place.
from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping

from ansible_collections.gb10.serving.plugins.module_utils._job import JobError, write_json
from ansible_collections.gb10.serving.plugins.module_utils._model_journal import JOURNAL, NOTE, PARTS, staged_for
from ansible_collections.gb10.serving.plugins.module_utils._model_manifest import write_store
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
                f"another run is copying into {staging} right now{_holder(staging)}. Wait for it to end, then run "
                "again."
            ) from error
        if staged_for(staging) != digest:
            for entry in list(os.scandir(staging)):
                shutil.rmtree(entry.path) if entry.is_dir(follow_symlinks=False) else os.unlink(entry.path)
        write_json(os.path.join(staging, NOTE), {"digest": digest, "pid": os.getpid(), "since": int(time.time())})
        yield
    finally:
        os.close(lock)


def _holder(staging: str) -> str:
    """Who holds the lock, and since when."""
    try:
        with open(os.path.join(staging, NOTE), encoding="utf-8") as stream:
            note = json.load(stream)
        return f" (process {int(note['pid'])}, for {max(0, int(time.time() - note['since']))} s)"
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def publish(
    destination: Destination,
    names: list[str],
    sums: Mapping[str, str],
    revision: str | None,
    own: Callable[[str], None],
) -> None:
    """Puts verified files in place: a new folder by one rename, else file by file with the marker last."""
    staging = destination.staging
    for name in names:
        own(os.path.join(staging, name))
    if not os.path.isdir(destination.path):
        destination.mark(staging, revision)
        write_store(staging, sums, own)
        for folder, _folders, _files in os.walk(staging):
            own(folder)
        own(destination.marker(staging))
        os.rename(staging, destination.path)
        # Only now, so that a kill at any time leaves what the next run goes on with.
        shutil.rmtree(os.path.join(destination.path, PARTS), ignore_errors=True)
        for hidden in (JOURNAL, NOTE):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(os.path.join(destination.path, hidden))
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
        write_store(destination.path, sums, own)
        destination.mark(destination.path, revision)
        own(destination.marker(destination.path))
    for folder in (os.path.dirname(destination.path), destination.path):
        number = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)
