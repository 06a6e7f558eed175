# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""After a stop: no container, but release and model are still there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from testinfra.host import Host

testinfra_hosts = ["ansible://sparks"]


def test_status_says_stopped(status: dict[str, Any]) -> None:
    assert status["state"] == "stopped"


def test_no_container_and_the_release_stays(host: Host, containers: Callable[[], list[dict[str, Any]]]) -> None:
    assert containers() == []
    assert host.file("/opt/gb10-serving/main/current/launch.sh").exists
    assert host.file("/home/spark/models/qwen35-tiny/config.json").exists
