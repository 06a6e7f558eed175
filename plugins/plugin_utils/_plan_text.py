# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
#
# Private to this collection: may change without notice.
"""A plan for a terminal: bars, the sum, what an expert would say of it, what would change it. Plain ASCII. Pure."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

from ansible_collections.gb10.serving.plugins.plugin_utils._memory_nodes import UNIFIED_FROM
from ansible_collections.gb10.serving.plugins.plugin_utils._plan_document import (
    PARTS,
    drawn,
    engine_words,
    layout_words,
    line_of,
    shortage,
)
from ansible_collections.gb10.serving.plugins.plugin_utils._plan_table import options_table, refused_options

GIB = 1 << 30
COLUMNS = 60
WIDTH = 100
MANY = 3  # as many equal ranks share one bar
Document = Mapping[str, Any]


def gib(size: float, digits: int = 1) -> str:
    """GiB, or MiB where that says more."""
    return f"{size / GIB:.{digits}f} GiB" if not 0 < size < GIB // 4 else f"{size / (1 << 20):.1f} MiB"


def drawn_bar(rank: Mapping[str, Any], columns: int = COLUMNS) -> str:
    """One letter for each share of the memory; a part that is there has one letter at least, and the rest is exact."""
    parts = [(letter, max(0, rank.get(key) or 0)) for key, letter, _words, _colour in PARTS]
    parts = [(letter, size) for letter, size in parts if size]
    whole = sum(size for _letter, size in parts)
    if not whole:
        return " " * columns
    share = [max(1.0, size * columns / whole) for _letter, size in parts]
    counts = [int(number) for number in share]
    # What rounding left goes to the largest remainders; what the small ones took comes from the largest parts.
    for place in sorted(range(len(parts)), key=lambda n: counts[n] - share[n])[: max(0, columns - sum(counts))]:
        counts[place] += 1
    while sum(counts) > columns:
        counts[counts.index(max(counts))] -= 1
    counts[counts.index(max(counts))] += columns - sum(counts)
    return "".join(letter * count for (letter, _size), count in zip(parts, counts, strict=True))


def bars(document: Document) -> Iterator[str]:
    """A bar for each rank. What is too much makes the bar the sum, and no longer the memory."""
    runs: list[list[dict[str, Any]]] = []
    for rank in (drawn(rank, document["verdict"]) for rank in document["ranks"]):
        if runs and _sizes(runs[-1][0]) == _sizes(rank):
            runs[-1].append(rank)
        else:
            runs.append([rank])
    shown: list[tuple[str, dict[str, Any]]] = []
    for run in runs:
        if len(run) >= MANY:
            shown.append((f"ranks {run[0]['rank']}-{run[-1]['rank']}, {run[0]['host']} to {run[-1]['host']}", run[0]))
        else:
            shown += [(f"rank {rank['rank']}, {rank['host']}", rank) for rank in run]
    widest = max((len(name) for name, _rank in shown), default=0)
    for name, rank in shown:
        yield f"{name.ljust(widest)}  [{drawn_bar(rank)}] {gib(rank['total_bytes'])}{shortage(rank)}"


def _sizes(rank: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in rank.items() if key not in ("rank", "host")}


def legend(document: Document) -> Iterator[str]:
    """What the letters mean and how much each is; one column where all ranks are equal."""
    ranks = [drawn(rank, document["verdict"]) for rank in document["ranks"]]
    for key, letter, words, _colour in PARTS:
        sizes = [rank.get(key) or 0 for rank in ranks]
        if any(sizes):
            shown = sizes[:1] if len(set(sizes)) == 1 else sizes
            figures = "".join(f"{size / GIB:9.2f}" for size in shown)
            yield f"  {letter}  {words.ljust(42)}{figures} GiB"
    yield f"     {'memory of the node'.ljust(42)}{ranks[0]['total_bytes'] / GIB:9.2f} GiB   ({document['basis']})"
    if peak := document.get("load_peak"):
        error = f", +- {peak['uncertainty_bytes'] / GIB:.0f}" if peak.get("uncertainty_bytes") else ""
        yield f"     {'most that loading needs'.ljust(42)}{peak['bytes'] / GIB:9.2f} GiB   (not part of the sum{error})"


def layouts(document: Document) -> Iterator[str]:
    """The ways to share the model that were tried, and why one was taken."""
    for candidate in document["candidates"]:
        yield from textwrap.wrap(
            f"{layout_words(candidate)}: {candidate['verdict']}; {candidate['reason']}",
            WIDTH,
            initial_indent="  ",
            subsequent_indent="     ",
        )


def sentence(document: Document) -> str:
    """What somebody who knows would say, in two or three sentences."""
    kv, settings, ranks = document["kv"], document["settings"], document["ranks"]
    if document["verdict"] == "refused" or not ranks:
        return " ".join(["It does not fit.", *document["reasons"]])
    tight = min(ranks, key=lambda rank: rank["free_bytes"] - rank["short_bytes"])
    cache = tight["kv_bytes"] + tight["state_bytes"]
    where = f"each of {len(ranks)} ranks" if len(ranks) > 1 else "the one rank"
    fits = "It fits" if document["verdict"] == "fits" else "It fits only just"
    if tight["short_bytes"] > tight["reserve_bytes"]:
        fits = "It fits only where more memory is free than usual"
    engine = (document.get("engine") or {}).get("name") or "vllm"
    knob = (
        f"--mem-fraction-static {settings['mem_fraction_static']:.3f}"
        if engine == "sglang"
        else f"--kv-cache-memory-bytes {settings['kv_cache_bytes']} and --gpu-memory-utilization "
        f"{settings['gpu_memory_utilization']:.3f}"
    )
    if (settings["ep"] or 1) > 1:
        knob += f" and --ep-size {settings['ep']}" if engine == "sglang" else " and --enable-expert-parallel"
    weights = f"{gib(tight['weights_bytes'])} of weights on {where}"
    room = f"and a cache fixed at {gib(cache)}" if kv["fixed"] else f"leave {gib(cache)} for the cache"
    words = (
        f"{fits}: {weights} {room}, which is "
        f"{kv['tokens']:,} tokens: {kv['max_concurrency']:.2f} requests of {settings['context_length']:,} tokens at "
        f"once ({gib(kv['bytes_per_request_per_rank'], 2)} each on every rank). "
        f"Start {'SGLang' if engine == 'sglang' else 'vLLM'} with {knob}; {_kept(tight)}"
    )
    return " ".join([words, *document["reasons"]])


def _kept(rank: Mapping[str, Any]) -> str:
    """What stays with the system; of what is too much, what would have to be free."""
    kept = rank["reserve_bytes"] - rank["short_bytes"]
    if kept < 0:
        have = rank["available_bytes"] or 0
        return f"that takes {gib(have - kept)} of free memory on a node, of which {gib(have)} are assumed."
    if (rank["total_bytes"] or 0) < UNIFIED_FROM:
        return f"{gib(kept)} stay in reserve." if kept else "nothing is kept in reserve."
    return f"{gib(kept)} stay with the system and the engine's processes, because a GB10 without free memory freezes."


def levers(document: Document) -> Iterator[str]:
    for number, change in enumerate(document["changes"], 1):
        effect, verdict = change.get("effect_bytes"), change.get("verdict")
        notes = [f"{effect / GIB:+.1f} GiB" if effect else "", f"then: {verdict}" if verdict else ""]
        note = ", ".join(filter(None, notes))
        yield from textwrap.wrap(
            f"{number}. {change['change']}{f'  [{note}]' if note else ''}",
            WIDTH,
            initial_indent="  ",
            subsequent_indent="     ",
        )


def more(document: Document) -> Iterator[str]:
    """What each setting alone would add to a plan that fits."""
    for lever in document["levers"]:
        gives = f"{lever['cache_bytes'] / GIB:+.1f} GiB of cache, {lever['max_concurrency']:.2f} at once"
        yield from textwrap.wrap(
            f"- {lever['change']}  [{gives}]", WIDTH, initial_indent="  ", subsequent_indent="    "
        )


def paragraph(text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, break_long_words=False, break_on_hyphens=False)


def lines(document: Document, brief: bool = False) -> Iterator[str]:
    """The whole of it; ``brief`` is what a deploy shows: the bars, the sum and the sentence."""
    settings = document["settings"]
    title = [str((document.get("model") or {}).get("name") or ""), layout_words(settings)]
    title += [f"context {settings['context_length']:,}", f"{document['verdict']}"]
    yield f"plan: {', '.join(filter(None, title))} ({engine_words(document.get('engine'))})"
    if document["ranks"]:
        yield ""
        yield from bars(document)
        yield from legend(document)
    if not (brief and document["verdict"] == "refused"):  # a deploy ends with refusal(), which says it in full
        yield ""
        yield from paragraph(sentence(document))
    for note in document["notes"]:
        yield from paragraph(note)
    if brief:
        return
    if len(document["candidates"]) > 1:
        yield ""
        yield "Layouts that were tried:"
        yield from layouts(document)
    if len(document["options"]) > 1 and any(option["weights_bytes"] for option in document["options"]):
        yield ""
        yield "Options (GiB of one rank; left: beside one request, or beside a cache of a fixed size):"
        yield from options_table(document["options"])
        yield from refused_options(document)
    if document["changes"]:
        yield ""
        refused = document["verdict"] == "refused"
        yield "What would help, the smallest change first:" if refused else "What else would change it:"
        yield from levers(document)
    if document["levers"]:
        yield ""
        yield f"Levers, each alone (now {document['kv']['max_concurrency']:.2f} requests at once):"
        yield from more(document)
    if document["expected_log"] and document["verdict"] != "refused":
        yield ""
        yield "Lines to expect in the engine's log:"
        for entry in document["expected_log"]:
            yield f"  {line_of(entry)}"


def headline(document: Document) -> str:
    asked = (document.get("nodes") or {}).get("count") or document["settings"]["tp"]
    what = f"This model does not fit {asked} node{'' if asked == 1 else 's'} with these settings"
    return f"{what if document['ranks'] else 'There is no plan for these settings'}; nothing has been changed."


def refusal(document: Document) -> str:
    """One message: what does not fit, and what would, best first."""
    text = [headline(document)]
    text += [f"  - {reason}" for reason in document["reasons"]]
    if document["changes"]:
        text.append("What would help, the smallest change first:")
        for number, change in enumerate(document["changes"], 1):
            effect, verdict = change.get("effect_bytes"), change.get("verdict")
            notes = [f"{effect / GIB:+.1f} GiB" if effect else "", f"then {verdict}" if verdict else ""]
            note = ", ".join(filter(None, notes))
            text.append(f"  {number}. {change['change']}{f' ({note})' if note else ''}")
    return "\n".join(text)
