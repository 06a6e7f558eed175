# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
# Private to this collection: no stability promised.
"""Whether gb10_server_env contradicts the interfaces, HCAs, GIDs and addresses that the spec gives each node. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from . import _engines
from ._network_env import network_env, node_network
from ._problems import Problem

WHERE = "gb10_server_env"
OVERRIDE = "gb10_server_env_override"

#: Variables of the spec's environment that name something of the node. The others, switches, are for anyone to set.
_NAMING = ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME", "NCCL_IB_HCA", "NCCL_IB_GID_INDEX")

#: Lists in which a leading "=" and the order do not change what is named.
_LISTS = ("NCCL_SOCKET_IFNAME", "NCCL_IB_HCA")

_LEFT = "left to NCCL, as its HCAs have several"


def check(settings: Mapping[str, Any], hosts: Sequence[str], rails: Sequence[Mapping[str, Any]]) -> list[Problem]:
    """Each variable whose one value for all nodes is not what the spec gives to every one of them.

    Args:
        settings: wishes, named as the options of the action ``deployment_spec``.
        hosts: host names in rank order.
        rails: pairing of the fabric, rail 0 first.
    """
    try:
        engine = _engines.get(settings["engine"])
    except ValueError:
        return []  # said elsewhere
    if not rails or not all(host in rail["members"] for rail in rails for host in hosts):
        return []
    wanted = {str(key): str(value) for key, value in settings["env"].items() if value is not None}
    nodes = {host: node_network(host, rails, settings["rdma"]) for host in hosts}
    given = {host: _given(host, node, rails, settings["rdma"], engine.ADDRESS_VARIABLE) for host, node in nodes.items()}
    port = settings["rendezvous_port"] or engine.RENDEZVOUS_PORT
    store = {"MASTER_ADDR": nodes[hosts[0]]["address"], "MASTER_PORT": str(port)}
    problems = []
    for name, value in wanted.items():
        if name in store:
            right, expected = value == store[name], f"{store[name]}, where the spec puts the ranks' store."
        elif name == "UCX_NET_DEVICES":
            ours = {host: [*node["hcas"], *_netdevs(host, rails)] for host, node in nodes.items()}
            right = value == "all" or all(_devices(value) <= set(names) for names in ours.values())
            shown = _each({host: ",".join(names) for host, names in ours.items()})
            expected = f"devices of the fabric, which are on each node: {shown}."
        else:
            own = {host: variables[name] for host, variables in given.items() if name in variables}
            right = all(_meaning(name, value) == _meaning(name, one) for one in own.values())
            expected = f"the spec sets it on each node: {_each(own)}."
        if not right:
            problems.append(
                Problem(
                    WHERE,
                    f"{name} is {value!r}, for all nodes.",
                    expected,
                    f"take {name} out of {WHERE}. If you mean it, set {OVERRIDE} to true.",
                )
            )
    return problems


def warning(problem: Problem) -> str:
    """The same for who means it."""
    return f"{problem.where}: {problem.seen} It is used, as {OVERRIDE} is true. Without it: {problem.expected}"


def _given(
    host: str, node: Mapping[str, Any], rails: Sequence[Mapping[str, Any]], rdma: bool, address_variable: str
) -> dict[str, str]:
    env = network_env(node, rdma)
    found = {name: env[name] for name in _NAMING if name in env}
    if rdma and len({rail["members"][host]["gid_index"] for rail in rails}) > 1:
        found["NCCL_IB_GID_INDEX"] = _LEFT
    return {**found, address_variable: node["address"]}


def _netdevs(host: str, rails: Sequence[Mapping[str, Any]]) -> list[str]:
    return [rail["members"][host]["netdev"] for rail in rails]


def _each(values: Mapping[str, str]) -> str:
    return ", ".join(f"{host} {value}" for host, value in values.items())


def _meaning(name: str, value: str) -> Any:
    return _devices(value.removeprefix("=")) if name in _LISTS else value


def _devices(value: str) -> set[str]:
    """Names of a list, without the number of the only port."""
    return {part.removesuffix(":1") for part in value.split(",")}
