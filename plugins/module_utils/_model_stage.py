# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 gb10.serving contributors
# Private to gb10.serving: where the files of a model wait until they are whole, and how they take their place.
from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import stat
import time
from collections.abc import Callable, Iterator, Mapping

from ansible_collections.gb10.serving.plugins.module_utils import _model_inside, _model_journal
from ansible_collections.gb10.serving.plugins.module_utils._job import JobError, write_json
from ansible_collections.gb10.serving.plugins.module_utils._model_journal import JOURNAL, NOTE, PARTS, staged_for
from ansible_collections.gb10.serving.plugins.module_utils._model_manifest import write_store
from ansible_collections.gb10.serving.plugins.module_utils._model_state import Destination


@contextlib.contextmanager
def staged(destination: Destination, own: Callable[[str], None]) -> Iterator[None]:
    """The staging folder, locked, with nothing in it but what is of use for this model."""
    staging, digest = destination.staging, destination.digest
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
        with contextlib.suppress(FileExistsError):
            os.mkdir(staging)
    except OSError as error:
        raise JobError(
            f"cannot make the folder {error.filename}: {error.strerror}. Give a path that this user may write, or "
            "use become."
        ) from error
    _check_ours(staging)
    lock = os.open(staging, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise JobError(
                f"another run is copying into {staging} right now{_holder(staging)}. Wait for it to end, then run "
                "again."
            ) from error
        _model_inside.drop_links(staging)
        if staged_for(staging) != digest:
            usable = _usable(destination)
            # The note stays, so that the folder is known as ours at any time.
            _model_inside.keep(staging, {*usable.sums, NOTE})
            _model_journal.rewrite(staging, usable)
        write_json(os.path.join(staging, NOTE), {"digest": digest, "pid": os.getpid(), "since": int(time.time())})
        yield
    finally:
        os.close(lock)


def _check_ours(staging: str) -> None:
    """JobError unless this is a folder that a copy made: nothing else is ever emptied."""
    expected = (
        f"expected a folder of an earlier copy with the note {NOTE}, or nothing. Look at it, move it away, and run "
        "again."
    )
    mode = os.lstat(staging).st_mode
    if stat.S_ISLNK(mode):
        raise JobError(f"{staging} is a link to {os.readlink(staging)}; {expected}")
    if not stat.S_ISDIR(mode):
        raise JobError(f"{staging} is a file; {expected}")
    names = os.listdir(staging)
    if any(not name.startswith(NOTE) for name in names) and _model_inside.size(staging, NOTE) < 0:
        raise JobError(f"{staging} holds {len(names)} entries, for example {min(names)}, and no such note; {expected}")


def _usable(destination: Destination) -> _model_journal.Came:
    """Of a copy of another revision: the files that came whole and are the same in this one."""
    found, usable = _model_journal.read(destination.staging), _model_journal.Came()
    for name, digest in found.sums.items():
        size = destination.sizes.get(name, -1)
        if destination.sums.get(name) == digest and _model_inside.size(destination.staging, name) == size >= 0:
            usable.sums[name] = digest
    usable.safe = found.safe & usable.sums.keys()
    return usable


def _holder(staging: str) -> str:
    """Who holds the lock, and since when."""
    try:
        note = json.loads(_model_inside.content(staging, NOTE))
        return f" (process {int(note['pid'])}, for {max(0, int(time.time() - note['since']))} s)"
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def discard(staging: str) -> None:
    """Removes the folder; its note goes last, so that what a kill leaves is known as ours."""
    for name in os.listdir(staging):
        if name != NOTE:
            _model_inside.remove(os.path.join(staging, name))
    _model_inside.remove(os.path.join(staging, NOTE))
    os.rmdir(staging)


def try_rename(destination: Destination) -> None:
    """Before anything is copied: a mount of the same disk shows only when a rename is tried. JobError then."""
    if not os.path.isdir(destination.path):
        return
    name = ".gb10-probe"
    os.close(_model_inside.created(destination.staging, name))
    try:
        os.replace(os.path.join(destination.staging, name), os.path.join(destination.path, name))
    except OSError as error:
        raise JobError(
            f"a file of {destination.staging} cannot be put into {destination.path} by a rename: {error.strerror}. "
            "Expected one file system without a mount in between, and a folder that this user may write. Give a folder "
            "inside the mount, or use become."
        ) from error
    os.unlink(os.path.join(destination.path, name))


def publish(
    destination: Destination,
    names: list[str],
    sums: Mapping[str, str],
    revision: str | None,
    own: Callable[[str], None],
    verified: bool = True,
) -> None:
    """Puts verified files in place: a new folder by one rename, else file by file with the marker last."""
    staging = destination.staging
    for name in names:
        own(os.path.join(staging, name))
    if not os.path.isdir(destination.path):
        _model_inside.keep(staging, {*names, JOURNAL, NOTE})
        destination.mark(staging, revision, verified)
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
            missing, folder = [], os.path.dirname(target)
            while not os.path.isdir(folder):
                missing.append(folder)
                folder = os.path.dirname(folder)
            for folder in reversed(missing):
                os.mkdir(folder)
                own(folder)
            os.replace(os.path.join(staging, name), target)
        discard(staging)
        write_store(destination.path, sums, own)
        destination.mark(destination.path, revision, verified)
        own(destination.marker(destination.path))
    for folder in (os.path.dirname(destination.path), destination.path):
        number = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)
