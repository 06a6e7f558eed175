# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""A model on the head, and a run of the distribution that can be watched, disturbed and repeated."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[4]
HEAD, OTHER, THIRD = "rehearsal-a", "rehearsal-b", "rehearsal-c"
RAILS = ("enp1s0f0np0", "enP2p1s0f0np0")
PLACE = "/home/spark/gb10-distribute"
NODES = (HEAD, OTHER, THIRD)
SIZE, SHARDS = 600_000_000, 8
ENV = {**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "ANSIBLE_NOCOLOR": "1", "ANSIBLE_FORCE_COLOR": "0"}
LISTING = "find . -type f ! -name '.gb10*' | sort | xargs sha256sum"
#: What a copy may leave only as long as it runs.
REMAINS = "ls -d /tmp/gb10-job-* /tmp/gb10-offer-* /opt/gb10-serving/.deploy-lock.json 2>/dev/null; true"
MAKE = """
import json, os, sys
folder, size, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
os.makedirs(folder, exist_ok=True)
index = {}
for number in range(1, count + 1):
    name, tensor, part = f"model-{number:05d}-of-{count:05d}.safetensors", f"layer.{number}.weight", size // count
    head = json.dumps({tensor: {"dtype": "U8", "shape": [part], "data_offsets": [0, part]}}).encode()
    index[tensor] = name
    with open(os.path.join(folder, name), "wb") as stream:
        stream.write(len(head).to_bytes(8, "little") + head + os.urandom(part))
config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama"}
for name, value in (("model.safetensors.index.json", {"weight_map": index}), ("config.json", config)):
    with open(os.path.join(folder, name), "w") as stream:
        json.dump(value, stream)
"""


def shell(host: str, script: str, stdin: str | None = None, user: str = "root") -> str:
    """Run a script on a node."""
    done = subprocess.run(
        ["ssh", "-F", str(ROOT / ".rehearsal" / "ssh_config"), host, f"sudo -u {user} sh -c {shlex.quote(script)}"],
        input=stdin or "",  # else ssh makes the input of everybody here non-blocking
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, f"{host}: {script}: {done.stdout}{done.stderr}"
    return done.stdout


def until(what: str, condition: Callable[[], object], seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.2)


@contextmanager
def wrong(make: str, mend: str, host: str = OTHER) -> Iterator[None]:
    shell(host, make)
    try:
        yield
    finally:
        shell(host, mend)


@contextmanager
def slow(mbit: int = 400, host: str = HEAD) -> Iterator[None]:
    """Rails on which the copy takes long enough to be disturbed."""
    add = "; ".join(f"tc qdisc replace dev {rail} root tbf rate {mbit}mbit burst 1mb latency 50ms" for rail in RAILS)
    with wrong(add, "; ".join(f"tc qdisc del dev {rail} root" for rail in RAILS), host):
        yield


def inventory(path: Path, hosts: Collection[str]) -> Path:
    """The rehearsal's inventory with only these hosts in its group."""
    source = ["ansible-inventory", "-i", str(ROOT / "inventories" / "rehearsal"), "--list"]
    listing = json.loads(subprocess.check_output(source, env=ENV, cwd=ROOT, text=True))
    listing["sparks"]["hosts"] = list(hosts)
    path.write_text(f"#!/bin/sh\ncat << 'END'\n{json.dumps(listing)}\nEND\n")
    path.chmod(0o755)
    return path


class Run:
    """One run of the distribution over the hosts that have a path."""

    def __init__(self, paths: dict[str, str], log: Path, *flags: str, **extra: Any) -> None:
        variables = {
            "gb10_model_id": "gb10/distribute", "gb10_model_dir": "{{ test_paths[inventory_hostname] }}",
            "gb10_image_ref": "gb10-rehearsal/vllm:cpu", "test_paths": paths, "__gb10_offer_idle": 8, **extra,
        }  # fmt: skip
        self.log = log
        with log.open("w") as stream:
            self.process = subprocess.Popen(
                [
                    "ansible-playbook", str(Path(__file__).with_name("distribute.yml")),
                    "-i", str(inventory(log.with_suffix(".sh"), paths)), "-e", json.dumps(variables), *flags,
                ],
                env=ENV, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=stream, stderr=subprocess.STDOUT,
                start_new_session=True,
            )  # fmt: skip

    @property
    def output(self) -> str:
        return " ".join(self.log.read_text().split())

    def passes(self, host: str = OTHER) -> dict[str, Any]:
        """What this receiver's copy answered; empty when nobody needed one."""
        code = self.process.wait(timeout=150)
        assert code == 0, self.log.read_text()[-6000:]
        found = re.search(rf"MOVED {host} (\{{.*?\}}) END", self.output)
        return dict(json.loads(found.group(1))) if found else {}

    def stops(self, *words: str) -> None:
        code = self.process.wait(timeout=150)
        output = self.output
        assert code != 0, output[-3000:]
        missing = [word for word in words if word not in output]
        assert not missing, f"not said: {missing}\n{self.log.read_text()[-6000:]}"
        assert "Traceback" not in output

    def kill(self, number: signal.Signals) -> None:
        """What a person who closes the terminal, or the kernel, does to the whole run."""
        os.killpg(self.process.pid, number)
        self.process.wait(timeout=60)


class Distribution:
    """The model's places on both nodes."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.target, self.count = folder, f"{PLACE}/target/model", 0
        self.source = f"{PLACE}/source/model"

    def run(self, *flags: str, receivers: Collection[str] = (OTHER,), **extra: Any) -> Run:
        self.count += 1
        paths = {HEAD: self.source, **dict.fromkeys(receivers, self.target)}
        return Run(paths, self.folder / f"run{self.count}.log", *flags, **extra)

    def staged(self, host: str = OTHER) -> int:
        """Bytes that have come to the receiver so far."""
        name = os.path.dirname(self.target)
        said = shell(host, f"du -sk {name} 2>/dev/null | cut -f 1; true").split()
        return int(said[0]) * 1024 if said else 0

    def comes(self, run: Run, size: int = SIZE // 6, host: str = OTHER) -> None:
        def look() -> bool:
            assert run.process.poll() is None, run.log.read_text()[-4000:]
            return self.staged(host) > size

        until("the copy is on its way", look, 60)

    def whole(self, host: str = OTHER) -> None:
        """Byte for byte the same, and nothing beside it."""
        assert shell(host, f"cd {self.target} && {LISTING}") == shell(HEAD, f"cd {self.source} && {LISTING}")
        assert shell(host, f"ls -A {os.path.dirname(self.target)}").split() == ["model"]

    def clear(self) -> None:
        for host in NODES[1:]:
            shell(host, f"rm -rf {PLACE}/target; mkdir -p {PLACE}/target", user="spark")


def offering(host: str) -> int:
    """The process that hands a model on."""
    return int(
        shell(
            host, "for p in /proc/[0-9]*; do ls -l $p/fd 2>/dev/null | grep -q /gb10-offer- && basename $p; done; true"
        )
    )


def remains() -> str:
    return "".join(shell(host, REMAINS) for host in NODES)


@pytest.fixture(scope="module")
def model() -> Iterator[None]:
    try:
        shell(HEAD, f"python3 - {PLACE}/source/model {SIZE} {SHARDS}", stdin=MAKE, user="spark")
        yield
    finally:
        for host in NODES:
            shell(host, f"rm -rf {PLACE}")


@pytest.fixture
def distribution(model: None, tmp_path: Path) -> Iterator[Distribution]:
    """Begins without a copy, and ends with no job, offer or lock on any node."""
    found = Distribution(tmp_path)
    found.clear()
    yield found
    until("nothing is left on the nodes", lambda: not remains(), 30)
