#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""Process 1 of a rehearsal node: set up, start sshd and dockerd, reap children, end fast. It restarts nothing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import FrameType
from typing import Any

USER = "spark"
READY = Path("/run/gb10-rehearsal-ready")
SSHD_CONFIG = f"""\
Port 22
HostKey /etc/ssh/gb10_rehearsal_host_key
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin no
AllowUsers {USER}
UsePAM no
UseDNS no
MaxStartups 200
MaxSessions 100
PrintMotd no
AcceptEnv LANG LC_*
Subsystem sftp internal-sftp
"""


def log(text: str) -> None:
    print(f"node_init: {text}", flush=True)


def call(*command: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(command, text=True, capture_output=True, check=False)
    if check and done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: exit code {done.returncode}: {done.stderr.strip()}")
    return done


def rename_rails(rails: list[dict[str, Any]]) -> None:
    """Give each rail's interface the name it has on a GB10; the interface is found by its address."""
    for rail in rails:
        current = interface_of(rail["address"])
        if current is None:
            raise RuntimeError(f"no interface has the address {rail['address']}")
        if current == rail["netdev"]:
            continue
        if call("ip", "link", "set", current, "name", rail["netdev"], check=False).returncode != 0:
            # Kernels before 6.2 want the interface down; its IPv4 address stays.
            call("ip", "link", "set", current, "down")
            call("ip", "link", "set", current, "name", rail["netdev"])
            call("ip", "link", "set", rail["netdev"], "up")
        call("ip", "link", "set", rail["netdev"], "mtu", str(rail["mtu"]))


def interface_of(address: str) -> str | None:
    ip_only = address.split("/")[0]
    for link in json.loads(call("ip", "-j", "-4", "addr").stdout):
        if any(entry.get("local") == ip_only for entry in link.get("addr_info", [])):
            return str(link["ifname"])
    return None


def open_kernel_files() -> None:
    """Make cgroups and sysctls writable, as a dockerd in a container needs them."""
    call("mount", "-o", "remount,rw", "/proc/sys", check=False)
    with open("/proc/mounts", encoding="utf-8") as mounts:
        cgroups = [f[1] for f in (line.split() for line in mounts) if f[2] in ("cgroup", "cgroup2")]
    for point in cgroups:
        if call("mount", "-o", "remount,bind,rw", point, check=False).returncode != 0:
            call("mount", "-o", "remount,rw", point, check=False)
    nest_cgroup2(Path("/sys/fs/cgroup"))


def nest_cgroup2(top: Path) -> None:
    """On cgroup v2: move every process into a child group, then hand all controllers to the children."""
    controllers = top / "cgroup.controllers"
    if not controllers.exists():
        return
    inner = top / "init"
    inner.mkdir(exist_ok=True)
    for _attempt in range(5):
        pids = (top / "cgroup.procs").read_text().split()
        for pid in pids:
            try:
                (inner / "cgroup.procs").write_text(pid)
            except OSError:
                continue
        try:
            wanted = " ".join(f"+{name}" for name in controllers.read_text().split())
            (top / "cgroup.subtree_control").write_text(wanted)
            return
        except OSError as error:
            log(f"cgroup.subtree_control: {error}")
            time.sleep(0.1)


def make_user(authorized_key: str) -> None:
    if call("id", USER, check=False).returncode != 0:
        call("useradd", "--create-home", "--shell", "/bin/bash", "--uid", "1000", USER)
        call("usermod", "--password", "*", USER)
    home = Path(f"/home/{USER}")
    ssh = home / ".ssh"
    ssh.mkdir(mode=0o700, exist_ok=True)
    (ssh / "authorized_keys").write_text(authorized_key + "\n")
    (ssh / "authorized_keys").chmod(0o600)
    (home / "models").mkdir(exist_ok=True)
    call("chown", "-R", f"{USER}:{USER}", str(ssh), str(home / "models"))
    sudoers = Path("/etc/sudoers.d/gb10-rehearsal")
    sudoers.write_text(f"{USER} ALL=(ALL) NOPASSWD: ALL\n")
    sudoers.chmod(0o440)
    Path("/etc/sudo.conf").write_text("Set disable_coredump false\n")


def start_sshd() -> None:
    Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    if not Path("/etc/ssh/gb10_rehearsal_host_key").exists():
        call("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", "/etc/ssh/gb10_rehearsal_host_key")
    Path("/etc/ssh/sshd_config").write_text(SSHD_CONFIG)
    log_file = open("/var/log/sshd.log", "ab")  # noqa: SIM115 - sshd keeps it
    subprocess.Popen(["/usr/sbin/sshd", "-D", "-e"], stdin=subprocess.DEVNULL, stdout=log_file, stderr=log_file)


def start_dockerd() -> None:
    for pid_file in ("/var/run/docker.pid", "/run/docker/containerd/containerd.pid"):
        Path(pid_file).unlink(missing_ok=True)
    command = ["dockerd", "--exec-opt", "native.cgroupdriver=cgroupfs"]
    if call("iptables", "-t", "nat", "-L", "-n", check=False).returncode != 0:
        log("iptables does not work here: containers of this node have host networking only")
        command += ["--iptables=false", "--bridge=none"]
    log_file = open("/var/log/dockerd.log", "ab")  # noqa: SIM115 - dockerd keeps it
    subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log_file, stderr=log_file)


def end(_number: int, _frame: FrameType | None) -> None:
    """On SIGTERM: ask everybody to end, wait a moment; the kernel ends the rest together with this process."""
    os.kill(-1, signal.SIGTERM)
    deadline = time.monotonic() + 1.5
    while time.monotonic() < deadline:
        try:
            pid, _status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            break
        if pid == 0:
            time.sleep(0.05)
    os._exit(0)


def reap_forever() -> None:
    while True:
        try:
            pid, status = os.waitpid(-1, 0)
        except ChildProcessError:
            time.sleep(1)
            continue
        command_end = os.waitstatus_to_exitcode(status)
        if command_end != 0:
            log(f"process {pid} ended with {command_end}")


def main() -> None:
    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, end)
    config = json.loads(os.environ["GB10_REHEARSAL_NODE"])
    READY.unlink(missing_ok=True)
    open_kernel_files()
    rename_rails(config["rails"])
    make_user(os.environ["GB10_REHEARSAL_KEY"])
    start_sshd()
    start_dockerd()
    refresh = Path("/usr/local/sbin/gb10-sysroot")
    refresh.write_text('#!/bin/sh\nexec /usr/bin/python3 /usr/local/lib/gb10-rehearsal/gb10_sysroot.py "$@"\n')
    refresh.chmod(0o755)
    Path("/etc/gb10-rehearsal.json").write_text(json.dumps(config))
    call(str(refresh))
    READY.touch()
    log("ready")
    reap_forever()


if __name__ == "__main__":
    try:
        main()
    except (OSError, RuntimeError, KeyError, ValueError) as failure:
        log(f"failed: {failure}")
        sys.exit(1)
