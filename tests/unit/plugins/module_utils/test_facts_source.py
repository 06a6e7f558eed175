# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""A captured tree may hold anything: nothing in it hangs the probe, is slow to read, or leads to this machine."""

from __future__ import annotations

import os
import socket
import time
from pathlib import Path

import pytest

from ansible_collections.gb10.serving.plugins.module_utils._facts import gather
from ansible_collections.gb10.serving.plugins.module_utils._facts_source import Source
from ansible_collections.gb10.serving.plugins.module_utils._facts_tree import LIVE_LINKS

CAPTURED = ["platform", "memory", "gpu", "fabric"]


def put(root: Path, name: str, text: str = "") -> Path:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    "name",
    [
        "proc/meminfo",
        "commands/nvidia-smi.txt",
        "notes.txt",
        "etc/netplan/a.yaml",
        "etc/os-release",
        "sys/class/infiniband/rocep1s0f0/ports/1/state",
        "sys/class/net/enp1s0f0np0/device",
    ],
)
@pytest.mark.parametrize("kind", ["fifo", "socket"])
def test_what_is_no_regular_file_is_not_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, kind: str
) -> None:
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if kind == "fifo":
        os.mkfifo(path)
    else:
        monkeypatch.chdir(path.parent)  # the path of a socket must be short
        socket.socket(socket.AF_UNIX).bind(path.name)
    facts = gather(CAPTURED, str(tmp_path), [])  # would wait for a writer for ever
    assert facts["memory"]["total_bytes"] is None and facts["platform"]["os_release"] is None
    assert facts["missing"]["memory.total_bytes"]


LINKS = {
    "absolute": ("/etc/name", "inside"),
    "above the root": ("../../../../../../../../../../etc/name", "inside"),
    "through a folder": ("/folder/name", "inside"),
    "live file": ("/proc/version", None),
    "loop": ("/value", None),
    "dangling": ("/etc/none", None),
}


@pytest.mark.parametrize("name", LINKS)
def test_links_end_inside_the_tree(tmp_path: Path, name: str) -> None:
    target, wanted = LINKS[name]
    put(tmp_path, "etc/name", "inside\n")
    (tmp_path / "folder").symlink_to("/etc")
    (tmp_path / "value").symlink_to(target)
    source = Source(str(tmp_path))
    assert source.value("/value") == wanted
    assert source.exists("/value")


def test_folders_and_link_names_are_followed_inside_the_tree(tmp_path: Path) -> None:
    put(tmp_path, "sys/devices/pci0002:00/0002:01:00.1/net/enP2p1s0f1np1/mtu", "9000\n")
    (tmp_path / "sys/class/net").mkdir(parents=True)
    (tmp_path / "sys/class/net/enP2p1s0f1np1").symlink_to("/sys/devices/pci0002:00/0002:01:00.1/net/enP2p1s0f1np1")
    (tmp_path / "sys/class/net/lo").symlink_to("/sys/class/net/lo")
    (tmp_path / "device").symlink_to("/sys/devices/pci0002:00/0002:01:00.1")
    source = Source(str(tmp_path))
    assert source.number("/sys/class/net/enP2p1s0f1np1/mtu") == 9000
    assert source.entries("/device/net") == ["enP2p1s0f1np1"]
    assert source.link_name("/device") == "0002:01:00.1"
    assert source.parent_names("/sys/class/net/enP2p1s0f1np1")[:3] == ["enP2p1s0f1np1", "net", "0002:01:00.1"]
    assert source.entries("/sys/class/net/lo") == []


def test_a_tree_that_is_joined_to_the_live_machine_says_so(tmp_path: Path) -> None:
    (tmp_path / "value").symlink_to("/proc/version")
    put(tmp_path, LIVE_LINKS)
    assert Source(str(tmp_path)).value("/value") == Source("/").value("/proc/version")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("nvidia-smi", "\n" * 60000),
        ("rdma-link", "\n" * 60000),
        ("ethtool-enp1s0f0np0", " \n" * 30000),
        ("ib_write_bw", " \n" * 30000),
        ("ethtool-S-enp1s0f0np0", "\n" * 60000),
        ("nvidia-smi-query-compute-apps", "[ " * 30000),
        ("nvidia-smi-query-gpu", "[ " * 30000),
        ("sysfs-ls", "/sys/" * 60000),
        ("ls-l-net", "a -> /0000:01:00.0/net/a" + " \n" * 30000),
    ],
)
def test_blank_lines_are_read_in_one_pass(tmp_path: Path, name: str, text: str) -> None:
    put(tmp_path, f"commands/{name}.txt", text)
    put(tmp_path, "commands/ibdev2netdev.txt", "rocep1s0f0 port 1 ==> enp1s0f0np0 (Up)\n")
    start = time.process_time()
    gather(["platform", "gpu", "fabric"], str(tmp_path), [])
    assert time.process_time() - start < 3  # many seconds where each line is the start of a new search
