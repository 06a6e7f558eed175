# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 gb10.serving contributors
#
# Private to this collection: may change without notice.
"""What an architecture consists of: tensors as a checkpoint names them, before quantisation."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import prod
from typing import Any


@dataclass(frozen=True)
class Tensor:
    """Tensors of one name and shape.

    A linear layer's weight has the shape (output features, input features) and may be quantised, as the checkpoint's
    quantisation says for its module; anything else keeps the dtype of the model, or its own.
    """

    module: str  # as in the checkpoint, without ".weight"; "*" stands for the number of one of many experts
    shape: tuple[int, ...]
    count: int = 1  # tensors of this shape: the experts of a layer, else 1
    linear: bool = False
    dtype: str | None = None  # torch's name, where it differs from the model's

    @property
    def elements(self) -> int:
        return prod(self.shape) * self.count


def linear(module: str, out: int, into: int, count: int = 1) -> Tensor:
    return Tensor(module, (out, into), count, linear=True)


# (text part of config.json, whole config.json) -> all tensors of the checkpoint. KeyError, TypeError and ValueError of
# a config that lacks a key or has nonsense in it become a reason.
Family = Callable[[dict[str, Any], dict[str, Any]], Iterator[Tensor]]
