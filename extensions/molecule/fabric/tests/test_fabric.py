# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""Faults made inside the nodes by tc, ip and iptables: the role stops, and names host, rail, cause and next step."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

testinfra_hosts = ["local://"]
ROOT = Path(__file__).resolve().parents[4]
REHEARSAL = ROOT / "inventories" / "rehearsal"
HEAD, OTHER = "rehearsal-a", "rehearsal-b"
RAIL_0, RAIL_1 = "enp1s0f0np0", "enP2p1s0f0np0"
ADDRESS_0, ADDRESS_1 = "192.168.200.12", "192.168.201.12"
#: Bits per second of a healthy rail below which this machine is too busy for a tenth to be told apart.
PLENTY = 1_000_000_000
ENV = {**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "ANSIBLE_NOCOLOR": "1", "ANSIBLE_FORCE_COLOR": "0"}


def shell(host: str, script: str) -> str:
    """Run a script as root on a node."""
    done = subprocess.run(
        ["ansible", host, "-i", str(REHEARSAL), "--become", "-m", "ansible.builtin.raw", "-a", script],
        env=ENV,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


class Fabric:
    """The role on the rehearsal nodes, with its reports in a directory of the test."""

    def __init__(self, reports: Path) -> None:
        self.reports = reports

    def run(self, measure: str = "auto", **extra: Any) -> subprocess.CompletedProcess[str]:
        variables = {"gb10_report_dir": str(self.reports), "gb10_fabric_measure": measure, **extra}
        return subprocess.run(
            [
                "ansible-playbook",
                str(Path(__file__).with_name("fabric.yml")),
                "-i",
                str(REHEARSAL),
                "-e",
                json.dumps(variables),
            ],
            env=ENV,
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )

    def passes(self, measure: str = "auto", **extra: Any) -> str:
        done = self.run(measure, **extra)
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
        return done.stdout + done.stderr

    def stops(self, *words: str, measure: str = "never") -> None:
        """The role must fail with every one of the words, and with a next step."""
        done = self.run(measure)
        output = " ".join((done.stdout + done.stderr).split())
        assert done.returncode != 0, output
        missing = [word for word in (*words, "Next step:") if word not in output]
        assert not missing, f"not said: {missing}\n{done.stdout[-4000:]}{done.stderr[-2000:]}"
        assert "Traceback" not in output
        assert "changed=0" in output.partition("PLAY RECAP")[2]

    @property
    def entries(self) -> list[dict[str, Any]]:
        return list(json.loads((self.reports / "main" / "fabric.json").read_text())["entries"])


@pytest.fixture
def fabric(tmp_path: Path) -> Fabric:
    return Fabric(tmp_path)


@contextmanager
def wrong(make: str, mend: str, host: str = OTHER) -> Iterator[None]:
    shell(host, make)
    try:
        yield
    finally:
        shell(host, mend)


def test_healthy_rails_pass_and_are_measured_once(fabric: Fabric) -> None:
    output = fabric.passes()
    assert f"{HEAD}  measuring the rails to {OTHER}" in output
    entries = fabric.entries
    assert {(item["source"], item["target"], tuple(item["rails"])) for item in entries} == {
        (*way, rails) for way in ((HEAD, OTHER), (OTHER, HEAD)) for rails in ((0,), (1,), (0, 1))
    }
    assert all(item["bits_per_second"] > PLENTY for item in entries)
    # nothing says what this machine's bridges should carry, so nothing is called good
    assert {item["class"] for item in entries} == {"unrated"}
    assert "measuring the rails" not in fabric.passes()
    assert "gb10-offer-" not in shell(OTHER, "ls /run")


def test_too_little_time_for_a_measurement_is_refused(fabric: Fabric) -> None:
    done = fabric.run(gb10_fabric_seconds=0.1)
    output = " ".join((done.stdout + done.stderr).split())
    assert done.returncode != 0
    assert "gb10_fabric_seconds is 0.1. Expected: 8 or more" in output and "Next step:" in output


def test_rail_cut_to_a_tenth(fabric: Fabric) -> None:
    fabric.passes(measure="always")
    healthy = min(item["bits_per_second"] for item in fabric.entries if len(item["rails"]) == 1)
    limit = f"tc qdisc add dev {RAIL_1} root tbf rate {healthy // 10} burst 1mb latency 50ms"
    with wrong(limit, f"tc qdisc del dev {RAIL_1} root"):
        fabric.stops(f"{OTHER} to {HEAD}: rail 1", "uneven", "tc qdisc show", measure="always")
    slow = [item for item in fabric.entries if item["class"] == "uneven"]
    assert [(item["source"], item["rails"]) for item in slow] == [(OTHER, [1])]
    assert slow[0]["bits_per_second"] < healthy / 5


def test_rail_down(fabric: Fabric) -> None:
    """One rail is enough to serve, at half the speed: named with host, interface and next step, and not refused."""
    with wrong(f"ip link set {RAIL_1} down", f"ip link set {RAIL_1} up"):
        output = " ".join(fabric.passes(measure="never").split())
    assert f"{OTHER}: {RAIL_1} (roceP2p1s0f0) has the address {ADDRESS_1}/24 but is set down" in output
    assert "There is only one rail, 192.168.200.0/24" in output
    assert f"Next step: on {OTHER}, 'sudo ip link set dev {RAIL_1} up'" in output
    assert "check the cable" not in output


def test_the_only_common_rail_down(fabric: Fabric) -> None:
    both = f"ip link set {RAIL_0} {{0}}; ip link set {RAIL_1} {{0}}"
    with wrong(both.format("down"), both.format("up")):
        done = fabric.run(measure="never")
    output = " ".join(done.stdout.split())
    assert done.returncode != 0
    assert f"No fabric interface of {OTHER} has a link: {RAIL_0} ({ADDRESS_0}/24) is set down" in output
    assert f"Next step: on {OTHER}, 'sudo ip link set dev {RAIL_0} up', 'sudo ip link set dev {RAIL_1} up'" in output


def test_mtu_1500_on_one_side(fabric: Fabric) -> None:
    with wrong(f"ip link set {RAIL_0} mtu 1500", f"ip link set {RAIL_0} mtu 9000"):
        fabric.stops(f"{OTHER}: rail 0: the MTUs differ", f"{OTHER} {RAIL_0} has 1500", f"{RAIL_0} mtu 9000")


def test_swapped_subnets(fabric: Fabric) -> None:
    flush = f"ip addr flush dev {RAIL_0}; ip addr flush dev {RAIL_1}; "
    swap = f"ip addr add {ADDRESS_1}/24 dev {RAIL_0}; ip addr add {ADDRESS_0}/24 dev {RAIL_1}"
    back = f"ip addr add {ADDRESS_0}/24 dev {RAIL_0}; ip addr add {ADDRESS_1}/24 dev {RAIL_1}"
    with wrong(flush + swap, flush + back):
        fabric.stops(
            f"{OTHER}: rail 0: its address {ADDRESS_0} is on {RAIL_1}",
            f"{OTHER}: rail 1: its address {ADDRESS_1} is on {RAIL_0}",
            "the subnets are swapped",
        )


def test_swapped_cables(fabric: Fabric) -> None:
    """The interfaces change names, and with them the wires they hang on; addresses stay with the names."""
    down = f"ip link set {RAIL_0} down; ip link set {RAIL_1} down; "
    rename = (
        f"ip link set {RAIL_0} name wire0; ip link set {RAIL_1} name {RAIL_0}; ip link set wire0 name {RAIL_1}; "
        f"ip addr flush dev {RAIL_0}; ip addr flush dev {RAIL_1}; "
        f"ip addr add {ADDRESS_0}/24 dev {RAIL_0}; ip addr add {ADDRESS_1}/24 dev {RAIL_1}; "
    )
    swap = down + rename + f"ip link set {RAIL_0} up; ip link set {RAIL_1} up"
    with wrong(swap, swap):
        fabric.stops(f"{HEAD} and {OTHER}: rail 0: {ADDRESS_0} answers on {RAIL_1} of {OTHER}", "swapped")


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ("-j DROP", f"{HEAD} and {OTHER}: rail 0: {ADDRESS_0} of {OTHER} has a link to {HEAD} and answers ARP"),
        ("-p tcp -j DROP", f"{ADDRESS_0} answers ping but gives no answer to TCP from {HEAD}"),
        ("-p tcp -j REJECT", f"{OTHER}: rail 0: a firewall refuses TCP from {HEAD} to {ADDRESS_0}"),
    ],
)
def test_firewalled_rail(fabric: Fabric, rule: str, words: str) -> None:
    rule = f"INPUT -i {RAIL_0} {rule}"
    with wrong(f"iptables -w -I {rule}", f"iptables -w -D {rule}"):
        fabric.stops(words, "firewall", "iptables -S")


def test_the_gate_can_be_a_warning_or_off(fabric: Fabric) -> None:
    with wrong(f"ip link set {RAIL_0} mtu 1500", f"ip link set {RAIL_0} mtu 9000"):
        assert "the MTUs differ" in fabric.passes(measure="never", gb10_fabric_gate="warn")
        assert "the MTUs differ" not in fabric.passes(gb10_fabric_gate="off")
