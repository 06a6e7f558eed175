#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""The rate of fabric_test's own TCP streams beside iperf3's on the same link, as JSON.

The link is a veth pair between two network namespaces, made here and taken away again. Needs root and iperf3. The runs
alternate, so that other load on this machine meets both; the median of each counts.

Usage: ``sudo python tests/bench/fabric.py [--rounds N] [--limit GBPS]``; exit status 1 below a ratio of 0.9.
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
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "collections"))

from ansible_collections.gb10.serving.plugins.module_utils import _fabric_stream, _offer  # noqa: E402

TARGET = 0.9
SECONDS = 1
HERE, THERE = "192.0.2.1", "192.0.2.2"
LINK = "gb10bench"


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


@contextlib.contextmanager
def link(limit: float):  # type: ignore[no-untyped-def]
    """Two namespaces joined by one rail; yields their names."""
    names = [f"gb10-bench-{side}-{os.getpid()}" for side in "ab"]
    try:
        for name in names:
            ip("netns", "add", name)
        ip("link", "add", LINK, "netns", names[0], "mtu", "9000", "type", "veth",
           "peer", "name", LINK, "netns", names[1], "mtu", "9000")  # fmt: skip
        for name, address in zip(names, (HERE, THERE), strict=True):
            ip("-n", name, "addr", "add", f"{address}/24", "dev", LINK)
            ip("-n", name, "link", "set", LINK, "up")
            if limit:
                rate = ["rate", f"{limit}gbit", "burst", "4mb", "latency", "20ms"]
                subprocess.run(["tc", "-n", name, "qdisc", "add", "dev", LINK, "root", "tbf", *rate], check=True)
        yield names
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "del", name], check=False, stderr=subprocess.DEVNULL)


def inside(name: str, *argv: str) -> list[str]:
    return ["ip", "netns", "exec", name, *argv]


def fallback(names: list[str]) -> float:
    """Gb/s of the standard library's streams: this file again, in each namespace."""
    offer = subprocess.check_output(inside(names[1], sys.executable, __file__, "--listen"), text=True)
    return float(subprocess.check_output(inside(names[0], sys.executable, __file__, "--measure", offer), text=True))


def iperf3(names: list[str]) -> float:
    """Gb/s of iperf3 with as many streams."""
    server = subprocess.Popen(inside(names[1], "iperf3", "-s", "-1"), stdout=subprocess.DEVNULL)
    try:
        time.sleep(0.3)
        argv = ["iperf3", "-c", THERE, "-t", str(SECONDS), "-P", str(_fabric_stream.STREAMS), "-Z", "-J"]
        told = json.loads(subprocess.check_output(inside(names[0], *argv), text=True))
        return float(told["end"]["sum_received"]["bits_per_second"]) / 1e9
    finally:
        server.terminate()
        server.wait()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=5, help="runs of each")
    parser.add_argument("--limit", type=float, default=0, help="shape the link to this many Gb/s")
    parser.add_argument("--listen", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.listen:
        answer = _fabric_stream.answer_stream
        print(json.dumps(_offer.open_offer(THERE, 0, [HERE], 5, lambda _session: answer, device=LINK)))
        return 0
    if options.measure:
        offer = json.loads(options.measure)
        end = _fabric_stream.End(LINK, HERE, THERE, offer["port"], offer["token"])
        print(_fabric_stream.measure([end], True, SECONDS) / 1e9)
        return 0
    if os.geteuid() != 0 or shutil.which("iperf3") is None:
        print("needs root and iperf3: apt install iperf3, then run this with sudo", file=sys.stderr)
        return 2
    with link(options.limit) as names:
        rounds = [(fallback(names), iperf3(names)) for _round in range(options.rounds)]
    ours, theirs = (statistics.median(rates) for rates in zip(*rounds, strict=True))
    result = {"fallback_gbps": round(ours, 2), "iperf3_gbps": round(theirs, 2), "ratio": round(ours / theirs, 3)}
    print(json.dumps({**result, "rounds": options.rounds, "limit_gbps": options.limit or None, "target": TARGET}))
    return 0 if result["ratio"] >= TARGET else 1


if __name__ == "__main__":
    sys.exit(main())
