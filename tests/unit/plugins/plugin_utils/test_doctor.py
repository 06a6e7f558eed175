# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""Every row of the doctor: what makes it good, what makes it bad, and what is never called good."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from ansible_collections.gb10.serving.plugins.plugin_utils import _doctor_table
from ansible_collections.gb10.serving.plugins.plugin_utils._doctor import (
    Node,
    Report,
    Row,
    Settings,
    examine,
    no_hosts,
    not_testable,
)

GIB = 1024**3
GB = 10**9
SETTINGS = Settings(ports={"endpoint": 8000, "rendezvous": 29501})
NETDEVS = (("rocep1s0f0", "enp1s0f0np0", 200), ("roceP2p1s0f0", "enP2p1s0f0np0", 201))


def facts(number: int = 1, **changes: Any) -> dict[str, Any]:
    """A sound machine. Changes name a key by its path, as docker__available."""
    found: dict[str, Any] = {
        "platform": {
            "is_gb10": True,
            "evidence": "GPU name",
            "vendor": "NVIDIA",
            "product": "NVIDIA_DGX_Spark",
            "kernel": "6.17.0-1021-nvidia",
            "arch": "aarch64",
            "driver": "580.159.03",
        },
        "memory": {
            "verdict": "roomy",
            "remedy": None,
            "total_bytes": 120 * GIB,
            "available_bytes": 110 * GIB,
            "free_bytes": 108 * GIB,
            "driver_pools_bytes": 0,
            "swap_total_bytes": 16 * GIB,
            "swap_free_bytes": 16 * GIB,
            "cma_total_bytes": 131072 * 1024,
            "cma_free_bytes": 69320 * 1024,
        },
        "gpu": {"processes": []},
        "docker": {
            "available": True,
            "error": None,
            "version": "28.3.3",
            "storage_driver": "overlay2",
            "containerd_store": False,
            "runtimes": ["nvidia", "runc"],
            "cdi_devices": [],
            "nvidia": True,
            "root_dir": "/var/lib/docker",
            "root_free_bytes": 2000 * GB,
            "user": "spark",
            "user_in_group": False,
        },
        "storage": [{"path": "/m", "exists_path": "/m", "free_bytes": 2000 * GB, "writable": True}],
        "network": {"listening_tcp_ports": [22]},
        "containers": [],
        "fabric": {
            "hcas": [
                {
                    "name": name,
                    "netdev": netdev,
                    "state": "ACTIVE",
                    "rate_gbps": 200,
                    "netdev_mtu": 9000,
                    "ipv4": f"192.168.{net}.{10 + number}/24",
                    "gid_index": 3,
                    "gid_known": True,
                    "gid_reason": None,
                }
                for name, netdev, net in NETDEVS
            ],
            "ports": [
                {
                    "port": 0,
                    "hcas": [name for name, *_ in NETDEVS],
                    "verdict": "unmeasured",
                    "findings": ["unmeasured"],
                },
                {"port": 1, "hcas": [], "verdict": "no-link", "findings": ["no-link"], "remedy": "Plug it in."},
            ],
            "verdict": "unmeasured",
            "reason": None,
            "hotplug": {"driver": True, "plugged_after_boot": []},
        },
        "missing": {},
    }
    for path, value in changes.items():
        target: Any = found
        *parents, last = path.split("__")
        for parent in parents:
            target = target[int(parent) if parent.isdigit() else parent]
        target[last] = value
    return found


def entry(source: str, target: str, rails: list[int], gbps: float | None = 98.0, **changes: Any) -> dict[str, Any]:
    return {
        "source": source,
        "target": target,
        "rails": rails,
        "bits_per_second": None if gbps is None else round(gbps * 1e9),
        "expected_bits_per_second": round(98.3e9) * len(rails),
        "class": "good",
        "level": "good",
        "cause": "",
        "remedy": "",
        **changes,
    }


def measured(**changes: Any) -> dict[str, Any]:
    both = [("a", "b"), ("b", "a")]
    figures = [entry(*pair, rails, 98.0 * len(rails)) for rails in ([0], [1], [0, 1]) for pair in both]
    return {
        "paths": [],
        "findings": [],
        "fabric": {"entries": figures, "kept": False, "measured_at": "2026-11-30 12:00:00 UTC"},
        "reason": "",
        **changes,
    }


def pair(serving: bool = False, **changes: Any) -> list[Node]:
    """Two nodes; the changes are those of the second."""
    return [Node("a", facts(1)), Node("b", facts(2, **changes), serving=serving)]


def row(report: Report, host: str, what: str) -> Row:
    found = [item for item in report.rows if (item.host, item.what) == (host, what)]
    assert len(found) == 1, [(item.host, item.what) for item in report.rows]
    return found[0]


def test_addresses_that_were_not_read_are_not_judged() -> None:
    nodes = pair()
    for hca in nodes[1].facts["fabric"]["hcas"]:
        hca.update(ipv4=None, addresses=[], ipv4_known=False)
    found = row(examine(nodes, SETTINGS), "fabric", "addresses unknown")
    assert (found.verdict, "run the probe" in found.remedy.lower()) == ("unmeasured", True)
    assert "netplan" not in found.remedy


def test_a_port_of_which_most_was_not_read_is_not_called_fine() -> None:
    nodes = pair()
    for hca in nodes[1].facts["fabric"]["hcas"]:
        hca.update(pcie=None, gid_known=False)
    assert "not read: PCIe link, GID table" in row(examine(nodes, SETTINGS), "b", "QSFP port 0").seen


def test_a_sound_pair_is_ok_once_it_is_measured() -> None:
    report = examine(pair(), SETTINGS, measured())
    assert {item.verdict for item in report.rows} <= {"ok", "info", "unmeasured"}
    assert report.verdict == "ok"
    assert row(report, "fabric", "rails").seen == "pair, rail 0 is 192.168.200.0/24, rail 1 is 192.168.201.0/24"
    assert row(report, "fabric", "all rails together").seen == "a to b and back: 196.0 Gb/s / 196.0 Gb/s, good"
    assert row(report, "a", "GID of rocep1s0f0").seen == "index 3"


def test_without_a_measurement_nothing_about_speed_is_called_good() -> None:
    report = examine(pair(), SETTINGS)
    assert row(report, "fabric", "bandwidth").verdict == "unmeasured"
    assert row(report, "fabric", "paths").verdict == "unmeasured"
    assert row(report, "a", "QSFP port 0").verdict == "unmeasured"
    assert report.verdict == "ok" and "unmeasured, " in report.summary


@pytest.mark.parametrize(
    ("what", "changes", "verdict", "seen", "remedy"),
    [
        ("platform", {"platform__is_gb10": False}, "warning", "is not a GB10 (by GPU name)", "inventory"),
        ("platform", {"platform__is_gb10": None}, "unmeasured", "could not be read", "sudo"),
        ("kernel", {"platform__kernel": "7.0.0-1019-nvidia"}, "warning", "7.0.0-1019-nvidia, known", "6.17"),
        (
            "kernel",
            {"memory__cma_total_bytes": 0, "memory__cma_free_bytes": 220924 * 1024},
            "error",
            "CmaTotal 0 with CmaFree 220924 kB",
            "kho=off",
        ),
        ("kernel", {"memory__cma_total_bytes": 0, "memory__cma_free_bytes": 0}, "ok", "6.17", ""),
        ("driver", {"platform__driver": None}, "error", "could not be read", "nvidia-smi"),
        ("driver", {"platform__driver": "590.10"}, "warning", "590.10", "DGX OS"),
        ("memory", {"memory__verdict": "too-little-to-start", "memory__remedy": "Stop it."}, "error", "110.0", "Stop"),
        ("memory", {"memory__verdict": "in-use", "memory__remedy": "Stop it."}, "warning", "in-use", "Stop it."),
        ("memory", {"memory__verdict": None}, "unmeasured", "could not be read", ""),
        ("swap", {"memory__swap_free_bytes": 9 * GIB}, "warning", "7.0 GiB of 16.0 GiB", "short of memory"),
        ("swap", {"memory__swap_total_bytes": 0, "memory__swap_free_bytes": 0}, "info", "no swap", ""),
        (
            "docker",
            {"docker__available": False, "docker__error": "The daemon is not running (x). Start it: sudo y"},
            "error",
            "The daemon is not running (x)",
            "Start it: sudo y",
        ),
        ("GPU in containers", {"docker__nvidia": False, "docker__runtimes": ["runc"]}, "error", "runc", "nvidia-ctk"),
        ("GPU in containers", {"docker__cdi_devices": ["nvidia.com/gpu=all"]}, "ok", "nvidia.com/gpu=all", ""),
        ("docker group", {}, "info", "spark is not in group docker", ""),
        ("docker group", {"docker__user_in_group": True}, "info", "spark is in group docker", ""),
        ("disk for images", {"docker__root_free_bytes": 50 * GB}, "warning", "50.0 GB free", "docker system df"),
        ("disk for images", {"docker__root_free_bytes": 1 * GB}, "error", "1.0 GB free", "docker system df"),
        ("disk for images", {"docker__root_free_bytes": None}, "unmeasured", "could not be read", ""),
        ("disk for models", {}, "info", "2000.0 GB free in /m", ""),
        ("disk for models", {"storage__0__writable": False}, "warning", "not writable", "chown"),
        ("disk for models", {"storage__0__free_bytes": 1}, "error", "0.0 GB", "gb10_model_root"),
        (
            "GPU memory",
            {
                "gpu__processes": [{"pid": 7, "name": "VLLM", "used_bytes": 90 * GIB, "container_id": "c1"}],
                "containers": [{"name": "other", "id": "c1", "image": "x"}],
            },
            "warning",
            "VLLM (pid 7) in container other holds 90.0 GiB",
            "'sudo docker stop other'",
        ),
        ("GPU memory", {"gpu__processes": [{"pid": 7, "name": "Xorg", "used_bytes": GIB // 2}]}, "ok", "less than", ""),
        ("GPU memory", {"gpu__processes": None}, "unmeasured", "could not be read", ""),
        ("MTU of enp1s0f0np0", {"fabric__hcas__0__netdev_mtu": 1500}, "info", "1500; see 'mtu differs'", ""),
        ("MTU of enp1s0f0np0", {"fabric__hcas__0__netdev_mtu": None}, "unmeasured", "could not be read", ""),
        (
            "GID of rocep1s0f0",
            {"fabric__hcas__0__gid_index": None, "fabric__hcas__0__gid_reason": "no RoCE v2 entry"},
            "warning",
            "no RoCE v2 entry",
            "down and up again",
        ),
        (
            "GID of rocep1s0f0",
            {"fabric__hcas__0__gid_index": None, "fabric__hcas__0__gid_known": False},
            "unmeasured",
            "not known",
            "",
        ),
        ("QSFP port 1", {}, "info", "no link", ""),
        (
            "QSFP port 0",
            {"fabric__ports__0__verdict": "twin-down", "fabric__ports__0__findings": ["twin-down", "pcie-degraded"]},
            "warning",
            "one of its two interfaces is down; a PCIe link is slower than Gen5 x4 (200 Gb/s)",
            "",
        ),
        (
            "QSFP port 0",
            {"fabric__ports__0__verdict": "no-link", "fabric__ports__0__remedy": "Plug"},
            "error",
            "",
            "Plug",
        ),
        ("QSFP port 0", {"fabric__ports__0__verdict": "unknown"}, "unmeasured", "", ""),
        ("cable", {"fabric__hotplug__plugged_after_boot": ["p0"]}, "warning", "p0", "Reboot both"),
        (
            "fabric ports",
            {"fabric": {"hcas": [], "ports": [], "verdict": "no-nic", "reason": "no NIC. Power off"}},
            "error",
            "no NIC",
            "Power off",
        ),
        (
            "fabric ports",
            {"fabric": {"hcas": [], "verdict": None, "reason": "nothing here"}},
            "unmeasured",
            "nothing",
            "",
        ),
    ],
)
def test_a_row_of_a_node(what: str, changes: dict[str, Any], verdict: str, seen: str, remedy: str) -> None:
    found = row(examine(pair(**changes), SETTINGS), "b", what)
    assert found.verdict == verdict
    assert seen in found.seen and remedy in found.remedy
    assert found.expected
    assert found.remedy or verdict not in ("warning", "error") or what == "QSFP port 0"


@pytest.mark.parametrize(("gpus", "rdma"), [("", True), ("", False)])
def test_what_a_deployment_does_not_ask_for_is_not_missed(gpus: str, rdma: bool) -> None:
    settings = Settings(gpus=gpus, rdma=rdma)
    report = examine(pair(docker__nvidia=False, fabric__hcas__0__gid_index=None), settings)
    assert row(report, "b", "GPU in containers").verdict == "info"
    assert row(report, "b", "GID of rocep1s0f0").verdict == ("warning" if rdma else "info")


@pytest.mark.parametrize(
    ("serving", "containers", "verdict", "seen"),
    [
        (False, [], "error", "in use"),
        (False, [{"name": "web", "image": "nginx", "id": "1", "ports": [8000]}], "error", "by container web (nginx)"),
        (True, [], "info", "held by the rank"),
    ],
)
def test_ports_of_the_head(serving: bool, containers: list[Any], verdict: str, seen: str) -> None:
    taken = facts(1, network__listening_tcp_ports=[22, 8000], containers=containers)
    report = examine([Node("a", taken, serving=serving), Node("b", facts(2))], SETTINGS)
    found = row(report, "a", "TCP port 8000")
    assert (found.verdict, row(report, "a", "TCP port 29501").verdict) == (verdict, "ok")
    assert seen in found.seen
    assert not [item for item in report.rows if item.host == "b" and item.what.startswith("TCP port")]


def test_a_running_rank_may_hold_memory_and_gpu() -> None:
    held = {
        "memory__verdict": "too-little-to-start",
        "gpu__processes": [{"pid": 7, "name": "V", "used_bytes": 90 * GIB}],
    }
    report = examine(pair(serving=True, **held), SETTINGS)
    assert (row(report, "b", "memory").verdict, row(report, "b", "GPU memory").verdict) == ("info", "info")


@pytest.mark.parametrize(
    ("what", "changes", "verdict"),
    [
        ("kernels", {"platform__kernel": "6.17.0-1008-nvidia"}, "warning"),
        ("drivers", {"platform__driver": "580.95.05"}, "warning"),
        ("architecture", {"platform__arch": "x86_64"}, "error"),
        ("kernels", {"platform__kernel": None}, "unmeasured"),
        ("kernels", {}, "ok"),
    ],
)
def test_nodes_are_compared(what: str, changes: dict[str, Any], verdict: str) -> None:
    found = row(examine(pair(**changes), SETTINGS), "fabric", what)
    assert found.verdict == verdict
    if verdict in ("warning", "error"):
        assert "a " in found.seen and "b " in found.seen and found.remedy


@pytest.mark.parametrize(
    ("changes", "what", "verdict", "seen", "remedy"),
    [
        (
            {"fabric__hcas__0__ipv4": "10.9.0.2/24", "fabric__hcas__1__ipv4": "10.8.0.2/24"},
            "no common subnet",
            "error",
            "10.9.0.2/24",
            "b the netplan file that configures enp1s0f0np0",
        ),
        ({"fabric__hcas__1__ipv4": None}, "one rail", "warning", "only one rail, 192.168.200.0/24", "second subnet"),
        (
            {"fabric__hcas__0__netdev_mtu": 1500},
            "mtu differs",
            "warning",
            "enp1s0f0np0 has 1500",
            "Set MTU 9000, on b in",
        ),
        ({"fabric__hcas__0__ipv4": "192.168.200.11/24"}, "duplicate address", "error", "192.168.200.11", "another"),
    ],
)
def test_problems_of_the_pairing_are_rows(
    changes: dict[str, Any], what: str, verdict: str, seen: str, remedy: str
) -> None:
    found = row(examine(pair(**changes), SETTINGS), "fabric", what)
    assert found.verdict == verdict
    assert seen in found.seen and "Expected" not in found.seen and found.expected and remedy in found.remedy


OFF = {"state": "DOWN", "netdev_up": False, "netdev_enabled": False}


def without_link(number: int, verdict: str, *devices: int, **state: Any) -> dict[str, Any]:
    """A machine on whose cabled port these devices carry nothing."""
    found = facts(number, fabric__ports__0__verdict=verdict, fabric__ports__0__findings=[verdict])
    found["fabric"]["ports"][0]["remedy"] = "Do something to the port."
    for device in devices:
        found["fabric"]["hcas"][device].update(state)
    return found


def wrong(report: Report) -> dict[tuple[str, str], Row]:
    return {(item.host, item.what): item for item in report.rows if item.verdict in ("warning", "error")}


def test_one_interface_that_is_set_down_is_one_cause_with_its_name() -> None:
    found = wrong(examine([Node("a", facts(1)), Node("b", without_link(2, "twin-down", 1, **OFF))], SETTINGS))
    assert set(found) == {("b", "QSFP port 0"), ("fabric", "one rail")}
    assert "enP2p1s0f0np0 is set down" in found["b", "QSFP port 0"].seen
    assert "enP2p1s0f0np0 (192.168.201.12/24) is set down" in found["fabric", "one rail"].seen
    assert found["fabric", "one rail"].remedy.startswith("On b, 'sudo ip link set dev enP2p1s0f0np0 up'")


def test_a_port_that_is_set_down_is_one_fault_and_the_unused_one_is_none() -> None:
    dark = Node("b", without_link(2, "set-down", 0, 1, **OFF))
    # the other end of the cable loses its carrier with it
    other = without_link(1, "no-link", 0, 1, state="DOWN", netdev_up=False, netdev_enabled=True)
    found = wrong(examine([Node("a", facts(1)), dark], SETTINGS))
    assert set(found) == {("b", "QSFP port 0"), ("fabric", "no fabric link")}
    assert "cable" not in found["fabric", "no fabric link"].remedy
    found = wrong(examine([Node("a", other), dark], SETTINGS))
    assert "on b, 'sudo ip link set dev enp1s0f0np0 up'" in found["a", "QSFP port 0"].remedy
    assert ("a", "QSFP port 1") not in found and ("b", "QSFP port 1") not in found


def test_without_any_cable_one_port_is_the_error() -> None:
    bare = without_link(2, "no-link", 0, 1, state="DOWN", ipv4=None)
    report = examine([Node("a", facts(1)), Node("b", bare)], SETTINGS)
    assert [row(report, "b", f"QSFP port {port}").verdict for port in (0, 1)] == ["error", "info"]


def test_an_mtu_that_is_too_small_is_one_row_with_a_remedy() -> None:
    finding = {"code": "mtu", "level": "error", "rail": 0, "where": "b", "seen": "x.", "expected": "y.", "remedy": "z."}
    nodes = pair(fabric__hcas__0__netdev_mtu=1500)
    report = examine(nodes, SETTINGS, measured(paths=[finding]))
    assert set(wrong(report)) == {("fabric", "rail 0 mtu")}
    assert row(report, "b", "MTU of enp1s0f0np0").seen == "1500; see 'rail 0 mtu' of the fabric"
    assert set(wrong(examine(nodes, SETTINGS, measured()))) == {("fabric", "mtu differs")}
    both = [Node(host, facts(n, fabric__hcas__0__netdev_mtu=1500)) for n, host in ((1, "a"), (2, "b"))]
    small = wrong(examine(both, SETTINGS, measured()))["a", "MTU of enp1s0f0np0"]
    assert "in the netplan file that configures enp1s0f0np0" in small.remedy
    large = row(examine(pair(), Settings(mtu=1500)), "b", "MTU of enp1s0f0np0")
    assert (large.expected, large.verdict) == ("MTU 1500 at least", "ok")


@pytest.mark.parametrize(("gate", "verdict"), [("fail", "error"), ("warn", "warning"), ("off", "warning")])
def test_what_the_gate_makes_of_errors_of_the_fabric(gate: str, verdict: str) -> None:
    finding = {
        "code": "no path",
        "level": "error",
        "rail": 0,
        "where": "b",
        "seen": "x",
        "expected": "y",
        "remedy": "z",
    }
    report = examine(pair(), Settings(gate=gate), measured(paths=[finding], fabric={"entries": [slow()]}))
    assert (row(report, "fabric", "rail 0 no path").verdict, row(report, "fabric", "rail 0").verdict) == (verdict,) * 2
    assert report.verdict == verdict
    # without a rail a deploy stops, whatever the gate
    apart = pair(fabric__hcas__0__ipv4="10.9.0.2/24", fabric__hcas__1__ipv4="10.8.0.2/24")
    assert examine(apart, Settings(gate=gate)).verdict == "error"


def test_a_gate_that_is_off_is_the_reason() -> None:
    report = examine(pair(), Settings(gate="off"))
    assert "gb10_fabric_gate is off" in row(report, "fabric", "paths").seen
    assert "gb10_fabric_gate is off" in row(report, "fabric", "bandwidth").seen


def test_a_value_that_the_test_does_not_take_is_an_error() -> None:
    refused = {"refused": ["gb10_fabric_seconds is 1"], "failed": True}
    found = row(examine(pair(), Settings(gate="warn"), refused), "fabric", "settings")
    assert (found.verdict, found.seen) == ("error", "gb10_fabric_seconds is 1.")


def test_ports_show_what_was_measured_on_their_rails() -> None:
    good = row(examine(pair(), SETTINGS, measured()), "a", "QSFP port 0")
    assert (good.verdict, "98.0 to 98.0 Gb/s were measured" in good.seen) == ("ok", True)
    figures = [slow(), entry("b", "a", [0]), entry("a", "b", [1]), entry("b", "a", [1])]
    bad = row(examine(pair(), SETTINGS, measured(fabric={"entries": figures})), "b", "QSFP port 0")
    assert (bad.verdict, "13.0 to 98.0 Gb/s" in bad.seen, bad.remedy) == ("info", True, "")
    none = row(examine(pair(), SETTINGS), "a", "QSFP port 0")
    assert (none.verdict, none.remedy) == ("unmeasured", "The rows of the fabric say why.")


def test_a_run_that_is_limited_to_one_node_says_so() -> None:
    report = examine([Node("a", facts(1))], Settings(total=2))
    rails = row(report, "fabric", "rails")
    assert (rails.seen, rails.verdict) == ("limited to 1 of 2 nodes", "info") and "--limit" in rails.remedy
    assert "--limit" in row(report, "a", "QSFP port 0").remedy
    alone = row(examine([Node("a", facts(1))], Settings(total=1)), "a", "QSFP port 0")
    assert alone.remedy == "Speed is measured between nodes."


def test_what_was_not_measured_both_ways_is_said_once() -> None:
    figures = [
        entry(*way, [0], None, **{"class": "unmeasured", "level": "warning"}) for way in (("a", "b"), ("b", "a"))
    ]
    found = row(examine(pair(), SETTINGS, measured(fabric={"entries": figures})), "fabric", "rail 0")
    assert found.seen == "a to b and back: unmeasured"


def test_figures_and_counts_are_numbers_too() -> None:
    found = examine(pair(), SETTINGS, measured()).as_dict()
    assert sum(found["counts"].values()) == len(found["rows"])
    assert (
        found["summary"].endswith(f"({len(found['rows'])} rows)")
        and f"{found['counts']['info']} info" in found["summary"]
    )
    assert found["bandwidth"][0] == {
        "source": "a",
        "target": "b",
        "rails": [0],
        "gbps": 98.0,
        "expected_gbps": 98.3,
        "method": None,
        "class": "good",
        "measured_at": "2026-11-30 12:00:00 UTC",
    }


def slow(**changes: Any) -> dict[str, Any]:
    words = {"class": "degraded", "level": "error", "cause": "cable plugged in while it ran.", "remedy": "reboot both."}
    return entry("a", "b", [0], 13.0, **{**words, **changes})


@pytest.mark.parametrize(
    ("figures", "verdict", "seen", "remedy"),
    [
        ([slow()], "error", "a to b: 13.0 Gb/s, degraded", "Cable plugged in while it ran. Reboot both."),
        ([entry("b", "a", [0]), slow()], "error", "b to a and back: 98.0 Gb/s / 13.0 Gb/s, degraded", "Reboot both."),
        ([slow(bits_per_second=None, level="warning")], "unmeasured", "unmeasured", "Reboot"),
        ([slow(bits_per_second=None)], "error", "unmeasured", "Reboot"),
        ([slow(level="note", **{"class": "TCP only"})], "info", "TCP only", ""),
        ([slow(level="odd")], "unmeasured", "degraded", ""),
    ],
)
def test_figures(figures: list[dict[str, Any]], verdict: str, seen: str, remedy: str) -> None:
    report = examine(pair(), SETTINGS, measured(fabric={"entries": figures}))
    found = row(report, "fabric", "rail 0")
    assert found.verdict == verdict
    assert seen in found.seen and remedy in found.remedy
    assert "98.3 Gb/s" in found.expected


def test_findings_about_paths_and_changes_are_rows_and_kept_figures_say_when() -> None:
    finding = {
        "code": "firewall",
        "level": "error",
        "where": "b",
        "seen": "no TCP",
        "expected": "TCP",
        "remedy": "open",
    }
    changed = {**finding, "code": "changed", "level": "warning", "rail": 1}
    fabric = {**measured()["fabric"], "kept": True}
    report = examine(pair(), SETTINGS, measured(paths=[finding], findings=[changed, {**finding}], fabric=fabric))
    assert row(report, "fabric", "firewall") == Row("fabric", "firewall", "b: no TCP", "TCP", "error", "Open.")
    assert row(report, "fabric", "rail 1 changed").verdict == "warning"
    assert row(report, "fabric", "rail 1").seen.endswith("(measured 2026-11-30 12:00:00 UTC)")


@pytest.mark.parametrize(("failed", "verdict"), [(True, "warning"), (False, "unmeasured")])
def test_why_nothing_was_measured(failed: bool, verdict: str) -> None:
    report = examine(pair(), SETTINGS, {"failed": failed, "reason": "ranks run", "paths": None})
    found = row(report, "fabric", "bandwidth")
    assert (found.verdict, found.seen, bool(found.remedy)) == (verdict, "ranks run", failed)
    # in the words that a measured rail gets
    assert found.expected == "about 98.3 Gb/s a rail"
    for settings, expected in (
        (Settings(rdma=False), "nothing to compare it with"),
        (Settings(rdma=False, expected_gbps=40), "about 40.0 Gb/s a rail"),
    ):
        report = examine(pair(), settings, {"reason": "ranks run"})
        assert row(report, "fabric", "bandwidth").expected == expected


def test_one_node_is_not_told_about_missing_others_or_cables() -> None:
    bare = {"hcas": [], "ports": [], "verdict": "no-nic", "reason": "no NIC. Power off"}
    report = examine([Node("a", facts(1, fabric=bare))], SETTINGS)
    assert {item.verdict for item in report.rows} == {"ok", "info"}
    assert row(report, "fabric", "rails").expected == "nothing: one node needs no fabric"
    unplugged = facts(1, fabric__ports__0__verdict="no-link", fabric__ports__0__findings=["no-link"])
    assert row(examine([Node("a", unplugged)], SETTINGS), "a", "QSFP port 0").verdict == "info"
    small = facts(1, fabric__hcas__0__netdev_mtu=1500, fabric__hcas__1__ipv4=None)
    assert examine([Node("a", small)], SETTINGS).verdict == "ok"


PROBE = (
    "Task failed: Cannot reach b (10.0.0.7). Seen: ssh: connect to host 10.0.0.7 port 22: Connection timed out. "
    "Expected: Ansible can log in over ssh. Next: try 'ssh spark@10.0.0.7' from this machine."
)


def test_a_host_that_cannot_be_reached_is_one_row_and_the_rest_goes_on() -> None:
    report = examine([Node("a", facts(1)), Node("b", failure=PROBE)], SETTINGS)
    assert [item.what for item in report.rows if item.host == "b"] == ["probe"]
    found = row(report, "b", "probe")
    assert found.seen == "Cannot reach b (10.0.0.7): ssh: connect to host 10.0.0.7 port 22: Connection timed out"
    assert (found.expected, found.verdict) == ("Ansible can log in over ssh", "error")
    assert found.remedy == "Try 'ssh spark@10.0.0.7' from this machine."
    assert row(report, "fabric", "rails").verdict == "unmeasured"
    assert row(report, "a", "kernel").verdict == "ok"
    assert row(examine([Node("a", failure="odd words")], SETTINGS), "a", "probe").seen == "odd words"


@pytest.mark.parametrize("part", ["platform", "memory", "gpu", "docker", "storage", "network", "containers", "fabric"])
def test_a_part_that_was_not_read_is_never_good(part: str) -> None:
    full = examine(pair(), SETTINGS).rows
    less = copy.deepcopy(facts(2))
    del less[part]
    rows = examine([Node("a", facts(1)), Node("b", less)], SETTINGS).rows
    good = {(item.host, item.what) for item in rows if item.verdict == "ok"}
    assert good <= {(item.host, item.what) for item in full if item.verdict == "ok"}
    if part not in ("storage", "containers", "network", "gpu"):
        assert len(good) < len([item for item in full if item.verdict == "ok"])


@pytest.mark.parametrize(
    ("nodes", "words"),
    [
        (pair(), ""),
        ([Node("a", facts(1)), Node("b", failure="x")], "b could not be probed"),
        ([Node("a", facts(1))], "one node"),
        (pair(fabric__hcas__0__ipv4="10.9.0.2/24", fabric__hcas__1__ipv4=None), "rails have errors"),
    ],
)
def test_whether_the_fabric_can_be_tested(nodes: list[Node], words: str) -> None:
    reason = not_testable(nodes)
    assert words in reason and bool(reason) == bool(words)


def test_the_file_has_what_it_promises() -> None:
    found = examine(pair(docker__available=False, docker__error="no"), SETTINGS).as_dict()
    assert found["verdict"] == "error"
    assert all(set(item) == {"host", "what", "seen", "expected", "verdict", "remedy"} for item in found["rows"])
    assert no_hosts("sparks").as_dict()["verdict"] == "error"


@pytest.mark.parametrize("width", [40, 100, 160, 400])
def test_the_table_holds_every_word_within_its_width(width: int) -> None:
    report = examine(pair(docker__available=False, docker__error="gone. Start it"), SETTINGS, measured())
    lines = list(_doctor_table.lines(report.rows, width))
    assert max(len(text) for _verdict, text in lines) <= min(max(width, 100), 200)
    assert [text for _verdict, text in lines if text.endswith(":")][:3] == ["a:", "b:", "fabric:"]
    shown = "".join("".join(text.split()) for _verdict, text in lines)
    assert all("".join(item.what.split()) in shown for item in report.rows)
    assert [verdict for verdict, text in lines if text.startswith("docker ")] == ["ok", "info", "error"]
