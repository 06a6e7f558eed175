# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 gb10.serving contributors
# Private to gb10.serving: what the collective test says to people. Pure.
"""Reasons, remedies and warnings of the collective test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

#: What a stage does, as it reads after "while".
STAGES = {
    "begin": "starting",
    "image": "looking at the image",
    "address": "looking for its own address",
    "torch": "loading PyTorch",
    "store": "connecting to the store of rank 0",
    "arrive": "waiting for the other ranks",
    "gloo": "connecting the ranks over gloo",
    "nccl": "opening NCCL between the ranks",
    "reduce": "adding up over all ranks",
    "end": "ending",
}


def numbers(ranks: Sequence[int]) -> str:
    """``rank 1``, ``ranks 1 and 2``."""
    words = [str(rank) for rank in ranks]
    if len(words) == 1:
        return f"rank {words[0]}"
    return f"ranks {', '.join(words[:-1])} and {words[-1]}"


def reason(cause: str, seen: Any, number: int, code: int | None, place: str) -> str:
    """What was seen, as a part of a sentence. ``place`` is the address and port of the store."""
    doing = STAGES.get(seen.stage or "", "starting")
    kind, missing = seen.failed.get("failed"), seen.failed.get("missing") or []
    if kind == "missing" or (cause == "rank_missing" and missing):
        return f"{numbers(missing)} did not arrive at the store {place} in time"
    if kind == "peer":
        return f"rank {seen.failed.get('peer')} failed, so this one ended while {doing}"
    if kind == "sum":
        return "the sum that came back over all ranks is wrong"
    if kind == "versions":
        if cause == "gpu_not_visible":
            return "PyTorch sees no GPU here, but on other ranks it does"
        if cause == "ranks_disagree":
            return "PyTorch sees a GPU here, but not on all ranks"
        return "the ranks run different versions: " + ", ".join(
            f"rank {rank} PyTorch {entry.get('torch')} with NCCL {entry.get('nccl')}"
            for rank, entry in enumerate(seen.ranks)
        )
    if seen.stage is None:
        return f"the container did not start (docker ended with {code})"
    if cause == "rendezvous_unreachable" and number > 0:
        return f"the store of rank 0 at {place} was not reached"
    if kind is None and cause == "worker_died":
        how = "stopped giving signs of life" if code is None else f"was ended from outside (exit code {code})"
        return f"its process {how} while {doing}"
    if kind == "error":
        return f"it failed while {doing}"
    silent = seen.failed.get("silent") or []
    gone = f"; {numbers(silent)} gave no sign any more" if silent else ""
    return f"it hung while {doing}{gone}"


def remedy(cause: str, seen: Any, rank: Mapping[str, Any], place: str, image: str) -> str | None:
    """A remedy that fits this test better than the cause's general one."""
    kind, name, own = seen.failed.get("failed"), rank["socket_ifname"], rank["address"]
    if seen.stage is None and cause == "unknown":
        return f"run 'sudo docker run --rm --entrypoint python3 {image} --version' there and read what docker says."
    if kind == "sum":
        return (
            "run the deploy again with gb10_server_rdma=false: if the sum is right then, look at the adapters and "
            "their firmware; if it is not, at the image."
        )
    if kind == "missing":
        return (
            "see on the node of the missing rank whether its container ran ('sudo journalctl -u docker') and whether "
            f"it reaches {place}."
        )
    if cause == "nccl_init_hang" and seen.stage == "gloo":
        return (
            "allow all TCP ports between the fabric addresses of the nodes, in both directions: the store's port is "
            "open, but the ranks also connect to each other on free ones."
        )
    special = {
        "interface_not_found": f"see with 'ip -br address' there whether {name} exists, is up and has {own}. Take "
        "NCCL_SOCKET_IFNAME and GLOO_SOCKET_IFNAME out of gb10_server_env if they stand in it.",
        "address_not_local": f"see with 'ip -br address' there whether {name} is up and has {own}, then deploy again.",
        "rendezvous_unreachable": f"let TCP pass between the fabric addresses of the nodes, in both directions; 'ping "
        f"-I {name} {place.rpartition(':')[0]}' there shows whether there is a way at all.",
    }
    return special.get(cause)


def warnings(rank: Mapping[str, Any], result: Mapping[str, Any]) -> list[str]:
    """What works, but slower than it was meant to."""
    if result["backend"] != "nccl" or not rank["hcas"]:
        return []
    wanted = ", ".join(rank["hcas"])
    if result["transport"] == "sockets":
        text = (
            f"NCCL uses TCP sockets, which is several times slower. Expected: RDMA over {wanted}. Next step: check "
            "that /dev/infiniband is there on the node, that 'rdma link' shows these devices as ACTIVE, and what "
            "NCCL says about NET/IB with NCCL_DEBUG=INFO."
        )
        return [text]
    unused = [name for name in rank["hcas"] if name not in result["devices"]]
    if result["transport"] == "rdma" and result["devices"] and unused:
        text = (
            f"NCCL does not use {', '.join(unused)}, so a part of the port's bandwidth is not to be had. Expected: "
            f"{wanted}. Next step: compare NCCL_IB_HCA in gb10_server_env with these names."
        )
        return [text]
    return []
