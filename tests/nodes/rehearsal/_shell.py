# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""Run commands, print progress, report problems. Private to the rehearsal tool."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence

STARTED = time.monotonic()


class Problem(Exception):
    """Something the user has to know: what was seen and what to do next."""


def say(subject: str, text: str) -> None:
    """One progress line on stderr, so that stdout stays free for results."""
    sys.stderr.write(f"[{time.monotonic() - STARTED:6.1f} s] {subject:<8} {text}\n")
    sys.stderr.flush()


def run(
    command: Sequence[str],
    *,
    check: bool = True,
    stdin: str | None = None,
    env: dict[str, str] | None = None,
    timeout: float | None = 600,
) -> subprocess.CompletedProcess[str]:
    """Run a command, capture its output, and raise Problem with the ends of it when it fails."""
    full_env = {**os.environ, "LC_ALL": "C", **(env or {})}
    try:
        done = subprocess.run(
            list(command), input=stdin, text=True, capture_output=True, env=full_env, timeout=timeout, check=False
        )
    except FileNotFoundError as error:
        raise Problem(f"The command {command[0]} is not installed on this machine.") from error
    except subprocess.TimeoutExpired as error:
        raise Problem(f"No end after {timeout} s: {' '.join(command)}") from error
    if check and done.returncode != 0:
        tail = "\n".join((done.stdout + done.stderr).strip().splitlines()[-15:])
        raise Problem(f"Exit code {done.returncode}, expected 0, of: {' '.join(command)}\n{tail}")
    return done


def as_root() -> list[str]:
    """Prefix that makes a command run as root; Problem when there is no way."""
    if os.geteuid() == 0:
        return []
    if (
        shutil.which("sudo")
        and subprocess.run(["sudo", "-n", "true"], capture_output=True, check=False).returncode == 0
    ):
        return ["sudo", "-n"]
    raise Problem(
        "This step needs root, and neither is this process root nor does 'sudo -n true' work.\n"
        "Run the same command as root, or make a docker engine usable for this user first "
        "(sudo apt-get install docker.io && sudo usermod -aG docker $USER, then log in again)."
    )


def missing_tools(names: Sequence[str]) -> list[str]:
    """The commands of this list that are not on the path (also looking in the sbin folders)."""
    path = os.environ.get("PATH", "") + ":/usr/local/sbin:/usr/sbin:/sbin"
    return [name for name in names if shutil.which(name, path=path) is None]
