#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""The rate of fabric_test's own TCP streams beside iperf3's on the same link, as JSON.

The link is rail 0 of the first two rehearsal nodes (--nodes; iperf3 and the streams run in the nodes' network
namespaces), or a veth pair between two namespaces, made here and taken away again. Needs root and iperf3. The runs
alternate, so that other load on this machine meets both; the median of each counts.

    sudo .venv/bin/python tests/bench/fabric.py --nodes [--rounds N]
    sudo .venv/bin/python tests/bench/fabric.py [--rounds N] [--limit GBPS]

The status is 1 below a ratio of TARGET.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "collections"))

from ansible_collections.gb10.serving.plugins.module_utils import _fabric_stream, _offer  # noqa: E402

TARGET = 0.9
SECONDS = 1
LINK = "gb10bench"


@dataclass(frozen=True)
class Side:
    """One end of the link: how to run something there, and what it is called there."""

    enter: list[str]
    address: str
    device: str

    def argv(self, *words: str) -> list[str]:
        return [*self.enter, *words]


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


@contextlib.contextmanager
def own_link(limit: float) -> Iterator[list[Side]]:
    """Two namespaces joined by one rail."""
    names = [f"gb10-bench-{side}-{os.getpid()}" for side in "ab"]
    sides = [
        Side(["ip", "netns", "exec", name], f"192.0.2.{number}", LINK) for number, name in enumerate(names, start=1)
    ]
    try:
        for name in names:
            ip("netns", "add", name)
        ip("link", "add", LINK, "netns", names[0], "mtu", "9000", "type", "veth",
           "peer", "name", LINK, "netns", names[1], "mtu", "9000")  # fmt: skip
        for name, side in zip(names, sides, strict=True):
            ip("-n", name, "addr", "add", f"{side.address}/24", "dev", LINK)
            ip("-n", name, "link", "set", LINK, "up")
            if limit:
                rate = ["rate", f"{limit}gbit", "burst", "4mb", "latency", "20ms"]
                subprocess.run(["tc", "-n", name, "qdisc", "add", "dev", LINK, "root", "tbf", *rate], check=True)
        yield sides
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "del", name], check=False, stderr=subprocess.DEVNULL)


@contextlib.contextmanager
def node_link() -> Iterator[list[Side]]:
    """Rail 0 of the first two rehearsal nodes, entered from this machine."""
    state = json.loads((ROOT / ".rehearsal" / "state.json").read_text())
    sides = []
    for node in state["nodes"][:2]:
        inspect = ["docker", "-H", state["engine"]["docker_host"], "inspect", "-f", "{{.State.Pid}}", node["container"]]
        pid = subprocess.check_output(inspect, text=True).strip()
        rail = node["rails"][0]
        sides.append(Side(["nsenter", "-t", pid, "-n"], rail["address"].partition("/")[0], rail["netdev"]))
    yield sides


def fallback(here: Side, there: Side) -> float:
    """Gb/s of the standard library's streams: this file again, at each end."""
    ends = json.dumps([asdict(here), asdict(there)])
    offer = subprocess.check_output(there.argv(sys.executable, __file__, "--ends", ends), text=True)
    measure = here.argv(sys.executable, __file__, "--offer", offer, "--ends", ends)
    return float(subprocess.check_output(measure, text=True))


def iperf3(here: Side, there: Side) -> float:
    """Gb/s of iperf3 with as many streams."""
    server = subprocess.Popen(there.argv("iperf3", "-s", "-1", "-B", there.address), stdout=subprocess.DEVNULL)
    try:
        time.sleep(0.3)
        argv = ["-c", there.address, "-t", str(SECONDS), "-P", str(_fabric_stream.STREAMS), "-Z", "-J"]
        told = json.loads(subprocess.check_output(here.argv("iperf3", *argv), text=True))
        return float(told["end"]["sum_received"]["bits_per_second"]) / 1e9
    finally:
        server.terminate()
        server.wait()


def at_one_end(ends: str, offered: str | None) -> None:
    """What runs inside: listen, or measure against an offer."""
    here, there = (Side(**end) for end in json.loads(ends))
    if offered is None:
        answer = _fabric_stream.answer_stream
        offer = _offer.open_offer(there.address, 0, [here.address], 5, lambda _session: answer, device=there.device)
        print(json.dumps(offer))
        return
    offer = json.loads(offered)
    end = _fabric_stream.End(here.device, here.address, there.address, offer["port"], offer["token"])
    print(_fabric_stream.measure([end], True, SECONDS) / 1e9)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--nodes", action="store_true", help="use rail 0 of the rehearsal nodes that are up")
    parser.add_argument("--rounds", type=int, default=5, help="runs of each")
    parser.add_argument("--limit", type=float, default=0, help="shape the link to this many Gb/s; not with --nodes")
    parser.add_argument("--ends", help=argparse.SUPPRESS)
    parser.add_argument("--offer", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.ends:
        at_one_end(options.ends, options.offer)
        return 0
    if os.geteuid() != 0 or shutil.which("iperf3") is None:
        print("needs root and iperf3: apt install iperf3, then run this with sudo", file=sys.stderr)
        return 2
    with node_link() if options.nodes else own_link(options.limit) as sides:
        rounds = [(fallback(*sides), iperf3(*sides)) for _round in range(options.rounds)]
    ours, theirs = (statistics.median(rates) for rates in zip(*rounds, strict=True))
    result = {"fallback_gbps": round(ours, 2), "iperf3_gbps": round(theirs, 2), "ratio": round(ours / theirs, 3)}
    where = "rehearsal nodes, rail 0" if options.nodes else "namespaces"
    limit = options.limit or None
    print(json.dumps({**result, "link": where, "rounds": options.rounds, "limit_gbps": limit, "target": TARGET}))
    return 0 if result["ratio"] >= TARGET else 1


if __name__ == "__main__":
    sys.exit(main())
