# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""Two ranks of the collective test at once, with a Docker that is a script: one cannot come, the other is not kept."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gb10.serving.plugins.module_utils._image import content_identity
from ansible_collections.gb10.serving.tests.unit.plugins.module_utils import collective_outputs as out

ROOT = Path(__file__).resolve().parents[4]
IMAGE = {"Id": "sha256:1", "Size": 5, "RootFS": {"Layers": ["sha256:a"]}, "Config": {}}
#: Each rank has a folder with what its container does; a container is a process that "rm" ends.
DOCKER = """#!/bin/sh
here=$(dirname "$0")
for word; do case $word in *-collective-rank*) rank=$here/${word##*-rank} ;; esac; done
case $1 in
image) cat "$here/image" ;;
run)
  cat "$rank/output"
  [ -s "$rank/code" ] && exit "$(cat "$rank/code")"
  sleep 300 > /dev/null 2>&1 &
  echo $! > "$rank/container"
  wait $!
  exit 137 ;;
rm)
  [ -e "$rank/container" ] || exit 1
  kill "$(cat "$rank/container")" && rm "$rank/container" && echo "$rank" | sed 's,.*/,gb10-main-collective-rank,' ;;
esac
"""
PLAY = """
- hosts: all
  gather_facts: false
  any_errors_fatal: true
  tasks:
    - name: Test
      gb10.serving.collective_test:
        spec: "{{ spec }}"
        timeout: 60
      register: __gb10_collective
    - name: Judge
      gb10.serving.collective_verdict:
        spec: "{{ spec }}"
      run_once: true
      register: judged
      ignore_errors: true
    - name: Tell
      ansible.builtin.copy:
        content: "{{ {'judged': judged, 'ranks': ranks} | to_json }}"
        dest: "{{ told }}"
        mode: "0600"
      vars:
        ranks: "{{ groups.sparks | map('extract', hostvars, '__gb10_collective') }}"
      run_once: true
"""


def spec() -> dict[str, Any]:
    made = out.spec()
    made["engine"]["image"]["content"] = content_identity(IMAGE)
    return made


def play(folder: Path, *ranks: tuple[str, str]) -> tuple[dict[str, Any], float]:
    """What was judged of ranks that print this and end so, or never where that is empty; and the seconds it took."""
    (folder / "docker").write_text(DOCKER)
    (folder / "docker").chmod(0o755)
    (folder / "image").write_text(json.dumps([IMAGE]))
    for number, (output, code) in enumerate(ranks):
        (folder / str(number)).mkdir()
        (folder / str(number) / "output").write_text(output)
        (folder / str(number) / "code").write_text(code)
    (folder / "play.yml").write_text(PLAY)
    hosts: dict[str, Any] = {"spark-a": {}, "spark-b": {}}
    local = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    (folder / "hosts.json").write_text(json.dumps({"sparks": {"hosts": hosts, "vars": local}}))
    begun = time.monotonic()
    done = subprocess.run(
        [
            Path(sys.executable).with_name("ansible-playbook"), "-i", folder / "hosts.json", folder / "play.yml",
            "-e", json.dumps({"spec": spec(), "told": str(folder / "told.json")}),
        ],
        capture_output=True, text=True, check=False, cwd=folder, timeout=120,
        env={
            **os.environ, "PATH": f"{folder}:{os.environ['PATH']}",
            "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "ANSIBLE_COLLECTIONS_PATH": str(ROOT / "collections"),
        },
    )  # fmt: skip
    assert (folder / "told.json").exists(), done.stdout[-4000:] + done.stderr[-2000:]
    told = json.loads((folder / "told.json").read_text())
    assert not list(folder.glob("*/container"))
    return told, time.monotonic() - begun


@pytest.mark.parametrize("rank", [0, 1])
def test_a_rank_that_docker_refuses_is_not_waited_for(tmp_path: Path, rank: int) -> None:
    refused = ("docker: Error response from daemon: invalid option\n", "125")
    ranks = [(out.until("store"), ""), (out.until("store"), "")]
    ranks[rank] = refused
    told, seconds = play(tmp_path, *ranks)
    assert seconds < 25  # of which Ansible takes most; without an end of its own, a rank takes 58
    waited = told["ranks"][1 - rank]["collective"]
    assert waited["cause"] == "peer_died" and f"rank {rank} on spark-" in waited["reason"] and waited["seconds"] < 8
    judged = told["judged"]
    assert judged["failed"] and judged["collective"]["first"]["rank"] == rank
    assert "invalid option" in judged["msg"] and judged["collective"]["image"] == content_identity(IMAGE)


def test_a_rank_that_has_met_the_others_ends_nobody(tmp_path: Path) -> None:
    """The others know, and what they say is their own."""
    failed = (out.until("gloo") + out.NO_SUCH_INTERFACE + out.event(failed="error", stage="gloo"), "3")
    told, _seconds = play(tmp_path, (out.until("gloo") + out.event(failed="peer", peer=1), "5"), failed)
    assert (
        told["ranks"][0]["collective"]["reason"]
        == "rank 1 failed, so this one ended while connecting the ranks over gloo"
    )
    assert told["judged"]["collective"]["cause"] == "interface_not_found"
