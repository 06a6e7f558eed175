# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 gb10.serving contributors
# Private to this collection: no stability promised.
"""The help text of an engine, as argparse prints it, to the flags that the engine takes. Pure.

Images print banners, warnings and tracebacks around it. What counts stands between the line ``usage:`` and the end, in
lines that are indented by exactly two blanks: argparse never wraps these, however narrow the terminal.
"""

from __future__ import annotations

import re
from typing import Any

#: Fewer flags than this are not the help of an engine but a part of it or something else.
LEAST_FLAGS = 100

NO, ONE, OPTIONAL, MANY = "no", "one", "optional", "many"

_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-_])")
_USAGE = re.compile(r"\s{0,4}usage: ", re.IGNORECASE)
_INVOCATION = re.compile(r" {2}(--?[A-Za-z0-9]\S*.*)")
_POSITIONAL = re.compile(r" {2}([A-Za-z]\w*)(?: {2,}\S.*)?")
_SECTION = re.compile(r"\S.*:")
_TRACEBACK = "Traceback (most recent call last)"
_DEPRECATED = re.compile(
    r"\[deprecated\]|\(deprecated\b|deprecated[.:]|deprecated alias for\b|.{0,20}--[\w-]+ is deprecated\b",
    re.IGNORECASE,
)
_DEFAULT = re.compile(r"\(default: ([^()]*)\)\s*$")
_WRAP_LINES = 400


def clean(text: str) -> list[str]:
    """Lines without colours, carriage returns and trailing blanks."""
    return [line.rsplit("\r", 1)[-1].rstrip() for line in _ANSI.sub("", text).replace("\r\n", "\n").split("\n")]


def parse(text: str) -> list[dict[str, Any]]:
    """The flags in a help text, in its order; empty when it is none.

    Each is a mapping of ``name`` (the first long one), ``aliases`` (other names of the same), ``negatives`` (names that
    turn it off), ``hidden`` (negatives that are taken and not shown), ``takes_value`` (no, one, optional, many),
    ``metavar``, ``choices``, ``known`` (values that the help lists and the parser does not insist on), ``default``,
    ``deprecated`` (what the help says about that, or nothing) and ``positional``.
    """
    lines = clean(text)
    start = next((number for number, line in enumerate(lines) if _USAGE.match(line)), None)
    if start is None:
        return []
    flags: list[dict[str, Any]] = []
    positional = False
    number = start + 1
    while number < len(lines):
        line = lines[number]
        number += 1
        if line.startswith(_TRACEBACK):
            positional = False
        elif _SECTION.fullmatch(line):
            positional = line.lower().startswith("positional arguments")
        elif found := _INVOCATION.fullmatch(line):
            invocation, number = _whole(found.group(1), lines, number)
            described, number = _description(lines, number)
            if flag := _flag(invocation, described):
                flags.append(flag)
        elif positional and (found := _POSITIONAL.fullmatch(line)):
            flags.append(entry(found.group(1), takes_value=OPTIONAL, positional=True))
    return _unique(flags)


def _whole(invocation: str, lines: list[str], number: int) -> tuple[str, int]:
    """An invocation whose brackets are closed: a terminal may have broken a long list of choices."""
    first, joined = number, invocation
    while joined.count("{") > joined.count("}") and number < min(len(lines), first + _WRAP_LINES):
        following = lines[number]
        if not following.strip() or following.startswith("  -"):
            return invocation, first
        joined += following.strip()
        number += 1
    return joined, number


def _description(lines: list[str], number: int) -> tuple[list[str], int]:
    """The deeper indented lines that follow an invocation."""
    described = []
    while number < len(lines) and lines[number].startswith("   ") and not _INVOCATION.fullmatch(lines[number]):
        described.append(lines[number].strip())
        number += 1
    return described, number


def _pieces(invocation: str) -> tuple[list[str], str]:
    """The names of an invocation with their values, split at commas outside of brackets; and the words after it."""
    depth, piece = 0, ""
    pieces: list[str] = []
    for position, character in enumerate(invocation):
        depth += character in "{["
        depth -= character in "}]"
        if depth == 0 and invocation.startswith("  ", position):
            return [*pieces, piece], invocation[position:].strip()
        if depth == 0 and character == "," and invocation.startswith(", -", position):
            pieces.append(piece)
            piece = ""
        else:
            piece += character
    return [*pieces, piece], ""


def _flag(invocation: str, described: list[str]) -> dict[str, Any] | None:
    pieces, first_words = _pieces(invocation)
    names, values = [], ""
    for piece in pieces:
        name, _blank, value = piece.strip().partition(" ")
        names.append(name)
        values = value.strip() or values
    if not all(re.fullmatch(r"--?[A-Za-z0-9][\w.-]*", name) for name in names):
        return None
    words = " ".join([first_words, *described]).strip()
    name = next((name for name in names if name.startswith("--")), names[0])
    others = [other for other in names if other != name]
    negatives = [other for other in others if _is_negative(name, other)] if not values else []
    default = _DEFAULT.search(words)
    return entry(
        name,
        aliases=[other for other in others if other not in negatives],
        negatives=negatives,
        hidden=_hidden([other for other in names if other.startswith("--")], negatives),
        takes_value=_takes(values),
        metavar=values or None,
        choices=[] if _is_open(values) else _listed(values),
        known=_listed(values) if _is_open(values) else [],
        default=default.group(1) if default else None,
        deprecated=words[:200] if _DEPRECATED.match(words) else None,
    )


def entry(name: str, **known: Any) -> dict[str, Any]:
    """A flag as engine_info returns it, with what is known of it."""
    blank: dict[str, Any] = {
        "name": name,
        "aliases": [],
        "negatives": [],
        "hidden": [],
        "takes_value": NO,
        "metavar": None,
        "choices": [],
        "known": [],
        "default": None,
        "deprecated": None,
        "positional": False,
    }
    return {**blank, **known}


def _stem(name: str) -> tuple[str, str]:
    """``--enable-x`` is ("enable", "x"), ``--x`` is ("", "x")."""
    for word in ("no", "enable", "disable"):
        if name.startswith(f"--{word}-"):
            return word, name[len(word) + 3 :]
    return "", name[2:]


def _is_negative(name: str, other: str) -> bool:
    if other == f"--no-{name[2:]}":
        return True
    pair = {_stem(name)[0], _stem(other)[0]}
    return pair == {"enable", "disable"} and _stem(name)[1] == _stem(other)[1]


def _hidden(names: list[str], negatives: list[str]) -> list[str]:
    """A pair of --enable-x and --disable-x also takes --no- before what it is called."""
    if not any(_stem(name)[0] in ("enable", "disable") for name in negatives):
        return []
    return [f"--no-{name[2:]}" for name in names if name not in negatives]


def _takes(values: str) -> str:
    if not values:
        return NO
    if _is_open(values):
        return ONE
    if values.startswith("[") and values.endswith("]") and "..." not in values:
        return OPTIONAL
    plain = re.sub(r"\{[^}]*\}", "X", values)
    return MANY if "..." in plain or " " in plain else ONE


def _is_open(values: str) -> bool:
    """Whether the values that are listed are examples: ``['auto', 'hf']``, or ``{a,b} or name registered in ...``."""
    return values.startswith("['") or "} or " in values


def _listed(values: str) -> list[str]:
    if values.startswith("['"):
        return re.findall(r"'([^']*)'", values)
    found = re.match(r"\[?\{([^}]*)\}", values)
    return [choice.strip() for choice in found.group(1).split(",")] if found else []


def _unique(flags: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Without what came a second time: an image may print its help twice."""
    return list({flag["name"]: flag for flag in reversed(flags)}.values())[::-1]


def read(stdout: str, stderr: str = "") -> tuple[list[dict[str, Any]] | None, str | None]:
    """(the flags, or None; why there are none)."""
    flags = parse(stdout) or parse(stderr)
    count = sum(not flag["positional"] for flag in flags)
    if count > LEAST_FLAGS:
        return flags, None
    if "Failed to infer device type" in stdout + stderr:
        return None, "the engine found no GPU, and prints its help only where it sees one"
    if not flags:
        last = next((line for line in reversed(clean(stderr) + clean(stdout)) if line.strip()), "nothing")
        return None, f"it printed no help; its last line is: {last.strip()[-300:]}"
    return None, f"its help shows {count} flags, and more than {LEAST_FLAGS} are expected"
