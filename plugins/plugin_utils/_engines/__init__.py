# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
# Private to this collection: no stability promised.
"""Engine knowledge: one file an engine, all of it data or pure functions of the spec."""

from __future__ import annotations

from types import ModuleType

from . import vllm

ENGINES: dict[str, ModuleType] = {"vllm": vllm}


def get(name: str) -> ModuleType:
    """The engine called ``name``.

    Raises:
        ValueError: the name is not one of ENGINES; the message lists them.
    """
    try:
        return ENGINES[name]
    except KeyError:
        raise ValueError(f"engine '{name}' is not known; known engines: {', '.join(sorted(ENGINES))}") from None
