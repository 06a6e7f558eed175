# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 gb10.serving contributors
# Private to gb10.serving: the container of the collective test, and what its output says. Pure.
"""How one rank of the test is run, and which transport, bandwidth or cause its output shows."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ansible_collections.gb10.serving.plugins.module_utils import _collective_script, _collective_words
from ansible_collections.gb10.serving.plugins.module_utils._engine_log import classify
from ansible_collections.gb10.serving.plugins.module_utils._engine_log_causes import CAUSES

#: Not the label by which ranks are found: a test is none, and must not be taken for one that serves.
LABEL = "gb10.serving/collective"

#: Seconds kept back at the end: for a rank to say why it ends, and for its container to go.
SCRIPT_GRACE, CONTAINER_GRACE = 5.0, 2.0
#: Of the time, what all ranks may take to arrive; loading PyTorch from an image that is new takes most of it.
ARRIVE_SHARE = 0.65

_VIA = re.compile(r"\bvia (?:NET/(?P<net>\w+)|(?P<local>SHM|P2P)\b)(?P<rest>\S*)")
_NETWORK = re.compile(r"(?:Using network|Assigned NET plugin|Initialized NET plugin) (?P<net>\w+)")
_DEVICE = re.compile(r"(\w+):\d+/(?:RoCE|IB)\b")
#: faulthandler, when the interpreter could not speak for itself.
_FROZEN = re.compile(r"^Timeout \(\d+:\d\d:\d\d", re.MULTILINE)
#: What PyTorch also prints when all is well, and frames.
_NOISE = re.compile(r"hostname of the client socket cannot be retrieved|^frame #\d|^<omitting python frames>")
#: gloo's words for an interface that is not there, or is the loopback.
_NO_FABRIC = re.compile(r"Unable to find address|connectFullMesh failed.*remote=\[?(?:127\.|::1)")
#: Ends of a container that had no python3 to run.
_NO_PYTHON = re.compile(r"python3\"?: (?:executable file )?(?:not found|stat .*no such file)|\"python3\".*not found")

#: What a hang means by the stage in which it is.
_HANGS = {
    "store": "rendezvous_unreachable",
    "arrive": "rank_missing",
    "gloo": "nccl_init_hang",
    "nccl": "nccl_init_hang",
    "reduce": "collective_timeout",
}
#: Causes that explain a hang when a line of the log names one of them.
_EXPLAIN = frozenset(
    {"rdma_failure", "interface_not_found", "nccl_mismatch", "nccl_system_error", "port_in_use", "out_of_memory"}
)
#: What other ranks' failures look like in the store's own messages.
_OF_THE_STORE = frozenset({None, "unknown", "rank_missing", "peer_died", "collective_timeout", "nccl_system_error"})


def container_name(spec: Mapping[str, Any], rank: int) -> str:
    return f"gb10-{spec['name']}-collective-rank{rank}"


def rank_of(spec: Mapping[str, Any], number: int) -> dict[str, Any]:
    """The entry of a rank in the spec; KeyError when it has none."""
    for entry in spec["ranks"]:
        if entry["rank"] == number:
            return dict(entry)
    raise KeyError(number)


def settings(spec: Mapping[str, Any], number: int, port: int, now: float, timeout: float) -> dict[str, Any]:
    """What the script is told. Times are of the node's clock, which its containers share."""
    return {
        "rank": number,
        "world": spec["world_size"],
        "own": rank_of(spec, number)["address"],
        "address": spec["rendezvous"]["address"],
        "port": port,
        "arrive": now + timeout * ARRIVE_SHARE,
        "end": now + timeout - SCRIPT_GRACE,
    }


def env_file(spec: Mapping[str, Any], number: int) -> str:
    """The rank's own environment, as docker reads it from a file: processes of others can see command lines."""
    return "".join(f"{name}={value}\n" for name, value in sorted(rank_of(spec, number)["env"].items()))


def command(spec: Mapping[str, Any], number: int, env_path: str, script: str, told: Mapping[str, Any]) -> list[str]:
    """As the launch script runs a rank, but without model, cache and endpoint."""
    container = spec["container"]
    argv = ["docker", "run", "--rm", "--pull", "never", "--name", container_name(spec, number)]
    argv += ["--label", f"{LABEL}={spec['name']}", "--label", f"gb10.serving/release={spec['id']}"]
    argv += ["--label", f"gb10.serving/rank={number}", "--network", "host", "--ipc", "host"]
    if container["gpus"]:
        argv += ["--gpus", container["gpus"]]
    for device in container["devices"]:
        argv += ["--device", device]
    for name, limit in sorted(container["ulimits"].items()):
        argv += ["--ulimit", f"{name}={limit}"]
    argv += ["--env-file", env_path, "--entrypoint", "python3", spec["engine"]["image"]["ref"]]
    return [*argv, "-u", "-c", script, json.dumps(dict(told))]


class Seen(NamedTuple):
    """What one rank told, and the lines that others wrote into the same output."""

    stage: str | None
    about: dict[str, Any]
    arrived: bool
    ranks: list[dict[str, Any]]
    reduced: list[dict[str, Any]]
    failed: dict[str, Any]
    done: bool
    text: str


def seen_in(output: str) -> Seen:
    events: list[dict[str, Any]] = []
    rest = []
    for line in output.splitlines():
        _before, mark, told = line.partition(_collective_script.MARK)
        event = None
        if mark:
            with contextlib.suppress(ValueError):
                event, _end = json.JSONDecoder().raw_decode(told)
        if isinstance(event, dict):
            events.append(event)
        else:
            rest.append(line)

    def first(key: str) -> Any:
        return next((event[key] for event in events if key in event), None)

    return Seen(
        stage=next((str(event["stage"]) for event in reversed(events) if "at" in event), None),
        about=first("about") or {},
        arrived=bool(first("arrived")),
        ranks=first("ranks") or [],
        reduced=[event for event in events if "reduced" in event],
        failed=next((event for event in events if "failed" in event), {}),
        done=bool(first("done")),
        text="\n".join(rest),
    )


def bandwidth(size: int, seconds: float, world: int) -> float:
    """Gb/s as nccl-tests counts them on the bus: what each rank sends, 2 (n - 1) / n of the size, by the time."""
    return size * 8 / seconds / 1e9 * 2 * (world - 1) / world


def transport_of(text: str) -> tuple[str | None, bool]:
    """``rdma``, ``sockets`` or ``shared_memory`` by NCCL's own lines, and whether the GPU's memory is read directly.

    One channel over sockets slows all, so it decides.
    """
    ways, direct = set(), False
    for found in _VIA.finditer(text):
        ways.add(_kind(found["net"]) if found["net"] else "shared_memory")
        direct = direct or "GDRDMA" in found["rest"]
    if not ways:
        ways = {_kind(found["net"]) for found in list(_NETWORK.finditer(text))[-1:]}
    return next((way for way in ("sockets", "rdma", "shared_memory") if way in ways), None), direct


def devices_of(text: str) -> list[str]:
    """The RDMA devices that NCCL says it uses."""
    lines = (line for line in text.splitlines() if "NET/IB" in line)
    return sorted({name for line in lines for name in _DEVICE.findall(line)})


def _kind(network: str) -> str | None:
    return "rdma" if network.startswith("IB") else "sockets" if network == "Socket" else None


def read(
    spec: Mapping[str, Any], number: int, output: str, code: int | None, port: int, seconds: float
) -> dict[str, Any]:
    """The answer of one rank. ``code`` is None when its container had to be ended."""
    seen = seen_in(output)
    gpu = bool(seen.about.get("gpu"))
    transport, direct = transport_of(seen.text) if gpu else ("sockets" if seen.reduced else None, False)
    sizes = [
        {
            "bytes": event["reduced"],
            "count": event["count"],
            "seconds": event["seconds"],
            "gbps": round(bandwidth(event["reduced"], event["seconds"], spec["world_size"]), 2),
        }
        for event in seen.reduced
        if event["seconds"] > 0  # too short to be timed
    ]
    result: dict[str, Any] = {
        "rank": number,
        "ok": False,
        "skipped": False,
        "arrived": seen.arrived,
        "stage": seen.stage,
        "backend": None if not seen.about else "nccl" if gpu else "gloo",
        "transport": transport,
        "gpu_direct": direct,
        "devices": devices_of(seen.text),
        "bandwidth_gbps": max((entry["gbps"] for entry in sizes), default=None),
        "sizes": sizes,
        "seconds": round(seconds, 1),
        "versions": {key: seen.about.get(key) for key in ("torch", "nccl", "cuda")},
        "missing_ranks": sorted(seen.failed.get("missing") or []),
        "silent_ranks": sorted(seen.failed.get("silent") or []),
        "cause": None,
        "reason": None,
        "remedy": None,
        "evidence": [],
        "warnings": [],
    }
    if seen.done or (seen.stage == "end" and seen.reduced):
        result["ok"] = True
        result["warnings"] = _collective_words.warnings(rank_of(spec, number), result)
        return result
    reason = _nothing_shown(seen, code)
    if reason:
        return {**result, "skipped": True, "reason": reason}
    cause, evidence = _cause(seen, number, code)
    rank = rank_of(spec, number)
    place = f"{spec['rendezvous']['address']}:{port}"
    return {
        **result,
        "cause": cause,
        "reason": _collective_words.reason(cause, seen, number, code, place),
        "remedy": _collective_words.remedy(cause, seen, rank, place, spec["engine"]["image"]["ref"])
        or CAUSES[cause].remedy,
        "evidence": evidence,
    }


def _nothing_shown(seen: Seen, code: int | None) -> str | None:
    """Why this run says nothing of the ranks, where it does not."""
    if seen.failed.get("failed") == "torch":
        return f"the image's python3 has no PyTorch that can be loaded: {seen.failed.get('text')}"
    if seen.stage is None and _NO_PYTHON.search(seen.text):
        return "the image has no python3"
    if seen.stage is None and code is None:
        return "Docker did not start the container in time"
    if seen.stage == "torch" and (code is None or seen.failed.get("failed") == "hang" or _FROZEN.search(seen.text)):
        return "loading PyTorch took longer than the test may take"
    return None


def _cause(seen: Seen, number: int, code: int | None) -> tuple[str, list[str]]:
    """The cause by its identifier, and the lines that show it."""
    kind = seen.failed.get("failed")
    found = classify(seen.text, 0.0)
    cause, evidence = found["cause"], list(found["evidence"])
    last = [line for line in seen.text.splitlines() if line.strip() and not _NOISE.search(line)][-3:]
    if kind == "missing":
        return "rank_missing", []
    if kind == "peer":
        return "peer_died", []
    if kind == "sum":
        return "unknown", []
    if kind == "versions":
        return _difference(seen.ranks, number), [json.dumps(entry) for entry in seen.ranks]
    if kind == "hang" or (kind is None and _FROZEN.search(seen.text)):
        if cause in _EXPLAIN:
            return str(cause), evidence
        return _HANGS.get(seen.stage or "", "unknown"), last
    if kind is None and seen.stage is not None:
        # Neither an error nor the script's own end: the process was frozen, or killed from outside.
        return ("worker_died" if cause in _OF_THE_STORE else str(cause)), last
    if seen.stage == "store" and number > 0 and cause in _OF_THE_STORE:
        return "rendezvous_unreachable", evidence or last
    if seen.stage == "gloo" and "connectFullMesh" in seen.text and not _NO_FABRIC.search(seen.text):
        # The interface is the right one; what goes out of it does not come to the others, or not back.
        return "nccl_init_hang", evidence
    return cause or "unknown", evidence if cause else last


def _difference(ranks: Sequence[Mapping[str, Any]], number: int) -> str:
    """What a rank that differs from rank 0, or has no GPU where another has one, is told."""
    gpus = [bool(entry.get("gpu")) for entry in ranks]
    if any(gpus) and not all(gpus):
        return "ranks_disagree" if gpus[number] else "gpu_not_visible"
    return "nccl_mismatch"
