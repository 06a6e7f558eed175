# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
#
# Private to this collection: may change without notice.
"""The options of a plan as a table for a terminal, and why some of them do not fit. Pure."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

GIB = 1 << 30
WIDTH = 100

HEAD = (
    "option",
    "verdict",
    "tp",
    "pp",
    "ep",
    "context",
    "KV type",
    "weights",
    "cache",
    "a request",
    "tokens",
    "at once",
    "left",
)


def options_table(options: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """The variants beside each other; sizes are GiB of one rank."""
    rows = [HEAD, *(_row(option) for option in options)]
    sizes = [max(len(row[column]) for row in rows) for column in range(len(HEAD))]
    for number, row in enumerate(rows):
        cells = [
            cell.ljust(size) if column in (0, 1, 6) else cell.rjust(size)
            for column, (cell, size) in enumerate(zip(row, sizes, strict=True))
        ]
        yield ("  " + "  ".join(cells)).rstrip()
        if not number:
            yield "  " + "  ".join("-" * size for size in sizes)


def _row(option: Mapping[str, Any]) -> tuple[str, ...]:
    settings, kv = option["settings"], option["kv"]
    counted = bool(option["weights_bytes"])
    left = option["free_bytes"] - option["short_bytes"] if option["short_bytes"] else option["slack_bytes"]

    def size(value: float, digits: int = 1) -> str:
        return f"{value / GIB:.{digits}f}" if counted else "-"

    return (
        str(option["name"]),
        str(option["verdict"]),
        str(settings["tp"]),
        str(settings["pp"] or 1),
        str(settings["ep"] or 1),
        f"{settings['context_length']:,}",
        _kv_type(settings["kv_cache_dtype"] or "auto", kv.get("dtype")),
        size(option["weights_bytes"]),
        size(option["cache_bytes"]),
        size(kv["bytes_per_request_per_rank"], 2),
        f"{kv['tokens']:,}" if counted else "-",
        f"{kv['max_concurrency']:.2f}" if counted else "-",
        size(left),
    )


def _kv_type(asked: str, used: str | None) -> str:
    return f"auto: {used}" if asked == "auto" and used else asked


def refused_options(document: Mapping[str, Any]) -> Iterator[str]:
    """Why an option does not fit, where that has not been said yet."""
    said = set(document["reasons"])
    for option in document["options"]:
        why = [reason for reason in option["reasons"] if reason not in said]
        if option["verdict"] == "refused" and why:
            said.update(why)
            yield from textwrap.wrap(
                f"{option['name']}: {' '.join(why)}", WIDTH, initial_indent="  ", subsequent_indent="     "
            )
