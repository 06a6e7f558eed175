# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""A deploy that cannot start names the cause and brings back what ran before."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

testinfra_hosts = ["local://"]
ROOT = Path(__file__).resolve().parents[5]
INVENTORY = ["-i", str(ROOT / "inventories" / "rehearsal")]


def play(name: str, *extra: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["ansible-playbook", str(ROOT / "playbooks" / f"{name}.yml"), *INVENTORY, *extra],
        env={**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg")},
        capture_output=True,
        text=True,
        check=False,
        timeout=400,
    )


def state(output: Path) -> dict[str, Any]:
    assert play("status", "-e", f"gb10_status_output={output}").returncode == 0
    return dict(json.loads(output.read_text()))


def test_value_that_only_the_engine_knows_to_be_wrong(tmp_path: Path) -> None:
    before = state(tmp_path / "before.json")
    # A wrong flag would be refused before anything stops; the help does not list the parsers.
    args = ["--enforce-eager", "--reasoning-parser", "no-such-parser"]
    wrong = json.dumps({"gb10_server_args": args, "gb10_report_dir": str(tmp_path)})
    done = play("deploy_qwen35", "-e", wrong)
    assert done.returncode != 0
    assert "'no-such-parser' not found" in done.stdout
    (report,) = tmp_path.glob("main/*/report.json")
    assert json.loads(report.read_text())["outcome"] == "failed"
    after = state(tmp_path / "after.json")
    assert (after["state"], after["release"]) == ("running", before["release"])
