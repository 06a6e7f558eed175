# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
# Private to this collection: no stability promised.
"""The environment by which NCCL and gloo find the fabric; the same for every engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def node_network(host: str, rails: Sequence[Mapping[str, Any]], rdma: bool) -> dict[str, Any]:
    """What a node has of the rails, rail 0 first: its address and interface, and its HCAs where RDMA is used."""
    members = [rail["members"][host] for rail in rails]
    gids = {member["gid_index"] for member in members}
    return {
        "address": members[0]["address"],
        "socket_ifname": members[0]["netdev"],
        "hcas": [member["hca"] for member in members] if rdma else [],
        "gid_index": gids.pop() if rdma and len(gids) == 1 else None,
    }


def network_env(rank: Mapping[str, Any], rdma: bool) -> dict[str, str]:
    """Variables for one rank.

    Interface names may differ from node to node, so they are this rank's own. NCCL matches names by prefix unless
    a ``=`` leads the list. The GID index is given only when all HCAs of the node share it: NCCL takes one for all.
    Two HCAs of one port are merged into one NIC, or NCCL uses half of the port.
    """
    name = rank["socket_ifname"]
    env = {"NCCL_SOCKET_IFNAME": f"={name}", "GLOO_SOCKET_IFNAME": name, "TP_SOCKET_IFNAME": name}
    if not rdma:
        return {**env, "NCCL_IB_DISABLE": "1"}
    env["NCCL_IB_HCA"] = "=" + ",".join(rank["hcas"])
    if rank["gid_index"] is not None:
        env["NCCL_IB_GID_INDEX"] = str(rank["gid_index"])
    if len(rank["hcas"]) > 1:
        env["NCCL_IB_MERGE_NICS"] = "1"
    return env
