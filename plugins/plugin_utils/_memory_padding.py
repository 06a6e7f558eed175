# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
#
# Private to this collection: may change without notice.
"""What the engine allocates for the routed experts beyond an even share of the checkpoint. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from ansible_collections.gb10.serving.plugins.plugin_utils._memory_model import Model

MXFP4_HIDDEN, MXFP4_INNER = 256, 128  # what the kernel for 4-bit floats with 32 to a scale rounds up to
FINEST = 32  # blocks of scales are not cut finer


@dataclass(frozen=True)
class Factor:
    factor: float = 1.0  # bytes allocated / even share of the checkpoint
    formula: str = ""


def _round_up(value: int, to: int) -> int:
    return math.ceil(value / to) * to


def expert_factor(model: Model, tp: int) -> Factor:
    """For a rank that has a tp-th of each expert."""
    quantization = model.quantization or {}
    hidden, inner = model.config.get("hidden_size"), model.config.get("moe_intermediate_size")
    if not hidden or not inner:
        return Factor()
    part = inner / tp
    form = quantization.get("experts")
    packed = str(quantization.get("method")).startswith(("compressed-tensors", "modelopt"))
    if form == "mxfp4" and not packed:  # kernels of the other methods take any size
        wide, deep = _round_up(hidden, MXFP4_HIDDEN), _round_up(math.ceil(part), MXFP4_INNER)
        return Factor(wide * deep / (hidden * part), f"hidden {hidden} to {wide}, intermediate / tp {part:g} to {deep}")
    if form in ("fp8_channel", "int8_channel"):
        # The scales of the down projection are one per hidden channel, on every rank.
        return Factor(1 + (1 - 1 / tp) * 4 * tp / (3 * inner), "scales of the down projection on every rank")
    if not part.is_integer():
        return Factor()
    if form == "fp8_block":
        block = (quantization.get("block") or [128])[0]
        fine = math.gcd(block, int(part), hidden)
        if FINEST <= fine < block:
            before, after = 1 + 4 / block**2, 1 + 4 / fine**2
            return Factor(after / before, f"blocks of scales cut from {block} to {fine}")
    if str(form).startswith("int"):
        return _integer(quantization, hidden, int(part), tp)
    return Factor()


def _integer(quantization: dict[str, Any], hidden: int, part: int, tp: int) -> Factor:
    bits, group = quantization.get("bits") or 4, quantization.get("group") or 0
    stored = 16 + (bits if quantization.get("zeros") else 0)
    before = bits + (stored / group if group > 0 else 0)
    fine = math.gcd(group, part) if group > 0 else 0
    if 0 < fine < group:
        kept = 16 if quantization.get("symmetric") else stored  # the kernel for cut groups drops idle zero points
        return Factor((bits + kept / fine) / before, f"groups of scales cut from {group} to {fine}")
    if group <= 0:  # scales of the down projection are one per hidden channel, on every rank
        return Factor(1 + (1 - 1 / tp) * 16 / (3 * part * bits), "scales of the down projection on every rank")
    if str(quantization.get("method")).startswith(("gptq", "auto-round", "auto_round", "inc")):
        biases = 16 * (2 * part + hidden) / (3 * hidden * part)
        return Factor(1 + biases / before, "room for a bias of each expert")
    return Factor()
