# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""The module as Ansible starts it, and its documentation against its arguments and results."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.gb10.serving.plugins.module_utils._facts import SUBSETS, gather
from ansible_collections.gb10.serving.plugins.modules import gb10_facts

COLLECTIONS = str(Path(__file__).resolve().parents[4] / "collections")


def run(arguments: dict[str, Any]) -> dict[str, Any]:
    """Run the module in a process of its own with its arguments on standard input."""
    script = (
        "import sys, json; from ansible.module_utils import basic; basic._ANSIBLE_ARGS = sys.stdin.buffer.read();\n"
        "basic._ANSIBLE_PROFILE = 'legacy'\n"
        "from ansible_collections.gb10.serving.plugins.modules import gb10_facts; gb10_facts.main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        input=json.dumps({"ANSIBLE_MODULE_ARGS": arguments}),
        text=True,
        capture_output=True,
        check=False,
        env={"PYTHONPATH": ":".join([COLLECTIONS, *sys.path]), "PATH": "/usr/bin:/bin"},
    )
    return json.loads(done.stdout or json.dumps({"crash": done.stderr}))


def test_captured_tree_in_check_mode(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/meminfo").write_text("MemTotal: 127000000 kB\nMemAvailable: 115000000 kB\n")
    result = run({"sysroot": str(tmp_path), "gather_subset": ["memory"], "_ansible_check_mode": True})
    assert result["changed"] is False
    facts = result["ansible_facts"]["gb10"]
    assert set(facts) == {"memory", "missing"}
    assert facts["memory"]["total_bytes"] == 127000000 * 1024


def test_unknown_subset_is_refused() -> None:
    assert "gather_subset" in run({"gather_subset": ["weather"]})["msg"]


def test_this_machine_can_be_read() -> None:
    facts = run({"storage_paths": ["/"]})["ansible_facts"]["gb10"]
    assert set(facts) == {*SUBSETS, "network", "missing"}
    assert facts["platform"]["python"] == sys.version.split()[0]
    assert facts["storage"][0]["exists_path"] == "/"


def test_documentation_matches_the_arguments() -> None:
    options = yaml.safe_load(gb10_facts.DOCUMENTATION)["options"]
    assert options["gather_subset"]["choices"] == ["all", *SUBSETS]
    assert set(options) == {"gather_subset", "sysroot", "storage_paths"}


@pytest.mark.parametrize("subset", ["platform", "memory", "gpu", "docker", "storage"])
def test_samples_show_real_keys(subset: str, tmp_path: Path) -> None:
    documented = yaml.safe_load(gb10_facts.RETURN)["ansible_facts"]["contains"]["gb10"]["contains"][subset]["sample"]
    facts = gather([subset], str(tmp_path), ["/"])[subset]
    if isinstance(documented, list):
        documented, facts = documented[0], facts[0]
    assert set(documented) <= set(facts)
