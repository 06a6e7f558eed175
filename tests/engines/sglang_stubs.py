# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""Stand-ins for packages that SGLang imports at its start and, up to the loading of a model, never calls.

Most are compilers and kernels for GPUs, which cannot be had for a CPU. A package that is installed wins over its
stand-in.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

PACKAGES = frozenset({"IPython", "gguf", "jsonschema", "soundfile", "triton"})

#: What a real one has only with a GPU: whoever asks for it falls back to the CPU.
ABSENT = frozenset({"active"})


class Anything:
    """An attribute, a function, a decorator, a base class or an annotation, as its user likes."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name in ABSENT:
            raise AttributeError(name)
        return Anything()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return args[0] if len(args) == 1 and callable(args[0]) and not kwargs else self

    def __mro_entries__(self, _bases: object) -> tuple[type, ...]:
        return ()

    def __instancecheck__(self, _instance: object) -> bool:
        return False

    def __subclasscheck__(self, _subclass: object) -> bool:
        return False

    def __getitem__(self, _key: object) -> Any:
        return self

    def __or__(self, _other: object) -> Any:
        return self

    __ror__ = __or__

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def __bool__(self) -> bool:
        return False


class StandIns(MetaPathFinder, Loader):
    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        return ModuleSpec(fullname, self, is_package=True) if fullname.partition(".")[0] in PACKAGES else None

    def exec_module(self, module: ModuleType) -> None:
        module.__doc__ = "A stand-in of the rehearsal."
        vars(module).update(__version__="0.0.0", __getattr__=Anything().__getattr__)


sys.meta_path.append(StandIns())  # the last one asked: after those for installed packages
