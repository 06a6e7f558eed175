# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""A captured machine, read by the ansible command in a plain directory: no sudo, no configuration, no other program."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gb10.serving.tests.unit.plugins.module_utils.machine_trees import build, cases

ROOT = Path(__file__).resolve().parents[4]


def ansible(folder: Path, arguments: str) -> dict[str, Any]:
    """`ansible localhost -m gb10.serving.gb10_facts -a ...` with what Ansible itself needs in the search path."""
    programs = folder / "bin"
    programs.mkdir()
    for name in ("sh", "mkdir", "chmod", "rm"):
        (programs / name).symlink_to(str(shutil.which(name)))
    done = subprocess.run(
        [Path(sys.executable).with_name("ansible"), "localhost", "-m", "gb10.serving.gb10_facts", "-a", arguments],
        cwd=folder,
        env={
            "PATH": str(programs),
            "HOME": str(folder),
            "LANG": "C.UTF-8",
            "ANSIBLE_COLLECTIONS_PATH": str(ROOT / "collections"),
            "ANSIBLE_CALLBACK_RESULT_FORMAT": "json",
        },
        text=True,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    head, arrow, body = done.stdout.partition(" => ")
    assert (head, arrow) == ("localhost | SUCCESS", " => ")
    return dict(json.loads(body))


@pytest.mark.parametrize("relative", [False, True])
def test_a_captured_tree(tmp_path: Path, relative: bool) -> None:
    tree = build(tmp_path / "machine", cases()["twins-in-one-subnet/prefix-not-known"])
    result = ansible(tmp_path, f"sysroot={'machine' if relative else tree}")
    assert result["changed"] is False
    facts = result["ansible_facts"]["gb10"]
    assert [(port["port"], port["hcas"], port["verdict"]) for port in facts["fabric"]["ports"]] == [
        (0, ["rocep1s0f0", "roceP2p1s0f0"], "twins-share-subnet"),
        (1, ["rocep1s0f1", "roceP2p1s0f1"], "no-link"),
    ]
    assert facts["docker"]["available"] is False and facts["missing"]["memory.total_bytes"]


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    facts = ansible(tmp_path, "sysroot=nowhere")["ansible_facts"]["gb10"]
    assert facts["missing"]["sysroot"] == f"there is no folder {tmp_path / 'nowhere'}"
    assert facts["fabric"]["hcas"] == []
