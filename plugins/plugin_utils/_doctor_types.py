# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
# Private to this collection: no stability promised.
"""What the doctor works with: one row for each thing looked at. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

OK, INFO, UNMEASURED, WARNING, ERROR = "ok", "info", "unmeasured", "warning", "error"
#: The host of rows about all nodes together.
FABRIC = "fabric"

GIB = 1024**3
GB = 10**9


@dataclass(frozen=True)
class Row:
    """One thing looked at. ``info`` judges nothing, ``unmeasured`` says that nobody knows: neither means good."""

    host: str
    what: str
    seen: str
    expected: str
    verdict: str = OK
    remedy: str = ""

    def as_dict(self) -> dict[str, str]:
        return {key: str(value) for key, value in asdict(self).items()}


@dataclass(frozen=True)
class Node:
    """What is known of one host. Without ``facts``, ``failure`` says why; ``serving``: a rank runs there."""

    host: str
    facts: Mapping[str, Any] = field(default_factory=dict)
    failure: str = ""
    serving: bool = False

    def part(self, name: str) -> Mapping[str, Any]:
        """One group of the facts; empty when it was not read."""
        value = self.facts.get(name)
        return value if isinstance(value, Mapping) else {}

    def why(self, key: str, otherwise: str = "it could not be read") -> str:
        """The reason that the probe gave for a null."""
        return str(self.part("missing").get(key) or otherwise)


@dataclass(frozen=True)
class Settings:
    """What a deployment would ask of the nodes."""

    gpus: str = "all"
    rdma: bool = True
    ports: Mapping[str, int] = field(default_factory=dict)
    mtu: int = 9000
    #: what errors that the fabric test found become: "fail" leaves them, "warn" and "off" make warnings of them
    gate: str = "fail"
    #: rate that one rail should have by the inventory, in Gb/s; 0 for what port and PCIe link allow
    expected_gbps: float = 0
    #: hosts of the inventory's group, of which this run may look at some only
    total: int = 0


def gib(size: int | None) -> str:
    return "?" if size is None else f"{size / GIB:.1f} GiB"


def gigabytes(size: int | None) -> str:
    return "?" if size is None else f"{size / GB:.1f} GB"


def overall(rows: list[Row]) -> str:
    """The verdict of all rows together: what is not known does not fail a check, and does not pass as a finding."""
    words = {row.verdict for row in rows}
    return next((word for word in (ERROR, WARNING) if word in words), OK)


def halves(text: str, remedy: str) -> tuple[str, str]:
    """A reason that goes on with what to do, as both; ``remedy`` when it does not."""
    seen, dot, rest = text.rpartition(". ")
    return (seen, rest) if dot else (text, remedy)
