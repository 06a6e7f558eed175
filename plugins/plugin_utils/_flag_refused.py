# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
# Private to this collection: no stability promised.
"""Flags that an engine takes and that may not be given all the same. Pure.

Secrets would stand where others can read them: in the arguments of a process, in launch.sh and spec.json. Other flags
take away what the proof of a deployment or the layout of its ranks needs; which these are stands in the engine's file.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType

from ansible_collections.gb10.serving.plugins.module_utils._redact import is_secret_flag

from ._flag_parser import Given, names_of
from ._problems import Problem

WHERE = "gb10_server_args"

#: Secret flags whose value has a place of its own; others are for the environment.
_PLACES = {
    "--api-key": "set gb10_server_api_key (keep it in ansible-vault)",
    "--admin-api-key": "set gb10_server_api_key (keep it in ansible-vault): it guards the whole endpoint",
    "--hf-token": "give it as HF_TOKEN in gb10_server_secret_env (keep it in ansible-vault)",
    "--ssl-keyfile-password": "put a proxy that has the certificate before the endpoint",
}
_ELSEWHERE = "give it in gb10_server_secret_env (keep it in ansible-vault), if the engine reads it from its environment"


def secret(name: str) -> Problem:
    """A secret as an argument. The value is not shown."""
    return Problem(
        WHERE,
        f"{name} is given, whose value is a secret.",
        "no secrets among the arguments: they can be read in the list of processes, in launch.sh and in spec.json.",
        f"take it out, and {_PLACES.get(name, _ELSEWHERE)}.",
    )


def check(one: Given, engine: ModuleType) -> Problem | None:
    """Why a flag may not be given, if so."""
    names = names_of(one.flag) if one.flag is not None else [one.name]
    # Without a value some of them only say that a stored one is to be used.
    if any(map(is_secret_flag, names)) and one.given_values:
        return secret(names[0])
    if one.flag is not None and one.takes == "no" and one.meant in (*one.flag["negatives"], *one.flag["hidden"]):
        return None
    return next((_refused(one.name, *engine.REFUSED[name]) for name in names if name in engine.REFUSED), None)


def _refused(name: str, why: str, instead: str) -> Problem:
    return Problem(WHERE, f"{name} is given: {why}.", "flags that leave proof and layout alone.", f"{instead}.")


def by_name(texts: Sequence[str], engine: ModuleType) -> list[Problem]:
    """The same, when the flags of the image are not known."""
    problems = []
    for number, text in enumerate(texts):
        name, sign, _value = text.partition("=")
        if engine.UNDERSCORES and name.startswith("--"):
            name = name.replace("_", "-")
        follows = number + 1 < len(texts) and not texts[number + 1].startswith("-")
        if name in engine.OWNED:
            continue
        if is_secret_flag(name) and (sign or follows):
            problems.append(secret(name))
        elif name in engine.REFUSED:
            problems.append(_refused(name, *engine.REFUSED[name]))
    return problems
