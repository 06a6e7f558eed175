# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
# Private to this collection: no stability promised.
"""Which failures another engine can cure, and which engine's turn it is. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

#: Causes that lie in an engine or its image, and why another one may do better. For all others it may not: they lie in
#: the nodes, the model's files, the memory or the recipe, and would come again.
CURABLE: dict[str, str] = {
    "message_queue_address": "each engine finds the address of its message queue in its own way",
    "nccl_init_hang": "another image has another NCCL, and another engine opens its communicators in another order",
    "collective_timeout": "another image has other collectives",
    "kernel_unsupported": "another image may have kernels for this GPU",
    "driver_too_old": "another image may be built for an older CUDA",
    "model_unsupported": "another engine may know this architecture",
    "missing_dependency": "another image may have the package",
    "worker_died": "nothing says that the node ended it, so the engine may have",
    "unknown": "nothing says that it lies outside of the engine",
}


def key(wishes: Mapping[str, Any]) -> str:
    """One short name for all that was asked for, so that a failure is remembered as long as the same is asked."""
    return hashlib.sha256(json.dumps(wishes, sort_keys=True, default=str).encode()).hexdigest()[:16]


def first(engines: Sequence[Mapping[str, Any]], known: Mapping[str, Mapping[str, Any]]) -> tuple[int, list[str]]:
    """The engine to begin with, and what to say of it.

    Args:
        engines: in the order of the recipe, each with ``name`` and ``key``.
        known: earlier failures by key.
    """
    failed = [known.get(engine["key"]) for engine in engines]
    if not any(failed):
        return 0, []
    if all(failed):
        names = ", ".join(f"{engine['name']} ({said['cause']})" for engine, said in zip(engines, failed, strict=True))  # type: ignore[index]
        return 0, [f"every engine has failed with this before: {names}. They are tried again in their order."]
    turn = next(number for number, said in enumerate(failed) if not said)
    lines = [
        f"{engine['name']} is left out: it failed with this at {said['at']} ({said['cause']}). "
        "-e gb10_server_retry=true tries it again."
        for engine, said in zip(engines[:turn], failed[:turn], strict=True)
        if said
    ]
    return turn, lines


def following(engines: Sequence[Mapping[str, Any]], turn: int, left_out: Sequence[str]) -> int | None:
    """The engine after that of ``turn``; one that was left out at first is not tried later either."""
    later = range(turn + 1, len(engines))
    return next((number for number in later if engines[number]["name"] not in left_out), None)


def failure(
    found: Mapping[str, Mapping[str, Any]], lost: Sequence[str], refused: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """What ended an attempt: ``stage`` and ``cause`` (None where no log and no proof gave one).

    Args:
        found: by host, what was registered as ``wait``, ``collective`` and ``endpoint``, each empty if not reached.
        lost: hosts that do not take part any more.
        refused: ``cause`` and ``why`` of a start that was refused before an engine had a log; None or empty for none.
    """
    if lost:
        return {"stage": "nodes", "cause": None, "why": f"{', '.join(lost)} could not be reached"}
    for one in found.values():
        endpoint = one["endpoint"].get("endpoint") or {}
        if endpoint and not endpoint.get("ok"):
            return {"stage": "proof", "cause": endpoint.get("cause"), "why": endpoint.get("problem")}
    waits = [one["wait"] for one in found.values() if one["wait"].get("failed") or one["wait"].get("ready") is False]
    if waits:
        named: Mapping[str, Any] = next((wait for wait in waits if wait.get("cause")), {})
        return {"stage": "start", "cause": named.get("cause"), "why": named.get("reason")}
    for one in found.values():
        if one["collective"].get("failed"):
            said = one["collective"].get("collective") or {}
            return {"stage": "collective", "cause": said.get("cause"), "why": said.get("summary")}
    refused = refused or {}
    return {"stage": "before the start", "cause": refused.get("cause"), "why": refused.get("why")}


def moves_on(ended: Mapping[str, Any]) -> bool:
    """Whether another engine may do better."""
    return ended["cause"] in CURABLE


def line(name: str, ended: Mapping[str, Any], after: str | None) -> str:
    """Why it goes on to another engine, or why it does not although there is one."""
    cause = ended["cause"]
    if after is not None and cause in CURABLE:
        return f"{name} failed ({cause}); {after} is next: {CURABLE[cause]}."
    if cause in CURABLE:
        return f"{name} failed ({cause}), and no engine is left to try."
    lies = f"({cause}): that lies outside of the engine and would come again" if cause else "before its log said why"
    return f"{name} failed {lies}, so no other engine is tried."
