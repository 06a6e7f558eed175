# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 gb10.serving contributors
"""Private: what the kernel log says about cables and the NIC. Pure."""

from __future__ import annotations

import re
from typing import Any

_PLUG = re.compile(r"cx7-pcie-hotplug \S+ Cable plug(?:in|ged)")
_MODULE = re.compile(r"mlx5_core \S+?:? (?:\S+ )?Port module event: module (\d{1,2}), Cable plugged")
_BOOT = re.compile(r"(?:Booting Linux|Linux version) ")
_DRIVER_START = re.compile(r"cx7-pcie-hotplug \S+ .*\binitialized")
_NIC = re.compile(r"mlx5_core [0-9a-f]{4}:")
_REMOVED = re.compile(r"cx7-pcie-hotplug \S+ Cable (?:removal|removed|plugout|unplug\w*)", re.IGNORECASE)
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_DATE = rf"(?:{'|'.join(_MONTHS)}) {{1,2}}\d{{1,2}} \d{{2}}:\d{{2}}:\d{{2}}"
# what stands before a message: dmesg's bracket; the date of the journal; ISO 8601 of both. grep -n adds a number.
_STAMPS = (
    re.compile(r"\[ *(\d{1,12}\.\d+|[A-Z][^\]]*\d\d:\d\d:\d\d[^\]]*)\]"),
    re.compile(r"\b(\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}:\d{2}(?:[.,]\d+)?(?:Z|[+-]\d{2}:?\d{2})?)"),
    re.compile(rf"(?:^|[:\s])({_DATE}(?:\.\d+)?)(?=\s)"),
)
BOOT_SECONDS = 120
NO_STAMP = "a line of the kernel log says that a cable was plugged in, without a time"


def seconds(stamp: str) -> float | None:
    """Seconds of a stamp of the kernel log: since boot, or of a date."""
    stamp = " ".join(stamp.split())
    if re.match(r"^[0-9]{1,12}(?:\.[0-9]+)?$", stamp):
        return float(stamp)
    iso = re.match(r"^(\d{4})-(\d{2})-(\d{2})[T ](\d{2}):(\d{2}):(\d{2})", stamp)
    if iso:
        year, month, day, hour, minute, second = map(int, iso.groups())
        return ((year * 372 + (month - 1) * 31 + day) * 24 + hour) * 3600.0 + minute * 60 + second
    match = re.match(r"^(?:\w{3} )?(\w{3}) (\d{1,2}) (\d{2}):(\d{2}):(\d{2})(?:\.\d+)?(?: (\d{4}))?$", stamp)
    if not match or match.group(1) not in _MONTHS:
        return None
    month, (day, hour, minute, second) = _MONTHS.index(match.group(1)), map(int, match.groups()[1:5])
    return ((int(match.group(6) or 0) * 372 + month * 31 + day) * 24 + hour) * 3600.0 + minute * 60 + second


def stamp_of(head: str) -> str | None:
    """The time stamp in what stands before a message; None when there is none."""
    return next((match.group(1) for pattern in _STAMPS for match in (pattern.search(head[-200:]),) if match), None)


def late(stamp: str, boot: str | None) -> bool:
    """Is it well after the boot. A stamp is seconds since boot, or a date: then the boot must be in the log, too."""
    moment, dated = seconds(stamp), not re.match(r"^[0-9.]+$", stamp)
    start = seconds(boot) if boot and dated else None if dated else 0.0
    if moment is None or start is None:
        return True
    # dates without a year: a boot that seems to be later was in the last one
    return moment - start > BOOT_SECONDS or moment < start


def parse_hotplug(*texts: str) -> dict[str, Any]:
    """What the kernel log says about cables: is the hot-plug driver there, and which cables were plugged after boot.

    A log that is empty was not read: nothing is known then. Nor is anything known of a cable whose line has no time.
    """
    text = "\n".join(texts)
    if not text.strip():
        return dict.fromkeys(("driver", "plugged_after_boot", "plugged_ports", "nic_seen", "removed"))
    boot: str | None = None
    plugs: list[tuple[int, str | None]] = []
    modules: list[tuple[int, str | None, int]] = []
    for number, line in ((number, line) for number, part in enumerate(texts) for line in part.splitlines()):
        start = next((match for pattern in (_BOOT, _DRIVER_START) for match in (pattern.search(line),) if match), None)
        if start and (start.re is _BOOT or boot is None):
            boot = stamp_of(line[: start.start()]) or boot
        if start and start.re is _BOOT:
            # what this log shows before is of an earlier run
            plugs = [item for item in plugs if item[0] != number]
            modules = [item for item in modules if item[0] != number]
        plug, module = _PLUG.search(line), _MODULE.search(line)
        if plug:
            plugs.append((number, stamp_of(line[: plug.start()])))
        elif module:
            modules.append((number, stamp_of(line[: module.start()]), int(module.group(1))))
    timeless = any(item[1] is None for item in plugs or modules)
    later = [stamp for _log, stamp in plugs if stamp and late(stamp, boot)]
    ports = [(stamp, port) for _log, stamp, port in modules if stamp and late(stamp, boot)]
    found = later or list(dict.fromkeys(stamp for stamp, _number in ports))
    unknown = timeless and not found
    return {
        "driver": "cx7-pcie-hotplug" in text,
        "plugged_after_boot": None if unknown else found,
        "plugged_ports": None if unknown else sorted({port for _stamp, port in ports}),
        "nic_seen": bool(_NIC.search(text)),
        "removed": bool(_REMOVED.search(text)),
    }
