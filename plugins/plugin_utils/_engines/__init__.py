# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
# Private to this collection: no stability promised.
"""Engine knowledge: one file an engine, all of it data or pure functions of the spec.

Each file in this directory is an engine of its name. CONTRIBUTING says what it holds.
"""

from __future__ import annotations

import importlib
import os
from types import ModuleType
from typing import Any

ENGINES: dict[str, ModuleType] = {
    name[:-3]: importlib.import_module(f"{__name__}.{name[:-3]}")
    for name in sorted(os.listdir(os.path.dirname(__file__)))
    if name.endswith(".py") and not name.startswith("_")
}


def get(name: str) -> ModuleType:
    """The engine called ``name``.

    Raises:
        ValueError: the name is not one of ENGINES; the message lists them.
    """
    try:
        return ENGINES[name]
    except KeyError:
        raise ValueError(f"engine '{name}' is not known; known engines: {', '.join(sorted(ENGINES))}") from None


def probes() -> dict[str, Any]:
    """What a node must know to find an engine in an image and to ask it for its flags, by engine."""
    return {
        name: {"distributions": list(engine.DISTRIBUTIONS), "help": list(engine.HELP)}
        for name, engine in ENGINES.items()
    }
