# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
#
# Private to this collection: may change without notice.
"""A plan for a terminal: bars, the sum, what an expert would say of it, what would change it. Plain ASCII. Pure."""

from __future__ import annotations

import re
import shlex
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ansible_collections.gb10.serving.plugins.plugin_utils._memory_nodes import UNIFIED_FROM
from ansible_collections.gb10.serving.plugins.plugin_utils._plan_document import (
    PARTS,
    drawn,
    engine_words,
    layout_words,
    line_of,
    runs,
    shortage,
)
from ansible_collections.gb10.serving.plugins.plugin_utils._plan_table import (
    option_notes,
    options_table,
    refused_options,
    verdicts,
)

GIB = 1 << 30
COLUMNS = 60
WIDTH = 100
MANY = 3  # as many equal ranks share one bar
_NUMBER = re.compile(r"\d[\d.,]*")
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
    basis, nodes = document["basis"], document.get("nodes") or {}
    if nodes.get("memory_given") and basis == "prior":
        basis = "as given; what is free of it is a prior"
    yield f"     {'memory of the node'.ljust(42)}{ranks[0]['total_bytes'] / GIB:9.2f} GiB   ({basis})"
    if peak := document.get("load_peak"):
        error = f", +- {peak['uncertainty_bytes'] / GIB:.0f}" if peak.get("uncertainty_bytes") else ""
        yield f"     {'most that loading needs'.ljust(42)}{peak['bytes'] / GIB:9.2f} GiB   (not part of the sum{error})"


def layouts(document: Document) -> Iterator[str]:
    """The ways to share the model that were tried, and why one was taken; those with one reason together."""
    groups: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for candidate in document["candidates"]:
        alike = _NUMBER.sub("#", candidate["reason"])
        groups.setdefault((candidate["verdict"], alike), []).append(candidate)
    for (verdict, _alike), members in groups.items():
        reasons = list(dict.fromkeys(candidate["reason"] for candidate in members))
        more = " The others alike, with their own figures." if len(reasons) > 1 else ""
        names = "; ".join(layout_words(candidate) for candidate in members)
        yield from textwrap.wrap(
            f"{names}: {verdict}; {reasons[0]}{more}", WIDTH, initial_indent="  ", subsequent_indent="     "
        )


def _served(document: Document) -> str:
    """How many requests of the context length there is room for, and how many run."""
    kv, settings = document["kv"], document["settings"]
    room, length = kv["max_concurrency"], f"{settings['context_length']:,}"
    each = f"{gib(kv['bytes_per_request_per_rank'], 2)} each{' on every rank' if len(document['ranks']) > 1 else ''}"
    requests = f"1 request of {length} tokens" if f"{room:.2f}" == "1.00" else f"{room:.2f} requests of {length} tokens"
    if kv.get("requests_at_once", room) >= room:
        return f"{requests} at once ({each})"
    flag = "--max-running-requests" if _is_sglang(document) else "--max-num-seqs"
    return f"room for {requests} ({each}), of which {flag} lets {runs(kv)} run at once"


def _is_sglang(document: Document) -> bool:
    return (document.get("engine") or {}).get("name") == "sglang"


def sentence(document: Document) -> str:
    """What somebody who knows would say, in two or three sentences."""
    kv, ranks = document["kv"], document["ranks"]
    if not ranks:
        return " ".join(["The plan cannot be made:", *document["reasons"]])
    if document["verdict"] == "refused":
        return " ".join(["It does not fit.", *document["reasons"]])
    tight = min(ranks, key=lambda rank: rank["free_bytes"] - rank["short_bytes"])
    cache = tight["kv_bytes"] + tight["state_bytes"]
    where = f"each of {len(ranks)} ranks" if len(ranks) > 1 else "the one rank"
    fits = "It fits" if document["verdict"] == "fits" else "It fits only just"
    if tight["short_bytes"] > tight["reserve_bytes"]:
        fits = "It fits only where more memory is free than usual"
    weights = f"{gib(tight['weights_bytes'])} of weights on {where}"
    room = f"and a cache fixed at {gib(cache)}" if kv["fixed"] else f"leave {gib(cache)} for the cache"
    words = f"{fits}: {weights} {room}, which is {kv['tokens']:,} tokens: {_served(document)}. {_kept(tight)}"
    return " ".join([words, *document["reasons"]])


def _kept(rank: Mapping[str, Any]) -> str:
    """What stays with the system; of what is too much, what would have to be free."""
    kept = rank["reserve_bytes"] - rank["short_bytes"]
    if kept < 0:
        have = rank["available_bytes"] or 0
        return f"That takes {gib(have - kept)} of free memory on a node, of which {gib(have)} are assumed."
    if (rank["total_bytes"] or 0) < UNIFIED_FROM:
        return f"{gib(kept)} stay in reserve." if kept else "Nothing is kept in reserve."
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
        run, room = runs(lever), f"{lever['max_concurrency']:.2f}"
        gives = f"{lever['cache_bytes'] / GIB:+.1f} GiB of cache, {run} at once"
        gives += "" if run == room else f", room for {room}"
        yield from textwrap.wrap(
            f"- {lever['change']}  [{gives}]", WIDTH, initial_indent="  ", subsequent_indent="    "
        )


def command(flags: Sequence[str]) -> Iterator[str]:
    """Flags with their values, some in a line, to be copied."""
    words: list[str] = []
    for flag in flags:
        value = bool(words) and not flag.startswith("-") and " " not in words[-1]
        words[len(words) - value :] = [f"{words[-1]} {shlex.quote(flag)}" if value else shlex.quote(flag)]
    line = ""
    for word in words:
        if line and len(line) + len(word) > WIDTH - 6:
            yield f"  {line} \\"
            line = ""
        line = f"{line} {word}".strip()
    yield f"  {line}"


def paragraph(text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, break_long_words=False, break_on_hyphens=False)


def lines(document: Document, brief: bool = False) -> Iterator[str]:
    """The whole of it; ``brief`` is what a deploy shows: the bars, the sum and the sentence."""
    settings = document["settings"]
    title = [str((document.get("model") or {}).get("name") or "")]
    if document["ranks"]:
        title += [layout_words(settings), f"context {settings['context_length']:,}"]
    title.append(document["verdict"])
    option = document.get("option")
    of = f" of option {option!r}" if option else ""
    yield f"plan{of}: {', '.join(filter(None, title))} ({engine_words(document.get('engine'))})"
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
    if document["flags"]:
        yield ""
        others = " (a deploy adds addresses and ranks)" if len(document["ranks"]) > 1 else ""
        yield f"Flags that this rests on, for each rank{others}:"
        yield from command(document["flags"])
    if len(document["candidates"]) > 1:
        yield ""
        yield "Layouts that were tried:"
        yield from layouts(document)
    if len(document["options"]) > 1 and any(option["weights_bytes"] for option in document["options"]):
        yield ""
        yield "Options (GiB of one rank; left: beside one request, or beside a cache of a fixed size):"
        yield from options_table(document["options"])
        yield from refused_options(document)
        yield from option_notes(document)
        if option and document["verdict"] == "refused":
            yield from paragraph(verdicts(document))
    if document["changes"]:
        yield ""
        refused = document["verdict"] == "refused"
        yield "What would help, what fits first, then the smallest change:" if refused else "What else would change it:"
        yield from levers(document)
    if document["levers"]:
        yield ""
        yield f"Levers, each alone (now {runs(document['kv'])} requests at once):"
        yield from more(document)
    if document["expected_log"] and document["verdict"] != "refused":
        yield ""
        yield "Lines to expect in the engine's log:"
        for entry in document["expected_log"]:
            yield f"  {line_of(entry)}"


def headline(document: Document) -> str:
    asked = (document.get("nodes") or {}).get("count") or document["settings"]["tp"]
    what = f"This model does not fit {asked} node{'' if asked == 1 else 's'} with these settings"
    return f"{what if document['ranks'] else 'The plan cannot be made'}; nothing has been changed."


def refusal(document: Document) -> str:
    """One message: what does not fit, and what would, best first."""
    text = [headline(document)]
    text += [f"  - {reason}" for reason in document["reasons"]]
    if document["changes"]:
        text.append("What would help, what fits first, then the smallest change:")
        for number, change in enumerate(document["changes"], 1):
            effect, verdict = change.get("effect_bytes"), change.get("verdict")
            notes = [f"{effect / GIB:+.1f} GiB" if effect else "", f"then {verdict}" if verdict else ""]
            note = ", ".join(filter(None, notes))
            text.append(f"  {number}. {change['change']}{f' ({note})' if note else ''}")
    return "\n".join(text)
