# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 gb10.serving contributors
"""Private: puts the readers of gb10_facts together."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from threading import Thread
from typing import Any

from ._facts_docker import read_containers, read_docker
from ._facts_fabric_reader import KERNEL_LOG, read_fabric
from ._facts_gpu import APPS, read_gpu, used_by
from ._facts_memory import read_memory
from ._facts_network import ADDRESSES, read_network
from ._facts_platform import read_platform
from ._facts_source import Source
from ._facts_storage import read_storage

#: Reasons for nulls that no reader explained, by the last part of their key.
OTHERWISE = {
    "mtu": "the file does not set it",
    "id": "/etc/os-release could not be read or has no ID",
    "version_id": "/etc/os-release could not be read or has no VERSION_ID",
}
SUBSETS = ["platform", "memory", "gpu", "fabric", "docker", "storage", "containers"]
#: With a sysroot these still describe the machine that the module runs on.
ALWAYS_LIVE = {
    "docker": ["docker"],
    "containers": ["containers"],
    "storage": ["storage"],
    "fabric": ["network.listening_tcp_ports", "network.listeners"],
    "platform": ["platform.python", "platform.python_executable"],
}
# null here means "nothing to say", not "not known"
QUIET = frozenset(
    [
        "remedy",
        "error",
        "gid_reason",
        "reason",
        "evidence",
        "container_id",
        "source",
        "netdev_by",
        "address_netdev",
        "port_by",
        "rdma_mtu_by",
        "gid_ipv4",
        "ipv4_by",
        "note",
        "mode",
        "dhcp4",
        "rss_bytes",
    ]
)


def wanted_subsets(names: list[str]) -> list[str]:
    """The subsets to gather; "all" stands for every one."""
    return list(SUBSETS) if "all" in names else [name for name in SUBSETS if name in names]


def name_of(item: Any, index: int) -> str:
    """How a part of a list is called in the keys of missing: by what it is, not by where it stands."""
    if isinstance(item, dict):
        for key in ("name", "path", "file", "ipv4", "pid"):
            if item.get(key) is not None:
                return str(item[key])
    return str(index)


def explain_nulls(value: Any, key: str, missing: dict[str, str]) -> None:
    """Give every null a reason in missing."""
    if value is None:
        parts = key.split(".")
        parents = [".".join(parts[:count]) for count in range(1, len(parts) + 1)]
        if parts[-1] not in QUIET and not any(parent in missing for parent in parents):
            missing[key] = OTHERWISE.get(parts[-1], "nothing that was read says it")
    elif isinstance(value, dict):
        for name, item in value.items():
            explain_nulls(item, key + "." + str(name) if key else str(name), missing)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            explain_nulls(item, f"{key}.{name_of(item, index)}", missing)


class Later(Thread):
    """Something that is read while others are."""

    def __init__(self, reader: Callable[[], Any]) -> None:
        super().__init__(daemon=True)
        self.reader = reader
        self.answer: Any = None
        self.error: Exception | None = None
        self.start()

    def run(self) -> None:
        try:
            self.answer = self.reader()
        except Exception as error:
            self.error = error

    def result(self) -> Any:
        self.join()
        if self.error is not None:
            raise self.error
        return self.answer


def programs(subsets: list[str]) -> list[list[str]]:
    """The programs that the subsets need on a live machine."""
    found = [APPS, ["nvidia-smi"]] if {"platform", "memory", "gpu"} & set(subsets) else []
    return found + ([ADDRESSES, KERNEL_LOG] if "fabric" in subsets else [])


def gather(subsets: list[str], sysroot: str, storage_paths: list[str]) -> dict[str, Any]:
    """All facts asked for. Reading only; absent things become null with a reason in missing."""
    missing: dict[str, str] = {}
    facts: dict[str, Any] = {}
    source = Source(sysroot)
    # programs and docker take their time to answer, so they are asked while the files are read
    readers: dict[str, Callable[[dict[str, str]], Any]] = {"docker": read_docker, "containers": read_containers}
    answers = {name: Later(partial(reader, missing)) for name, reader in readers.items() if name in subsets}
    if not source.captured:
        source.start(programs(subsets), Later)
    read_files(subsets, source, storage_paths, facts, missing)
    facts.update({name: answer.result() for name, answer in answers.items()})
    explain_nulls(facts, "", missing)
    if source.captured:
        facts["live"] = sorted(key for name in subsets for key in ALWAYS_LIVE.get(name, []))
    facts["missing"] = dict(sorted(missing.items()))
    return facts


def read_files(
    subsets: list[str], source: Source, storage_paths: list[str], facts: dict[str, Any], missing: dict[str, str]
) -> None:
    """All subsets but those that docker answers."""
    if {"platform", "memory", "gpu"} & set(subsets):
        gpu_missing: dict[str, str] = {}
        gpu = read_gpu(source, gpu_missing)
        if "gpu" in subsets:
            facts["gpu"] = gpu
            gpu_missing["gpu.memory_total_bytes"] = "a GB10 has no memory of its own: see memory.total_bytes"
            missing.update(gpu_missing)
        if "platform" in subsets:
            platform_missing = dict(gpu_missing)
            facts["platform"] = read_platform(source, gpu, platform_missing)
            missing.update({key: why for key, why in platform_missing.items() if key.startswith("platform.")})
        if "memory" in subsets:
            facts["memory"] = read_memory(source, *used_by(gpu), missing)
    if "fabric" in subsets:
        network = read_network(source, missing)
        facts["network"] = network
        facts["fabric"] = read_fabric(source, network, missing)
    if "storage" in subsets:
        facts["storage"] = read_storage(storage_paths, missing)
