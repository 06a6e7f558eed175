# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 gb10.serving contributors
"""Private: what nvidia-smi prints. A GB10 has no memory figures of its own; only processes have."""

from __future__ import annotations

import re
from typing import Any

from ._facts_source import Source
from ._port_owner import innermost

MIB = 1024 * 1024
APPS = ["nvidia-smi", "--query-compute-apps=pid,process_name,used_memory", "--format=csv,noheader,nounits"]
_DRIVER = re.compile(r"^[3-9][0-9]{2}\.[0-9]{2,3}(?:\.[0-9]{2})?$")
_ROW = re.compile(
    r"^\|\s+(\d{1,3})\s+(?:\S+\s+\S+\s+)?(\d{1,10})\s+(C\+G|C|G|M\+C)\s+"
    r"(.*?)\s+(\d+\s*MiB|N/A|\[N/A\]|Not Supported|-)\s*\|$"
)
_GPU_ROW = re.compile(
    r"^\|\s+(\d{1,3})\s+(.+?)\s+(?:On|Off|N/A)\s+\|\s+([0-9A-Fa-f]{8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])"
)
_LOAD_ROW = re.compile(r"^\|\s+\S+\s+(\d{1,3})C\s+P\d+\s+(\d{1,4})W\s*/\s*(\S+)\s+\|[^|]*\|\s+(\d{1,3})%")
# index, name, uuid, driver, two utilizations, temperature, power, power limit: a query without its header line
_PLAIN_ROW = re.compile(r"^\d+, [^,]+, GPU-[^,]+, [0-9.]+, (\d{1,3}), \d{1,3}, (\d{1,3}), ([0-9.]+), (\S+?),")
_HEADS = {
    "temperature.gpu": "temperature_c",
    "power.draw": "power_watts",
    "power.limit": "power_cap_watts",
    "utilization.gpu": "utilization_percent",
    "name": "name",
    "driver_version": "driver",
    "pci.bus_id": "bus_id",
}
_APP_HEADS = {"pid": "pid", "process_name": "name", "name": "name", "used_gpu_memory": "used", "used_memory": "used"}
#: What nvidia-smi prints when it cannot ask the driver.
_FAILED = re.compile(
    r"^.*(?:NVIDIA-SMI has failed|Failed to initialize NVML|couldn't communicate with).*$", re.MULTILINE
)
LOAD = ("bus_id", "temperature_c", "power_watts", "power_cap_watts", "utilization_percent")


def mebibytes(text: str) -> int | None:
    """ "102625 MiB" or "102625" as bytes; None for "[N/A]", "Not Supported" and the like."""
    match = re.match(r"^\s*([0-9]{1,9})\s*(?:MiB)?\s*$", text)
    return int(match.group(1)) * MIB if match else None


def figure(text: str) -> int | float | None:
    """ "11.17 W", "0 %" or "35" as a number; None for "[N/A]" and the like."""
    match = re.match(r"^\s*([0-9]{1,5}(?:\.[0-9]{1,3})?)\s*(?:%|W|C)?\s*$", text)
    return None if not match else float(match.group(1)) if "." in match.group(1) else int(match.group(1))


def parse_table(text: str) -> dict[str, Any]:
    """The table of a plain nvidia-smi: driver, CUDA version, GPU names, load of the first GPU, processes."""
    driver = re.search(r"Driver Version\s*:\s*([0-9][0-9.]*)", text)
    cuda = re.search(r"CUDA Version\s*:\s*([0-9][0-9.]*)", text)
    names: dict[int, str] = {}
    load: dict[str, Any] = {}
    processes: list[dict[str, Any]] = []
    for line in text.splitlines():
        line = line.strip()
        gpu, row, now = _GPU_ROW.match(line), _ROW.match(line), _LOAD_ROW.match(line)
        if gpu:
            names[int(gpu.group(1))] = gpu.group(2)
            load.setdefault("bus_id", gpu.group(3))
        elif now and names:
            for key, cell in zip(LOAD[1:], now.groups(), strict=True):
                load.setdefault(key, figure(cell.replace("W", "")))
        elif row:
            used = mebibytes(row.group(5))
            processes.append({"pid": int(row.group(2)), "name": row.group(4), "used_bytes": used, "type": row.group(3)})
    # nvidia-smi -L, and the page of nvidia-smi -q
    for index, name in re.findall(r"^GPU (\d{1,3}): (\S.*?) \(UUID:", text, re.MULTILINE):
        names.setdefault(int(index), name)
    for name in re.findall(r"^[ \t]*Product Name[ \t]+:[ \t]+(\S[^\n]*)$", text, re.MULTILINE)[:1]:
        names.setdefault(0, name.strip())
    # a table that was cut off, or that an unprivileged reader got, shows no rows: that is not "no process"
    known = bool(names) and "No running processes found" in text
    return {
        "driver": driver.group(1) if driver else None,
        "cuda": cuda.group(1) if cuda else None,
        "names": [names[index] for index in sorted(names)],
        "load": load,
        "processes": processes if known or processes else None,
    }


def parse_query(text: str) -> dict[str, Any]:
    """A --query-gpu csv: by its header line where it has one, else driver and names by what they look like."""
    driver = None
    names = []
    load: dict[str, Any] = {}
    heads: list[str] | None = None
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split(",")]
        words = [cell.partition("[")[0].strip() if cell.endswith("]") else cell for cell in cells]
        if heads is None and sum("." in word or word in ("index", "name") for word in words) > len(words) // 2:
            heads = words if any(word in _HEADS or word.startswith("memory.") for word in words) else None
            if heads:
                continue
        if heads and len(heads) == len(cells):
            for head, cell in zip(heads, cells, strict=True):
                if _HEADS.get(head) in LOAD:
                    load.setdefault(_HEADS[head], cell if head == "pci.bus_id" else figure(cell))
        plain = _PLAIN_ROW.match(line.strip())
        if plain and not heads:
            for key, cell in zip(("utilization_percent", *LOAD[1:4]), plain.groups(), strict=True):
                load.setdefault(key, figure(cell))
        name = next((cell for cell in cells if re.match(r"^(?:NVIDIA|Tesla|Quadro|GeForce)\s", cell)), None)
        if name:
            names.append(name)
            driver = driver or next((cell for cell in cells if _DRIVER.match(cell)), None)
    return {"driver": driver, "names": names, "load": load}


def parse_processes(text: str) -> tuple[list[dict[str, Any]] | None, list[str]]:
    """(processes, lines that are none) of a --query-compute-apps csv. A header line names the columns; without one they
    are pid, process_name, used_memory. None when no line could be read as a process although there are lines."""
    columns = ["pid", "name", "used"]
    processes = []
    strange = []
    head_seen = False
    for line in filter(None, (item.strip() for item in text.splitlines())):
        cells = line.split(",")
        heads = [_APP_HEADS.get(cell.partition("[")[0].strip().lower()) for cell in cells]
        if "pid" in heads and ("name" in heads or "used" in heads):
            columns, head_seen = [head or "" for head in heads], True
            continue
        process = _process(cells, columns)
        if process:
            processes.append(process)
        elif "no running processes" in line.lower():
            head_seen = True
        else:
            strange.append(line)
    return (None if strange and not processes and not head_seen else processes), strange


def _process(cells: list[str], columns: list[str]) -> dict[str, Any] | None:
    """One process from the cells of a line. A name may hold commas: it gets what the other columns leave."""
    more = len(cells) - len(columns)
    if more < 0:
        return None
    if more and "name" in columns:
        at = columns.index("name")
        cells = [*cells[:at], ",".join(cells[at : at + more + 1]), *cells[at + more + 1 :]]
    row = {column: cell.strip() for column, cell in zip(columns, cells, strict=False)}
    if not re.match(r"^\d{1,10}$", row.get("pid", "")):
        return None
    # the query lists compute processes only
    return {
        "pid": int(row["pid"]),
        "name": row.get("name", ""),
        "used_bytes": mebibytes(row.get("used", "")),
        "type": "C",
    }


def _merge(first: list[dict[str, Any]], second: list[dict[str, Any]]) -> list[dict[str, Any]]:
    by_pid = {item["pid"]: item for item in second}
    for item in first:
        other = by_pid.get(item["pid"], {})
        used = item["used_bytes"] if item["used_bytes"] is not None else other.get("used_bytes")
        by_pid[item["pid"]] = {**item, "used_bytes": used, "type": other.get("type") or item["type"]}
    return [by_pid[pid] for pid in sorted(by_pid)]


def used_by(gpu: dict[str, Any]) -> tuple[int | None, bool | None]:
    """(bytes that the processes are known to hold, does one of them use CUDA); None for what is not known."""
    processes = gpu["processes"]
    if processes is None:
        return None, None
    known = [item["used_bytes"] for item in processes if item["used_bytes"] is not None]
    cuda = any(item["type"] != "G" for item in processes)
    return (None if processes and not known else sum(known)), True if cuda else False if gpu["complete"] else None


def container_of(source: Source, pid: int) -> str | None:
    """The id of the container a process runs in, from its control group."""
    return innermost(source.read(f"/proc/{pid}/cgroup") or "")


def resident(source: Source, pid: int) -> int | None:
    """What a process holds of ordinary memory. CUDA memory is not in it."""
    match = re.search(r"^VmRSS:\s+(\d{1,12}) kB$", source.read(f"/proc/{pid}/status") or "", re.MULTILINE)
    if match:
        return int(match.group(1)) * 1024
    for text in source.captured_texts(["ps"]):
        heads = next((line.upper().split() for line in text.splitlines() if "PID" in line and "RSS" in line), None)
        for cells in (line.split() for line in text.splitlines()):
            # without a header line: pid user %cpu rss seconds
            at = heads.index("RSS") if heads else 3
            own = cells[heads.index("PID")] if heads and len(cells) >= len(heads) else cells[0] if cells else ""
            if own == str(pid) and (heads or len(cells) == 5) and len(cells) > at and cells[at].isdecimal():
                return int(cells[at][:12]) * 1024
    return None


def gpudirect(source: Source) -> bool | None:
    """Can the NIC reach GPU memory by itself. Only CUDA or NCCL says so, hence only in captured trees."""
    for text in source.captured_texts(["cudevicegetattribute", "deviceattributes"]):
        match = re.search(r"GPU_DIRECT_RDMA_SUPPORTED\s*=\s*([01])\b", text)
        if match:
            return match.group(1) == "1"
    texts = "\n".join(source.captured_texts(["nccl-log", "nccl"]))
    match = re.search(r"GPU Direct RDMA (Enabled|Disabled) for HCA", texts)
    return match.group(1) == "Enabled" if match else None


def peermem(source: Source) -> bool | None:
    """Is the kernel module nvidia-peermem loaded; None when the modules cannot be listed."""
    modules = "\n".join([source.read("/proc/modules") or "", *source.captured_texts(["lsmod"])])
    if re.search(r"^nvidia_peermem\s", modules, re.MULTILINE) or source.exists("/sys/module/nvidia_peermem"):
        return True
    return False if modules.strip() else None


def read_gpu(source: Source, missing: dict[str, str]) -> dict[str, Any]:
    """name, count, load, processes; also driver and cuda for the platform reader."""
    output = source.command(["nvidia-smi"], ["nvidia-smi"])
    pages = [text for name, text in source.captured_named(["nvidia-smi"]) if "-query-" not in name]
    text = "\n".join(pages) if source.captured else output.text
    table = parse_table(text)
    names, driver, load = table["names"], table["driver"], dict(table["load"])
    processes: list[dict[str, Any]] | None = table["processes"]
    failed = _FAILED.search(text)
    reason = output.reason or "nvidia-smi printed no GPU"
    why_no_processes = ""
    complete = True
    if failed:
        reason = "nvidia-smi says: " + failed.group(0).strip()[:300]
    none_found = "No devices were found" in text
    if none_found:
        reason = "nvidia-smi says: No devices were found (the driver could not bring the GPU up)"
    elif source.captured or output.reason is None:
        apps = source.command(
            ["nvidia-smi-query-compute-apps"],
            APPS,
        )
        if apps.reason is None:
            listed, strange = parse_processes(apps.text)
            if listed is not None:
                complete = not strange
                processes = _merge(listed, processes or [])
            elif processes is None:
                why_no_processes = "nvidia-smi printed no list of processes: " + strange[0][:300]
    for page in source.captured_texts(["nvidia-smi-query"]):
        query = parse_query(page)
        names = names or query["names"]
        driver = driver or query["driver"]
        for key, value in query["load"].items():
            load.setdefault(key, value)
    for item in processes or []:
        item["rss_bytes"] = resident(source, item["pid"])
        if not source.captured:
            item["container_id"] = container_of(source, item["pid"])
    facts: dict[str, Any] = {
        "name": names[0] if names else None,
        "count": len(names) or (0 if none_found else None),
        "processes": processes,
        "complete": complete if processes is not None else None,
        "driver": driver,
        "cuda": table["cuda"],
        "memory_total_bytes": None,
        **{key: load.get(key) for key in LOAD},
        "gpudirect_rdma": gpudirect(source),
        "nvidia_peermem": peermem(source),
    }
    for key in ("name", "count", "processes", "complete", "driver", "cuda", *LOAD):
        if facts[key] is None:
            missing["gpu." + key] = reason if not names else "nvidia-smi does not say"
    if processes is None and why_no_processes:
        missing["gpu.processes"] = missing["gpu.complete"] = why_no_processes
    missing["gpu.gpudirect_rdma"] = "only CUDA or NCCL says so; a GB10 has none"
    if facts["gpudirect_rdma"] is not None:
        del missing["gpu.gpudirect_rdma"]
    if facts["nvidia_peermem"] is None:
        missing["gpu.nvidia_peermem"] = "the kernel's modules could not be listed"
    return facts
