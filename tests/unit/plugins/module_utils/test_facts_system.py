# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""Memory, GPU, network, docker and storage: the parsers one by one."""

from __future__ import annotations

import json
import socket
import sys
import threading
from pathlib import Path

import pytest

from ansible_collections.gb10.serving.plugins.module_utils import _facts_docker as docker
from ansible_collections.gb10.serving.plugins.module_utils import _facts_gpu as gpu
from ansible_collections.gb10.serving.plugins.module_utils import _facts_memory as memory
from ansible_collections.gb10.serving.plugins.module_utils import _facts_network as network
from ansible_collections.gb10.serving.plugins.module_utils import _facts_storage as storage
from ansible_collections.gb10.serving.plugins.module_utils._facts_source import Output, run

GIB = 1024**3

MEMORY = [
    # total, available, free, pools -> verdict (GiB)
    (121, 115, 112, 0, "roomy"),
    (121, 115, 41, 1, "page-cache-in-the-way"),
    (121, 38, 2, 80, "driver-keeps-freed-pools"),
    (121, 7, 2, None, "too-little-to-start"),
    (121, 60, 58, 1, "in-use"),
    (None, 60, 58, 1, None),
]


@pytest.mark.parametrize(("total", "available", "free", "pools", "verdict"), MEMORY)
def test_memory_verdicts(
    total: int | None, available: int | None, free: int | None, pools: int | None, verdict: str | None
) -> None:
    sizes = [None if value is None else value * GIB for value in (total, available, free, pools)]
    assert memory.judge(sizes[0], sizes[1], sizes[2], sizes[3]) == verdict
    assert verdict is None or verdict in memory.VERDICTS


def test_hugepages_count_as_known_memory_and_replace_swap() -> None:
    values = memory.parse_meminfo(
        "MemTotal: 1000 kB\nMemFree: 100 kB\nMemAvailable: 300 kB\nBuffers: 10 kB\nCached: 200 kB\nAnonPages: 50 kB\n"
        "SUnreclaim: 20 kB\nSwapFree: 77 kB\nHugePages_Total: 20\nHugePages_Free: 5\nHugepagesize: 20 kB\n"
    )
    assert memory.driver_held(values) == ((1000 - 380 - 400) * 1024, None)
    assert memory.vendor_estimate(values) == (100 * 1024, "HugePages_Free x Hugepagesize")


def test_driver_held_is_unknown_when_a_category_is_absent() -> None:
    missing: dict[str, str] = {}
    facts = memory.summarise(
        memory.parse_meminfo("MemTotal: 9 kB\nMemFree: 1 kB\nMemAvailable: 5 kB"), None, None, missing
    )
    assert facts["driver_held_bytes"] is None
    assert facts["cuda_upper_bound_bytes"] is None
    assert "AnonPages" in missing["memory.driver_held_bytes"]


def test_free_output() -> None:
    text = (
        "        total  used  free  shared  buff/cache  available\n"
        "Mem:  119Gi 3.7Gi 116Gi 13Mi 621Mi 115Gi\nSwap: 15Gi 512Ki 15Gi\n"
    )
    assert memory.parse_free(text) == {
        "MemTotal": 119 * GIB,
        "MemFree": 116 * GIB,
        "MemAvailable": 115 * GIB,
        "SwapTotal": 15 * GIB,
        "SwapFree": 15 * GIB,
    }


@pytest.mark.parametrize(
    ("text", "size"),
    [("102625", 102625 * 1024**2), (" 18 MiB", 18 * 1024**2), ("[N/A]", None), ("Not Supported", None)],
)
def test_mebibytes(text: str, size: int | None) -> None:
    assert gpu.mebibytes(text) == size


def test_query_with_and_without_header() -> None:
    rows = "index, name, driver_version\n0, NVIDIA GB10, 580.200.01, 13.46, [N/A]"
    assert gpu.parse_query(rows) == {"driver": "580.200.01", "names": ["NVIDIA GB10"], "load": {}}
    assert gpu.parse_query("0, NVIDIA GB10, 580.142, 13.46") == {
        "driver": "580.142",
        "names": ["NVIDIA GB10"],
        "load": {},
    }


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "    inet 100.64.9.9/24 brd 100.64.9.255 scope global noprefixroute enp1s0f1np1",
            {"enp1s0f1np1": ["100.64.9.9/24"]},
        ),
        (
            "3: enp1s0f1np1    inet 10.7.1.5/31 scope link enp1s0f1np1\\   valid_lft forever",
            {"enp1s0f1np1": ["10.7.1.5/31"]},
        ),
        ("enp1s0f1np1  UP  10.7.1.5/24 fe80::1/64", {"enp1s0f1np1": ["10.7.1.5/24"]}),
        ("lo UNKNOWN 127.0.0.1/8 ::1/128\nwlP9s9 DOWN", {"lo": ["127.0.0.1/8"], "wlP9s9": []}),
        ("    inet 999.1.1.1/24 scope global bad0", {"bad0": []}),
    ],
)
def test_ip_text(text: str, expected: dict[str, list[str]]) -> None:
    assert {entry["name"]: entry["ipv4"] for entry in network.parse_ip_text(text)} == expected


@pytest.mark.parametrize(("word", "up"), [("UP", True), ("UNKNOWN", True), ("DOWN", False)])
def test_an_interface_without_a_link_of_its_own_is_up(word: str, up: bool) -> None:
    assert network.parse_ip_text(f"lo  {word}  127.0.0.1/8")[0]["up"] is up


def test_secondary_addresses_come_last() -> None:
    info = [
        {"family": "inet", "local": "10.7.1.6", "prefixlen": 24, "secondary": True},
        {"family": "inet6", "local": "fe80::1", "prefixlen": 64},
        {"family": "inet", "local": "10.7.1.5", "prefixlen": 24},
    ]
    links = network.parse_ip_json(json.dumps([{"ifname": "x", "mtu": 1500, "flags": [], "addr_info": info}]))
    assert links == [{"name": "x", "ipv4": ["10.7.1.5/24", "10.7.1.6/24"], "mtu": 1500, "up": False, "enabled": False}]


def test_listening_ports() -> None:
    table = """  sl  local_address rem_address   st tx_queue
   0: 0100007F:1F40 00000000:0000 0A 00000000
   1: 0100007F:0016 0100007F:9999 01 00000000
   2: 00000000000000000000000000000000:734D 00000000000000000000000000000000:0000 0A 0"""
    assert network.parse_listening(table) == {8000, 29517}


INFO = {
    "ServerVersion": "28.1.1",
    "Driver": "overlay2",
    "DockerRootDir": "/var/lib/docker",
    "Architecture": "aarch64",
    "Runtimes": {"runc": {}, "nvidia": {}},
    "DiscoveredDevices": [{"Source": "cdi", "ID": "nvidia.com/gpu=all"}],
    "DriverStatus": [["Backing Filesystem", "extfs"]],
}


def test_docker_info() -> None:
    facts = docker.summarise(Output(json.dumps(INFO), 0), "spark", True)
    assert (facts["available"], facts["error"], facts["runtimes"]) == (True, None, ["nvidia", "runc"])
    assert (facts["containerd_store"], facts["nvidia"], facts["user_in_group"]) == (False, True, True)
    store = dict(INFO, DriverStatus=[["driver-type", "io.containerd.snapshotter.v1"]])
    assert docker.summarise(Output(json.dumps(store), 0), "spark", True)["containerd_store"] is True


@pytest.mark.parametrize(
    ("output", "words"),
    [
        (Output("", 127, "the command docker is not installed"), ["not installed", "apt install"]),
        (Output("", 124, "docker did not answer within 10 s"), ["did not answer", "restart docker"]),
        (
            Output("", 1, "docker ended with status 1: permission denied while trying to connect"),
            ["Permission denied", "usermod"],
        ),
        (
            Output(
                '{"ServerErrors":["Cannot connect to the Docker daemon at unix:///x. Is the docker daemon running?"]}',
                0,
            ),
            ["not running", "enable --now docker"],
        ),
        (Output("", 1, "docker ended with status 1: strange"), ["strange", "journalctl"]),
    ],
)
def test_docker_not_available(output: Output, words: list[str]) -> None:
    facts = docker.summarise(output, "spark", False)
    assert facts["available"] is False
    assert all(word in facts["error"] for word in words)


def test_containers() -> None:
    row = {
        "Names": "gb10-a",
        "ID": "abc",
        "State": "exited",
        "Status": "Exited (1)",
        "Image": "x:y",
        "Labels": "a=b,gb10.serving/name=q,gb10.serving/rank=1",
        "Ports": "0.0.0.0:8000->8000/tcp, [::]:8000->8000/tcp",
    }
    found = docker.parse_containers(json.dumps(row) + "\nnot json\n")
    assert found == [
        {
            "name": "gb10-a",
            "id": "abc",
            "state": "exited",
            "status": "Exited (1)",
            "image": "x:y",
            "labels": {"gb10.serving/name": "q", "gb10.serving/rank": "1"},
            "ports": [8000],
        }
    ]


API = [
    {
        "Id": "abc",
        "Names": ["/other/alias", "/gb10-a"],
        "State": "exited",
        "Status": "Exited (1)",
        "Image": "x:y",
        "Labels": {"a": "b", "gb10.serving/name": "q", "gb10.serving/rank": "1"},
        "Ports": [{"PrivatePort": 8000, "PublicPort": 8000, "Type": "tcp"}, {"PrivatePort": 1}],
    }
]


class Daemon(threading.Thread):
    """Answers one request on a socket as the Docker daemon does."""

    def __init__(self, place: Path, answer: bytes) -> None:
        super().__init__(daemon=True)
        self.answer, self.seen = answer, b""
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.listener.bind(str(place))
        self.listener.listen(1)
        self.start()

    def run(self) -> None:
        stream, _address = self.listener.accept()
        with self.listener, stream:
            self.seen = stream.recv(4096)
            stream.sendall(self.answer)


def test_the_daemon_is_asked_through_its_socket(tmp_path: Path) -> None:
    daemon = Daemon(
        tmp_path / "s", b"HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n" + json.dumps(API).encode()
    )
    output = docker.ask("/containers/json?all=1", str(tmp_path / "s"))
    assert output is not None and output.reason is None
    assert daemon.seen.startswith(b"GET /containers/json?all=1 HTTP/1.0\r\n")
    assert docker.parse_api_containers(output.text) == [
        {
            "name": "gb10-a",
            "id": "abc",
            "state": "exited",
            "status": "Exited (1)",
            "image": "x:y",
            "labels": {"gb10.serving/name": "q", "gb10.serving/rank": "1"},
            "ports": [8000],
        }
    ]


def test_a_daemon_that_refuses_or_is_not_there(tmp_path: Path) -> None:
    Daemon(tmp_path / "s", b'HTTP/1.0 500 Internal Server Error\r\n\r\n{"message":"sad"}')
    refused = docker.ask("/info", str(tmp_path / "s"))
    assert refused is not None and "500" in str(refused.reason) and "sad" in str(refused.reason)
    gone = docker.ask("/info", str(tmp_path / "s"))
    assert gone is not None and "not running" in docker.explain(str(gone.reason), gone.rc, "spark")
    assert docker.ask("/info", str(tmp_path / "nothing")) is None
    assert docker.parse_api_containers("<html>") is None


def test_storage_of_a_path_that_is_not_there_yet(tmp_path: Path) -> None:
    missing: dict[str, str] = {}
    (entry,) = storage.read_storage([str(tmp_path / "models" / "x")], missing)
    assert entry["exists_path"] == str(tmp_path)
    assert entry["free_bytes"] > 0 and entry["writable"] is True


def test_filesystem_is_that_of_the_longest_and_latest_mount() -> None:
    mounts = storage.parse_mountinfo(
        "1 0 8:1 / / rw - ext4 /dev/a rw\n2 1 8:2 / /data rw - xfs /dev/b rw\n3 1 0:9 / /my\\040disk rw - nfs4 s:/ rw\n"
        "4 1 8:3 / /data rw shared:1 - btrfs /dev/c rw\n"
    )
    assert [storage.filesystem_of(path, mounts) for path in ("/data/m", "/database", "/my disk/x")] == [
        "btrfs",
        "ext4",
        "nfs4",
    ]


def test_commands_have_a_time_limit_and_never_raise() -> None:
    assert run([sys.executable, "-c", "import time; time.sleep(9)"], seconds=0.3).rc == 124
    assert run(["no-such-command-here"]).reason == "the command no-such-command-here is not installed"
    failed = run([sys.executable, "-c", "import sys; sys.exit('sad')"])
    assert failed.rc == 1 and "sad" in str(failed.reason)
