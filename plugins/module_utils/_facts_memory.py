# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 gb10.serving contributors
"""Private: the unified memory of a node, from /proc/meminfo. All figures are bytes."""

from __future__ import annotations

import re
from typing import Any

from ._facts_source import Source

KIB = 1024
GIB = 1024**3
LOW_BYTES = 8 * GIB
CACHE_BYTES = 16 * GIB  # a node that was just started shows about 13
POOL_BYTES = 8 * GIB
HELD_FORMULA = (
    "MemTotal - (MemFree + Buffers + Cached + AnonPages + KReclaimable + SUnreclaim + VmallocUsed + Percpu + Hugetlb)"
)

VERDICTS: dict[str, str | None] = {
    "roomy": None,
    "page-cache-in-the-way": (
        "A CUDA process sees only MemFree as free, although page cache is given back when memory is asked for. If a "
        "start is refused for that, run 'sync; echo 3 | sudo tee /proc/sys/vm/drop_caches' once before it."
    ),
    "driver-keeps-freed-pools": (
        "The GPU driver keeps memory that no process uses. CUDA can take it again; engines that look at MemAvailable "
        "cannot see it. Reboot the node if a start is refused."
    ),
    "in-use": "Other processes hold the memory. Stop what is not needed (see gpu.processes and containers).",
    "too-little-to-start": "Stop what holds the memory (see gpu.processes and containers), then try again.",
}


def parse_meminfo(text: str) -> dict[str, int]:
    """/proc/meminfo as bytes (HugePages_* as counts). Lines that do not parse are left out."""
    values: dict[str, int] = {}
    for line in text.splitlines():
        match = re.match(r"^\s*([A-Za-z][A-Za-z0-9_()]*):\s+([0-9]{1,16})(?:\s+(kB))?\s*$", line)
        # a size without its unit was cut off
        if match and (match.group(3) or match.group(1).startswith("HugePages_")):
            values[match.group(1)] = int(match.group(2)) * (KIB if match.group(3) else 1)
    return values


def parse_free(text: str, unit: str = "k") -> dict[str, int]:
    """`free -h` or `free`, as the same names as /proc/meminfo. The figures are rounded by free itself.

    unit is that of figures without one: b, k, m or g.
    """
    units = {"B": 1, "Ki": KIB, "Mi": KIB**2, "Gi": GIB, "Ti": KIB**4}
    bare = {"b": 1, "k": KIB, "m": KIB**2, "g": GIB}[unit]
    head: list[str] = []
    values: dict[str, int] = {}
    for line in text.splitlines():
        cells = line.split()
        if "total" in cells and "free" in cells:
            head = cells
        elif head and cells and cells[0] in ("Mem:", "Swap:"):
            for name, cell in zip(head, cells[1:], strict=False):
                match = re.match(r"^([0-9]{1,15}(?:\.[0-9]{1,3})?)(B|Ki|Mi|Gi|Ti)?$", cell)
                if not match:
                    continue
                size = int(float(match.group(1)) * (units[match.group(2)] if match.group(2) else bare))
                key = {
                    "Mem:": {"total": "MemTotal", "free": "MemFree", "available": "MemAvailable"},
                    "Swap:": {"total": "SwapTotal", "free": "SwapFree"},
                }[cells[0]].get(name)
                if key:
                    values[key] = size
    return values


def parse_swaps(text: str) -> dict[str, int]:
    """/proc/swaps as SwapTotal and SwapFree; empty when there is no swap line."""
    rows = re.findall(r"^\S+[ \t]+(?:file|partition)[ \t]+([0-9]{1,14})[ \t]+([0-9]{1,14})\s", text, re.MULTILINE)
    if not rows:
        return {}
    total, used = (sum(int(row[index]) for row in rows) * KIB for index in (0, 1))
    return {"SwapTotal": total, "SwapFree": max(0, total - used)}


def hugepages(values: dict[str, int]) -> tuple[int | None, int | None]:
    """(reserved, free) huge page bytes, or None where /proc/meminfo does not say."""
    size = values.get("Hugepagesize")
    if size is None or "HugePages_Free" not in values:
        return None, None
    reserved = values.get("Hugetlb", values.get("HugePages_Total", 0) * size)
    return reserved, values["HugePages_Free"] * size


def driver_held(values: dict[str, int]) -> tuple[int | None, str | None]:
    """Bytes that no category of /proc/meminfo accounts for, and why it is not known."""
    if "Slab" in values and "SUnreclaim" not in values:
        # Slab is SReclaimable + SUnreclaim
        values = {**values, "SUnreclaim": values["Slab"], "KReclaimable": 0}
    needed = ["MemTotal", "MemFree", "Buffers", "Cached", "AnonPages", "SUnreclaim"]
    absent = [name for name in needed if name not in values]
    if absent:
        return None, "/proc/meminfo has no {}".format(", ".join(absent))
    reclaimable = values.get("KReclaimable", values.get("SReclaimable", 0))
    known = sum(values.get(name, 0) for name in needed[1:] + ["VmallocUsed", "Percpu"])
    return max(0, values["MemTotal"] - known - reclaimable - (hugepages(values)[0] or 0)), None


def vendor_estimate(values: dict[str, int]) -> tuple[int | None, str]:
    """How much a process could allocate if swap were used: the vendor's way of counting."""
    reserved, free = hugepages(values)
    if reserved and free is not None:
        return free, "HugePages_Free x Hugepagesize"
    if "MemAvailable" in values and "SwapFree" in values:
        return values["MemAvailable"] + values["SwapFree"], "MemAvailable + SwapFree"
    return None, "MemAvailable + SwapFree"


def is_much(total: int | None, pools: int | None) -> bool:
    """Is what no category accounts for more than what a driver takes anyway."""
    return pools is not None and pools >= max(POOL_BYTES, (total or 0) // 20)


def judge(
    total: int | None, available: int | None, free: int | None, pools: int | None, cuda: bool | None = False
) -> str | None:
    """The verdict word; None when the figures are not known. cuda: does a process use CUDA; None when not known."""
    if available is None:
        return None
    # with a CUDA process alive, or where that is not known, it may be that process's own memory
    if is_much(total, pools) and cuda is False:
        return "driver-keeps-freed-pools"
    if available < max(LOW_BYTES, (total or 0) // 10):
        return "too-little-to-start"
    if free is not None and available - free >= CACHE_BYTES:
        return "page-cache-in-the-way"
    if total is None:
        return None
    return "roomy" if available >= total * 3 // 4 else "in-use"


def pressure(available: int | None, swap_used: int | None) -> str | None:
    """high when little is available and swap is in use; None when that is not known."""
    if available is None or (available < LOW_BYTES and swap_used is None):
        return None
    return "low" if available >= LOW_BYTES else "high" if swap_used else "some"


def remedy_of(verdict: str | None, much: bool, cuda: bool | None) -> str | None:
    """What to do. Where the GPU's processes are not known, that is said, for it decides what helps."""
    text = VERDICTS[verdict] if verdict else None
    if much and cuda is None:
        unknown = (
            "The GPU's processes could not be read: either they hold what no category of /proc/meminfo accounts for, "
            "or the driver keeps it. Run 'nvidia-smi' on the node; if it lists no process, a reboot gives the memory "
            "back."
        )
        return f"{text} {unknown}" if text else unknown
    return text


def summarise(
    values: dict[str, int], gpu_used: int | None, cuda: bool | None, missing: dict[str, str]
) -> dict[str, Any]:
    """The memory facts from parsed values. gpu_used is what live GPU processes are known to hold; cuda: is one there
    that uses CUDA. None where that is not known."""
    total, available, free = (values.get(name) for name in ("MemTotal", "MemAvailable", "MemFree"))
    held, held_reason = driver_held(values)
    if held_reason:
        missing["memory.driver_held_bytes"] = held_reason
        missing["memory.cuda_upper_bound_bytes"] = "driver_held_bytes is not known: " + held_reason
    pools = max(0, held - (gpu_used or 0)) if held is not None else None
    if held is not None and gpu_used is None:
        what = "memory of the GPU's processes is" if cuda else "GPU's processes are"
        missing["memory.gpu_used_bytes"] = f"the {what} not known; driver_pools_bytes may hold their memory"
    bound = available + pools if pools is not None and available is not None else None
    estimate, formula = vendor_estimate(values)
    verdict = judge(total, available, free, pools, cuda)
    swap_total, swap_free = values.get("SwapTotal"), values.get("SwapFree")
    swap_used = max(0, swap_total - swap_free) if swap_total is not None and swap_free is not None else None
    return {
        "total_bytes": total,
        "available_bytes": available,
        "free_bytes": free,
        "cached_bytes": values.get("Cached"),
        "swap_total_bytes": swap_total,
        "swap_free_bytes": swap_free,
        "swap_used_bytes": swap_used,
        "hugepages_bytes": hugepages(values)[0],
        "hugepages_free_bytes": hugepages(values)[1],
        "cma_total_bytes": values.get("CmaTotal"),
        "cma_free_bytes": values.get("CmaFree"),
        "driver_held_bytes": held,
        "driver_held_formula": HELD_FORMULA,
        "driver_pools_bytes": pools,
        "gpu_used_bytes": gpu_used,
        "cpu_estimate_bytes": available,
        "cpu_estimate_formula": "MemAvailable",
        "cuda_upper_bound_bytes": bound,
        "cuda_upper_bound_formula": "MemAvailable + driver_held - GPU processes",
        "vendor_estimate_bytes": estimate,
        "vendor_estimate_formula": formula,
        "pressure": pressure(available, swap_used),
        "verdict": verdict,
        "remedy": remedy_of(verdict, is_much(total, pools), cuda),
    }


def read_memory(source: Source, gpu_used: int | None, cuda: bool | None, missing: dict[str, str]) -> dict[str, Any]:
    """Read /proc/meminfo; a captured tree may hold it as a command output, or only what `free` printed."""
    origin = "/proc/meminfo"
    values = parse_meminfo(source.read("/proc/meminfo") or "")
    if not values:
        # one moment only: figures of several captures are not mixed
        texts = [parse_meminfo(text) for text in source.captured_texts(["meminfo", "proc-meminfo"])]
        values = next((item for item in texts if "MemTotal" in item), next((item for item in texts if item), {}))
    if not {"MemTotal", "MemAvailable", "MemFree"} & set(values):
        origin = "free (rounded)"
        for name, text in source.captured_named(["free"])[:1]:
            unit = re.match(r"^free-([bkmg])\b", name)
            for key, size in parse_free(text, unit.group(1) if unit else "k").items():
                values.setdefault(key, size)
    if "SwapTotal" not in values or origin != "/proc/meminfo":
        for text in [source.read("/proc/swaps") or "", *source.captured_texts(["swaps", "proc-swaps", "swapon"])]:
            values.update(parse_swaps(text))
    facts = summarise(values, gpu_used, cuda, missing)
    facts["source"] = origin if values else None
    reason = "no /proc/meminfo could be read" if not values else f"{origin} does not say"
    for key, value in facts.items():
        if value is None and key not in ("remedy", "source"):
            missing.setdefault("memory." + key, reason)
    return facts
