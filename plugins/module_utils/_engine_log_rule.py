# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 gb10.serving contributors
# Private to gb10.serving: what a rule is by which a log line names a cause.
"""A rule: a pattern, the cause it stands for, and how much it says against others in the same log."""

from __future__ import annotations

import re
from typing import NamedTuple

#: What a line says of the cause. The heaviest wins, then the earliest.
DECISIVE = 90  # names the cause itself
ROOT = 70  # names the cause, but can follow from a decisive one
LIKELY = 50  # usually the cause
FOLLOWS = 30  # has a meaning of its own, but something else is behind it
SECONDARY = 20  # another process's end
WEAK = 10  # only that something ended

#: A group that must be there and holds no other one.
_GROUP = re.compile(r"(?<!\\)\(\?:(?P<words>(?:[^()\\]|\\[^()])+)\)(?![?*{])")

#: A text shorter than this is in every other line.
_SHORTEST = 3

#: Characters that patterns are searched in, from the begin and from the end of a line: many need a time that grows
#: with the square of it.
_LOOKED_AT, _LOOKED_AT_END = 1500, 500


def looked_at(text: str) -> str:
    """The part of a line in which patterns are searched."""
    return text if len(text) <= _LOOKED_AT + _LOOKED_AT_END else f"{text[:_LOOKED_AT]} ... {text[-_LOOKED_AT_END:]}"


class Rule(NamedTuple):
    """``quiet``: also in lines that their writer took for no error. ``start_only``: not once requests were answered.

    ``phases``: only while the start is in one of them. ``texts``: one of them, in small letters, is in every line that
    fits; none where that cannot be said. ``in_engine``: any program may say it, so only in the log of a known engine.
    """

    cause: str
    weight: int
    pattern: re.Pattern[str]
    quiet: bool = False
    start_only: bool = False
    phases: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    in_engine: bool = False

    def fits(self, text: str, small: str) -> bool:
        """Whether a line fits; ``small`` is the same in small letters. Searching for texts first is far quicker."""
        if self.texts and not any(part in small for part in self.texts):
            return False
        return self.pattern.search(text) is not None


def rules(
    cause: str,
    weight: int,
    *patterns: str,
    quiet: bool = False,
    start_only: bool = False,
    cased: bool = False,
    phases: tuple[str, ...] = (),
    in_engine: bool = False,
) -> tuple[Rule, ...]:
    """One rule of all patterns of the same cause and weight."""
    joined = re.compile("|".join(patterns), 0 if cased else re.IGNORECASE)
    texts = [text for pattern in patterns for part in alternatives(pattern) for text in texts_of(part)]
    sure = tuple(dict.fromkeys(texts)) if all(texts) else ()
    return (Rule(cause, weight, joined, quiet, start_only, phases, sure, in_engine),)


def alternatives(pattern: str) -> list[str]:
    """The parts between the bars of a pattern that stand in no group."""
    parts, current, depth, in_class, at = [], "", 0, False, 0
    while at < len(pattern):
        step = 2 if pattern[at] == "\\" else 1
        token = pattern[at : at + step]
        at += step
        if in_class:
            in_class = token != "]"
        elif token == "[":
            in_class = True
        else:
            depth += {"(": 1, ")": -1}.get(token, 0)
        if token == "|" and depth == 0 and not in_class:
            parts.append(current)
            current = ""
        else:
            current += token
    return [*parts, current]


def texts_of(part: str) -> list[str]:
    """Texts of which each fitting line contains one. A group of several is taken apart where nothing else is sure."""
    whole = longest_text(part)
    for found in _GROUP.finditer(part) if not whole else ():
        before = re.sub(r"\\.|\[[^\]]*\]", "", part[: found.start()])
        if before.count("(") != before.count(")"):
            continue  # inside another group, which may be absent
        words = [longest_text(word) for word in alternatives(found["words"])]
        if all(words):
            return words
    return [whole]


def longest_text(part: str) -> str:
    """The longest text, in small letters, that each fitting line contains; empty where there is none of use."""
    runs, run, depth, in_class, at = [""], "", 0, False, 0
    while at < len(part):
        step = 2 if part[at] == "\\" else 1
        token = part[at : at + step]
        at += step
        plain = False
        if in_class:
            in_class = token != "]"
        elif token == "[":
            in_class = True
        elif token in "()":
            depth += 1 if token == "(" else -1
        elif depth == 0:
            plain = token not in ".^$*+?{}" and not (step == 2 and token[1].isalnum())
        if plain:
            run += token[-1]
            continue
        # What may be absent, or come again, belongs to no text.
        runs.append(run[:-1] if token in ("?", "*", "{") else run)
        run = ""
        if token == "{" and depth == 0 and not in_class:
            at = part.index("}", at) + 1
    longest = max([*runs, run], key=len).lower()
    return longest if len(longest) >= _SHORTEST else ""
