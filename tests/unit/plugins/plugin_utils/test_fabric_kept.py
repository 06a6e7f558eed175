# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""A kept measurement holds for the very links that were measured, and for no others."""

from __future__ import annotations

import copy
import pathlib
from typing import Any

import pytest

from ansible_collections.gb10.serving.plugins.plugin_utils import _fabric_kept as kept

END = {
    "number": 0,
    "netdev": "x",
    "address": "10.7.0.1",
    "mac": "02::",
    "mtu": 9000,
    "carrier_changes": 2,
    "ifindex": 3,
}
LOOKS: dict[str, Any] = {"a": {"boot_id": "1", "rails": [END]}, "b": {"boot_id": "2", "rails": [END]}}
GOOD = {"links": kept.fingerprint(LOOKS), "entries": [{"level": "good"}]}


@pytest.mark.parametrize("key", ["mac", "mtu", "carrier_changes", "address", "ifindex"])
def test_a_touched_link_is_another_one(key: str) -> None:
    other = copy.deepcopy(LOOKS)
    other["b"]["rails"][0][key] = "other"
    assert kept.fingerprint(other) != kept.fingerprint(LOOKS)


def test_a_node_that_was_started_anew_has_other_links() -> None:
    assert kept.fingerprint({**LOOKS, "b": {**LOOKS["b"], "boot_id": "3"}}) != kept.fingerprint(LOOKS)


def test_what_does_not_matter_is_no_difference() -> None:
    other = copy.deepcopy(LOOKS)
    other["a"]["paths"] = [{"echo": "ok"}]
    assert kept.fingerprint(dict(reversed(other.items()))) == kept.fingerprint(LOOKS)


@pytest.mark.parametrize(
    ("choice", "measurement", "serving", "predicted", "measure"),
    [
        ("auto", {}, False, False, True),
        ("auto", GOOD, False, False, False),
        ("auto", {**GOOD, "links": "sha256:other"}, False, False, True),
        ("auto", {**GOOD, "entries": [{"level": "good"}, {"level": "error"}]}, False, False, True),
        ("auto", {**GOOD, "entries": []}, False, False, True),
        ("auto", {}, True, False, False),
        ("auto", {}, False, True, False),
        ("always", GOOD, True, False, True),
        ("never", {}, False, False, False),
    ],
)
def test_when_to_measure(
    choice: str, measurement: dict[str, Any], serving: bool, predicted: bool, measure: bool
) -> None:
    found, reason = kept.wanted(choice, measurement, str(GOOD["links"]), serving, predicted)
    assert (found, bool(reason)) == (measure, True)


def test_written_and_read(tmp_path: pathlib.Path) -> None:
    file = kept.path(tmp_path, "main")
    assert kept.read(file) == {}
    kept.write(file, GOOD)
    assert kept.read(file) == GOOD
    file.write_text("[1, 2")
    assert kept.read(file) == {}
