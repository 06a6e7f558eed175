# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""After a remove: nothing of the deployment is left; image and model stay with the user."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from testinfra.host import Host

testinfra_hosts = ["ansible://sparks"]


def test_nothing_is_left(host: Host, containers: Callable[[], list[dict[str, Any]]]) -> None:
    assert containers() == []
    assert not host.file("/opt/gb10-serving").exists


def test_what_the_user_keeps_is_still_there(host: Host) -> None:
    assert host.file("/home/spark/models/qwen35-tiny/config.json").exists
    with host.sudo():
        assert host.run("docker image inspect gb10-rehearsal/vllm:cpu").rc == 0
