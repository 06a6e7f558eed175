# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 gb10.serving contributors
#
# Private to this collection: may change without notice.
"""Lists of modules as quantisation tools write them: names, parts of names, wildcards and regular expressions."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any


@lru_cache(maxsize=64)
def matcher(patterns: tuple[str, ...]) -> Callable[[str], bool]:
    """True of a module that one of the patterns names: "re:" a regular expression, "*" any text, else whole parts."""
    found, parts, starts = [], set(), []
    for pattern in patterns:
        if pattern.startswith("re:"):
            found.append(pattern[3:])
        elif pattern.endswith("*") and pattern.count("*") == 1:
            starts.append(pattern[:-1])
        elif "*" in pattern:
            found.append(".*".join(re.escape(piece) for piece in pattern.split("*")) + r"(?:\.|$)")
        else:
            parts.add(pattern)
    try:
        wild = re.compile("|".join(f"(?:{one})" for one in found)) if found else None
    except re.error as exc:
        raise ValueError(f"quantization_config: a pattern is no regular expression: {exc}") from exc
    beginnings = tuple(starts)

    def named(module: str) -> bool:
        if wild and wild.match(module):
            return True
        pieces = module.split(".")
        count = len(pieces)
        for first in range(count):
            rest = ".".join(pieces[first:])
            if beginnings and rest.startswith(beginnings):
                return True
            if parts and any(".".join(pieces[first:end]) in parts for end in range(first + 1, count + 1)):
                return True
        return False

    return named


def names_of(value: Any, key: str) -> tuple[str, ...]:
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise ValueError(f"quantization_config: {key} is {str(value)[:60]}; expected a list of module names")
    return tuple(value)


def anywhere(names: Iterable[str]) -> tuple[str, ...]:
    """Patterns that match each name anywhere in a module's name."""
    return tuple(name if name.startswith("re:") else f"re:.*{re.escape(name)}" for name in names)


MLA_JOINED = "fused_qkv_a_proj"

_FUSED = {
    "gate_proj": "gate_up_proj",
    "up_proj": "gate_up_proj",
    "q_proj": "qkv_proj",
    "k_proj": "qkv_proj",
    "v_proj": "qkv_proj",
    "q_a_proj": MLA_JOINED,
    "kv_a_proj_with_mqa": MLA_JOINED,
    "in_proj_qkv": "in_proj_qkvz",
    "in_proj_z": "in_proj_qkvz",
    "in_proj_b": "in_proj_ba",
    "in_proj_a": "in_proj_ba",
}


def fused_name(module: str) -> str:
    """The module as the engine has it, which makes one layer of some that stand side by side in the checkpoint."""
    parent, _dot, name = module.rpartition(".")
    if name == "up_proj" and "mixer" in parent:  # Nemotron's MLP has no gate
        return module
    return f"{parent}.{_FUSED.get(name, name)}" if parent else module
