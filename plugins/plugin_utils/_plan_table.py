# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
#
# Private to this collection: may change without notice.
"""The options of a plan as a table for a terminal, and why some of them do not fit. Pure."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ansible_collections.gb10.serving.plugins.plugin_utils._plan_document import runs

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
    "room for",
    "run",
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
        runs(kv) if counted else "-",
        size(left),
    )


def _kv_type(asked: str, used: str | None) -> str:
    return f"auto: {used}" if asked == "auto" and used else asked


def _said(names: Sequence[str], text: str) -> list[str]:
    return textwrap.wrap(f"{', '.join(names)}: {text}", WIDTH, initial_indent="  ", subsequent_indent="     ")


def refused_options(document: Mapping[str, Any]) -> Iterator[str]:
    """Why an option does not fit, where that has not been said yet."""
    said = set(document["reasons"])
    found: dict[str, list[str]] = {}
    for option in document["options"]:
        why = " ".join(reason for reason in option["reasons"] if reason not in said)
        if option["verdict"] == "refused" and why:
            found.setdefault(why, []).append(str(option["name"]))
    for why, names in found.items():
        yield from _said(names, why)


def _subject(note: str) -> str:
    """The first sentence: what follows are the figures of one option."""
    return note.partition(". ")[0]


def option_notes(document: Mapping[str, Any]) -> Iterator[str]:
    """What one should know of an option, where the like has not been said yet."""
    said = {_subject(note) for note in document["notes"]}
    found: dict[str, list[str]] = {}
    for option in document["options"]:
        for note in option.get("notes") or ():
            if _subject(note) not in said:
                found.setdefault(note, []).append(str(option["name"]))
    for note, names in found.items():
        yield from _said(names, note)


def verdicts(document: Mapping[str, Any]) -> str:
    """Which of the options that were asked for fit, where the first does not."""
    found: dict[str, list[str]] = {}
    for option in document["options"]:
        found.setdefault(str(option["verdict"]), []).append(f"'{option['name']}'")
    parts = []
    for verdict, words in (("fits", ("fits", "fit")), ("borderline", ("fits only just", "fit only just"))):
        if names := found.get(verdict):
            parts.append(f"{', '.join(names)} {words[len(names) > 1]}")
    return f"Of the options {'; '.join(parts)}." if parts else "None of the options fits."
