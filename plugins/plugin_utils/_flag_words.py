# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
# Private to this collection: no stability promised.
"""What is said of a flag that an image does not have. Pure."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ._engines import ENGINES
from ._flag_parser import Given, Parser
from ._problems import Problem

WHERE = "gb10_server_args"
#: Engines as people write them.
TITLES = {"vllm": "vLLM", "sglang": "SGLang"}


_FLAG = re.compile(r"(?<![\w-])--[a-z][\w-]*")


def title(engine: str) -> str:
    return TITLES.get(engine, engine)


def engine_of(found: Mapping[str, Any]) -> str:
    return " ".join(filter(None, [title(found["name"]), found.get("version")]))


def listed(names: Sequence[str], most: int = 6) -> str:
    shown = ", ".join(names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown


def nearest(name: str, names: Iterable[str]) -> str | None:
    return next(iter(difflib.get_close_matches(name, list(names), 1, 0.75)), None)


def nearest_flag(name: str, names: Iterable[str]) -> str | None:
    """The flag that is written nearly so, and switches in the same direction."""
    return nearest(name, [flag for flag in names if is_off(flag) == is_off(name)])


def is_off(name: str) -> bool:
    """Whether a name says that something shall not be: ``--no-x``, ``--disable-x``, and not ``--no-disable-x``."""
    off, rest = False, name.removeprefix("--")
    while found := re.match(r"(?:no|disable)-", rest):
        off, rest = not off, rest[found.end() :]
    return off


def unknown(one: Given, parser: Parser, found: Mapping[str, Any]) -> Problem:
    """A flag that the help of the image does not list."""
    here = engine_of(found)
    seen = f"{one.name} is not a flag of {here}"
    expected = "a flag that the help of the image lists."
    if not parser.engine.UNDERSCORES and one.name.startswith("--") and "_" in one.name:
        hyphens = one.name.replace("_", "-")
        if hyphens in parser.names:
            return Problem(
                WHERE, f"{seen}.", expected, f"write {hyphens}: {title(found['name'])} takes no underscores."
            )
    if one.name in parser.engine.CHANGED:
        when, instead = parser.engine.CHANGED[one.name]
        if _is_older(found, when):
            return Problem(WHERE, f"{seen}: it came later, and went with {when}.", expected, "take it out.")
        # What took its place may have gone, too.
        there = bool(instead) and all(name in parser.names for name in _FLAG.findall(instead))
        remedy = f"use {instead}." if there else "take it out; nothing stands for it."
        return Problem(WHERE, f"{seen}: it went with {when}.", expected, remedy)
    if foreign := _foreign(one.name, parser, found):
        return Problem(WHERE, f"{seen}; {foreign[0]}", expected, foreign[1])
    elsewhere = {flag for engine in ENGINES.values() for flag, _note in engine.CONCEPTS.values() if flag}
    switches = [switch for engine in ENGINES.values() for switch in engine.SWITCHES.values()]
    elsewhere |= {flag for on, off, _default in switches for flag in on + off}
    near = nearest_flag(one.name, {*parser.names, *elsewhere})
    if near and near not in parser.names and (foreign := _foreign(near, parser, found)):
        return Problem(WHERE, f"{seen}, nor is {near}, if that is meant; {foreign[0]}", expected, foreign[1])
    remedy = f"write {near}, if that is meant." if near else "take it out, or name an image whose engine has it."
    variable = parser.engine.OWNED.get(near)
    if near and variable is not None:
        what = f"set {variable}" if variable else "leave that to the spec"
        remedy = f"if {near} is meant, take it out and {what}."
    return Problem(WHERE, f"{seen}.", expected, remedy)


def _is_older(found: Mapping[str, Any], when: str) -> bool:
    """Whether the image's release is from before a flag went, so that it cannot have gone."""
    here, there = (re.match(r"\d+(?:\.\d+)*", text or "") for text in (found.get("version"), when))
    if here is None or there is None:
        return False
    return [int(part) for part in here[0].split(".")] < [int(part) for part in there[0].split(".")]


def successor(name: str, parser: Parser) -> str:
    """The flag of today for one that was there once, if it is a flag of the image."""
    _when, instead = parser.engine.CHANGED.get(name, ("", ""))
    return instead if instead in parser.names else ""


def _foreign(name: str, parser: Parser, found: Mapping[str, Any]) -> tuple[str, str] | None:
    """(whose flag it is, what to do) for a flag that another engine, or another release of this one, has."""
    mine = found["name"]
    spelled = name.replace("_", "-")
    others = {other: engine for other, engine in ENGINES.items() if other != mine}
    if switched := _switched(spelled, parser, mine):
        return switched
    for concept, (flag, note) in parser.engine.CONCEPTS.items():
        if spelled == flag:
            words = [f"{title(mine)} has it {note or 'in other releases'}"]
            for other, engine in others.items():
                theirs, remark = engine.CONCEPTS.get(concept, ("", ""))
                words += [f"{title(other)} has it {remark}".rstrip()] if theirs == flag else []
            remedy = f"take it out, or name an image with a release of {title(mine)} that has it."
            return f"{'; '.join(words)}.", remedy
    for other, engine in others.items():
        for concept, (flag, _note) in engine.CONCEPTS.items():
            if spelled == flag or spelled in _same(engine, flag):
                return _counterpart(f"this is {title(other)}'s", concept, parser, title(mine))
        if spelled in engine.OWNED:
            return f"this is {title(other)}'s.", "take it out; the plan and the spec set what it is for."
    return None


def _switched(name: str, parser: Parser, mine: str) -> tuple[str, str] | None:
    """The same for a flag that switches something, or would: what switches it in the same direction here."""
    # One's own first: what would be the opposite of a flag that is there.
    for other, engine in sorted(ENGINES.items(), key=lambda entry: entry[0] != mine):
        for concept, (on, off, _default) in engine.SWITCHES.items():
            wished, whose = _wished(name, on, off)
            if wished is None or concept not in parser.engine.SWITCHES:
                continue
            owner = f"it would be the opposite of {title(other)}'s {whose}" if whose else f"this is {title(other)}'s"
            here_on, here_off, default = parser.engine.SWITCHES[concept]
            if default is wished:
                return f"{owner}; {title(mine)} does so without a flag.", "take it out; it is the default."
            flag = next((flag for flag in (here_on if wished else here_off) if flag in parser.names), "")
            if flag:
                return f"{owner}; {title(mine)} has {flag}.", f"use {flag}."
    return None


def _wished(name: str, on: Sequence[str], off: Sequence[str]) -> tuple[bool | None, str]:
    """(on, off or None for something else; the flag whose opposite the name is, unless it is one of them itself)."""
    if name in on or name in off:
        return name in on, ""
    word, rest = next(((word, name[len(word) :]) for word in _OPPOSITES if name.startswith(word)), ("", ""))
    for flag in (f"{start}{rest}" for start in _OPPOSITES.get(word, ())):
        if flag in on or flag in off:
            return flag in off, flag
    return None, ""


#: Beginning of a flag -> beginnings of the flags that it is the opposite of.
_OPPOSITES = {"--no-": ("--",), "--disable-": ("--enable-", "--"), "--enable-": ("--disable-", "--no-")}


def _counterpart(owner: str, concept: str, parser: Parser, mine: str) -> tuple[str, str]:
    here, note = parser.engine.CONCEPTS.get(concept, ("", ""))
    remark = f" ({note})" if note else ""
    if not here:
        return f"{owner}; {mine} needs none{remark}.", "take it out."
    if here not in parser.names:
        return f"{owner}; {mine} has {here} in other releases{remark}.", "take it out, or name another image."
    variable = parser.engine.OWNED.get(here)
    if variable is None:
        return f"{owner}; {mine} has {here}{remark}.", f"use {here}."
    what = f"set {variable}" if variable else "leave that to the spec"
    return f"{owner}; {mine} has {here}{remark}.", f"take it out and {what}."


def _same(engine: Any, flag: str) -> set[str]:
    """Other names of an owned flag: those that the same variable decides."""
    variable = engine.OWNED.get(flag)
    return {name for name, owner in engine.OWNED.items() if variable and owner == variable}


def stray(value: str, one: Given | None) -> Problem:
    """A value that no flag takes."""
    if one is None:
        return Problem(
            WHERE,
            f"{value!r} stands before any flag.",
            "flags and their values.",
            "put the flag that it belongs to before it; the model is named by gb10_model_id.",
        )
    takes = {"no": "takes no value", "one": "takes one value", "optional": "takes one value at most"}
    return Problem(
        WHERE,
        f"{value!r} follows {one.name}, which {takes.get(one.takes, 'has its values already')}.",
        "flags and their values, each a list item of its own.",
        f"take {value!r} out, or put the flag that it belongs to before it.",
    )
