#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""How well causes are named: a confusion table over a directory of logs with an index, as JSON.

The index is a Markdown table `| file | kind | cause |`; `a|b` accepts both, `none` means that nothing is wrong. A
fourth column may name the logs of the other ranks, which are then read too. Exact is the first cause, accepted any.

    .venv/bin/python tests/bench/log_causes.py [DIRECTORY] [--wrong-only]
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "collections"))

from ansible_collections.gb10.serving.plugins.module_utils._engine_log import classify, of_all

FIXTURES = Path(__file__).resolve().parents[1] / "unit" / "fixtures" / "engine_logs"
ROW = re.compile(
    r"\| (?P<file>\S+\.(?:txt|log)) \| (?P<kind>[^|]+?) \| (?P<causes>[\w|]+?)(?: \| (?P<peers>[^|]*?))? \|$"
)


def rows(directory: Path) -> list[dict[str, Any]]:
    """The entries of the index."""
    entries = []
    for line in (directory / "INDEX.md").read_text(encoding="utf-8").splitlines():
        if found := ROW.match(line.strip()):
            peers = (found["peers"] or "").split()
            entries.append({**found.groupdict(), "causes": found["causes"].split("|"), "peers": peers})
    return entries


def measure(directory: Path) -> dict[str, Any]:
    """Rates, confusion table and every wrong answer."""
    confusion: dict[str, Counter[str]] = defaultdict(Counter)
    kinds: dict[str, Counter[str]] = defaultdict(Counter)
    wrong, alarms = [], []
    entries = rows(directory)
    started = time.perf_counter()
    for entry in entries:
        texts = [(directory / name).read_text(encoding="utf-8") for name in (entry["file"], *entry["peers"])]
        answer = of_all([classify(text) for text in texts])[0]
        named = answer["cause"] or "none"
        accepted = named in entry["causes"]
        confusion[entry["causes"][0]][named] += 1
        kinds[entry["kind"]].update(total=1, exact=named == entry["causes"][0], accepted=accepted)
        if not accepted:
            shown = {key: answer[key] for key in ("verdict", "phase", "confidence", "evidence")}
            wrong.append({"file": entry["file"], "expected": entry["causes"], "named": named, **shown})
        if entry["causes"] == ["none"] and answer["verdict"] in ("failed", "stalled"):
            alarms.append(entry["file"])
    total = sum((counts for counts in kinds.values()), Counter())
    return {
        "logs": total["total"],
        "exact": total["exact"],
        "accepted": total["accepted"],
        "false_alarms": alarms,
        "seconds": round(time.perf_counter() - started, 3),
        "kinds": {kind: dict(counts) for kind, counts in sorted(kinds.items())},
        "confusion": {cause: dict(counts) for cause, counts in sorted(confusion.items())},
        "wrong": wrong,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", nargs="?", type=Path, default=FIXTURES, help="logs and their INDEX.md")
    parser.add_argument("--wrong-only", action="store_true", help="leave the confusion table out")
    arguments = parser.parse_args()
    result = measure(arguments.directory)
    if arguments.wrong_only:
        del result["confusion"]
    print(json.dumps(result, indent=1, ensure_ascii=False))
    sys.exit(1 if result["wrong"] else 0)


if __name__ == "__main__":
    main()
