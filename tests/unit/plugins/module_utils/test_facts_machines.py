# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""Machines as people handed them in: each reads as its fixture says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gb10.serving.plugins.module_utils._facts import gather
from ansible_collections.gb10.serving.tests.unit.plugins.module_utils.machine_trees import GIB, READINGS, build, cases

CASES = cases()
SUBSETS = ["platform", "memory", "gpu", "fabric"]


def check_part(facts: dict[str, Any], part: str, wanted: dict[str, Any]) -> None:
    assert {key: facts[part][key] for key in wanted} == wanted


def check(facts: dict[str, Any], key: str, wanted: Any) -> None:
    """One line of a fixture's expect."""
    if key in ("platform", "memory", "gpu", "fabric"):
        check_part(facts, key, wanted)
    elif key == "memory_gib":
        assert {name: round(facts["memory"][name + "_bytes"] / GIB, 2) for name in wanted} == wanted
    elif key == "memory_remedy":
        assert wanted in facts["memory"]["remedy"]
    elif key == "remedy":
        remedies = {port["port"]: port["remedy"] for port in facts["fabric"]["ports"]}
        assert all(words in remedies[port] for port, words in wanted.items()), remedies
    elif key == "notes":
        notes = facts["fabric"]["notes"]
        assert len(notes) == len(wanted) and all(any(words in note for note in notes) for words in wanted), notes
    elif key == "reason":
        assert all(words in facts["fabric"]["reason"] for words in wanted), facts["fabric"]["reason"]
    elif key == "missing":
        assert all(words in facts["missing"][name] for name, words in wanted.items()), facts["missing"]
    elif key == "absent":
        assert not [words for words in wanted if words in json.dumps(facts)]
    else:
        assert READINGS[key](facts) == wanted


@pytest.mark.parametrize("name", CASES)
def test_machine(tmp_path: Path, name: str) -> None:
    facts = gather(SUBSETS, str(build(tmp_path, CASES[name])), [])
    assert CASES[name]["expect"], "a case that expects nothing checks nothing"
    for key, wanted in CASES[name]["expect"].items():
        check(facts, key, wanted)
    for port in facts["fabric"]["ports"]:
        assert port["verdict"] not in ("good", "healthy") and port["remedy"]
    assert facts["fabric"]["hcas"] or facts["fabric"]["reason"]
