# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""After rank 1 was killed: the status says failed, and names the rank, its exit code and its last line."""

from __future__ import annotations

from typing import Any

testinfra_hosts = ["local://"]


def test_status_names_the_dead_rank(status: dict[str, Any]) -> None:
    assert status["state"] == "failed"
    dead = status["ranks"][1]
    assert (dead["rank"], dead["state"], dead["exit_code"]) == (1, "exited", 137)
    assert dead["last_line"]
    assert f"rank 1 on {dead['host']}" in status["reason"]


def test_the_other_rank_is_not_blamed(status: dict[str, Any]) -> None:
    assert status["ranks"][0]["state"] == "running"
