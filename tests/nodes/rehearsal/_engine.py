# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""The docker engine of this machine: use the one at hand, else run one of our own. Private to the rehearsal tool."""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from . import _packages
from ._settings import PREFIX, Places
from ._shell import Problem, as_root, missing_tools, run, say

START_SECONDS = 60
STOP_SECONDS = 30


@dataclass(frozen=True)
class Engine:
    """A docker engine that answers."""

    docker_host: str
    own: bool
    version: str

    def docker(self, *args: str, check: bool = True, stdin: str | None = None, timeout: float = 600) -> str:
        done = run(["docker", *args], check=check, stdin=stdin, timeout=timeout, env=self.env())
        return done.stdout.strip()

    def try_docker(self, *args: str) -> subprocess.CompletedProcess[str]:
        return run(["docker", *args], check=False, env=self.env())

    def env(self) -> dict[str, str]:
        return {"DOCKER_HOST": self.docker_host}


def server_version(docker_host: str | None) -> str | None:
    """The version of the server at this address (None: the client's default), or None when nothing answers."""
    if missing_tools(["docker"]):
        return None
    env = {"DOCKER_HOST": docker_host} if docker_host else {}
    done = run(["docker", "version", "--format", "{{.Server.Version}}"], check=False, env=env, timeout=30)
    version = done.stdout.strip()
    return version if done.returncode == 0 and version and "<no value>" not in version else None


def default_host() -> str:
    """The address which the docker client uses by default."""
    if os.environ.get("DOCKER_HOST"):
        return os.environ["DOCKER_HOST"]
    done = run(["docker", "context", "inspect", "--format", "{{.Endpoints.docker.Host}}"], check=False)
    return done.stdout.strip() or "unix:///var/run/docker.sock"


def own_pid(where: Places) -> int | None:
    """The process id of the engine that this checkout started, when it is alive."""
    try:
        pid = int(where.pid_file.read_text())
        command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except (OSError, ValueError):
        return None
    return pid if str(where.data_root).encode() in command else None


def crashed(where: Places) -> bool:
    """Whether our own engine ended (crash, reboot) while it still had containers."""
    containers = where.data_root / "containers"
    return own_pid(where) is None and containers.is_dir() and any(containers.iterdir())


def find(where: Places) -> Engine | None:
    """The engine in use: our own when it runs, else the machine's. Starts nothing."""
    if own_pid(where) is not None:
        host = f"unix://{where.socket}"
        version = server_version(host)
        return Engine(host, True, version) if version else None
    version = server_version(None)
    return Engine(default_host(), False, version) if version else None


def ensure(where: Places) -> Engine:
    """Find an engine; when none answers, install and start one."""
    engine = None if crashed(where) else find(where)
    if engine:
        say("engine", f"docker {engine.version} at {engine.docker_host}" + (" (own)" if engine.own else ""))
        return engine
    if missing_tools(["dockerd", "docker", "iptables", "ip"]):
        _packages.install_engine()
        engine = find(where)
        if engine:
            say("engine", f"docker {engine.version} at {engine.docker_host}, just installed")
            return engine
    return _start(where)


def command_line(where: Places, group: int | None) -> list[str]:
    """dockerd's arguments: nothing outside of its own folders, no firewall rules, no docker0."""
    command = [
        "dockerd",
        "--data-root", str(where.data_root),
        "--exec-root", str(where.run_dir / "exec"),
        "--host", f"unix://{where.socket}",
        "--pidfile", str(where.pid_file),
        "--config-file", str(where.run_dir / "daemon.json"),
        "--containerd-namespace", PREFIX,
        "--containerd-plugins-namespace", f"{PREFIX}-plugins",
        "--bridge", "none",
        "--iptables=false",
        "--ip-forward=false",
        "--exec-opt", "native.cgroupdriver=cgroupfs",
    ]  # fmt: skip
    return command if group is None else [*command, "--group", str(group)]


def _start(where: Places) -> Engine:
    root = as_root()
    say("engine", f"no docker engine answers: starting one (data in {where.data_root}, log {where.engine_log})")
    where.cache.mkdir(parents=True, exist_ok=True)
    run([*root, "mkdir", "-p", "-m", "0755", str(where.run_dir)])
    _end_orphans(where)
    _unmount_below(where.run_dir)
    _unmount_below(where.data_root)
    # A killed dockerd leaves its pid file; the next one would refuse to start while that number is in use.
    run([*root, "rm", "-rf", str(where.pid_file), str(where.socket), str(where.run_dir / "exec")])
    run([*root, "tee", str(where.run_dir / "daemon.json")], stdin="{}\n")
    group = os.getgid() if root else None
    with where.engine_log.open("ab") as log:
        daemon = subprocess.Popen(
            [*root, *command_line(where, group)],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, cwd="/",
            env={**os.environ, "PATH": os.environ.get("PATH", "") + ":/usr/sbin:/sbin"},
        )  # fmt: skip
    host = f"unix://{where.socket}"
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end:
        version = server_version(host) if where.socket.exists() else None
        if version:
            say("engine", f"docker {version} at {host} (own)")
            return Engine(host, True, version)
        if daemon.poll() is not None:
            break
        time.sleep(0.2)
    tail = "\n".join(where.engine_log.read_text(errors="replace").splitlines()[-8:])
    stop(where)
    raise Problem(f"dockerd did not answer at {host} within {START_SECONDS} s. End of {where.engine_log}:\n{tail}")


def stop(where: Places) -> bool:
    """Stop our own engine, if any, and remove its run-time folder."""
    pid = own_pid(where)
    if pid is not None:
        say("engine", f"stopping our own dockerd (process {pid})")
        run([*as_root(), "kill", str(pid)])
        if not _gone(pid, STOP_SECONDS):
            run([*as_root(), "kill", "-9", str(pid)], check=False)
            _gone(pid, 5)
    _end_orphans(where)
    if where.run_dir.exists():
        _unmount_below(where.run_dir)
        run([*as_root(), "rm", "-rf", "--one-file-system", str(where.run_dir)])
    _unmount_below(where.data_root)
    return pid is not None


def _gone(pid: int, seconds: float) -> bool:
    """Wait for a process's end; one that only waits to be reaped by somebody else has ended."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)
        if not _read(pid, "cmdline"):
            return True
        time.sleep(0.1)
    return False


def _read(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""


def is_orphan(where: Places, cmdline: bytes, environ: bytes, mountinfo: bytes) -> bool:
    """A process that our own engine left: a containerd or shim of it, or a node whose files lie in its data root."""
    helper = cmdline.split(b"\0")[0].rsplit(b"/")[-1].startswith(b"containerd")
    if helper and f"{where.run_dir}/exec/".encode() in cmdline:
        return True
    return b"GB10_REHEARSAL_NODE=" in environ and f"{where.data_root}/".encode() in mountinfo


def _end_orphans(where: Places) -> None:
    """After a crash of our own dockerd its containers live on, and no new dockerd would find all of them."""
    if own_pid(where) is not None:
        return
    pids = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    orphans = [p for p in pids if is_orphan(where, *(_read(p, name) for name in ("cmdline", "environ", "mountinfo")))]
    if orphans:
        say("engine", f"ending {len(orphans)} processes that a crashed dockerd left")
        run([*as_root(), "kill", "-9", *map(str, orphans)], check=False)
        for pid in orphans:
            _gone(pid, 5)


def _unmount_below(folder: Path) -> None:
    with open("/proc/mounts", encoding="utf-8") as mounts:
        points = [line.split()[1] for line in mounts]
    for point in sorted((p for p in points if p == str(folder) or p.startswith(f"{folder}/")), reverse=True):
        run([*as_root(), "umount", "-l", point], check=False)
