# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 gb10.serving contributors
"""Private: where the readings come from, a live machine or a captured tree. Nothing here is ever written to."""

from __future__ import annotations

import contextlib
import functools
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from typing import Any, NamedTuple

from ._facts_tree import LIVE_LINKS, read_regular, resolve

COMMAND_SECONDS = 10.0
MOST_TEXTS = 300
LONGEST_PATH = 4096
SAFE_NAME = re.compile(r"^(?!\.{1,2}$)[A-Za-z0-9_.:@-]{1,64}$")


class Output(NamedTuple):
    """What a command printed. reason is set when there is no output to read."""

    text: str
    rc: int
    reason: str | None = None


def sysroot_problem(root: str, host: str) -> str:
    """Why this folder cannot hold a captured machine; empty when it may. An empty folder may: nothing is known then."""
    if os.path.isdir(root):
        return ""
    seen = "it is a file" if os.path.exists(root) else "there is no such directory"
    return (
        f"Cannot read the captured machine {os.path.abspath(root)} on {host}. Seen: {seen}. Expected: a directory with "
        "proc, sys, etc and commands of a machine. Next step: unpack the archive there, or correct sysroot (in the "
        "roles: gb10_sysroot)."
    )


def safe_name(text: str | None) -> str | None:
    """A device name taken from file content, or None when it could not be one."""
    text = (text or "").strip()
    return text if SAFE_NAME.match(text) else None


def run(argv: list[str], seconds: float = COMMAND_SECONDS) -> Output:
    """Run a command on this machine with a time limit. It never raises."""
    env = dict(os.environ, LC_ALL="C", LANG="C")
    path = env.get("PATH", "") + ":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    program = shutil.which(argv[0], path=path)
    if program is None:
        return Output("", 127, f"the command {argv[0]} is not installed")
    try:
        # Not run_command: it has no time limit, and a docker or nvidia-smi that hangs must not hang the probe.
        done = subprocess.run(  # pylint: disable=ansible-bad-function,subprocess-run-check
            [program] + argv[1:],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env=env,
            timeout=seconds,
        )
    except subprocess.TimeoutExpired:
        return Output("", 124, f"{argv[0]} did not answer within {seconds:g} s")
    except (OSError, ValueError) as error:
        return Output("", 126, f"{argv[0]} could not be run: {error}")
    text = done.stdout.decode("utf-8", "replace")
    if done.returncode != 0:
        last = (done.stderr.decode("utf-8", "replace").strip() or text.strip())[-400:]
        return Output(text, done.returncode, f"{argv[0]} ended with status {done.returncode}: {last}")
    return Output(text, 0)


class Source:
    """Reads files below a root. The root / is this machine; any other root is a captured tree, whose commands/ folder
    holds what the commands printed."""

    def __init__(self, root: str = "/") -> None:
        self.root = os.path.abspath(root or "/")
        self.captured = self.root != "/"
        #: links of somebody's tree must not read this machine
        self.confined = self.captured and not os.path.isfile(os.path.join(self.root, LIVE_LINKS))
        self._outputs: dict[str, Output] = {}
        self._started: dict[tuple[str, ...], Any] = {}
        self._files: dict[str, str] = {}
        self._children: dict[str, set[str]] = {}
        self.texts: dict[str, str] = {}
        if self.captured:
            self.texts = self._load_texts()
            self._load_listings()

    # --- files ---
    def path(self, path: str, last: bool = True) -> str:
        """Where a path is on this machine. last: follow a link that the last part is."""
        return resolve(self.root, path, last) if self.confined else self.root.rstrip("/") + path

    def read(self, path: str) -> str | None:
        """The text of a file, or None when it is absent or not readable."""
        try:
            return read_regular(self.path(path)).decode("utf-8", "replace")
        except (OSError, ValueError):
            return self._files.get(path)

    def value(self, path: str) -> str | None:
        """The stripped text of a one-line file, or None when absent, unreadable or empty."""
        text = self.read(path)
        text = text.replace("\x00", "").strip() if text is not None else ""
        return text or None

    def number(self, path: str) -> int | None:
        """The decimal number in a one-line file; None for no number and for -1, which the kernel writes for unknown."""
        text = self.value(path)
        return int(text) if text is not None and re.match(r"^[0-9]{1,20}$", text) else None

    def entries(self, path: str) -> list[str]:
        """The names in a folder, sorted; empty when it is absent."""
        names = set(self._children.get(path, ()))
        with contextlib.suppress(OSError, ValueError):
            names.update(os.listdir(self.path(path)))
        return sorted(names)

    def exists(self, path: str) -> bool:
        try:
            if os.path.lexists(self.path(path, last=False)):
                return True
        except ValueError:
            return False
        return path in self._files or path in self._children

    def link_name(self, path: str) -> str | None:
        """The last part of a link's target. A captured tree may hold it as a plain file PATH or PATH@basename."""
        full = self.path(path, last=False)
        try:
            if os.path.islink(full):
                return os.path.basename(self._target(path))
            if os.path.isfile(full):
                return safe_name(os.path.basename((self.value(path) or "").rstrip("/")))
        except (OSError, ValueError):
            return None
        text = self.value(path + "@basename") or self._files.get(path)
        return safe_name(os.path.basename(text.rstrip("/"))) if text else None

    def parent_names(self, path: str) -> list[str]:
        """The parts of the real path of a link, last first; empty for a plain folder."""
        try:
            return self._target(path).split("/")[::-1] if os.path.islink(self.path(path, last=False)) else []
        except (OSError, ValueError):
            return []

    def _target(self, path: str) -> str:
        return self.path(path) if self.confined else os.path.realpath(self.path(path))

    # --- commands ---
    def start(self, programs: list[list[str]], later: Callable[[Callable[[], Output]], Any]) -> None:
        """Start programs whose output will be asked for."""
        for argv in programs:
            self._started[tuple(argv)] = later(functools.partial(run, argv))

    def command(self, names: list[str], argv: list[str] | None = None) -> Output:
        """The output of a command: run on a live machine, read from commands/NAME.txt (or .csv) in a captured tree.

        names are tried in order; NAME-anything.txt counts as NAME when there is no NAME.txt.
        argv None marks a command that only captured trees hold.
        """
        key = names[0]
        if key not in self._outputs:
            if self.captured:
                texts = [text for name in names for text in self.captured_texts([name])]
                absent = Output("", 127, f"the captured tree has no commands/{key}.txt")
                self._outputs[key] = Output(texts[0], 0) if texts else absent
            elif argv is None:
                self._outputs[key] = Output("", 127, "not run on a live machine")
            else:
                started = self._started.get(tuple(argv))
                self._outputs[key] = started.result() if started else run(argv)
        return self._outputs[key]

    def captured_named(self, names: list[str]) -> list[tuple[str, str]]:
        """(name, text) of the captured outputs called NAME or NAME-anything, the exact name first. None on a live
        machine."""
        if not self.captured:
            return []
        wanted = [re.sub(r"[_ ]", "-", name).lower() for name in names]
        found = []
        for name, text in self.texts.items():
            if any(name == item or name.startswith(item + "-") for item in wanted):
                found.append((name, text))
        return sorted(found, key=lambda item: (item[0] not in wanted, item[0]))

    def captured_texts(self, names: list[str]) -> list[str]:
        """The texts of captured_named."""
        return [text for _name, text in self.captured_named(names)]

    def _load_texts(self) -> dict[str, str]:
        from ._facts_captured import of_one_node, text_name

        files: dict[str, str] = {}
        for folder in ("/commands", ""):
            for file in self.entries(folder or "/")[:MOST_TEXTS]:
                name = text_name(file)
                if name:
                    files.setdefault(name, folder + "/" + file)
        read = {name: self.read(files[name]) for name in of_one_node(sorted(files))}
        return {name: text.removeprefix("\ufeff") for name, text in read.items() if text is not None}

    def _load_listings(self) -> None:
        from ._facts_captured import parse_listing, parse_loops

        for name, text in self.texts.items():
            for path, value in {**parse_loops(name, text), **parse_listing(text)}.items():
                if len(path) <= LONGEST_PATH:
                    self._files.setdefault(path, value)
        for path in list(self._files):
            while "/" in path[1:]:
                folder, _slash, name = path.rpartition("/")
                self._children.setdefault(folder, set()).add(name)
                path = folder
