# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""The generated files in .rehearsal/: ssh key, known_hosts, state.json. Private to the rehearsal tool."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ._engine import Engine
from ._settings import MODELS, SYSROOT, USER, Node, Places
from ._shell import Problem, run, say


@contextlib.contextmanager
def locked(where: Places) -> Iterator[None]:
    """One rehearsal command at a time in a checkout."""
    while True:
        where.state_dir.mkdir(mode=0o755, exist_ok=True)
        with where.lock.open("w") as handle:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                say("lock", "another rehearsal command is at work in this checkout: waiting for its end")
                fcntl.flock(handle, fcntl.LOCK_EX)
            if not _still_there(handle.fileno(), where.lock):
                continue  # the other command was `down`, which removed the file
            yield
            return


def _still_there(descriptor: int, path: Path) -> bool:
    try:
        return os.fstat(descriptor).st_ino == path.stat().st_ino
    except FileNotFoundError:
        return False


def ensure_key(where: Places) -> str:
    """The public key; makes the pair when there is none."""
    if not where.key.exists():
        say("ssh", f"making {where.key}")
        run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "gb10-rehearsal", "-f", str(where.key)])
    where.key.chmod(0o600)
    return where.key.with_suffix(".pub").read_text().strip()


def known_hosts_text(entries: dict[str, str], nodes: list[Node]) -> str:
    """entries: node name -> 'type key' as the node itself reports it."""
    return "".join(f"{node.management},{node.name} {' '.join(entries[node.name].split()[:2])}\n" for node in nodes)


def ssh_config_text(where: Places, nodes: list[Node]) -> str:
    """For a person: `ssh -F .rehearsal/ssh_config rehearsal-a`."""
    hosts = "".join(f"Host {node.name}\n  HostName {node.management}\n" for node in nodes)
    return (
        f'{hosts}Host *\n  User {USER}\n  IdentityFile "{where.key}"\n  IdentitiesOnly yes\n'
        f'  UserKnownHostsFile "{where.known_hosts}"\n  StrictHostKeyChecking yes\n'
    )


def host_keys(engine: Engine, nodes: list[Node]) -> dict[str, str]:
    """Each node's public host key, read through the docker engine and not over the network."""
    path = "/etc/ssh/gb10_rehearsal_host_key.pub"
    return {node.name: engine.docker("exec", node.container, "cat", path) for node in nodes}


def describe(engine: Engine, where: Places, nodes: list[Node], image: str) -> dict[str, Any]:
    return {
        "version": 1,
        "engine": {"docker_host": engine.docker_host, "own": engine.own, "version": engine.version},
        "image": image,
        "ssh": {"user": USER, "key": str(where.key), "known_hosts": str(where.known_hosts)},
        "sysroot": SYSROOT,
        "models": MODELS,
        "nodes": [node.describe() for node in nodes],
    }


def write_if_changed(path: Path, text: str) -> bool:
    if path.exists() and path.read_text() == text:
        return False
    fresh = path.with_name(path.name + ".new")
    fresh.write_text(text)
    fresh.replace(path)
    return True


def save(where: Places, state: dict[str, Any], known_hosts: str) -> bool:
    changed = write_if_changed(where.known_hosts, known_hosts)
    changed = write_if_changed(where.ssh_config, ssh_config_text(where, nodes_of(state))) or changed
    return write_if_changed(where.state, json.dumps(state, indent=2) + "\n") or changed


def load(where: Places) -> dict[str, Any] | None:
    try:
        state = json.loads(where.state.read_text())
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise Problem(f"{where.state} is not JSON ({error}). Remove it and run: rehearse.py up") from error
    return state if isinstance(state, dict) else None


def nodes_of(state: dict[str, Any] | None) -> list[Node]:
    return [Node(int(entry["index"])) for entry in (state or {}).get("nodes", [])]


def remove(where: Places) -> None:
    """Everything this tool put into .rehearsal/; the folder too when nothing else is in it."""
    for path in (
        where.state,
        where.known_hosts,
        where.ssh_config,
        where.key,
        where.key.with_suffix(".pub"),
        where.lock,
    ):
        path.unlink(missing_ok=True)
    where.known_hosts.with_name("known_hosts.old").unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        where.state_dir.rmdir()


def check_ssh(where: Places, nodes: list[Node]) -> None:
    """Log in to every node as Ansible does, host key checking on."""
    for node in nodes:
        command = [
            "ssh", "-F", os.devnull, "-i", str(where.key), "-o", f'UserKnownHostsFile="{where.known_hosts}"',
            "-o", "GlobalKnownHostsFile=/dev/null", "-o", "StrictHostKeyChecking=yes", "-o", "IdentitiesOnly=yes",
            "-o", "BatchMode=yes", "-o", "ConnectTimeout=5", f"{USER}@{node.management}", "sudo", "-n", "true",
        ]  # fmt: skip
        try:
            run(command, timeout=20)
        except Problem as error:
            raise Problem(f"{node.name} runs, but ssh with sudo does not work there.\n{error}") from error
