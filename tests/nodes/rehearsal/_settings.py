# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""Names, addresses and places of the rehearsal; pure. Private to the rehearsal tool."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

MAX_NODES = 8
DEFAULT_NODES = 2
PREFIX = "gb10-rehearsal"
LABEL = "gb10.rehearsal"
USER = "spark"
SYSROOT = "/opt/gb10-sysroot"
MODELS = f"/home/{USER}/models"
FIRST_HOST = 11
RAIL_MTU = 9000


@dataclass(frozen=True)
class Network:
    """A docker network: the management network or one rail."""

    name: str
    bridge: str
    prefix: str
    mtu: int
    netdev: str | None = None
    hca: str | None = None

    @property
    def subnet(self) -> str:
        return f"{self.prefix}.0/24"

    def address(self, index: int) -> str:
        return f"{self.prefix}.{FIRST_HOST + index}"


MANAGEMENT = Network(f"{PREFIX}-management", "gb10-mgmt", "172.30.77", 1500)
RAILS = (
    Network(f"{PREFIX}-rail0", "gb10-rail0", "192.168.200", RAIL_MTU, "enp1s0f0np0", "rocep1s0f0"),
    Network(f"{PREFIX}-rail1", "gb10-rail1", "192.168.201", RAIL_MTU, "enP2p1s0f0np0", "roceP2p1s0f0"),
)
NETWORKS = (MANAGEMENT, *RAILS)


@dataclass(frozen=True)
class Node:
    """One rehearsal node."""

    index: int
    name: str = field(init=False)
    container: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", f"rehearsal-{chr(ord('a') + self.index)}")
        object.__setattr__(self, "container", f"{PREFIX}-{chr(ord('a') + self.index)}")

    @property
    def management(self) -> str:
        return MANAGEMENT.address(self.index)

    @property
    def gid_index(self) -> int:
        """Where the RoCE v2 IPv4 entry sits: not the same on every node, as on real machines."""
        return 3 if self.index % 2 == 0 else 4

    def describe(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "index": self.index,
            "container": self.container,
            "management": self.management,
            "rails": [
                {"netdev": rail.netdev, "hca": rail.hca, "address": f"{rail.address(self.index)}/24", "mtu": rail.mtu}
                for rail in RAILS
            ],
            "gid_index": self.gid_index,
        }


def make_nodes(count: int) -> list[Node]:
    if not 1 <= count <= MAX_NODES:
        raise ValueError(f"{count} nodes were asked for; 1 to {MAX_NODES} are possible.")
    return [Node(index) for index in range(count)]


def find_node(nodes: list[Node], wanted: str) -> Node:
    """A node by name, by letter or by number."""
    for node in nodes:
        if wanted in (node.name, node.container, node.name[-1], str(node.index)):
            return node
    raise ValueError(f"No node {wanted!r}; the running ones are: {', '.join(n.name for n in nodes) or 'none'}.")


def digest(value: Any) -> str:
    """A short stable digest of a JSON value."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Places:
    """Every file and folder that the tool uses, all derived from the checkout's root."""

    root: Path

    @property
    def state_dir(self) -> Path:
        return self.root / ".rehearsal"

    @property
    def state(self) -> Path:
        return self.state_dir / "state.json"

    @property
    def key(self) -> Path:
        return self.state_dir / "id_ed25519"

    @property
    def known_hosts(self) -> Path:
        return self.state_dir / "known_hosts"

    @property
    def ssh_config(self) -> Path:
        return self.state_dir / "ssh_config"

    @property
    def lock(self) -> Path:
        return self.state_dir / "lock"

    @property
    def cache(self) -> Path:
        return self.root / ".cache" / "rehearsal"

    @property
    def data_root(self) -> Path:
        return self.cache / "docker"

    @property
    def engine_log(self) -> Path:
        return self.cache / "dockerd.log"

    @property
    def run_dir(self) -> Path:
        """Short, because a socket's path may have 107 bytes only; one for each checkout."""
        return Path("/run") / f"{PREFIX}-{digest(str(self.root))[:8]}"

    @property
    def socket(self) -> Path:
        return self.run_dir / "docker.sock"

    @property
    def pid_file(self) -> Path:
        return self.run_dir / "docker.pid"


def places() -> Places:
    return Places(Path(__file__).resolve().parents[3])
