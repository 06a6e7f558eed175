#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""What one probe of a live node costs against an empty module run, as JSON.

Both run in turns in one ansible-playbook, so that connection, load and caches are the same for both; the first turn
only warms up. The status is 1 when a probe costs more than TARGET empty runs.

    .venv/bin/python tests/bench/probe.py                       # the first node of the rehearsal
    .venv/bin/python tests/bench/probe.py -i HOSTS --host NAME  # any other node
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from collections import defaultdict
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
TARGET = 1.5
KINDS: dict[str, dict[str, Any]] = {
    # nothing but a module run
    "empty": {"ansible.builtin.ping": {}},
    # everything, as the roles ask for it: hardware from the inventory's sysroot, the rest live
    "probe": {"gb10.serving.gb10_facts": {"sysroot": "{{ gb10_sysroot | default('/') }}"}},
    # everything from the node itself
    "probe_of_the_node_itself": {"gb10.serving.gb10_facts": {"sysroot": "/"}},
}


def playbook(host: str, rounds: int, become: bool) -> list[dict[str, Any]]:
    """Rounds of all kinds in turns, after one round that warms up."""
    tasks = [{"name": f"{kind} {turn}", **task} for turn in range(rounds + 1) for kind, task in KINDS.items()]
    return [{"name": "bench", "hosts": host, "gather_facts": False, "become": become, "tasks": tasks}]


def seconds_of(report: str) -> dict[str, list[float]]:
    """Seconds of each kind, without the first turn, out of a JUnit report."""
    found: dict[str, list[float]] = defaultdict(list)
    # our own file, written by ansible-core a moment ago
    for case in ElementTree.fromstring(report).iter("testcase"):
        match = re.search(r"\b(\w+) (\d+)$", case.get("name", ""))
        if match and match.group(1) in KINDS and int(match.group(2)) > 0:
            found[match.group(1)].append(float(case.get("time", "nan")))
    return dict(found)


def summary(seconds: dict[str, list[float]]) -> dict[str, Any]:
    """Medians and ratios."""
    medians = {kind: statistics.median(values) for kind, values in seconds.items()}
    ratios = {kind: round(value / medians["empty"], 2) for kind, value in medians.items() if kind != "empty"}
    return {
        "seconds": {kind: round(value, 3) for kind, value in medians.items()},
        "range": {kind: [round(min(values), 3), round(max(values), 3)] for kind, values in seconds.items()},
        "ratio": ratios,
        "target": TARGET,
        "met": max(ratios.values()) <= TARGET,
    }


def measure(inventory: str, host: str, rounds: int, become: bool) -> dict[str, list[float]]:
    """Run the playbook and read its seconds."""
    with tempfile.TemporaryDirectory() as folder:
        book = Path(folder) / "bench.json"
        book.write_text(json.dumps(playbook(host, rounds, become)))
        env = {
            **os.environ,
            "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
            "ANSIBLE_CALLBACKS_ENABLED": "ansible.builtin.junit",
            "JUNIT_OUTPUT_DIR": folder,
            "JUNIT_HIDE_TASK_ARGUMENTS": "true",
        }
        done = subprocess.run(
            [BIN / "ansible-playbook", "-i", inventory, book],
            cwd=ROOT,
            env=env,
            text=True,
            capture_output=True,
            check=False,
        )
        reports = list(Path(folder).glob("*.xml"))
        if done.returncode != 0 or not reports:
            sys.exit(
                f"probe.py: ansible-playbook ended with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
            )
        return seconds_of(reports[0].read_text())


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("-i", "--inventory", default="inventories/rehearsal", help="default: the rehearsal")
    parser.add_argument("--host", default="sparks[0]", help="default: the first of the group sparks")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--no-become", dest="become", action="store_false", help="run both without sudo")
    options = parser.parse_args()
    result = summary(measure(options.inventory, options.host, options.rounds, options.become))
    print(json.dumps({"bench": "probe", "host": options.host, "rounds": options.rounds, **result}, indent=2))
    return 0 if result["met"] else 1


if __name__ == "__main__":
    sys.exit(main())
