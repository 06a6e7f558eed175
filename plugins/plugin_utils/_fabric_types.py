# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
# Private to this collection: no stability promised.
"""What the tests of the fabric found, as a value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ._problems import Problem


@dataclass(frozen=True)
class Finding:
    """One thing about the fabric. level is "error" (the gate closes), "warning" or "note"; rail None is all of them."""

    code: str
    level: str
    rail: int | None
    problem: Problem

    def __str__(self) -> str:
        return str(self.problem)

    def as_dict(self) -> dict[str, Any]:
        return {
            "code": self.code,
            "level": self.level,
            "rail": self.rail,
            "where": self.problem.where,
            "seen": self.problem.seen,
            "expected": self.problem.expected,
            "remedy": self.problem.remedy,
        }
