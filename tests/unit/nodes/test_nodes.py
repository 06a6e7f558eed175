# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
from __future__ import annotations

from pathlib import Path

import pytest
from rehearsal._engine import command_line, is_orphan, own_pid
from rehearsal._nodes import container_arguments, missing_capabilities, network_arguments, taken_by
from rehearsal._settings import MANAGEMENT, NETWORKS, RAILS, Places, make_nodes


@pytest.mark.parametrize(
    ("mask", "expected"),
    [
        ("000001fffeffffff", ["SYS_RESOURCE"]),
        ("000001ffffffffff", []),
        ("000001fffedfffff", ["SYS_ADMIN", "SYS_RESOURCE"]),
    ],
)
def test_missing_capabilities(mask: str, expected: list[str]) -> None:
    assert missing_capabilities(f"Name:\tx\nCapEff:\t0\nCapBnd:\t{mask}\n") == expected


def test_a_container_drops_what_cannot_be_given_and_is_never_privileged() -> None:
    arguments = container_arguments(make_nodes(1)[0], "image:tag", "ssh-ed25519 AAAA", ["SYS_RESOURCE"])
    assert "--cap-drop=SYS_RESOURCE" in arguments
    assert "--privileged" not in arguments
    assert arguments[-1] == "image:tag"


def test_this_machine_has_no_address_on_the_rails() -> None:
    flag = "--opt=com.docker.network.bridge.inhibit_ipv4=true"
    assert all(flag in network_arguments(rail) for rail in RAILS)
    assert flag not in network_arguments(MANAGEMENT)
    assert "--opt=com.docker.network.driver.mtu=9000" in network_arguments(RAILS[0])


@pytest.mark.parametrize(
    ("name", "address", "clash"),
    [
        ("eth0", "192.0.2.2", None),
        ("eth0", "192.168.20.1", None),
        ("eth1", "192.168.200.7", "gb10-rehearsal-rail0 needs 192.168.200.0/24 on gb10-rail0; eth1 has 192.168.200.7"),
        ("gb10-rail1", None, "gb10-rehearsal-rail1 needs 192.168.201.0/24 on gb10-rail1; gb10-rail1 has that name"),
    ],
)
def test_what_is_in_the_way_is_named(name: str, address: str | None, clash: str | None) -> None:
    link = {"ifname": name, "addr_info": [{"local": address}] if address else []}
    assert taken_by(NETWORKS, [link, {}]) == ([clash] if clash else [])


def test_our_own_engine_keeps_to_its_own_folders(tmp_path: Path) -> None:
    where = Places(tmp_path)
    command = command_line(where, None)
    assert "--iptables=false" in command
    assert command[command.index("--bridge") + 1] == "none"
    assert command[command.index("--data-root") + 1].startswith(str(tmp_path / ".cache"))
    assert "--group" not in command
    assert command_line(where, 1000)[-2:] == ["--group", "1000"]


def test_a_foreign_process_is_not_taken_for_our_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pid_file = tmp_path / "pid"
    pid_file.write_text("1")
    monkeypatch.setattr(Places, "pid_file", property(lambda _self: pid_file))
    assert own_pid(Places(tmp_path)) is None


def test_orphans_are_only_what_our_own_engine_left(tmp_path: Path) -> None:
    where = Places(tmp_path)
    other = Places(tmp_path / "other")
    shim = f"/usr/bin/containerd-shim-runc-v2\0-address\0{where.run_dir}/exec/containerd/containerd.sock\0".encode()
    mounts = f"1 0 0:1 / / rw - overlay overlay upperdir={where.data_root}/overlay2/x/diff\n".encode()
    assert is_orphan(where, shim, b"", b"")
    assert not is_orphan(other, shim, b"", b"")
    assert not is_orphan(where, f"less\0{where.run_dir}/exec/log\0".encode(), b"", b"")
    assert is_orphan(where, b"python3\0", b"A=1\0GB10_REHEARSAL_NODE={}\0", mounts)
    assert not is_orphan(where, b"bash\0", b"A=1\0", mounts)
    assert not is_orphan(other, b"python3\0", b"GB10_REHEARSAL_NODE={}\0", mounts)
