# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
# Private to this collection: no stability promised.
"""What is wrong with an engine's arguments, before anything is started. Pure.

What a flag is comes from the help of the image itself. What is known of engines by name (which flag of another engine
means the same, what was removed when) only makes a message better; it never decides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from ansible_collections.gb10.serving.plugins.module_utils._redact import is_secret_flag

from . import _flag_pasted as pasted
from . import _flag_refused as refused
from . import _flag_values as values
from . import _flag_words as words
from ._engines import get
from ._flag_parser import Flag, Given, Parser, names_of
from ._problems import Problem

WHERE = words.WHERE


@dataclass
class Verdict:
    """What stops a start, and what a person should know."""

    problems: list[Problem] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def check(args: Sequence[Any], found: Mapping[str, Any]) -> Verdict:
    """The arguments that a recipe or user adds.

    Args:
        args: the arguments.
        found: what ``engine_info`` found: name, version, image, and flags, if they could be read.
    """
    engine = get(found["name"])
    texts = [str(arg) for arg in args]
    if not found.get("flags"):
        verdict = Verdict(owned_by_name(texts, engine) + refused.by_name(texts, engine))
        if texts:
            reason = found.get("flags_reason") or "nobody asked for them"
            verdict.warnings.append(
                f"{WHERE} is not checked against the image: its flags are not known ({reason}). "
                "A flag that it does not have will be found when it starts."
            )
        return verdict
    parser = Parser(found["flags"], engine)
    texts, problems = pasted.correct(texts, parser)
    leading, given = parser.read(texts)
    verdict = Verdict(problems)
    for value in leading:
        verdict.problems.append(words.stray(value, None))
    for one in given:
        wrong = _judge(one, parser, found)
        verdict.problems += wrong or values.check(one)
        if not is_secret_flag(one.name):
            verdict.problems += [words.stray(value, one) for value in one.stray]
        if one.flag is not None:
            verdict.warnings += values.doubts(one)
    return Verdict(verdict.problems + _repeated(given, engine), verdict.warnings)


def check_own(argv: Sequence[str], found: Mapping[str, Any]) -> list[Problem]:
    """The arguments that the collection itself gives to an engine, after the subcommand.

    A release that does not know one of them is older or newer than what is supported.
    """
    if not found.get("flags"):
        return []
    parser = Parser(found["flags"], get(found["name"]))
    leading, given = parser.read(list(argv))
    wrong = leading[parser.positionals :] + [value for one in given for value in one.stray]
    for one in given:
        if one.flag is None or values.check(one):
            wrong.append(one.text + "".join(f" {value}" for value in one.values[:1]))
    if not wrong:
        return []
    return [
        Problem(
            "gb10_image_ref",
            f"{words.engine_of(found)} does not take {', '.join(wrong)}, which a rank is started with.",
            "a release of the engine with these flags.",
            "name an image with another release of the engine in the recipe.",
        )
    ]


def check_spec(spec: Mapping[str, Any], found: Mapping[str, Any]) -> list[Problem]:
    """What the collection itself gives to the ranks of a spec."""
    engine = get(spec["engine"]["name"])
    bare = {**spec, "engine": {**spec["engine"], "args": []}}
    for rank in (0, spec["world_size"] - 1):
        problems = check_own(engine.argv(bare, rank)[len(engine.SUBCOMMAND) :], found)
        if problems:
            return problems
    return []


def _judge(one: Given, parser: Parser, found: Mapping[str, Any]) -> list[Problem]:
    """Why a flag may not be given at all."""
    if one.candidates:
        return [
            Problem(
                WHERE,
                f"{one.name} could be {words.listed(one.candidates)}.",
                "a name that can only be one flag.",
                f"write {words.successor(one.name, parser) or 'the whole name'}.",
            )
        ]
    owned = _owner(one.flag, parser.engine) if one.flag is not None else None
    if owned is not None:
        return [_owned(one.name, owned)]
    if problem := refused.check(one, parser.engine):
        return [problem]
    return [words.unknown(one, parser, found)] if one.flag is None else []


def _owner(flag: Flag, engine: ModuleType) -> str | None:
    """The variable that decides a flag; empty when the spec alone does; None for a free one."""
    return next((engine.OWNED[name] for name in names_of(flag) if name in engine.OWNED), None)


def _owned(name: str, variable: str) -> Problem:
    return Problem(
        WHERE,
        f"{name} is given, which the plan and the spec decide.",
        "only flags that no gb10_* variable stands for.",
        f"take it out, and set {variable} instead." if variable else "take it out; it is set on every rank as needed.",
    )


def owned_by_name(texts: Sequence[str], engine: ModuleType, instead: Mapping[str, str] | None = None) -> list[Problem]:
    """The same, when only the names of owned flags are known. ``instead``: variables for flags without one."""
    variables = {**engine.OWNED, **{name: to for name, to in (instead or {}).items() if name in engine.OWNED}}
    problems = []
    for text in texts:
        name = text.partition("=")[0]
        if engine.UNDERSCORES and name.startswith("--"):
            name = name.replace("_", "-")
        near = [flag for flag in engine.OWNED if flag == name or (len(name) > 3 and flag.startswith(name))]
        if near:
            problems.append(_owned(name, variables.get(name, variables[near[0]])))
    return problems


def _repeated(given: Sequence[Given], engine: ModuleType) -> list[Problem]:
    """Flags that stand there twice: the parser takes the last one without a word."""
    seen: dict[str, list[Given]] = {}
    for one in given:
        if one.flag is not None and not one.path and one.flag["name"] not in engine.REPEATABLE:
            seen.setdefault(one.flag["name"], []).append(one)
    return [
        Problem(
            WHERE,
            f"{name} is given {len(ones)} times ({words.listed([one.name for one in ones])}); only the last counts.",
            "each flag once.",
            "take out all but the one that is meant.",
        )
        for name, ones in seen.items()
        if len(ones) > 1
    ]
