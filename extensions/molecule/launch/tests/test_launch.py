# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""What can keep ranks from starting, one at a time: named in seconds, and what served before serves again.

All of it happens in a network as at home, where the default route leads to where the nodes do not reach each other.
"""

from __future__ import annotations

import re
import time
from typing import Any

from launch import Launch, serves_again, serves_still
from nodes import HEAD, OTHER, Serving, completes, kill_worker, serving, shell, wrong

testinfra_hosts = ["local://"]
#: Seconds without progress that the ranks of these tests get while they look for each other.
RENDEZVOUS = 20
#: Addresses that the engines choose themselves, as they do where nobody tells them.
UNSET = {"VLLM_HOST_IP": "", "SGLANG_HOST_IP": ""}
OTHER_IMAGE = "gb10-rehearsal/launch:test"


def pid_of(line: str) -> str:
    """The number that a worker of vLLM prints of itself in front of each line."""
    found = re.search(r"\(Worker\S* pid=(\d+)\)", line)
    assert found, line
    return found[1]


def test_vllm_starts_over_two_nodes(launch: Launch) -> None:
    run = launch.deploy(gb10_server_restart=True)
    report = run.passes()
    found = serving()
    assert found is not None and found.release == report["spec"]["id"]
    assert report["spec"]["engine"]["name"] == "vllm" and report["completion"]["completion_tokens"] > 0
    assert "all-reduce of 2 ranks by gloo" in run.words
    launch.tell("vllm starts", run)


def test_message_queue_of_vllm_on_the_wrong_network(launch: Launch, previous: Serving) -> None:
    launch.follow(previous)
    run = launch.deploy(env=UNSET, gb10_server_allowances={"rendezvous": RENDEZVOUS})
    run.stops("VLLM_HOST_IP")
    # The collectives use the interface that they are given, so that the smoke test has nothing to say of this.
    assert "all-reduce of 2 ranks by gloo" in run.words
    launch.stands_still("message queue, vllm", run, "message_queue_address", RENDEZVOUS)
    serves_again(previous)


def test_worker_killed_while_loading(launch: Launch, previous: Serving) -> None:
    _head, other = launch.follow(previous)
    run = launch.deploy(env={"GB10_TEST": "killed"}, gb10_server_smoke=False)
    event = kill_worker(pid_of(other.comes("Starting to load model").text))
    run.stops()
    said, rank = run.named("worker_died")
    launch.promptly("killed worker", run, event, said, "worker_died", rank)
    assert rank == 1
    serves_again(previous)


def test_sglang_starts_over_two_nodes(launch: Launch) -> None:
    run = launch.deploy("sglang")
    report = run.passes()
    found = serving()
    assert found is not None and found.release == report["spec"]["id"]
    assert report["spec"]["engine"]["name"] == "sglang"
    launch.tell("sglang starts", run)


def test_message_queue_of_sglang_on_the_wrong_network(launch: Launch, previous: Serving) -> None:
    launch.follow(previous)
    run = launch.deploy("sglang", env=UNSET, gb10_server_smoke=False, gb10_server_allowances={"rendezvous": RENDEZVOUS})
    run.stops("SGLANG_HOST_IP")
    launch.stands_still("message queue, sglang", run, "message_queue_address", RENDEZVOUS)
    serves_again(previous)


def test_out_of_memory_on_rank_1(launch: Launch, previous: Serving) -> None:
    _head, other = launch.follow(previous)
    run = launch.deploy("sglang", env={"GB10_DOUBLE": "oom:1"}, gb10_server_smoke=False)
    run.stops("CUDA out of memory")
    said, rank = run.named("out_of_memory")
    event = other.first("CUDA out of memory")
    assert event
    launch.promptly("out of memory", run, event.at, said, "out_of_memory", rank)
    assert rank == 1
    serves_again(previous)


def test_wrong_interface(launch: Launch, previous: Serving) -> None:
    run = launch.deploy(env={"GLOO_SOCKET_IFNAME": "eth9", "NCCL_SOCKET_IFNAME": "=eth9"})
    run.stops("eth9")
    began = run.first("testing the collective of 2 ranks")
    said = run.first("(interface_not_found)")
    launch.tell("wrong interface", run, cause="interface_not_found", event_to_message_s=round(said.at - began.at, 1))
    assert said.at - began.at < 30
    serves_again(previous)


def test_occupied_port(launch: Launch, previous: Serving) -> None:
    make = "python3 -m http.server 8001 --bind 127.0.0.1 >/dev/null 2>&1 </dev/null & echo $! >/tmp/server.pid; sleep 1"
    with wrong(make, "kill $(cat /tmp/server.pid); rm /tmp/server.pid", HEAD):
        run = launch.deploy(gb10_server_port=8001)
        run.stops(f"{HEAD}: TCP port 8001 (endpoint) is in use", "port_in_use")
    launch.tell("occupied port", run, cause="port_in_use", event_to_message_s=run.seconds)
    serves_still(previous)


def test_missing_shard_on_rank_1(launch: Launch, previous: Serving) -> None:
    usual, place = "/home/spark/models", "/home/spark/models-launch"
    shard = shell(HEAD, f"cd {usual}/qwen35-tiny && ls *.safetensors | tail -n 1").strip()
    directory = f"{{{{ '{place}' if inventory_hostname == '{OTHER}' else '{usual}' }}}}/qwen35-tiny"
    with wrong(f"install -d -o spark -g spark {place}", f"rm -rf {place}", OTHER):
        _head, other = launch.follow(previous)
        run = launch.deploy(gb10_model_dir=directory)
        # It is whole when it is looked at, and not any more when it is loaded.
        run.comes("testing the collective of 2 ranks")
        shell(OTHER, f"rm {place}/qwen35-tiny/{shard}")
        run.stops()
    said, rank = run.named("model_incomplete")
    event = next(line for line in other.lines if "Error" in line.text)
    launch.promptly("missing shard", run, event.at, said, "model_incomplete", rank)
    assert rank == 1
    serves_again(previous)


def test_unequal_image_on_rank_1(launch: Launch, previous: Serving) -> None:
    tag = f"docker tag gb10-rehearsal/vllm:cpu {OTHER_IMAGE}"
    with wrong(tag, f"docker rmi {OTHER_IMAGE}", HEAD, OTHER):
        run = launch.deploy(gb10_image_ref=OTHER_IMAGE)
        run.comes("testing the collective of 2 ranks")
        shell(OTHER, f"tar cf - --files-from /dev/null | docker import - {OTHER_IMAGE}")
        event = time.time()
        report = run.stops(OTHER_IMAGE, OTHER, "ranks_disagree", "with which release")
    assert report["start"]["cause"] == "ranks_disagree" and report["start"]["first"] == {"host": OTHER, "rank": 1}
    said = run.first(f"the image {OTHER_IMAGE} on this node is")
    launch.tell("unequal image", run, cause="ranks_disagree", event_to_message_s=round(said.at - event, 1))
    serves_again(previous)


def test_engine_that_hangs_gives_way_to_the_next(launch: Launch, previous: Serving) -> None:
    """The story: SGLang hangs while its ranks look for each other, and vLLM serves."""
    settings: dict[str, Any] = {
        "gb10_recipe": launch.recipe_of_both(UNSET),
        "gb10_server_smoke": False,
        "gb10_server_allowances": {"rendezvous": RENDEZVOUS},
    }
    run = launch.deploy(**settings, gb10_server_retry=True)
    report = run.passes()
    run.named("message_queue_address")
    assert "sglang failed (message_queue_address); vllm is next" in run.words
    assert report["spec"]["engine"]["name"] == "vllm" and report["completion"]["completion_tokens"] > 0
    (written,) = run.reports.glob("main/*/report.md")
    assert "message_queue_address" in written.read_text()
    found = serving()
    assert found is not None and found.release == report["spec"]["id"] != previous.release
    launch.tell("fallback", run, cause="message_queue_address")
    again = launch.deploy(**settings)
    again.passes()
    assert "sglang is left out" in again.words
    serves_still(found)


def test_stale_container_on_the_port(launch: Launch, previous: Serving) -> None:
    serve = "docker run -d --name gb10-old-rank0 --network host --entrypoint python3"
    make = f"{serve} {previous.image} -m http.server 8001 --bind 127.0.0.1 >/dev/null; sleep 2"
    with wrong(make, "docker rm -f gb10-old-rank0 >/dev/null", HEAD):
        run = launch.deploy(gb10_server_port=8001)
        run.stops(f"{HEAD}: TCP port 8001 (endpoint) is in use", "gb10-old-rank0", "port_in_use")
    launch.tell("stale container", run, cause="port_in_use", event_to_message_s=run.seconds)
    serves_still(previous)


def test_worker_killed_while_serving(launch: Launch, previous: Serving) -> None:
    """Rank 0 stays healthy to look at; the status says what is wrong."""
    kill_worker(pid_of(shell(OTHER, "docker logs gb10-main-rank1 2>&1 | grep -F '(Worker_TP1 pid=' | tail -n 1")))
    status = launch.status()
    assert status["state"] == "failed" and f"rank 1 on {OTHER}" in status["reason"]
    assert not completes()
