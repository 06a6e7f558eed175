# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
# Private to this collection: no stability promised.
"""Flags that came out of a document or a chat: with another dash, in quotes, with blanks that do not belong. Pure.

The engine's parser takes such a flag for a value, mostly for that of the flag before, and says nothing.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from ._flag_parser import Parser
from ._problems import Problem

WHERE = "gb10_server_args"

#: What word processors make of hyphens.
_DASHES = "\u2010\u2011\u2012\u2013\u2014\u2015\u2212\ufe58\ufe63\uff0d"
_UNSEEN = "\ufeff\u200b\u200c\u200d\u2060"
_QUOTES = "'\"`\u2018\u2019\u201c\u201d"
_FLAG = re.compile(rf"[\s{_UNSEEN}{_QUOTES}]*[-{_DASHES}]+(?P<rest>[A-Za-z][\w.{_DASHES}-]*)(?P<after>.*)", re.DOTALL)


def correct(texts: Sequence[str], parser: Parser) -> tuple[list[str], list[Problem]]:
    """(the arguments as they are meant, what is wrong with them as they are written)."""
    meant, problems = [], []
    for text in texts:
        parts, wrong = _meant(text, parser)
        if wrong:
            problems.append(Problem(WHERE, wrong, "flags as the engine knows them.", _advice(parts)))
        meant += parts
    return meant, problems


def _meant(text: str, parser: Parser) -> tuple[list[str], str]:
    """(the argument, or the flag and the value, that is meant; what is wrong, or nothing)."""
    found = _FLAG.fullmatch(text)
    if found is None:
        return [text], ""
    rest = re.sub(f"[{_DASHES}]", "-", found["rest"])
    names = [f"{dashes}{rest}" for dashes in ("--", "-")]
    name = next((name for name in names if (given := parser.match(name)) and (given.flag or given.candidates)), None)
    what = _what(text, found["rest"], found["after"])
    if name is None or not what:
        return [text], ""
    after = found["after"].strip(f" \t\r\n\xa0{_UNSEEN}{_QUOTES}")
    value = [] if not after else [after] if found["after"][:1].isspace() else []
    shown = f"{name}{found['after'].rstrip()}" if after and not value else name
    return [shown, *value], f"a flag that looks like {name} {what}."


def _what(text: str, rest: str, after: str) -> str:
    """How an argument is not the flag that it looks like. No value is shown."""
    first = text[0]
    if first in _DASHES:
        return f"starts with {_called(first)}"
    if first in _UNSEEN:
        return f"starts with {_called(first)}, which is not seen"
    if first in _QUOTES:
        return "has quotes around it"
    if first.isspace():
        return "starts with a blank"
    # A value after "=" may hold anything.
    dash = next((sign for sign in text[: len(text) - len(after)] if sign in _DASHES), "")
    if dash:
        return f"has {_called(dash)} in it"
    if after[:1] in _UNSEEN and after:
        return f"has {_called(after[0])} in it, which is not seen"
    if after[:1].isspace():
        return "has its value in the same list item" if after.strip() else "ends in a blank or a newline"
    return ""


def _called(sign: str) -> str:
    name = unicodedata.name(sign, f"character {ord(sign):04X}").lower()
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


def _advice(parts: Sequence[str]) -> str:
    name = parts[0].partition("=")[0]
    return f"write {name}{', and its value as a list item of its own' if len(parts) > 1 else ''}."
