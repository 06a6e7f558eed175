# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 gb10.serving contributors
"""Private: what nvidia-smi prints. A GB10 has no memory figures of its own; only processes have."""

from __future__ import annotations

import re
from typing import Any

from ._facts_source import Source

MIB = 1024 * 1024
_DRIVER = re.compile(r"^[3-9][0-9]{2}\.[0-9]{2,3}(?:\.[0-9]{2})?$")
_ROW = re.compile(
    r"^\|\s+(\d{1,3})\s+(?:\S+\s+\S+\s+)?(\d{1,10})\s+(C\+G|C|G|M\+C)\s+"
    r"(.*?)\s+(\d+\s*MiB|N/A|\[N/A\]|Not Supported|-)\s*\|$"
)
_GPU_ROW = re.compile(r"^\|\s+(\d{1,3})\s+(.+?)\s+(?:On|Off|N/A)\s+\|\s+[0-9A-Fa-f]{8}:")


def mebibytes(text: str) -> int | None:
    """ "102625 MiB" or "102625" as bytes; None for "[N/A]", "Not Supported" and the like."""
    match = re.match(r"^\s*([0-9]{1,9})\s*(?:MiB)?\s*$", text)
    return int(match.group(1)) * MIB if match else None


def parse_table(text: str) -> dict[str, Any]:
    """The table of a plain nvidia-smi: driver, CUDA version, GPU names, processes."""
    driver = re.search(r"Driver Version:\s*([0-9][0-9.]*)", text)
    cuda = re.search(r"CUDA Version:\s*([0-9][0-9.]*)", text)
    names: dict[int, str] = {}
    processes: list[dict[str, Any]] = []
    for line in text.splitlines():
        line = line.strip()
        gpu = _GPU_ROW.match(line)
        if gpu:
            names[int(gpu.group(1))] = gpu.group(2)
        row = _ROW.match(line)
        if row:
            processes.append({"pid": int(row.group(2)), "name": row.group(4), "used_bytes": mebibytes(row.group(5))})
    known = bool(names) or "Processes:" in text
    return {
        "driver": driver.group(1) if driver else None,
        "cuda": cuda.group(1) if cuda else None,
        "names": [names[index] for index in sorted(names)],
        "processes": processes if known or processes else None,
    }


def parse_query(text: str) -> dict[str, Any]:
    """A --query-gpu csv with or without its header line: driver and names, found by what they look like."""
    driver = None
    names = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split(",")]
        name = next((cell for cell in cells if re.match(r"^(?:NVIDIA|Tesla|Quadro|GeForce)\s", cell)), None)
        if name:
            names.append(name)
            driver = driver or next((cell for cell in cells if _DRIVER.match(cell)), None)
    return {"driver": driver, "names": names}


def parse_processes(text: str) -> list[dict[str, Any]]:
    """A --query-compute-apps=pid,process_name,used_memory csv, with or without its header line."""
    processes = []
    for line in text.splitlines():
        match = re.match(r"^\s*(\d{1,10})\s*,\s*(.*)\s*,\s*([^,]*)$", line)
        if match:
            processes.append(
                {
                    "pid": int(match.group(1)),
                    "name": match.group(2).strip(),
                    "used_bytes": mebibytes(match.group(3)),
                }
            )
    return processes


def _merge(first: list[dict[str, Any]], second: list[dict[str, Any]]) -> list[dict[str, Any]]:
    by_pid = {item["pid"]: item for item in second}
    by_pid.update({item["pid"]: item for item in first})
    return [by_pid[pid] for pid in sorted(by_pid)]


def container_of(source: Source, pid: int) -> str | None:
    """The id of the container a process runs in, from its control group."""
    match = re.search(r"[0-9a-f]{64}", source.read(f"/proc/{pid}/cgroup") or "")
    return match.group(0) if match else None


def read_gpu(source: Source, missing: dict[str, str]) -> dict[str, Any]:
    """name, count, processes; also driver and cuda for the platform reader."""
    table_output = source.command(["nvidia-smi"], ["nvidia-smi"])
    table = parse_table(table_output.text)
    names, driver = table["names"], table["driver"]
    processes: list[dict[str, Any]] | None = table["processes"]
    reason = table_output.reason or "nvidia-smi printed no GPU"
    if "No devices were found" in table_output.text:
        reason = "nvidia-smi says: No devices were found (the driver could not bring the GPU up)"
    elif source.captured or table_output.reason is None:
        apps = source.command(
            ["nvidia-smi-query-compute-apps"],
            ["nvidia-smi", "--query-compute-apps=pid,process_name,used_memory", "--format=csv,noheader,nounits"],
        )
        if apps.reason is None:
            processes = _merge(parse_processes(apps.text), processes or [])
        elif processes is None:
            rows = parse_table("\n".join(source.captured_texts(["nvidia-smi-process"])))["processes"]
            processes = rows or None
    if not names or driver is None:
        for text in source.captured_texts(["nvidia-smi-query"]):
            query = parse_query(text)
            names = names or query["names"]
            driver = driver or query["driver"]
    if not source.captured:
        for item in processes or []:
            item["container_id"] = container_of(source, item["pid"])
    if not names:
        missing["gpu.name"] = reason
    if processes is None:
        missing["gpu.processes"] = reason
    for key, value in (("driver", driver), ("cuda", table["cuda"])):
        if value is None:
            missing["gpu." + key] = reason
    count: int | None = len(names) if names else None
    if count is None and "No devices were found" in table_output.text:
        count = 0
    elif count is None:
        missing["gpu.count"] = reason
    return {
        "name": names[0] if names else None,
        "count": count,
        "processes": processes,
        "driver": driver,
        "cuda": table["cuda"],
        "memory_total_bytes": None,
    }
