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


def ansible(folder: Path, arguments: str, fails: bool = False) -> dict[str, Any]:
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
    assert done.returncode == (2 if fails else 0), done.stdout + done.stderr
    _before, word, body = done.stdout.partition("localhost | FAILED! => " if fails else "localhost | SUCCESS => ")
    assert word, done.stdout
    return dict(json.JSONDecoder().raw_decode(body)[0])


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


@pytest.mark.parametrize(("name", "seen"), [("nowhere", "there is no such directory"), ("file", "it is a file")])
def test_what_cannot_be_a_captured_machine_is_refused(tmp_path: Path, name: str, seen: str) -> None:
    (tmp_path / "file").write_text("")
    result = ansible(tmp_path, f"sysroot={name}", fails=True)
    assert str(tmp_path / name) in result["msg"] and f"Seen: {seen}. Expected: " in result["msg"]
    assert "Next step: " in result["msg"] and "ansible_facts" not in result


def test_an_empty_folder_is_an_answer_with_reasons(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    facts = ansible(tmp_path, "sysroot=empty")["ansible_facts"]["gb10"]
    assert facts["fabric"]["hcas"] == [] and facts["missing"]["fabric.hcas"]
    assert facts["live"] == [
        "containers",
        "docker",
        "network.listeners",
        "network.listening_tcp_ports",
        "platform.python",
        "platform.python_executable",
        "storage",
    ]
