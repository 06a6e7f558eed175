# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 gb10.serving contributors
#
# Private to this collection: may change without notice.
"""Read a value of config.json from which tensors are derived. What cannot be meant is an error with key and value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

MOST = 1 << 24  # no dimension of a real model comes near
MOST_LAYERS = 4096


def whole(config: dict[str, Any], *keys: str, default: int | None = None, least: int = 1, most: int = MOST) -> int:
    """The whole number under the first of the keys that is there. Without any: the default, or KeyError."""
    for key in keys:
        value = config.get(key)
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise ValueError(f"{key} is {value!r}, expected a whole number from {least} to {most}")
        return value
    if default is None:
        raise KeyError(keys[0])
    return default


def layers(config: dict[str, Any], *keys: str, default: int | None = None, least: int = 0) -> int:
    return whole(config, *keys, default=default, least=least, most=MOST_LAYERS)


def flag(config: dict[str, Any], key: str, default: bool = False) -> bool:
    value = config.get(key)
    if value is None:
        return default
    if not isinstance(value, bool):
        raise ValueError(f"{key} is {value!r}, expected true or false")
    return value


def names(config: dict[str, Any], key: str, known: Sequence[str], length: int | None = None) -> list[str] | None:
    """A list of names, one for each layer; None where the file has none."""
    value = config.get(key)
    if value is None:
        return None
    if not isinstance(value, list) or not value:
        raise ValueError(f"{key} is {value!r:.60}, expected a list with the kind of each layer")
    wrong = next((kind for kind in value if kind not in known), None)
    if wrong is not None:
        raise ValueError(f"{key} has a layer {wrong!r:.60}, known are {', '.join(known)}")
    if length is not None and len(value) != length:
        raise ValueError(f"{key} names {len(value)} layers, num_hidden_layers is {length}, expected the same")
    if len(value) > MOST_LAYERS:
        raise ValueError(f"{key} names {len(value)} layers, expected {MOST_LAYERS} at most")
    return value


def section(config: dict[str, Any], key: str) -> dict[str, Any] | None:
    """A part of the file with keys of its own; None where the file has none."""
    value = config.get(key)
    if value is None:
        return None
    if not isinstance(value, dict):
        raise ValueError(f"{key} is {value!r:.60}, expected an object")
    return value


def tied(text: dict[str, Any], config: dict[str, Any]) -> bool:
    """Whether the output layer is the input embedding, so that the checkpoint has no lm_head."""
    return flag(text, "tie_word_embeddings", flag(config, "tie_word_embeddings"))
