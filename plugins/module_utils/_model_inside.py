# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 gb10.serving contributors
# Private to gb10.serving: files below a folder of ours, opened and moved without ever following a link.
"""Whoever may write beside a model can put a link where a copy writes next. No name below the folder is followed;
what stands where a file or folder of ours belongs is removed itself, never what it leads to."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from collections.abc import Collection, Iterator

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def _mode(name: str, folder: int) -> int | None:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
    except OSError:
        return None


@contextlib.contextmanager
def folder_of(root: str, name: str, make: bool = False) -> Iterator[tuple[int, str]]:
    """(the open folder that holds the file, its last name). With make, folders that are missing are made."""
    *parents, last = name.split("/")
    number = os.open(root, _FOLDER)
    try:
        for parent in parents:
            if make:
                mode = _mode(parent, number)
                if mode is not None and not stat.S_ISDIR(mode):
                    os.unlink(parent, dir_fd=number)
                    mode = None
                if mode is None:
                    with contextlib.suppress(FileExistsError):  # another thread was faster
                        os.mkdir(parent, dir_fd=number)
            below = os.open(parent, _FOLDER, dir_fd=number)
            os.close(number)
            number = below
        yield number, last
    finally:
        os.close(number)


def _clear(last: str, folder: int) -> None:
    """Removes what is no regular file of one name."""
    mode = _mode(last, folder)
    if mode is None or stat.S_ISREG(mode):
        return
    if stat.S_ISDIR(mode):
        shutil.rmtree(f"/proc/self/fd/{folder}/{last}")
    else:
        os.unlink(last, dir_fd=folder)


def opened(root: str, name: str, flags: int) -> int:
    """Opens a regular file, which is made when it is not there."""
    with folder_of(root, name, make=True) as (folder, last):
        _clear(last, folder)
        return os.open(last, flags | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666, dir_fd=folder)


def created(root: str, name: str) -> int:
    """A new, empty file for writing; what had the name is no more."""
    with folder_of(root, name, make=True) as (folder, last):
        _clear(last, folder)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(last, dir_fd=folder)
        return os.open(last, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666, dir_fd=folder)


def content(root: str, name: str) -> bytes:
    """What a regular file holds. OSError when there is none."""
    with folder_of(root, name) as (folder, last):
        number = os.open(last, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    with open(number, "rb") as stream:
        return stream.read()


def move(root: str, old: str, new: str) -> None:
    with folder_of(root, old) as (source, last), folder_of(root, new, make=True) as (target, final):
        _clear(final, target)
        os.replace(last, final, src_dir_fd=source, dst_dir_fd=target)


def size(root: str, name: str) -> int:
    """Of a regular file that no link leads to; -1 when there is none."""
    try:
        with folder_of(root, name) as (folder, last):
            found = os.stat(last, dir_fd=folder, follow_symlinks=False)
    except OSError:
        return -1
    return found.st_size if stat.S_ISREG(found.st_mode) else -1


def remove(path: str) -> None:
    """A file, a link itself, or a folder with all that is in it."""
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return
    if stat.S_ISDIR(mode):
        shutil.rmtree(path)
    else:
        os.unlink(path)


def drop_links(root: str) -> None:
    """Removes every link below a folder of ours, in which there are none of ours."""
    for folder, folders, files in os.walk(root):
        for name in (*folders, *files):
            path = os.path.join(folder, name)
            if os.path.islink(path):
                os.unlink(path)


def keep(root: str, names: Collection[str]) -> None:
    """Removes every other file of a folder of ours, and the folders that are empty then."""
    for folder, folders, files in os.walk(root, topdown=False):
        for name in files:
            path = os.path.join(folder, name)
            if os.path.relpath(path, root) not in names:
                os.unlink(path)
        for name in folders:
            path = os.path.join(folder, name)
            if os.path.islink(path):
                os.unlink(path)
            elif not os.listdir(path):
                os.rmdir(path)
