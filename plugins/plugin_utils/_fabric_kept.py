# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
# Private to this collection: no stability promised.
"""The last measurement of a deployment's fabric, kept on the controller beside the reports, and when it still holds."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

#: What of an end must be unchanged for a measurement to hold; a cable that was moved changes carrier_changes.
SAME = ("number", "netdev", "address", "mac", "mtu", "carrier_changes", "ifindex")


def path(directory: str | Path, name: str) -> Path:
    return Path(directory).expanduser() / name / "fabric.json"


def fingerprint(looks: Mapping[str, Mapping[str, Any]]) -> str:
    """Names the very links that were measured: nodes since their start, interfaces since their last change."""
    seen = {
        host: [look.get("boot_id"), [[end.get(key) for key in SAME] for end in look.get("rails") or []]]
        for host, look in sorted(looks.items())
    }
    return "sha256:" + hashlib.sha256(json.dumps(seen, sort_keys=True).encode()).hexdigest()


def read(file: Path) -> dict[str, Any]:
    """The kept measurement; empty when there is none that can be read."""
    try:
        kept = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return kept if isinstance(kept, dict) and isinstance(kept.get("entries"), list) else {}


def write(file: Path, fabric: Mapping[str, Any]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(fabric, indent=2) + "\n", encoding="utf-8")


def holds(kept: Mapping[str, Any], links: str) -> bool:
    """A kept measurement is used again for the same links, unless it was about a problem: that may be mended by now."""
    entries = kept.get("entries") or []
    return bool(entries) and kept.get("links") == links and not any(item.get("level") == "error" for item in entries)


def wanted(choice: str, kept: Mapping[str, Any], links: str, serving: bool, predicted: bool) -> tuple[bool, str]:
    """Whether to measure now, and why (not)."""
    if choice == "never":
        return False, "gb10_fabric_measure is never"
    if predicted:
        return False, "check mode"
    if choice == "always":
        return True, "gb10_fabric_measure is always"
    if holds(kept, links):
        return False, "nothing about the links has changed since the last measurement"
    if serving:
        return False, "ranks are serving; a measurement would disturb them and be disturbed"
    return True, "there is no measurement of these links"
