# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 gb10.serving contributors
"""Private: what the kernel log says about cables and the NIC. Pure."""

from __future__ import annotations

import re
from typing import Any

_STAMP = r"^(?:<\d+>)?\[ *([^\]\n]+)\][ \t]+"
_PLUG = re.compile(_STAMP + r"cx7-pcie-hotplug \S+ Cable plug(?:in|ged)", re.MULTILINE)
_MODULE = re.compile(
    _STAMP + r"mlx5_core \S+?:? (?:\S+ )?Port module event: module (\d{1,2}), Cable plugged", re.MULTILINE
)
_BOOT = re.compile(_STAMP + r"(?:Booting Linux|Linux version)", re.MULTILINE)
_NIC = re.compile(_STAMP + r"mlx5_core [0-9a-f]{4}:", re.MULTILINE)
_REMOVED = re.compile(r"cx7-pcie-hotplug \S+ Cable (?:removal|removed|plugout|unplug\w*)", re.IGNORECASE)
BOOT_SECONDS = 120


def seconds(stamp: str) -> float | None:
    """Seconds of a stamp of the kernel log: since boot, or of a date."""
    stamp = " ".join(stamp.split())
    if re.match(r"^[0-9]{1,12}(?:\.[0-9]+)?$", stamp):
        return float(stamp)
    match = re.match(r"^(?:\w{3} )?(\w{3}) (\d{1,2}) (\d{2}):(\d{2}):(\d{2})(?: (\d{4}))?$", stamp)
    months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
    if not match or match.group(1) not in months:
        return None
    month, (day, hour, minute, second) = months.index(match.group(1)), map(int, match.groups()[1:5])
    return ((int(match.group(6) or 0) * 372 + month * 31 + day) * 24 + hour) * 3600.0 + minute * 60 + second


def parse_hotplug(text: str) -> dict[str, Any]:
    """What the kernel log says about cables: is the hot-plug driver there, and which cables were plugged after boot."""
    boots = [moment for moment in map(seconds, _BOOT.findall(text)) if moment is not None]

    def late(stamp: str) -> bool:
        # a stamp is seconds since boot, or a date in a log that a person printed: then the boot must be in the log
        moment, dated = seconds(stamp), not re.match(r"^[0-9.]+$", stamp)
        if moment is None or (dated and not boots):
            return True
        return moment - (boots[0] if dated else 0) > BOOT_SECONDS

    plugs = [stamp for stamp in _PLUG.findall(text) if late(stamp)]
    modules = [(stamp, int(number)) for stamp, number in _MODULE.findall(text) if late(stamp)]
    return {
        "driver": "cx7-pcie-hotplug" in text,
        "plugged_after_boot": plugs or list(dict.fromkeys(stamp for stamp, _number in modules)),
        "plugged_ports": sorted({number for _stamp, number in modules}),
        "nic_seen": bool(_NIC.search(text)),
        "removed": bool(_REMOVED.search(text)),
    }
