# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""Who holds the GPU's memory: what nvidia-smi prints of processes, and what follows for the memory's verdict."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gb10.serving.plugins.module_utils import _facts_gpu as gpu
from ansible_collections.gb10.serving.plugins.module_utils._facts import gather

MIB = 1024**2
GIB = 1024**3
HOLDER = {"pid": 4711, "name": "VLLM::Worker", "used_bytes": 80000 * MIB, "type": "C"}

CSV: dict[str, tuple[str, list[dict[str, Any]] | None, int]] = {
    # text, processes, strange lines
    "plain": ("4711, VLLM::Worker, 80000\n", [HOLDER], 0),
    "own order": (
        "pid, process_name, used_gpu_memory [MiB]\n4711, VLLM::Worker, 80000 MiB\n",
        [HOLDER],
        0,
    ),
    "memory first": ("used_gpu_memory [MiB], pid, process_name\n80000 MiB, 4711, VLLM::Worker\n", [HOLDER], 0),
    "memory in the middle": ("pid, used_memory [MiB], name\n4711, 80000 MiB, VLLM::Worker\n", [HOLDER], 0),
    "name first": ("process_name, pid, used_gpu_memory [MiB]\nVLLM::Worker, 4711, 80000 MiB\n", [HOLDER], 0),
    "another column": (
        "gpu_uuid, pid, process_name, used_gpu_memory [MiB]\nGPU-12, 4711, VLLM::Worker, 80000 MiB\n",
        [HOLDER],
        0,
    ),
    "a name with commas": ("4711, a, b,c, 80000\n", [{**HOLDER, "name": "a, b,c"}], 0),
    "unknown size": ("4711, VLLM::Worker, [N/A]\n", [{**HOLDER, "used_bytes": None}], 0),
    "nothing": ("\n", [], 0),
    "only the header": ("pid, process_name, used_gpu_memory [MiB]\n", [], 0),
    "no process": ("No running processes found\n", [], 0),
    "an error": ("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n", None, 1),
    "a header and an error": ("pid, process_name, used_gpu_memory [MiB]\nUnknown Error\n", [], 1),
    "a damaged line": ("4711, VLLM::Worker, 80000\n47\n", [HOLDER], 1),
}


@pytest.mark.parametrize("name", CSV)
def test_list_of_processes(name: str) -> None:
    text, processes, strange = CSV[name]
    found, lines = gpu.parse_processes(text)
    assert (found, len(lines)) == (processes, strange)


HEAD = """
| NVIDIA-SMI 580.95.05   Driver Version: 580.95.05   CUDA Version: 13.0 |
|   0  NVIDIA GB10                    On  |   0000000F:01:00.0 Off |                  N/A |
| Processes:                                                             |
"""


@pytest.mark.parametrize(
    ("rows", "types"),
    [
        ("|  No running processes found                       |\n", []),
        ("", None),  # cut off, or not shown to this user
        ("|    0   N/A  N/A    3067      G   /usr/lib/xorg/Xorg      18MiB |\n", ["G"]),
        ("|    0   N/A  N/A    3067    C+G   /usr/bin/blender      18MiB |\n", ["C+G"]),
    ],
)
def test_table_of_processes(rows: str, types: list[str] | None) -> None:
    found = gpu.parse_table(HEAD + rows)["processes"]
    assert (found if found is None else [item["type"] for item in found]) == types


# 126000 MB, of which no category accounts for 80000
MEMINFO = """
MemTotal: 129024000 kB
MemFree: 2048000 kB
MemAvailable: {available} kB
Buffers: 0 kB
Cached: {cached} kB
AnonPages: 2048000 kB
SUnreclaim: 1024000 kB
SwapTotal: 0 kB
SwapFree: 0 kB
"""
APPS = "commands/nvidia-smi-query-compute-apps.csv"


def memory(root: Path, available: int, csv: str | None) -> tuple[dict[str, Any], dict[str, str]]:
    for name, text in {
        "proc/meminfo": MEMINFO.format(available=available, cached=129024000 - 5120000 - 81920000),
        APPS: csv,
    }.items():
        if text is not None:
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    facts = gather(["gpu", "memory"], str(root), [])
    return facts["memory"], facts["missing"]


MPS = "4711, VLLM::Worker, 70000\n99, nvidia-cuda-mps-server, [N/A]\n"
PLENTY, LITTLE = 60 * 1024**2, 8 * 1024**2  # kB
VERDICTS: dict[str, tuple[int, str | None, int | None, str, str]] = {
    # available, csv, GPU memory in MiB that is known, verdict, words of the remedy
    "nobody": (PLENTY, "", 0, "driver-keeps-freed-pools", "Reboot"),
    "nobody, little left": (LITTLE, "", 0, "driver-keeps-freed-pools", "Reboot"),
    "a process holds it": (LITTLE, "4711, VLLM::Worker, 80000\n", 80000, "too-little-to-start", "Stop what holds"),
    "of one the size is not known": (LITTLE, MPS, 70000, "too-little-to-start", "Stop what holds"),
    "of the only one the size is not known": (LITTLE, "4711, a, [N/A]\n", None, "too-little-to-start", "Stop what"),
    "a small one is alive": (PLENTY, "4711, a, 200\n", 200, "page-cache-in-the-way", "page cache"),
    "an error": (LITTLE, "NVIDIA-SMI has failed\n", None, "too-little-to-start", "processes could not be read"),
    "a damaged line": (LITTLE, "4711\n", None, "too-little-to-start", "processes could not be read"),
    "no list": (PLENTY, None, None, "page-cache-in-the-way", "processes could not be read"),
}


@pytest.mark.parametrize("name", VERDICTS)
def test_freed_pools_are_told_from_a_process(tmp_path: Path, name: str) -> None:
    available, csv, known, verdict, words = VERDICTS[name]
    facts, missing = memory(tmp_path, available, csv)
    assert facts["driver_held_bytes"] == 80000 * MIB
    assert facts["driver_pools_bytes"] == (80000 - (known or 0)) * MIB
    assert facts["gpu_used_bytes"] == (None if known is None else known * MIB)
    assert (facts["verdict"], words in facts["remedy"]) == (verdict, True), facts["remedy"]
    assert ("memory.gpu_used_bytes" in missing) == (known is None)


def test_the_words_of_nvidia_smi_are_the_reason(tmp_path: Path) -> None:
    words = "Failed to initialize NVML: Driver/library version mismatch"
    (tmp_path / "commands").mkdir()
    (tmp_path / "commands/nvidia-smi.txt").write_text(words + "\nNVML library version: 580.126\n")
    (tmp_path / APPS).write_text("NVIDIA-SMI has failed\n")
    facts = gather(["gpu"], str(tmp_path), [])
    assert facts["gpu"]["processes"] is None
    assert facts["missing"]["gpu.name"] == "nvidia-smi says: " + words
    assert facts["missing"]["gpu.processes"].endswith("NVIDIA-SMI has failed")
