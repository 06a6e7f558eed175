# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
# Private to this collection: no stability promised.
"""The doctor's rows as a table for a terminal. Pure."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from ._doctor_types import Row

HEADS = ("what", "seen", "expected", "verdict", "remedy")
#: How the room left by the two narrow columns is shared between seen, expected and remedy.
SHARES = {"seen": 4, "expected": 3, "remedy": 4}
GAP = "  "
NARROWEST, WIDEST = 100, 200


def lines(rows: Sequence[Row], width: int) -> Iterator[tuple[str, str]]:
    """Each line of the table with the verdict that it belongs to; heads and host names belong to none."""
    sizes = _sizes(rows, min(max(width, NARROWEST), WIDEST))
    yield "", _line(dict(zip(HEADS, HEADS, strict=True)), sizes)
    yield "", GAP.join("-" * sizes[head] for head in HEADS)
    host = None
    for row in rows:
        if row.host != host:
            host = row.host
            yield "", f"{host}:"
        cells = {head: textwrap.wrap(getattr(row, head), sizes[head]) or [""] for head in HEADS}
        for number in range(max(map(len, cells.values()))):
            part = {head: cell[number] if number < len(cell) else "" for head, cell in cells.items()}
            yield row.verdict, _line(part, sizes)


def _line(cells: dict[str, str], sizes: dict[str, int]) -> str:
    return GAP.join(cells[head].ljust(sizes[head]) for head in HEADS).rstrip()


def _sizes(rows: Sequence[Row], width: int) -> dict[str, int]:
    longest = {head: max([len(head), *(len(getattr(row, head)) for row in rows)]) for head in HEADS}
    sizes = {head: min(longest[head], 24) for head in ("what", "verdict")}
    room = width - sum(sizes.values()) - len(GAP) * (len(HEADS) - 1)
    whole = sum(SHARES.values())
    for head, share in SHARES.items():
        sizes[head] = max(len(head), min(longest[head], room * share // whole))
    return sizes
