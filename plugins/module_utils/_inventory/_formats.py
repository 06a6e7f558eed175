# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 gb10.serving contributors
#
# Private to this collection: may change without notice.
"""Number formats of quantised weights: the bytes of one linear layer's weight with its scales."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import Any

Pair = tuple[int, int]


@dataclass(frozen=True)
class Format:
    """One way to store the weight of a linear layer."""

    name: str
    bits: int
    block: Pair | None = None  # rows x columns that share one scale; 0 stands for all of them
    scale_bits: int = 0  # of one scale
    zero_bits: int = 0  # of the zero point beside each scale
    constants: int = 0  # bytes per tensor: scales of the whole tensor and of its input

    def bytes(self, out: int, into: int) -> int:
        rows, columns = self.block or (0, 0)
        scales = 0
        if self.block:
            scales = ceil(out / (rows or out)) * ceil(into / (columns or into))
        return ceil(out * into * self.bits / 8) + ceil(scales * (self.scale_bits + self.zero_bits) / 8) + self.constants


def fp8_block(rows: int, columns: int, scale_bits: int = 32) -> Format:
    return Format("fp8_block", 8, (rows, columns), scale_bits)


def integer(bits: int, group: int, zeros: bool, scale_bits: int = 16) -> Format:
    """Groups along the input; group -1 is one scale per output channel."""
    return Format(f"int{bits}", bits, (1, max(group, 0)), scale_bits, bits if zeros else 0)


FP8_TENSOR = Format("fp8", 8, constants=8)
FP8_CHANNEL = Format("fp8_channel", 8, (1, 0), 32)
INT8_CHANNEL = Format("int8_channel", 8, (1, 0), 32)
NVFP4 = Format("nvfp4", 4, (1, 16), 8, constants=8)
MXFP4 = Format("mxfp4", 4, (1, 32), 8)
MXFP8 = Format("mxfp8", 8, (1, 32), 8)

# quant_algo of ModelOpt.
ALGORITHMS: dict[str, Format] = {
    "FP8": FP8_TENSOR,
    "FP8_PER_CHANNEL_PER_TOKEN": FP8_CHANNEL,
    "FP8_PB_WO": fp8_block(128, 128),
    "NVFP4": NVFP4,
    "NVFP4_AWQ": NVFP4,
    "W4A16_NVFP4": NVFP4,
    "MXFP8": MXFP8,
    "W4A16_MXFP4": MXFP4,
}


MOST = 2**20 - 1  # no group, block or number of bits comes near


def whole(value: Any, key: str, accepted: str = f"a whole number from 1 to {MOST}") -> int:
    """A positive number of a quantization_config; a ValueError with key and value otherwise."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= MOST:
        raise ValueError(f"quantization_config: {key} is {value!r}; expected {accepted}")
    return value


def block_of(value: Any, key: str) -> Pair:
    if not isinstance(value, list) or len(value) != 2:
        raise ValueError(f"quantization_config: {key} is {value!r}; expected two whole numbers such as [128, 128]")
    return whole(value[0], key), whole(value[1], key)


def of_weights(weights: Any, integer_zeros: bool = True, activations: bool = True) -> Format:
    """Format of the "weights" of one config group (compressed-tensors and ModelOpt)."""
    if not isinstance(weights, dict):
        raise ValueError(f"quantization_config: weights of a config group is {weights!r}; expected a table")
    bits, kind = weights.get("num_bits"), str(weights.get("type") or "int")
    group, strategy = weights.get("group_size"), weights.get("strategy")
    if kind == "float" and bits == 8:
        if strategy == "block" or weights.get("block_structure"):
            return fp8_block(*block_of(weights.get("block_structure"), "block_structure"))
        if strategy == "group" and group == 32:
            return MXFP8
        if strategy in ("channel", "tensor", None):
            return FP8_CHANNEL if strategy == "channel" else FP8_TENSOR
    if kind == "float" and bits == 4 and group in (16, 32):
        return NVFP4 if group == 16 else MXFP4
    if kind == "int" and bits in (2, 3, 4, 8):
        if strategy == "channel" or group in (None, -1):
            return INT8_CHANNEL if bits == 8 and activations else integer(bits, -1, False)
        return integer(bits, whole(group, "group_size"), integer_zeros and not weights.get("symmetric", True))
    raise ValueError(
        f"quantisation with {bits} bits of type {kind}, strategy {strategy}, group size {group} is not known"
    )
