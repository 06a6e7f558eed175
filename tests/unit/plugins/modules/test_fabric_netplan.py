# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""The module on a captured machine, with programs of its own in the place of netplan, ping and docker."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.gb10.serving.plugins.module_utils._netplan import FILE
from ansible_collections.gb10.serving.plugins.module_utils._netplan_apply import Trial
from ansible_collections.gb10.serving.plugins.modules import fabric_netplan

COLLECTIONS = str(Path(__file__).resolve().parents[4] / "collections")
NETDEVS = {"rocep1s0f0": ("enp1s0f0np0", "0000:01:00.0"), "roceP2p1s0f0": ("enP2p1s0f0np0", "0002:01:00.0")}
PRELUDE = (
    "import sys; from ansible.module_utils import basic; basic._ANSIBLE_ARGS = sys.stdin.buffer.read();\n"
    "basic._ANSIBLE_PROFILE = 'legacy'\n"
    "from ansible_collections.gb10.serving.plugins.modules import fabric_netplan as m; m.main()"
)


class Machine:
    """A captured machine with one cabled port, and a folder of programs that note how they were called."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.root = path / "root"
        self.file = self.root / FILE.lstrip("/")
        self.calls = path / "calls"
        self.file.parent.mkdir(parents=True)
        for name, (netdev, pci) in NETDEVS.items():
            self._device(name, netdev, pci)
        self.addresses({})
        self.program("netplan", "exit 0")
        self.program("ping", "exit 0")
        self.program("docker", "exit 0")

    def _device(self, name: str, netdev: str, pci: str) -> None:
        base = self.path / "sys/class/infiniband" / name
        (base / "ports/1").mkdir(parents=True)
        (base / "ports/1/state").write_text("4: ACTIVE\n")
        (base / "ports/1/rate").write_text("200 Gb/sec (2X NDR)\n")
        function = self.path / "sys/devices" / pci
        (function / "net" / netdev).mkdir(parents=True)
        (base / "device").symlink_to(os.path.relpath(function, base))
        net = self.path / "sys/class/net" / netdev
        net.mkdir(parents=True)
        for key, value in (("phys_port_name", "p0"), ("phys_switch_id", "5e01"), ("carrier", "1"), ("mtu", "1500")):
            (net / key).write_text(value + "\n")

    def addresses(self, given: dict[str, str]) -> None:
        links = []
        for netdev, _pci in NETDEVS.values():
            address, _slash, length = given.get(netdev, "").partition("/")
            infos = [{"family": "inet", "local": address, "prefixlen": int(length)}] if address else []
            links.append({"ifname": netdev, "mtu": 1500, "flags": ["UP", "LOWER_UP"], "addr_info": infos})
        (self.path / "commands").mkdir(exist_ok=True)
        (self.path / "commands/ip-j-addr.txt").write_text(json.dumps(links))

    def program(self, name: str, body: str) -> None:
        path = self.path / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f'#!/bin/sh\necho "{name} $*" >>{self.calls}\n{body}\n')
        path.chmod(0o755)

    def called(self, name: str) -> list[str]:
        lines = self.calls.read_text().splitlines() if self.calls.exists() else []
        return [line for line in lines if line.split()[0] == name]

    def run(self, **arguments: Any) -> dict[str, Any]:
        options = {
            "number": 12,
            "peers": [11],
            "timeout": 5,
            "sysroot": str(self.path),
            "root": str(self.root),
            # by its path: the real one of this machine is never run
            "netplan": str(self.path / "bin/netplan"),
            **arguments,
        }
        done = subprocess.run(
            [sys.executable, "-c", PRELUDE],
            input=json.dumps({"ANSIBLE_MODULE_ARGS": options}),
            text=True,
            capture_output=True,
            check=False,
            env={"PYTHONPATH": ":".join([COLLECTIONS, *sys.path]), "PATH": f"{self.path}/bin:/usr/bin:/bin"},
        )
        return json.loads(done.stdout or json.dumps({"crash": done.stderr}))


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def wait(condition: Callable[[], bool], seconds: float = 10) -> bool:
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.05)
    return condition()


def test_check_mode_shows_the_file_and_does_nothing(machine: Machine) -> None:
    result = machine.run(_ansible_check_mode=True)
    assert (result["changed"], result["state"], result["file"]) == (True, "would_write", FILE)
    assert result["diff"]["before"] == ""
    assert "addresses: [192.168.200.12/24]" in result["diff"]["after"]
    assert not machine.file.exists()
    assert machine.called("netplan") == machine.called("ping") == []


def test_it_writes_applies_asks_the_others_and_keeps_it(machine: Machine) -> None:
    result = machine.run()
    assert (result["changed"], result["state"], result["backup"]) == (True, "written", "")
    assert machine.file.stat().st_mode & 0o777 == 0o600
    written = yaml.safe_load(machine.file.read_text())["network"]["ethernets"]
    assert written["enP2p1s0f0np0"]["addresses"] == ["192.168.201.12/24"]
    assert machine.called("netplan") == ["netplan generate", "netplan apply"]
    assert machine.called("ping") == [
        "ping -c 1 -W 1 -I enp1s0f0np0 192.168.200.11",
        "ping -c 1 -W 1 -I enP2p1s0f0np0 192.168.201.11",
    ]
    assert list((machine.root / "run").iterdir()) == []

    machine.addresses(dict(zip(written, ("192.168.200.12/24", "192.168.201.12/24"), strict=True)))
    again = machine.run()
    assert (again["changed"], again["state"]) == (False, "present")
    assert len(machine.called("netplan")) == 2


def test_without_an_answer_the_old_file_is_back_and_applied(machine: Machine) -> None:
    machine.file.write_text("network: {version: 2}\n")
    machine.program("ping", '[ "$7" = 192.168.200.11 ]')
    result = machine.run(timeout=1)
    assert (result["failed"], result["state"]) == (True, "restored")
    assert "no answer from 192.168.201.11 on enP2p1s0f0np0 within 1 s" in result["msg"]
    assert machine.file.read_text() == "network: {version: 2}\n"
    assert machine.called("netplan") == ["netplan generate", "netplan apply", "netplan apply"]
    backup = Path(result["backup"])
    assert (backup.read_text(), backup.stat().st_mode & 0o777) == ("network: {version: 2}\n", 0o600)


def test_a_peer_that_comes_late_is_waited_for(machine: Machine) -> None:
    machine.program("ping", f"[ $(wc -l <{machine.calls}) -gt 6 ]")
    assert machine.run()["state"] == "written"


def test_a_file_that_netplan_refuses_is_not_applied(machine: Machine) -> None:
    machine.program("netplan", '[ "$1" = apply ] || { echo "bad syntax" >&2; exit 78; }')
    result = machine.run()
    assert result["state"] == "restored"
    assert "ended with 78: bad syntax" in result["msg"]
    assert not machine.file.exists()
    assert machine.called("ping") == []


def test_a_set_up_of_somebody_else_is_left_alone(machine: Machine) -> None:
    other = machine.file.parent / "40-cx7.yaml"
    other.write_text("network:\n  ethernets:\n    enp1s0f0np0:\n      addresses: [10.9.0.1/24]\n")
    result = machine.run()
    assert (result["changed"], result["state"]) == (False, "foreign")
    assert "NVIDIA Sync" in result["reason"]
    assert [path.name for path in machine.file.parent.iterdir()] == ["40-cx7.yaml"]
    assert machine.called("netplan") == []


@pytest.mark.parametrize(
    ("docker", "arguments", "words"),
    [
        ("echo gb10-main-rank1", {}, "container gb10-main-rank1 runs. Expected: no rank"),
        ("echo odd >&2; exit 1", {}, "docker does not say what runs (odd)"),
        ("exit 0", {"management": ["enP2p1s0f0np0"]}, "enP2p1s0f0np0 carries the connection"),
        ("exit 0", {"peers": []}, "there is no other node"),
        ("exit 0", {"netplan": "no-such-netplan"}, "there is no command no-such-netplan"),
    ],
)
def test_refusals_change_nothing(machine: Machine, docker: str, arguments: dict[str, Any], words: str) -> None:
    machine.program("docker", docker)
    result = machine.run(**arguments)
    assert result["failed"]
    assert words in result["msg"]
    assert "Next step: " in result["msg"]
    assert not machine.file.exists()
    assert machine.called("netplan") == []


def test_a_running_rank_is_no_matter_when_nothing_has_to_be_done(machine: Machine) -> None:
    machine.program("docker", "echo gb10-main-rank1")
    machine.addresses({"enp1s0f0np0": "10.9.0.1/24"})
    assert machine.run()["state"] == "foreign"


def test_the_old_state_comes_back_when_nobody_confirms(machine: Machine) -> None:
    """As when the module or the connection dies: only the watchdog is left."""
    machine.file.write_text("old\n")
    netplan = str(machine.path / "bin/netplan")
    trial = Trial(str(machine.file), str(machine.root / "run"), [netplan, "apply"], 1)
    trial.begin("new\n")
    assert machine.file.read_text() == "new\n"
    assert wait(lambda: machine.called("netplan") == ["netplan apply"])
    assert machine.file.read_text() == "old\n"
    assert trial.confirm() is False
    assert trial.undo(lambda argv: (0, "", "")) is False


def test_a_new_file_goes_away_when_nobody_confirms(machine: Machine) -> None:
    trial = Trial(str(machine.file), str(machine.root / "run"), [str(machine.path / "bin/netplan"), "apply"], 1)
    trial.begin("new\n")
    assert wait(lambda: bool(machine.called("netplan")))
    assert not machine.file.exists()


def test_what_is_confirmed_stays(machine: Machine) -> None:
    trial = Trial(str(machine.file), str(machine.root / "run"), [str(machine.path / "bin/netplan"), "apply"], 1)
    trial.begin("new\n")
    assert trial.confirm()
    time.sleep(1.5)
    assert machine.file.read_text() == "new\n"
    assert machine.called("netplan") == []


def test_two_trials_at_once_are_refused(machine: Machine) -> None:
    mark = machine.root / "run/gb10-netplan-pending"
    mark.parent.mkdir()
    mark.touch()
    result = machine.run()
    assert "exists. Expected: no other change of the addresses under way" in result["msg"]
    assert not machine.file.exists() and mark.exists()


def test_documentation_matches_the_arguments(machine: Machine) -> None:
    options = yaml.safe_load(fabric_netplan.DOCUMENTATION)["options"]
    result = machine.run(no_such_option=1)
    assert all(name in result["msg"] for name in options)
    assert set(machine.run()) - {"invocation", "changed", "diff"} <= set(yaml.safe_load(fabric_netplan.RETURN))
    assert os.path.basename(fabric_netplan.__file__) == "fabric_netplan.py"
