# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
# Private to this collection: no stability promised.
"""Numbers and tables as a report has them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

GIB = 1 << 30


def gib(size: float | None) -> str:
    """Bytes as GiB with two decimals, or a dash."""
    return "-" if size is None else f"{size / GIB:.2f} GiB"


def gigabytes(size: float) -> str:
    """Bytes as decimal GB (MB below one)."""
    return f"{size / 1e9:.2f} GB" if size >= 1e9 else f"{size / 1e6:.1f} MB"


def gigabits(rate: float | None) -> str:
    """Bits per second as Gb/s; what is not known is unmeasured, never a number."""
    return "unmeasured" if rate is None else f"{rate / 1e9:.1f} Gb/s"


def table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> list[str]:
    """A Markdown table."""
    body = ["| " + " | ".join("-" if cell is None else str(cell) for cell in row) + " |" for row in rows]
    return ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head), *body, ""]
