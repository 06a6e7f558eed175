# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""Faults on real nodes: what came is kept, what is wrong is found, and no run leaves anything behind."""

from __future__ import annotations

import json
import signal

import pytest
from distribution import (
    HEAD,
    OTHER,
    PLACE,
    RAILS,
    SIZE,
    THIRD,
    Distribution,
    offering,
    remains,
    shell,
    slow,
    until,
    wrong,
)

testinfra_hosts = ["local://"]


def test_check_moves_nothing_then_all_moves_once(distribution: Distribution) -> None:
    predicted = distribution.run("--check").passes()
    assert SIZE < predicted["moved_bytes"] < SIZE * 1.01
    assert distribution.staged() < 100_000 and not remains()
    done = distribution.run().passes()
    assert done["moved_bytes"] == predicted["moved_bytes"] and done["changed"]
    # both rails carried it
    assert len([count for count in done["rails"].values() if count > SIZE // 10]) == len(RAILS)
    distribution.whole()
    again = distribution.run()
    assert again.passes() == {}  # nobody lacks it
    assert "changed=1" not in again.output and "changed=0" in again.output


def test_a_receiver_that_is_killed_goes_on_where_it_stopped(distribution: Distribution) -> None:
    with slow():
        run = distribution.run()
        distribution.comes(run)
        job = json.loads(shell(OTHER, "cat /tmp/gb10-job-*/progress.json"))
        shell(OTHER, f"kill -9 {job['pid']}")
        run.stops("the worker of the model copy was killed", "run again; the copy goes on where it stopped")
    done = distribution.run().passes()
    assert done["resumed_bytes"] > 0 and done["moved_bytes"] < SIZE
    distribution.whole()


def test_a_node_that_hands_on_and_dies_is_done_without(distribution: Distribution) -> None:
    both = (OTHER, THIRD)
    with slow(), slow(host=OTHER):
        run = distribution.run(receivers=both)
        distribution.comes(run, host=THIRD)
        shell(OTHER, f"kill -9 {offering(OTHER)}")
        rails = run.passes(THIRD)["rails"]
    own = shell(HEAD, "hostname -I").split()
    assert (
        min(sum(count for rail, count in rails.items() if (rail in own) is ours) for ours in (True, False)) > SIZE // 20
    )
    for host in both:
        distribution.whole(host)


def test_a_rail_that_goes_down_is_done_without(distribution: Distribution) -> None:
    with slow():
        run = distribution.run()
        distribution.comes(run)
        with wrong(f"ip link set {RAILS[1]} down", f"ip link set {RAILS[1]} up"):
            done = run.passes()
    assert done["moved_bytes"] >= SIZE
    distribution.whole()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_run_leaves_nothing_and_the_next_goes_on(
    distribution: Distribution, number: signal.Signals
) -> None:
    with slow(60):
        run = distribution.run()
        distribution.comes(run, SIZE // 15)
        job = shell(OTHER, "ls -d /tmp/gb10-job-*").strip()
        run.kill(number)
        # at once, while the node does not know yet that nobody is interested any more
        after = distribution.run()
        until("the copy of the interrupted run ends", lambda: job not in remains(), 40)
    done = after.passes()
    assert done["resumed_bytes"] > 0 and done["moved_bytes"] < SIZE
    distribution.whole()


def test_a_second_deploy_is_refused_while_the_first_works(distribution: Distribution) -> None:
    with slow():
        run = distribution.run()
        distribution.comes(run)
        second = distribution.run()
        second.stops(
            f"{HEAD}: ", f"(process {run.process.pid}) has been deploying to these nodes for", "Next step: wait"
        )
        assert run.process.poll() is None
        assert "changed=0" in second.output
        run.passes()
    distribution.whole()


def test_a_flipped_bit_is_found_and_only_its_file_is_fetched(distribution: Distribution) -> None:
    first = distribution.run().passes()
    name = "model-00003-of-00008.safetensors"
    flip = f"printf x | dd of={distribution.target}/{name} bs=1 seek=40000000 conv=notrunc"
    before = shell(OTHER, f"stat -c %y {distribution.target}/{name}").strip()
    shell(OTHER, f'{flip} 2>/dev/null; touch -d "{before}" {distribution.target}/{name}', user="spark")
    predicted = distribution.run("--check", gb10_model_verify=True).passes()
    assert predicted["damaged"] == [name]
    done = distribution.run(gb10_model_verify=True).passes()
    assert done["damaged"] == [name] and SIZE // 8 <= done["moved_bytes"] < SIZE // 8 + 10_000 < first["moved_bytes"]
    distribution.whole()
    right = distribution.run(gb10_model_verify=True).passes()
    assert (right["changed"], right["moved_bytes"], right["damaged"]) == (False, 0, [])


def test_a_full_disk_is_named_before_and_during_the_copy(distribution: Distribution) -> None:
    place = f"{PLACE}/small"
    mount = f"mkdir -p {place} && mount -t tmpfs -o size={{0}},uid=$(id -u spark) tmpfs {place}"
    distribution.target = f"{place}/target/model"
    with wrong(mount.format("400m"), f"umount {place}"):
        distribution.run().stops(OTHER, place, "Free space there")
        assert shell(OTHER, f"ls -A {place}") == ""
    # enough by then, with head-room; somebody else takes it meanwhile
    with wrong(mount.format("3g"), f"umount {place}"):
        with slow(60):  # so that the disk is full before the copy is whole
            run = distribution.run()
            distribution.comes(run, SIZE // 15)
            shell(OTHER, f"dd if=/dev/zero of={place}/filler bs=1M 2>/dev/null; true")
            run.stops("the disk is full", OTHER, place, "Free space")
        shell(OTHER, f"rm {place}/filler")
        assert distribution.run().passes()["resumed_bytes"] > 0
        distribution.whole()
        until("nothing is left on the nodes", lambda: not remains())
