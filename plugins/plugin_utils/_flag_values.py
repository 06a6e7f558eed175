# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
# Private to this collection: no stability promised.
"""Whether a flag has the values that its help asks for. Pure."""

from __future__ import annotations

import json
import re

from . import _flag_words as words
from ._flag_parser import Flag, Given
from ._problems import Problem

#: Names of flags whose value is a number in every release that was looked at.
_NUMBER_NAME = re.compile(
    r".*-(size|port|len|length|rank|tokens|seqs|requests|timeout|interval|layers|workers|num|count|fraction|utilization"
    r"|seconds|gb|ratio|bs|steps)|--(nnodes|max-(?!lora)[\w-]+|num-[\w-]+)"
)
_NUMBER = re.compile(r"-?\d+(\.\d+)?(e-?\d+)?")
#: What number flags take besides numbers, in some release.
_NUMBER_WORDS = frozenset({"", "auto", "none", "inf"})
_JSON_NAME = re.compile(r".*-(config|configs|overrides|override-args|kwargs|map)")


def is_number(flag: Flag) -> bool:
    if flag["choices"] or flag["known"] or flag["takes_value"] != "one":
        return False
    return bool(_NUMBER.fullmatch(flag["default"] or "") or _NUMBER_NAME.fullmatch(flag["name"]))


def _is_choice(value: str, choices: list[str]) -> bool:
    # Choices may hold commas themselves, which the help does not tell apart.
    return value in choices or ("," in value and all(part in choices for part in value.split(",")))


def check(one: Given) -> list[Problem]:
    """Everything that is wrong with the values of a known flag."""
    flag = one.flag
    if flag is None:
        return []
    if one.takes == "no":
        if one.inline is None:
            return []
        return [
            Problem(
                words.WHERE,
                f"{one.text} has a value.",
                f"{one.name} alone; it takes none.",
                f"write {one.name} without '='.",
            )
        ]
    given = one.given_values
    if not given:
        return [] if _may_be_empty(one, flag) else [_missing(one, flag)]
    problems = []
    for value in given:
        if flag["choices"] and not one.path and not _is_choice(value, flag["choices"]):
            near = words.nearest(value, flag["choices"])
            problems.append(
                Problem(
                    words.WHERE,
                    f"{one.name} is {value!r}.",
                    f"one of {words.listed(flag['choices'], 40)}.",
                    f"write {near}, if that is meant." if near else "choose one of them.",
                )
            )
        elif is_number(flag) and not one.path and not _is_numeric(value):
            problems.append(Problem(words.WHERE, f"{one.name} is {value!r}.", "a number.", "write a number."))
        elif _JSON_NAME.fullmatch(flag["name"]) and not one.path and _is_broken_json(value):
            problems.append(
                Problem(
                    words.WHERE,
                    f"{one.name} is {value!r}, which is not JSON.",
                    'JSON, with double quotes around names and texts, such as {"key": "value"}.',
                    "write it in single quotes in YAML, so that the double ones stay.",
                )
            )
    return problems


def _may_be_empty(one: Given, flag: Flag) -> bool:
    return one.takes == "optional" or (one.takes == "many" and flag["metavar"].startswith("["))


def _is_numeric(value: str) -> bool:
    if value.strip("'\"") != value:
        return False
    return any(character.isdigit() for character in value) or value.lower() in _NUMBER_WORDS


def _is_broken_json(value: str) -> bool:
    if not value.startswith("{"):
        return False
    try:
        json.loads(value)
    except ValueError:
        return True
    return False


def _missing(one: Given, flag: Flag) -> Problem:
    what = f"one of {words.listed(flag['choices'], 40)}" if flag["choices"] else "a value after it"
    return Problem(
        words.WHERE,
        f"{one.name} has no value.",
        f"{what}.",
        f"add it as the next list item, or write {one.name}=VALUE (also for a value that begins with '-').",
    )


def doubts(one: Given) -> list[str]:
    """What the parser takes and a person should look at."""
    flag = one.flag
    if flag is None:
        return []
    found = []
    if flag["deprecated"]:
        found.append(f"{words.WHERE}: {one.name} will go away; its help says: {flag['deprecated']}")
    strange = [value for value in one.given_values if flag["known"] and not one.path and value not in flag["known"]]
    if strange:
        found.append(
            f"{words.WHERE}: {one.name} is {strange[0]!r}, and the help lists {words.listed(flag['known'], 40)}. "
            "The engine will say whether it knows it."
        )
    return found
