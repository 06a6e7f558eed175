# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
from __future__ import annotations

import os
import subprocess

import pytest

from ansible_collections.gb10.serving.plugins.plugin_utils import _lock_owner


def test_a_run_that_lives_has_not_ended() -> None:
    assert not _lock_owner.has_ended(_lock_owner.owner(os.getpid()))


def test_a_run_that_is_over_has_ended() -> None:
    with subprocess.Popen(["sleep", "60"]) as process:
        holder = _lock_owner.owner(process.pid)
        assert not _lock_owner.has_ended(holder)
        process.kill()
    assert _lock_owner.has_ended(holder)


@pytest.mark.parametrize(
    ("changes", "ended"),
    [
        ({}, False),
        ({"started": "1"}, True),  # the number belongs to another process by now
        ({"started": "1", "machine": "elsewhere"}, False),
        ({"started": "1", "controller": "elsewhere"}, False),
        ({"started": None}, False),
        ({"pid": None}, False),
    ],
)
def test_only_this_machine_can_tell(changes: dict[str, object], ended: bool) -> None:
    assert _lock_owner.has_ended({**_lock_owner.owner(os.getpid()), **changes}) is ended


def test_the_refusal_says_who_since_when_and_what_to_do() -> None:
    holder = {"user": "me", "controller": "laptop", "pid": 7, "age": 840, "silent": 3, "path": "/opt/x/lock"}
    said = str(_lock_owner.refusal("spark-a", holder, 120))
    for words in ("spark-a: me on laptop (process 7)", "14 min 00 s", "3 s ago", "'sudo rm /opt/x/lock' on spark-a"):
        assert words in said
    assert "somebody unknown" in str(_lock_owner.refusal("spark-a", {**holder, "user": None}, 120))
