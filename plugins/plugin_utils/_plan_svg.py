# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
#
# Private to this collection: may change without notice.
"""A plan as a picture: one stacked bar for each rank. No fonts or styles from elsewhere; dark and light. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from xml.sax.saxutils import escape

from ansible_collections.gb10.serving.plugins.plugin_utils._plan_document import (
    PARTS,
    drawn,
    layout_words,
    runs,
    shortage,
)

GIB = 1 << 30
WIDTH, LEFT, RIGHT = 960, 24, 24
BAR, GAP, TOP = 44, 34, 84
LETTER = 7.2  # width of a letter of 12 px, on the safe side

STYLE = """
    text { font: 13px system-ui, -apple-system, "Segoe UI", sans-serif; fill: #1f2328; }
    .title { font-size: 17px; font-weight: 600; }
    .inside { font-size: 12px; fill: #ffffff; }
    .ground { fill: #ffffff; stroke: #d0d7de; }
    .line { stroke: #1f2328; stroke-dasharray: 4 3; }
    @media (prefers-color-scheme: dark) {
      text { fill: #e6edf3; }
      .inside { fill: #ffffff; }
      .ground { fill: #0d1117; stroke: #3d444d; }
      .line { stroke: #e6edf3; }
    }
"""


def _clean(text: str) -> str:
    """Text that XML can hold."""
    return escape("".join(char for char in text if char.isprintable()), {'"': "&quot;"})


def _figure(size: float) -> str:
    return f"{size / GIB:.1f} GiB"


def _parts(rank: Mapping[str, Any]) -> list[tuple[str, str, str, int]]:
    found = [(key, words, colour, int(rank.get(key) or 0)) for key, _letter, words, colour in PARTS]
    return [part for part in found if part[3] > 0]


def _described(document: Mapping[str, Any]) -> str:
    """The picture in words, for those who cannot see it."""
    ranks = []
    for rank in document["ranks"]:
        parts = ", ".join(f"{words} {_figure(size)}" for _key, words, _colour, size in _parts(rank))
        ranks.append(f"Rank {rank['rank']} on {rank['host']}, {_figure(rank['total_bytes'])}: {parts}{shortage(rank)}.")
    return " ".join(ranks) or " ".join(document["reasons"])


def _bar(rank: Mapping[str, Any], top: float, scale: float) -> Iterator[str]:
    title = f"rank {rank['rank']}: {rank['host']}, {_figure(rank['total_bytes'])}{shortage(rank)}"
    yield f'  <text x="{LEFT}" y="{top - 8:.1f}">{_clean(title)}</text>'
    left = float(LEFT)
    for _key, words, colour, size in _parts(rank):
        width = size * scale
        yield (
            f'  <rect x="{left:.2f}" y="{top:.1f}" width="{width:.2f}" height="{BAR}" fill="{colour}">'
            f"<title>{_clean(words)} {_figure(size)}</title></rect>"
        )
        labels = [f"{words} {_figure(size)}", _figure(size)]
        label = next((text for text in labels if len(text) * LETTER < width - 6), None)
        if label:
            yield f'  <text class="inside" x="{left + 6:.2f}" y="{top + BAR / 2 + 4:.1f}">{_clean(label)}</text>'
        left += width
    if rank.get("short_bytes"):
        limit = LEFT + rank["total_bytes"] * scale
        yield f'  <line class="line" x1="{limit:.2f}" x2="{limit:.2f}" y1="{top - 4:.1f}" y2="{top + BAR + 4:.1f}"/>'


def _legend(document: Mapping[str, Any], top: float) -> Iterator[str]:
    ranks = document["ranks"]
    row = 0
    for key, _letter, words, colour in PARTS:
        sizes = [rank.get(key) or 0 for rank in ranks]
        if any(sizes):
            least, most = min(sizes), max(sizes)
            figure = _figure(least) if least == most else f"{least / GIB:.1f} to {_figure(most)}"
            x, y = LEFT + (row % 2) * (WIDTH // 2), top + (row // 2) * 24
            yield f'  <rect x="{x}" y="{y - 11:.1f}" width="14" height="14" fill="{colour}"/>'
            yield f'  <text x="{x + 22}" y="{y:.1f}">{_clean(f"{words}: {figure}")}</text>'
            row += 1


def svg(document: Mapping[str, Any]) -> str:
    """The picture as the text of a file."""
    ranks = [drawn(rank, document["verdict"]) for rank in document["ranks"]]
    document = {**document, "ranks": ranks}
    settings, kv = document["settings"], document["kv"]
    most = max((sum(part[3] for part in _parts(rank)) for rank in ranks), default=1)
    scale = (WIDTH - LEFT - RIGHT) / most
    shown = sum(any(rank.get(key) for rank in ranks) for key, _letter, _words, _colour in PARTS)
    legend = TOP + len(ranks) * (BAR + GAP) + 6
    height = legend + (shown + 1) // 2 * 24 + 8
    model = str((document.get("model") or {}).get("name") or "")
    title = ", ".join(filter(None, [model, layout_words(settings) if ranks else "", str(document["verdict"])]))
    words = ""
    if ranks:
        words = f"Context {settings['context_length']:,} tokens; cache of {kv['tokens']:,} tokens, "
        words += f"room for {kv['max_concurrency']:.2f} requests of that length, {runs(kv)} at once"
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}"',
            '  role="img" aria-labelledby="plan-title plan-desc">',
            f'  <title id="plan-title">Memory plan: {_clean(title)}</title>',
            f'  <desc id="plan-desc">{_clean(_described(document))}</desc>',
            f"  <style>{STYLE}  </style>",
            f'  <rect class="ground" x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1}" rx="6"/>',
            f'  <text class="title" x="{LEFT}" y="28">{_clean(title)}</text>',
            f'  <text x="{LEFT}" y="50">{_clean(words)}</text>',
            *(line for number, rank in enumerate(ranks) for line in _bar(rank, TOP + number * (BAR + GAP), scale)),
            *_legend(document, legend + 12),
            "</svg>",
            "",
        ]
    )
