# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 gb10.serving contributors
# Private to gb10.serving: where a log without an error stands still. Pure.
"""Starts that wait: by the engine's own repeated wait messages, or by the step after which nothing came."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ansible_collections.gb10.serving.plugins.module_utils._engine_log_lines import REQUEST, Line
from ansible_collections.gb10.serving.plugins.module_utils._engine_log_phases import TABLES, Progress
from ansible_collections.gb10.serving.plugins.module_utils._engine_log_requests import SERVED

_BROADCAST = re.compile(r"No available shared memory broadcast block found")
_CONNECT = re.compile(r"client socket has (?:failed to connect|timed out)|TCPStore.*retry")
#: Seconds in which the same message comes so often in a stand-still; it is printed once a minute.
SPAN = 1800.0
_OTHERS = re.compile(
    r"Waiting for creating a placement group|waiting for (?:all|other) (?:nodes|ranks|workers)"
    r"|Waiting for (?:init|READY) message from|[Ww]aiting for clients|\d/\d+ clients joined"
)

#: (pattern, cause, lines that make a stall, phases in which it counts; none named: in all). A load may take long.
REPEATED: tuple[tuple[re.Pattern[str], str, int, tuple[str, ...]], ...] = (
    (_BROADCAST, "collective_timeout", 3, ("kv_cache", "graphs", "ready")),
    (_BROADCAST, "message_queue_address", 3, ("rendezvous",)),
    (_CONNECT, "rendezvous_unreachable", 5, ("starting", "rendezvous")),
    (_OTHERS, "rank_missing", 3, ()),
)

_QUEUE = re.compile(r"master_addr=(?P<master>[\w.:-]+), mq_connect_ip=(?P<queue>[\w.:-]+)")
_WORLD = re.compile(r"world_size=(?P<world>\d+) rank=(?P<rank>\d+) .*?backend=(?P<backend>\w+)")
_NODES = re.compile(r"nnodes['\"]?[=:] ?(?P<nodes>\d+)")
_GPU = re.compile(r"'?\bdevice'?[=:] ?'cuda|\bcuda\b|NVIDIA|\bGB10\b|CUDA_", re.IGNORECASE)
#: What SGLang says of its settings; its other lines name GPUs that it might have had.
_CPU = re.compile(r"\bdevice'?[=:] ?'cpu'")
_SHARD = re.compile(r"TP(\d+)")


@dataclass(frozen=True)
class Wait:
    """A stand-still and the line that shows it. ``sure``: the log itself says that it waits, or for what in vain."""

    cause: str
    index: int
    sure: bool


def repeated(lines: Sequence[Line], seen: Progress) -> Wait | None:
    """The engine's own wait message, coming again and again with no step of the start after it."""
    for pattern, cause, least, phases in REPEATED:
        if phases and seen.phase not in phases:
            continue
        hits = [index for index, line in enumerate(lines) if line.kind != REQUEST and pattern.search(line.text)]
        last = len(lines) - 1
        if len(hits) < least or seen.step_at(hits[-least]) != seen.step_at(last):
            continue
        if seen.ready is None or _in_vain(lines, hits[-least], hits[-1]):
            return Wait(cause, hits[-1], True)
    return None


def _in_vain(lines: Sequence[Line], first: int, last: int) -> bool:
    """Whether a server that had been ready answers nothing: messages close together, and no request served since."""
    if any(SERVED.search(line.text) for line in lines[first:]):
        return False
    begin, end = lines[first].at, lines[last].at
    return begin is None or end is None or 0 <= end - begin <= SPAN


def _network(address: str) -> str:
    return address.rpartition(".")[0]


def _foreign(master: str, queue: str) -> bool:
    """Whether the message queue listens in another network than the store of the ranks."""
    quad = re.compile(r"\d+\.\d+\.\d+\.\d+\Z")
    if not (quad.match(master) and quad.match(queue)) or master.startswith("127."):
        return False
    return _network(master) != _network(queue)


def silent(engine: str, lines: Sequence[Line], seen: Progress) -> Wait | None:
    """Which wait a log ends in that stops between the begin and the end of the rendezvous."""
    if seen.phase != "rendezvous" or engine not in TABLES or not seen.steps:
        return None
    table = TABLES[engine]
    meaning = table[seen.steps[-1]][2]
    if meaning == "ranks are connected":
        return None
    last = seen.steps.index(seen.steps[-1])
    whole = "\n".join(line.text for line in lines if line.kind != REQUEST)
    if meaning == "opening the message queue":
        return Wait("message_queue_address", last, True)
    if engine == "vllm":
        return _vllm(lines, whole, last, meaning)
    return _sglang(whole, last, meaning, {line.role for line in lines})


def _complete(whole: str) -> bool:
    """Whether NCCL says that the communicator of this rank stands."""
    return "Init COMPLETE" in whole


def _vllm(lines: Sequence[Line], whole: str, last: int, meaning: str) -> Wait | None:
    worlds = list(_WORLD.finditer(whole))
    if not worlds or int(worlds[-1]["world"]) < 2:
        return None
    world = worlds[-1]
    queue = _QUEUE.search(whole)
    if queue and _foreign(queue["master"], queue["queue"]):
        said = max(index for index, line in enumerate(lines) if _QUEUE.search(line.text))
        return Wait("message_queue_address", said, True)
    if meaning == "opening the collectives":
        return None if _complete(whole) else Wait("nccl_init_hang", last, False)
    if world["backend"] == "gloo" and int(world["rank"]) > 0:
        # The store answered and gloo says nothing when it waits: the next thing that is waited for is the queue.
        return Wait("message_queue_address", last, False)
    return Wait("rank_missing", last, False)


def _sglang(whole: str, last: int, meaning: str, roles: set[str]) -> Wait | None:
    if meaning == "opening the collectives":
        if not _complete(whole):
            return Wait("nccl_init_hang", last, False)
        return Wait("message_queue_address", last, False) if _spans_nodes(whole, roles) else None
    if not _spans_nodes(whole, roles):
        return None
    # Without NCCL no line stands between the store and the queue.
    gpu = _GPU.search(whole) and not _CPU.search(whole)
    return Wait("rank_missing" if gpu else "message_queue_address", last, False)


def _spans_nodes(whole: str, roles: set[str]) -> bool:
    """By the arguments; else a process that calls itself one of several, alone in its log, has the others elsewhere."""
    if nodes := _NODES.search(whole):
        return int(nodes["nodes"]) > 1
    return len({found[1] for role in roles if (found := _SHARD.search(role))}) == 1
