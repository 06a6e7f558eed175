#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""Inventory of the rehearsal nodes, read from .rehearsal/state.json; empty when none are up."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

STATE = Path(__file__).resolve().parents[2] / ".rehearsal" / "state.json"
HINT = "No rehearsal nodes are up, so the group 'sparks' is empty. Make them: python3 tests/nodes/rehearse.py up"


def read_state(path: Path) -> dict[str, Any]:
    try:
        state = json.loads(path.read_text())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        print(f"{path}: {error}. Remove the file and run: python3 tests/nodes/rehearse.py up", file=sys.stderr)
        return {}
    return state if isinstance(state, dict) else {}


def inventory(state: dict[str, Any]) -> dict[str, Any]:
    nodes = state.get("nodes", [])
    result: dict[str, Any] = {
        "_meta": {"hostvars": {node["name"]: {"ansible_host": node["management"]} for node in nodes}},
        "all": {"children": ["sparks"]},
        "sparks": {"hosts": [node["name"] for node in nodes]},
    }
    if nodes:
        ssh = state["ssh"]
        options = [
            f"-o UserKnownHostsFile='\"{ssh['known_hosts']}\"'",
            "-o GlobalKnownHostsFile=/dev/null",
            "-o StrictHostKeyChecking=yes",
            "-o IdentitiesOnly=yes",
            "-o ServerAliveInterval=5",
            "-o ServerAliveCountMax=6",
        ]
        result["sparks"]["vars"] = {
            "ansible_user": ssh["user"],
            "ansible_ssh_private_key_file": ssh["key"],
            "ansible_ssh_common_args": " ".join(options),
            "ansible_python_interpreter": "/usr/bin/python3",
            "gb10_sysroot": state["sysroot"],
        }
    return result


def main() -> int:
    state = read_state(STATE)
    if not state.get("nodes"):
        print(HINT, file=sys.stderr)
    print(json.dumps({} if "--host" in sys.argv[1:] else inventory(state), indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
