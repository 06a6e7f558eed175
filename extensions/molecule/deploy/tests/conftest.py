# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""What the tests of this scenario ask: the status as a user gets it, and the containers as they are."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from testinfra.host import Host

ROOT = Path(__file__).resolve().parents[4]
ROOT_DIR = "/opt/gb10-serving"


@pytest.fixture(scope="session")
def status(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The JSON that the playbook status.yml writes."""
    output = tmp_path_factory.mktemp("status") / "status.json"
    subprocess.run(
        [
            "ansible-playbook",
            "playbooks/status.yml",
            "-i",
            "inventories/rehearsal",
            "-e",
            f"gb10_status_output={output}",
        ],
        cwd=ROOT,
        env={**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg")},
        check=True,
        timeout=120,
    )
    return dict(json.loads(output.read_text()))


@pytest.fixture
def containers(host: Host) -> Callable[[], list[dict[str, Any]]]:
    """Asks this node's docker for the containers of any deployment."""

    def ask() -> list[dict[str, Any]]:
        with host.sudo():
            ids = host.check_output("docker ps --all --quiet --filter label=gb10.serving/name").split()
            return list(json.loads(host.check_output("docker inspect " + " ".join(ids)))) if ids else []

    return ask
