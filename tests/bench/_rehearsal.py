# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""The rehearsal nodes as a bench uses them: commands inside, shaped rails, further addresses, CPU seconds, memory."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PLAY = Path(__file__).with_name("distribution.yml")


class Failed(Exception):
    """Something that the bench needs did not work."""


class Node:
    """One node, entered as root through its container."""

    def __init__(self, state: dict[str, Any], engine: str) -> None:
        self.name: str = state["name"]
        self.rails: list[dict[str, Any]] = state["rails"]
        self._enter = ["docker", "-H", engine, "exec", "-i"]
        self.container: str = state["container"]
        wanted = ["docker", "-H", engine, "inspect", "-f", "{{.Id}} {{.State.Pid}}", self.container]
        self.id, pid = subprocess.check_output(wanted, text=True).split()
        self._space = os.readlink(f"/proc/{pid}/ns/pid")

    def argv(self, *words: str, user: str = "root") -> list[str]:
        return [*self._enter, "-u", user, self.container, *words]

    def run(self, script: str, user: str = "root", stdin: str | None = None, check: bool = True) -> str:
        done = subprocess.run(
            self.argv("sh", "-c", script, user=user), input=stdin, capture_output=True, text=True, check=False
        )
        if check and done.returncode != 0:
            raise Failed(f"{self.name}: {script[:200]!r} ended with {done.returncode}: {done.stderr[-500:]}")
        return done.stdout

    def python(self, program: str, *words: str, user: str = "spark") -> subprocess.Popen[str]:
        """A program of this folder, started inside."""
        text = Path(__file__).with_name(program).read_text()
        process = subprocess.Popen(
            self.argv("python3", "-", *words, user=user), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert process.stdin
        process.stdin.write(text)
        process.stdin.close()
        process.stdin = None
        return process

    def cpu_seconds(self) -> float:
        """CPU time of everything in the node so far."""
        old = Path(f"/sys/fs/cgroup/cpuacct/docker/{self.id}/cpuacct.usage")
        if old.exists():
            return int(old.read_text()) / 1e9
        for place in (f"docker/{self.id}", f"system.slice/docker-{self.id}.scope"):
            stat = Path("/sys/fs/cgroup") / place / "cpu.stat"
            if stat.exists():
                return int(stat.read_text().split("usage_usec", 1)[1].split()[0]) / 1e6
        raise Failed(f"{self.name}: no CPU accounting of its container under /sys/fs/cgroup")

    def processes(self) -> Iterator[int]:
        for entry in os.scandir("/proc"):
            if entry.name.isdigit():
                with contextlib.suppress(OSError):
                    if os.readlink(f"/proc/{entry.name}/ns/pid") == self._space:
                        yield int(entry.name)


def nodes() -> list[Node]:
    try:
        state = json.loads((ROOT / ".rehearsal" / "state.json").read_text())
    except OSError as error:
        raise Failed("no rehearsal nodes are up. Make them: make rehearse-up NODES=4") from error
    return [Node(node, state["engine"]["docker_host"]) for node in state["nodes"]]


def wait(process: subprocess.Popen[str], what: str) -> str:
    out, _err = process.communicate()
    if process.returncode != 0:
        raise Failed(f"{what} ended with {process.returncode}")
    return out


@contextlib.contextmanager
def shaped(members: Sequence[Node], gbps: float) -> Iterator[None]:
    """Every rail sends at this rate at most; 0 for no limit."""
    if not gbps:
        yield
        return
    devices = [(node, rail["netdev"]) for node in members for rail in node.rails]
    try:
        for node, device in devices:
            node.run(f"tc qdisc replace dev {device} root tbf rate {gbps}gbit burst 1mb latency 50ms")
        yield
    finally:
        for node, device in devices:
            node.run(f"tc qdisc del dev {device} root", check=False)


#: Which nodes share a subnet, by their numbers.
CABLINGS: dict[str, Callable[[int], list[tuple[int, ...]]]] = {
    "switch": lambda count: [tuple(range(count))],
    "line": lambda count: [(number, number + 1) for number in range(count - 1)],
    "pair": lambda count: [(one, two) for one in range(count) for two in range(one + 1, count)],
}


@contextlib.contextmanager
def cabled(members: Sequence[Node], cabling: str) -> Iterator[dict[str, list[str]]]:
    """Addresses by node for a cabling. The rails stay; a subnet for each cable stands in for the cables."""
    if cabling == "switch":
        yield {node.name: [rail["address"] for rail in node.rails] for node in members}
        return
    addresses: dict[str, list[str]] = {node.name: [] for node in members}
    made: list[tuple[Node, str, str]] = []
    try:
        for number, ends in enumerate(CABLINGS[cabling](len(members))):
            for rail in range(len(members[0].rails)):
                for last, end in enumerate(ends, start=1):
                    node, address = members[end], f"10.{77 + rail}.{number}.{last}/24"
                    device = node.rails[rail]["netdev"]
                    node.run(f"ip addr add {address} dev {device}")
                    made.append((node, address, device))
                    addresses[node.name].append(address)
        for node, _address, device in made:
            node.run(f"ip neigh flush dev {device}")  # an address may have been another node's a moment ago
        yield addresses
    finally:
        for node, address, device in made:
            node.run(f"ip addr del {address} dev {device}", check=False)


class Peak:
    """The most memory that a Python process in these nodes has had, whole process, sampled from outside."""

    def __init__(self, members: Sequence[Node]) -> None:
        self.members, self.kib, self.command = members, 0, ""
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)

    def __enter__(self) -> Peak:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._ended.set()
        self._thread.join()

    def _sample(self) -> None:
        while not self._ended.wait(0.5):
            for node in self.members:
                for pid in node.processes():
                    with contextlib.suppress(OSError, ValueError, IndexError):
                        self._look(pid)

    def _look(self, pid: int) -> None:
        status = Path(f"/proc/{pid}/status").read_text()
        if not status.startswith("Name:\tpython3"):
            return
        command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
        kib = int(status.split("VmHWM:", 1)[1].split()[0])
        if kib > self.kib and not command.startswith("python3 - "):  # this bench's own
            self.kib, self.command = kib, command[:120]


def play(members: Sequence[Node], variables: dict[str, Any], results: Path) -> dict[str, dict[str, Any]]:
    """Runs the roles as a deploy does; what they answered by node."""
    for old in results.glob("*.json"):
        old.unlink()
    environment = {**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "ANSIBLE_NOCOLOR": "1"}
    done = subprocess.run(
        [
            str(ROOT / ".venv/bin/ansible-playbook"), str(PLAY), "-i", str(ROOT / "inventories" / "rehearsal"),
            "--limit", ",".join(node.name for node in members),
            "-e", json.dumps({**variables, "bench_results": str(results)}),
        ],
        cwd=ROOT, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        raise Failed(f"the copy failed:\n{done.stdout[-3000:]}{done.stderr[-1000:]}")
    return {path.stem: json.loads(path.read_text()) for path in results.glob("*.json")}
