#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""The longest silence of good starts beside what a silence may last, by what was done meanwhile, as JSON.

.venv/bin/python tests/bench/log_gaps.py [LOG...]
"""

from __future__ import annotations

import json
import re
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "collections"))

from ansible_collections.gb10.serving.plugins.module_utils._engine_log import read
from ansible_collections.gb10.serving.plugins.plugin_utils import _watch_stall

FIXTURES = Path(__file__).resolve().parents[1] / "unit" / "fixtures" / "engine_logs"
#: vLLM writes month and day, SGLang the whole date, both the time to the second.
TIME = re.compile(r"(?:\b(?:\d{4}-)?(?P<day>\d\d-\d\d) |\[)(?P<time>\d\d:\d\d:\d\d)")


def time_of(line: str) -> float | None:
    """When a line was written; only differences count."""
    found = TIME.search(line[:120])
    if not found:
        return None
    return datetime.strptime(f"2028-{found['day'] or '01-01'} {found['time']}", "%Y-%m-%d %H:%M:%S").timestamp()


def gaps(paths: list[Path]) -> dict[str, dict[str, Any]]:
    """By what was done: the longest silence, the log that has it, and the allowance."""
    longest: dict[str, dict[str, Any]] = {}
    for path in paths:
        lines = [line for line in path.read_text(encoding="utf-8").splitlines() if not line.startswith("# ")]
        engine = read("\n".join(lines)).engine
        before: float | None = None
        for count, line in enumerate(lines):
            now = time_of(line)
            if now is None:
                continue
            doing = _watch_stall.doing(read("\n".join(lines[:count]), engine).seen)
            silence = max(0.0, now - before) if before is not None else 0.0
            before = now
            allowed = _watch_stall.ALLOWANCES.get(doing)
            if allowed is not None and silence >= longest.get(doing, {"seconds": -1})["seconds"]:
                longest[doing] = {"seconds": silence, "allowed": allowed, "log": path.name}
    return {doing: longest[doing] for doing in _watch_stall.ORDER if doing in longest}


if __name__ == "__main__":
    found = gaps([Path(name) for name in sys.argv[1:]] or sorted(FIXTURES.glob("good-*.txt")))
    print(json.dumps(found, indent=1))
    sys.exit(any(entry["seconds"] >= entry["allowed"] for entry in found.values()))
