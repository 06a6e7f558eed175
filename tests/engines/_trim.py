# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""Make an installed Python tree small: files that serving never opens go, and shared objects lose their debug data."""

from __future__ import annotations

import shutil
import struct
from pathlib import Path

# Below the site directory.
DROPPED = (
    "bin",
    "torch/bin/*",
    "torch/include",
    "torch/share",
    "torch/test",
    "torch/lib/*test*",
    "torch/lib/*.a",
    "torch/testing/_internal/generated",
    "numpy/**/tests",
    "numpy/**/*.a",
    "sympy/**/tests",
    "networkx/**/tests",
    "vllm/benchmarks",
    "vllm/kernels/helion/configs",
    "vllm/model_executor/layers/fused_moe/configs",
    "vllm/model_executor/layers/quantization/utils/configs",
    "**/*.pyi",
    "**/*.pyx",
    "**/*.pxd",
    "**/*.cpp",
    "**/*.h",
    "**/*.jpg",
)


def drop(site: Path) -> None:
    for pattern in DROPPED:
        for path in sorted(site.glob(pattern), reverse=True):
            if path.name == "torch_shm_manager":  # without it torch cannot be imported
                continue
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()


def strip_all(site: Path) -> int:
    """Strip every shared object; returns the bytes won."""
    libraries = [path for path in site.rglob("*.so*") if path.is_file() and not path.is_symlink()]
    return sum(strip(path) for path in libraries)


def strip(path: Path) -> int:
    """Cut a 64-bit little-endian ELF file behind its last loadable byte; returns the bytes won.

    The dynamic loader reads program headers only. Sections (debug data, symbol tables) come last and may go.
    """
    with path.open("r+b") as file:
        header = file.read(64)
        if len(header) < 64 or header[:6] != b"\x7fELF\x02\x01":
            return 0
        (table,) = struct.unpack_from("<Q", header, 32)
        entry_size, entries = struct.unpack_from("<HH", header, 54)
        file.seek(table)
        segments = file.read(entry_size * entries)
        end: int = table + len(segments)
        for index in range(entries):
            offset, size = struct.unpack_from("<8xQ16xQ", segments, index * entry_size)
            end = max(end, offset + size)
        before = file.seek(0, 2)
        if end >= before:
            return 0
        file.seek(40)
        file.write(bytes(8))  # where the section headers are
        file.seek(58)
        file.write(bytes(6))  # their size, their number, their names
        file.truncate(end)
        return before - end
