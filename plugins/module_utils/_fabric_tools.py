# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 gb10.serving contributors
# Private to gb10.serving: commands and output of the bandwidth tools that a node may have.
"""ib_write_bw (perftest) for RDMA and iperf3 for TCP: how they are called, what they print. Pure but for which()."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from typing import Any

from ansible_collections.gb10.serving.plugins.module_utils._wire import WireError

INFINIBAND = "/sys/class/infiniband"
RDMA_TOOL, TCP_TOOL = "ib_write_bw", "iperf3"
#: Bytes of a message and queue pairs: enough for the whole rate, a few MB of memory.
MESSAGE, QUEUE_PAIRS = 1 << 20, 4
#: The first iperf3 with a thread for each stream; older ones measure one core instead of the link.
IPERF3_THREADS = (3, 16)
UNITS = {"Gb/sec": 1e9, "MB/sec": 8 * 2**20, "MiB/sec": 8 * 2**20}


class ToolError(WireError):
    """The tool gave no figure; the text says why."""


def perftest(hca: str, gid_index: int, port: int, seconds: int, peer: str | None = None) -> list[str]:
    """Both sides get the same options; the side with a peer sends."""
    argv = [RDMA_TOOL, "-d", hca, "-x", str(gid_index), "-F", "--report_gbits", "-s", str(MESSAGE)]
    # without a margin: perftest would leave the first and last seconds of a run out
    argv += ["-q", str(QUEUE_PAIRS), "-D", str(seconds), "-f", "0", "-p", str(port)]
    return [*argv, peer] if peer else argv


def read_perftest(text: str, code: int = 0) -> int:
    """Bits per second of the last row. A wrong GID index prints a header and no row, and still exits with 0."""
    unit: float | None = None
    found: float | None = None
    for line in text.splitlines():
        if "BW average" in line:
            match = re.search(r"BW average\[([^\]]+)\]", line)
            unit = UNITS.get(match.group(1)) if match else None
        elif unit and re.match(r"^\s*\d+\s+\d+\s", line):
            words = line.split()
            if len(words) >= 4 and re.fullmatch(r"\d+(\.\d+)?", words[3]):
                found = float(words[3]) * unit
    if found:
        return round(found)
    if "BW average" in text and code == 0:
        raise ToolError("ib_write_bw printed its header and no row: the GID index or the HCA is not the rail's")
    raise ToolError(f"ib_write_bw ended with {code} and no figure: {_reason(text)}")


def _reason(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip() and not re.match(r"^[-*\s]*$", line)]
    telling = [line for line in lines if re.search(r"fail|error|unable|couldn|invalid|not ", line, re.IGNORECASE)]
    return " | ".join((telling or lines)[-2:])[:300] or "it printed nothing"


def iperf3(address: str, port: int) -> list[str]:
    """A server for one test."""
    return [TCP_TOOL, "-s", "-1", "-B", address, "-p", str(port)]


def iperf3_client(address: str, peer: str, port: int, seconds: int, streams: int, outward: bool) -> list[str]:
    argv = [TCP_TOOL, "-c", peer, "-B", address, "-p", str(port), "-t", str(seconds), "-P", str(streams), "-Z", "-J"]
    return argv if outward else [*argv, "-R"]


def read_iperf3(text: str) -> int:
    """Bits per second as the receiver counted them."""
    try:
        told = json.loads(text)
        if told.get("error"):
            raise ToolError(f"iperf3: {told['error']}")
        return round(float(told["end"]["sum_received"]["bits_per_second"]))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ToolError(f"iperf3 printed no result: {text.strip()[-200:] or 'nothing'}") from error


def iperf3_version(text: str) -> tuple[int, int] | None:
    match = re.match(r"iperf (\d+)\.(\d+)", text)
    return (int(match.group(1)), int(match.group(2))) if match else None


def has_perftest() -> bool:
    return shutil.which(RDMA_TOOL) is not None


def has_iperf3() -> bool:
    """Whether an iperf3 is here that can fill the link."""
    if shutil.which(TCP_TOOL) is None:
        return False
    try:
        done = subprocess.run(  # pylint: disable=ansible-bad-function
            [TCP_TOOL, "--version"], capture_output=True, text=True, check=False, timeout=3
        )
    except (OSError, subprocess.SubprocessError):
        return False
    version = iperf3_version(done.stdout)
    return version is not None and version >= IPERF3_THREADS


def has_hca(rail: dict[str, Any]) -> bool:
    """Whether the rail's RDMA device exists on this very machine and has a GID for the rail."""
    name = rail.get("hca")
    return bool(name) and rail.get("gid_index") is not None and os.path.isdir(os.path.join(INFINIBAND, str(name)))
