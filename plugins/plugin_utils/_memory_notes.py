# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
#
# Private to this collection: may change without notice.
"""What one should know of a plan beside its verdict. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from ansible_collections.gb10.serving.plugins.plugin_utils._memory_fit import Fit
from ansible_collections.gb10.serving.plugins.plugin_utils._memory_model import GIB, Model
from ansible_collections.gb10.serving.plugins.plugin_utils._memory_nodes import DISCRETE_TO, UNIFIED_FROM
from ansible_collections.gb10.serving.plugins.plugin_utils._memory_verdict import judge

_FEWER_BITS = re.compile(r"(?<![a-z])(fp8|nvfp4|mxfp4|fp4|int4|int8|awq|gptq|w4a16|w8a8)(?![a-z0-9])", re.IGNORECASE)


def _checkpoint(model: Mapping[str, Any], seen: Model) -> Iterator[str]:
    name = str(model.get("name") or model.get("path") or "").rstrip("/").rpartition("/")[2]
    found = _FEWER_BITS.search(name)
    if found and not seen.quantization and seen.source == "config.json":
        yield (
            f"The name {name} says {found.group(1)}, but config.json has no quantization_config: planned as 16-bit. "
            "hf_quant_config.json beside config.json would change that."
        )


def _small(found: Fit) -> Iterator[str]:
    node = found.worst
    if node.measured or node.total >= UNIFIED_FROM:
        return
    kept = f"a reserve of {node.reserve / GIB:.3g} GiB"
    kind = "a discrete GPU, on which all but 0.5 GiB is free"
    if node.total > DISCRETE_TO:
        kind = (
            f"something between a discrete GPU (up to {DISCRETE_TO / GIB:.0f} GiB) and a GB10 (from "
            f"{UNIFIED_FROM / GIB:.0f}), with {node.available / GIB:.1f} GiB free"
        )
    if not node.reserve:
        kept = "no reserve (the default of 8 GiB is a GB10's)"
    yield (
        f"{node.total / GIB:.1f} GiB is less than a GB10 has: planned as {kind}, with {kept}. What "
        "gb10_plan_reserve_gib says is kept."
    )


def _verdict_with(found: Fit, available: int) -> str:
    nodes = tuple(
        node if node.measured else replace(node, available=available, low=available, high=available, measured=True)
        for node in found.nodes
    )
    return judge(replace(found, nodes=nodes))[0]


def _prior(found: Fit, verdict: str) -> Iterator[str]:
    """The prior stands for a range. What a node at its lower end would be told."""
    priors = [node for node in found.nodes if not node.measured and node.low < node.available]
    if verdict != "fits" or not priors:
        return
    node = priors[0]
    worse: dict[str, int] = {}
    for available in range(node.available, node.low - 1, -GIB // 4):
        worse.setdefault(_verdict_with(found, available), available)
    words = [
        f"{other} at {worse[other] / GIB:.1f} GiB free or less" for other in ("borderline", "refused") if other in worse
    ]
    if words:
        yield (
            f"Memory was not measured: {node.available / GIB:.0f} GiB free is usual, {node.low / GIB:.0f} to "
            f"{node.high / GIB:.0f} are seen. These settings are {', and '.join(words)}. Measure with "
            "gb10_plan_measure, or set gb10_plan_available_bytes."
        )


def _slots(found: Fit) -> Iterator[str]:
    cells = found.layout.cells
    if not found.layout.is_sglang or not cells.state:
        return
    most = cells.at_once(found.pool)
    if 0 < most < found.wishes.seqs:
        yield (
            f"SGLang has state slots for {most} requests at once ({cells.slots} each) and cuts "
            f"max_running_requests down to that, whatever their length; {found.wishes.seqs} are asked for."
        )


def _ignored(found: Fit, seen: Model) -> Iterator[str]:
    if found.wishes.expert_parallel and not seen.is_moe and found.engine.name == "sglang":
        yield "gb10_plan_ep is true, and the model has no experts: SGLang starts, and splits nothing by it."


def notes(found: Fit, verdict: str, model: Mapping[str, Any], seen: Model) -> list[str]:
    return [*_checkpoint(model, seen), *_small(found), *_prior(found, verdict), *_slots(found), *_ignored(found, seen)]
