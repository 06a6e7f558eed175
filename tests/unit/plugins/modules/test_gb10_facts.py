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
from ansible_collections.gb10.serving.tests.unit.plugins.module_utils.machine_trees import build, cases

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
    assert (set(facts), facts["live"]) == ({"memory", "missing", "live"}, [])
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


def keys_of(value: Any) -> set[str]:
    """Every key in it, at any depth; what is named by interfaces, labels or counters is data."""
    if isinstance(value, list):
        return {key for item in value for key in keys_of(item)}
    if not isinstance(value, dict):
        return set()
    found = set(value)
    for key, item in value.items():
        if key == "interfaces" and isinstance(item, dict):
            found |= keys_of(list(item.values()))
        elif key not in ("labels", "counters"):
            found |= keys_of(item)
    return found


@pytest.mark.parametrize("name", ["one-twin-addressed", "merged-nics", "serving-low-memory", "founders-idle", "no-nic"])
def test_every_key_is_documented(tmp_path: Path, name: str) -> None:
    contains = yaml.safe_load(gb10_facts.RETURN)["ansible_facts"]["contains"]["gb10"]["contains"]
    machines = [case for key, case in cases().items() if key.startswith(name)]
    assert machines
    facts = gather(SUBSETS, str(build(tmp_path, machines[0])), ["/"])
    facts.pop("missing")
    for subset, part in facts.items():
        described = " ".join(contains[subset]["description"])
        told = keys_of(contains[subset]["sample"]) | {key for key in keys_of(part) if f"C({key})" in described}
        assert keys_of(part) <= told, (subset, keys_of(part) - told)


def test_the_samples_add_up() -> None:
    contains = yaml.safe_load(gb10_facts.RETURN)["ansible_facts"]["contains"]["gb10"]["contains"]
    memory = contains["memory"]["sample"]
    assert memory["vendor_estimate_bytes"] == memory["available_bytes"] + memory["swap_free_bytes"]
    assert memory["driver_pools_bytes"] == memory["driver_held_bytes"] - memory["gpu_used_bytes"]
    assert memory["cuda_upper_bound_bytes"] == memory["available_bytes"] + memory["driver_pools_bytes"]
