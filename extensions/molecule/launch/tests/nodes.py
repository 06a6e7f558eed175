# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""The rehearsal nodes as the tests of starts see them: commands, logs with their times, and what answers there."""

from __future__ import annotations

import json
import shlex
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parents[4]
HEAD, OTHER = NODES = ("rehearsal-a", "rehearsal-b")
PORT = 8000
LABELS = '{{.Id}} {{index .Config.Labels "gb10.serving/release"}} {{.State.Running}} {{.Config.Image}}'

#: Asks the endpoint as a user's program would.
ASK = """
import json, urllib.request
def get(path, body=None):
    request = urllib.request.Request(f"http://127.0.0.1:PORT{path}", body, {"Content-Type": "application/json"})
    return json.load(urllib.request.urlopen(request, timeout=60))
model = get("/v1/models")["data"][0]["id"]
body = {"model": model, "messages": [{"role": "user", "content": "hello"}], "max_tokens": 4, "temperature": 0}
print(json.dumps(get("/v1/chat/completions", json.dumps(body).encode())["usage"]))
"""


def ssh(host: str, script: str) -> list[str]:
    return ["ssh", "-F", str(ROOT / ".rehearsal" / "ssh_config"), host, f"sudo -n sh -c {shlex.quote(script)}"]


def shell(host: str, script: str, check: bool = True) -> str:
    """Run a script as root on a node."""
    done = subprocess.run(ssh(host, script), capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0 or not check, f"{host}: {script}: {done.stdout}{done.stderr}"
    return done.stdout


def kill_worker(pid: str) -> float:
    """Kill the process of rank 1 that computes, by its number in the container; when, by the clock that all share."""
    kill = shlex.quote(f"import os; os.kill({int(pid)}, 9)")
    return float(shell(OTHER, f"date +%s.%N; docker exec gb10-main-rank1 python3 -c {kill}").split()[0])


def until(what: str, condition: Callable[[], object], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.1)


@contextmanager
def wrong(make: str, mend: str, *hosts: str) -> Iterator[None]:
    """Something is wrong on these nodes for a while."""
    try:
        for host in hosts:
            shell(host, make)
        yield
    finally:
        for host in hosts:
            shell(host, mend)


@dataclass(frozen=True)
class Serving:
    """What answers on the endpoint: one release, whose containers these are."""

    release: str
    image: str
    containers: tuple[str, ...]


def serving() -> Serving | None:
    """What serves now: both ranks run one release, and a completion comes. None when it is not so."""
    seen = []
    for rank, host in enumerate(NODES):
        words = shell(host, f"docker inspect -f '{LABELS}' gb10-main-rank{rank}", check=False).split()
        if len(words) != 4 or words[2] != "true":
            return None
        seen.append(words)
    if len({words[1] for words in seen}) != 1 or not completes():
        return None
    return Serving(seen[0][1], seen[0][3], tuple(words[0] for words in seen))


def completes(port: int = PORT) -> bool:
    """Whether a completion of at least one token comes from the head."""
    said = shell(HEAD, f"python3 -c {shlex.quote(ASK.replace('PORT', str(port)))} 2>/dev/null", check=False)
    return bool(said) and json.loads(said)["completion_tokens"] > 0


@dataclass(frozen=True)
class Line:
    """A line and when it was written, in seconds since 1970."""

    at: float
    text: str


class Log:
    """The log of a rank's next release, read while it is written; of a container that is removed it stays."""

    def __init__(self, rank: int, before: str) -> None:
        name = f"gb10-main-rank{rank}"
        script = (
            f"until docker inspect -f '{LABELS}' {name} 2>/dev/null | grep -v ' {before} ' | grep -q .; do sleep 0.3; "
            f"done; exec docker logs -f --timestamps {name} 2>&1"
        )
        self.rank = rank
        self.lines: list[Line] = []
        self.process = subprocess.Popen(
            ssh(NODES[rank], script), stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True, errors="replace"
        )
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            stamp, _space, text = line.rstrip("\n").partition(" ")
            try:
                at = datetime.fromisoformat(f"{stamp[:26].rstrip('Z')}+00:00").timestamp()
            except ValueError:
                continue
            self.lines.append(Line(at, text))

    def first(self, words: str) -> Line | None:
        return next((line for line in self.lines if words in line.text), None)

    def last(self, before: float) -> Line | None:
        return next((line for line in reversed(self.lines) if line.at < before), None)

    def comes(self, words: str, seconds: float = 240) -> Line:
        until(f"rank {self.rank} says {words!r}", lambda: self.first(words), seconds)
        found = self.first(words)
        assert found
        return found

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
