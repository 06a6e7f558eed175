# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""What is written, what is left alone, and what is refused."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.gb10.serving.plugins.module_utils import _netplan_apply as act
from ansible_collections.gb10.serving.plugins.module_utils._netplan import (
    FILE,
    FOREIGN,
    PRESENT,
    REFUSED,
    WRITE,
    Seen,
    Wishes,
    decide,
)

FIRST, SECOND = "enp1s0f0np0", "enP2p1s0f0np0"
CX7 = "/etc/netplan/40-cx7.yaml"
WISHES = Wishes(number=12, peers=[11], subnets=["192.168.200.0/24", "192.168.201.0/24"])


def fabric(*linked: int) -> dict[str, Any]:
    """Both QSFP ports of a machine; those named have a link."""
    hcas, ports = [], []
    for port in (0, 1):
        mine = [
            {"name": f"roceP2p1s0f{port}", "netdev": f"enP2p1s0f{port}np{port}", "pci": f"0002:01:00.{port}"},
            {"name": f"rocep1s0f{port}", "netdev": f"enp1s0f{port}np{port}", "pci": f"0000:01:00.{port}"},
        ]
        hcas += mine
        verdict = "twin-without-ipv4" if port in linked else "no-link"
        ports.append({"port": port, "hcas": [hca["name"] for hca in mine], "verdict": verdict})
    return {"hcas": hcas, "ports": ports}


def seen(*linked: int, **changes: Any) -> Seen:
    interfaces = [
        {"name": FIRST, "ipv4": changes.pop("first", [])},
        {"name": SECOND, "ipv4": changes.pop("second", [])},
        {"name": "enP7s7", "ipv4": changes.pop("lan", ["10.0.0.7/24"])},
    ]
    return Seen(fabric=fabric(*(linked or (0,))), interfaces=interfaces, **changes)


def test_the_file_for_a_bare_port() -> None:
    found = decide(seen(management={"enP7s7": "carries the default route"}), WISHES)
    assert (found.state, found.addresses) == (WRITE, {FIRST: "192.168.200.12/24", SECOND: "192.168.201.12/24"})
    assert found.peers == [(FIRST, "192.168.200.11"), (SECOND, "192.168.201.11")]
    written = yaml.safe_load(found.content)["network"]
    assert (written["version"], list(written["ethernets"])) == (2, [FIRST, SECOND])
    assert written["ethernets"][SECOND] == {
        "addresses": ["192.168.201.12/24"],
        "dhcp4": False,
        "dhcp6": False,
        "mtu": 9000,
        "optional": True,
    }


def test_the_other_port_when_that_one_has_the_cable() -> None:
    assert list(decide(seen(1), WISHES).addresses) == ["enp1s0f1np1", "enP2p1s0f1np1"]


def test_a_second_run_finds_its_own_file_and_addresses() -> None:
    content = decide(seen(), WISHES).content
    own = {"files": {FILE: content}, "first": ["192.168.200.12/24"]}
    assert decide(seen(**own, second=["192.168.201.12/24"]), WISHES).state == PRESENT
    # The file alone is not enough: somebody may have taken the address away.
    assert decide(seen(**own), WISHES).state == WRITE


def test_other_wishes_change_the_own_file_though_the_old_address_is_still_there() -> None:
    content = decide(seen(), WISHES).content
    now = seen(files={FILE: content}, first=["192.168.200.12/24"], second=["192.168.201.12/24"])
    assert decide(now, Wishes(13, [11], WISHES.subnets)).state == WRITE


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"files": {CX7: f"network:\n  ethernets:\n    {FIRST}:\n      dhcp4: no\n"}}, "NVIDIA Sync"),
        ({"files": {CX7: f"network:\n  ethernets:\n    {SECOND}:\n      link-local: [ ipv4 ]\n"}}, "sparkrun"),
        ({"files": {"/etc/netplan/99-mine.yaml": f'    "{FIRST}":\n      addresses: [10.9.0.1/24]\n'}}, "99-mine.yaml"),
        ({"files": {"/etc/netplan/90-NM-1.yaml": f'      match: {{name: "{SECOND}"}}\n'}}, "90-NM-1.yaml"),
        ({"files": {"/etc/netplan/50-a.yaml": '      match:\n        name: "enp1s0f*"\n'}}, "50-a.yaml"),
        (
            {
                "keyfiles": {
                    "/etc/NetworkManager/system-connections/qsfp.nmconnection": "[connection]\nid=qsfp\n"
                    f"interface-name={FIRST}\n\n[ipv4]\naddress1=10.9.0.1/24\nmethod=manual\n"
                }
            },
            "NetworkManager connection /etc/NetworkManager/system-connections/qsfp.nmconnection",
        ),
        ({"first": ["10.9.0.1/24"]}, "10.9.0.1/24, and no file says who set it"),
        # A set-up of somebody else is not judged, not even on the management interface.
        ({"first": ["10.9.0.1/24"], "management": {FIRST: "carries the default route"}}, "10.9.0.1/24"),
    ],
)
def test_a_set_up_of_somebody_else_is_left_alone(changes: dict[str, Any], words: str) -> None:
    found = decide(seen(**changes), WISHES)
    assert (found.state, found.content) == (FOREIGN, "")
    assert words in found.reason


@pytest.mark.parametrize(
    "changes",
    [
        {"files": {"/etc/netplan/01-network-manager-all.yaml": "network:\n  renderer: NetworkManager\n"}},
        {"files": {"/etc/netplan/02.yaml": f"network:\n  version: 2  # not {FIRST}\n"}},
        {"files": {"/etc/netplan/03.yaml": "    enp1s0f0np0x:\n      dhcp4: true\n"}},
        {"first": ["169.254.3.4/16"]},
        {"keyfiles": {"/run/x": f"[connection]\ninterface-name={FIRST}\n[ipv4]\nmethod=auto\n"}},
        {"keyfiles": {"/run/x": "[connection]\ninterface-name=wlP9s9\n[ipv4]\naddress1=10.9.0.1/24\n"}},
    ],
)
def test_what_says_nothing_about_the_port_does_not_hinder(changes: dict[str, Any]) -> None:
    assert decide(seen(**changes), WISHES).state == WRITE


@pytest.mark.parametrize(
    ("now", "wishes", "words"),
    [
        (seen(management={SECOND: "carries the default route"}), WISHES, f"{SECOND} carries the default route"),
        (seen(lan=["192.168.200.5/24"]), WISHES, "enP7s7 has 192.168.200.5/24, which lies in 192.168.200.0/24"),
        (seen(0, 1), WISHES, "QSFP ports with a link: port 0, port 1. Expected: exactly one"),
        (seen(0, 1), Wishes(12, [11], WISHES.subnets, port=2), "Expected: a link on port 2"),
        (Seen({"ports": [], "hcas": [], "reason": "no ConnectX NIC is on PCI"}, []), WISHES, "no ConnectX NIC"),
        (seen(), Wishes(12, [11], ["192.168.200.0/24"]), "Expected: 2, apart"),
        (seen(), Wishes(12, [11], ["10.1.0.0/16", "10.1.2.0/24"]), "Expected: 2, apart"),
        (seen(), Wishes(12, [11], ["here", "there"]), "Expected: like 192.168.200.0/24"),
        (seen(), Wishes(12, [255], WISHES.subnets), "host number 255 is not in 192.168.200.0/24"),
        (seen(), Wishes(0, [11], WISHES.subnets), "host number 0 is not in"),
    ],
)
def test_refusals_say_what_was_seen_and_what_to_do(now: Seen, wishes: Wishes, words: str) -> None:
    found = decide(now, wishes)
    assert (found.state, found.content) == (REFUSED, "")
    assert words in found.reason
    assert "Expected: " in found.reason and "Next step: " in found.reason


def test_two_cables_and_one_of_them_chosen() -> None:
    assert decide(seen(0, 1), Wishes(12, [11], WISHES.subnets, port=1)).state == WRITE


def test_interfaces_with_a_default_route() -> None:
    route = (
        "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n"
        "wlP9s9\t00000000\t0100000A\t0003\t0\t0\t600\t00000000\t0\t0\t0\n"
        "enP7s7\t0000000A\t00000000\t0001\t0\t0\t100\t00FFFFFF\t0\t0\t0\n"
    )
    zero = "0" * 32
    route6 = f"{zero} 00 {zero} 00 fe80{'0' * 28} 00000064 00000001 00000000 00000003 enP8s8\n"
    route6 += f"{zero} 00 {zero} 00 {zero} ffffffff 00000001 00000000 00200200 lo\n"
    assert act.default_routes(route, route6) == {"wlP9s9", "enP8s8"}
    assert act.default_routes("", "") == set()


def test_the_address_of_the_login_is_found_above_sudo(tmp_path: Any) -> None:
    tree = {
        30: (20, b"PATH=/bin\0"),
        20: (10, b"SUDO_USER=spark\0"),
        10: (1, b"SSH_CONNECTION=10.0.0.1 5 10.0.0.7 22\0"),
    }
    for pid, (parent, environ) in tree.items():
        (tmp_path / str(pid)).mkdir()
        (tmp_path / str(pid) / "environ").write_bytes(environ)
        (tmp_path / str(pid) / "stat").write_text(f"{pid} (a (b) c) S {parent} 0 0")
    assert act.login_addresses(str(tmp_path), 30) == {"10.0.0.7"}
    assert act.login_addresses(str(tmp_path), 31) == set()


def test_management_is_found_by_route_login_and_name() -> None:
    interfaces = [{"name": "enP7s7", "ipv4": ["10.0.0.7/24"]}, {"name": FIRST, "ipv4": ["10.9.0.1/24"]}]
    found = act.management(interfaces, {"wlP9s9"}, {"10.0.0.7"}, ["spark-a.local"])
    assert set(found) == {"wlP9s9", "enP7s7"}
    assert set(act.management(interfaces, set(), set(), ["10.9.0.1"])) == {FIRST}


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ((0, "gb10-main-rank1\n", ""), (["gb10-main-rank1"], "")),
        ((0, "", ""), ([], "")),
        ((1, "", "Cannot connect to the Docker daemon. Is the docker daemon running?"), ([], "")),
        ((1, "", "permission denied"), ([], "permission denied")),
    ],
)
def test_ranks_that_run(answer: tuple[int, str, str], expected: tuple[list[str], str]) -> None:
    assert act.running_ranks(lambda argv: answer, "docker") == expected
    assert act.running_ranks(lambda argv: (1, "", "never asked"), None) == ([], "")


NETPLAN = shutil.which("netplan", path="/usr/sbin:/usr/bin:/sbin:/bin")


def generated(root: Path) -> subprocess.CompletedProcess[str]:
    """The real netplan on a folder of its own; it writes below that folder and nowhere else."""
    assert NETPLAN
    return subprocess.run([NETPLAN, "generate", "--root-dir", str(root)], capture_output=True, text=True, check=False)


@pytest.mark.skipif(NETPLAN is None, reason="the program netplan is not installed (package netplan.io)")
@pytest.mark.parametrize("present", [False, True])
def test_netplan_takes_the_file_and_joins_it_with_another(tmp_path: Path, present: bool) -> None:
    files = {FILE: decide(seen(), WISHES).content}
    if present:
        files["/etc/netplan/01-lan.yaml"] = "network:\n  version: 2\n  ethernets:\n    enP7s7:\n      dhcp4: true\n"
    for name, text in files.items():
        path = tmp_path / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o600)
    done = generated(tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    units = {path.name: path.read_text() for path in (tmp_path / "run/systemd/network").iterdir()}
    for netdev, address in ((FIRST, "192.168.200.12/24"), (SECOND, "192.168.201.12/24")):
        unit = units[f"10-netplan-{netdev}.network"]
        assert f"Address={address}" in unit and "DHCP=" not in unit
        assert "MTUBytes=9000" in unit + units.get(f"10-netplan-{netdev}.link", "")
        assert "RequiredForOnline=no" in unit
    assert ("10-netplan-enP7s7.network" in units) == present


@pytest.mark.skipif(NETPLAN is None, reason="the program netplan is not installed (package netplan.io)")
def test_netplan_refuses_what_is_wrong(tmp_path: Path) -> None:
    """So that the test above can fail."""
    path = tmp_path / FILE.lstrip("/")
    path.parent.mkdir(parents=True)
    path.write_text(decide(seen(), WISHES).content.replace("/24]", "/240]"))
    path.chmod(0o600)
    assert generated(tmp_path).returncode != 0


def test_a_port_that_is_set_down_is_to_be_brought_up() -> None:
    now = seen()
    now.fabric["ports"][0]["verdict"] = "set-down"
    for hca in now.fabric["hcas"]:
        hca.update(state="DOWN", netdev_up=False, netdev_enabled=False)
    found = decide(now, WISHES)
    assert (found.state, f"set down: {SECOND}, {FIRST}" in found.reason) == (REFUSED, True)
    assert f"'sudo ip link set dev {FIRST} up'" in found.reason and "cable" not in found.reason
