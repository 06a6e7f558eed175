# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""After a deploy: two ranks, one spec, one endpoint that completes, nothing open towards the management network."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from testinfra.host import Host

testinfra_hosts = ["ansible://sparks"]
ROOT_DIR = "/opt/gb10-serving/main"
Containers = Callable[[], list[dict[str, Any]]]


def spec_of(host: Host) -> dict[str, Any]:
    with host.sudo():
        return dict(json.loads(host.file(f"{ROOT_DIR}/current/spec.json").content_string))


def test_status_says_running(status: dict[str, Any]) -> None:
    assert status["state"] == "running"
    assert [rank["state"] for rank in status["ranks"]] == ["running", "running"]
    assert len({rank["release"] for rank in status["ranks"]}) == 1


def test_one_rank_a_node_runs_the_current_release(host: Host, containers: Containers) -> None:
    (container,) = containers()
    spec = spec_of(host)
    assert container["State"]["Running"]
    assert container["Config"]["Labels"]["gb10.serving/release"] == spec["id"]
    assert not container["HostConfig"]["Privileged"]


def test_both_ranks_meet_at_the_heads_fabric_address(host: Host, containers: Containers) -> None:
    (container,) = containers()
    argv = container["Config"]["Cmd"]
    spec = spec_of(host)
    assert argv[argv.index("--master-addr") + 1] == spec["ranks"][0]["address"]
    assert spec["ranks"][0]["address"].startswith("192.168.200.")
    assert argv[argv.index("--tensor-parallel-size") + 1] == "2"


def test_each_rank_uses_its_own_fabric_address(host: Host, containers: Containers) -> None:
    (container,) = containers()
    env = dict(entry.split("=", 1) for entry in container["Config"]["Env"])
    rank = int(container["Config"]["Labels"]["gb10.serving/rank"])
    assert env["VLLM_HOST_IP"] == spec_of(host)["ranks"][rank]["address"]
    addresses = host.check_output("ip -4 -o addr show dev %s", env["GLOO_SOCKET_IFNAME"])
    assert f" {env['VLLM_HOST_IP']}/" in addresses


def test_the_model_is_whole_on_every_node_and_belongs_to_the_user(host: Host) -> None:
    shards = host.check_output("ls /home/spark/models/qwen35-tiny").split()
    index = json.loads(host.file("/home/spark/models/qwen35-tiny/model.safetensors.index.json").content_string)
    assert set(index["weight_map"].values()) <= set(shards)
    assert host.file("/home/spark/models/qwen35-tiny/config.json").user == "spark"


def test_secrets_are_for_root_only(host: Host) -> None:
    with host.sudo():
        file = host.file(f"{ROOT_DIR}/current/env")
        assert (file.user, file.mode) == ("root", 0o600)


def test_the_endpoint_listens_on_the_loopback_only(host: Host) -> None:
    listening = host.check_output("ss -Hltn")
    assert not [line for line in listening.splitlines() if ":8000 " in line and "127.0.0.1:8000" not in line]


def test_nothing_of_the_copies_is_left(host: Host) -> None:
    with host.sudo():
        left = host.check_output("find /run /tmp /home/spark/models -maxdepth 1 -name '*gb10-*' -printf '%f\\n'")
    kinds = ("gb10-offer-", "gb10-job-", "gb10-partial")
    assert not [name for name in left.splitlines() if any(kind in name for kind in kinds)]
