# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
# Private to this collection: no stability promised.
"""How an engine's own parser would read a command line, by the flags of its help. Pure.

It follows argparse: unique beginnings of names, ``--flag=value``, negative numbers as values, ``-n2`` for ``-n 2``.
What an engine adds to that stands in its file (UNDERSCORES, JSON_PATHS, LEVELS, HIDDEN_FLAGS).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from ansible_collections.gb10.serving.plugins.module_utils._engine_help import entry

Flag = Mapping[str, Any]

_NEGATIVE_NUMBER = re.compile(r"-\d+|-\d*\.\d+")


@dataclass
class Given:
    """An argument of the command line with the values after it."""

    text: str
    #: The name as it was written, without a value, in the engine's own spelling.
    name: str
    flag: Flag | None = None
    #: Full name that was meant, where ``name`` is a beginning, a negative or a path into a JSON value.
    meant: str = ""
    #: What the name could be, where it could be more than one.
    candidates: list[str] = field(default_factory=list)
    #: The value after ``=``.
    inline: str | None = None
    values: list[str] = field(default_factory=list)
    #: Values that follow and that nothing takes.
    stray: list[str] = field(default_factory=list)
    #: Part of a JSON value: ``--flag.key``.
    path: bool = False

    @property
    def takes(self) -> str:
        if self.flag is None or self.meant in (*self.flag["negatives"], *self.flag["hidden"]):
            return "no"
        return "one" if self.path else str(self.flag["takes_value"])

    @property
    def given_values(self) -> list[str]:
        return [self.inline] if self.inline is not None else self.values


def names_of(flag: Flag) -> list[str]:
    return [flag["name"], *flag["aliases"], *flag["negatives"], *flag["hidden"]]


class Parser:
    """Names and rules of one engine in one image."""

    def __init__(self, flags: Iterable[Flag], engine: ModuleType) -> None:
        self.engine = engine
        self.positionals = 0
        self.names: dict[str, Flag] = {}
        for flag in flags:
            if flag["positional"]:
                self.positionals += 1
            else:
                self.names.update(dict.fromkeys(names_of(flag), flag))
        for name in engine.HIDDEN_FLAGS:
            self.names.setdefault(name, hidden(name))

    def read(self, args: Sequence[str]) -> tuple[list[str], list[Given]]:
        """(values before the first flag, the flags with theirs)."""
        leading: list[str] = []
        found: list[Given] = []
        only_values = False
        for text in args:
            given = None if only_values else self.match(text)
            if given is not None:
                found.append(given)
            elif text == "--" and not only_values:
                only_values = True
            elif not found:
                leading.append(text)
            elif only_values or not self._takes_another(found[-1]):
                found[-1].stray.append(text)
            else:
                found[-1].values.append(text)
        return leading, found

    @staticmethod
    def _takes_another(given: Given) -> bool:
        if given.flag is None:
            # Whatever it is, what follows belongs to it.
            return True
        if given.inline is not None or given.stray:
            return False
        return given.takes == "many" or (given.takes in ("one", "optional") and not given.values)

    def spelled(self, text: str) -> str:
        """The argument with the engine's own hyphens."""
        if not self.engine.UNDERSCORES or not text.startswith("--"):
            return text
        end = next((at for at, sign in enumerate(text) if sign in ".="), len(text))
        return text[:end].replace("_", "-") + text[end:]

    def match(self, text: str) -> Given | None:
        """What an argument is; None for a value."""
        if not text.startswith("-") or text in ("-", "--"):
            return None
        spelled = self.spelled(text)
        if spelled in self.names:
            return Given(text, spelled, self.names[spelled], spelled)
        name, sign, value = spelled.partition("=")
        inline = value if sign else None
        if level := self._level(text, name, inline):
            return level
        if name in self.names:
            return Given(text, name, self.names[name], name, inline=inline)
        if self.engine.JSON_PATHS and "." in name and (base := self._candidates(name.partition(".")[0])):
            whole = name.partition(".")[0]
            if whole in base or len(self._distinct(base)) == 1:
                meant = whole if whole in base else base[0]
                if self.names[meant]["takes_value"] != "no":
                    return Given(text, name, self.names[meant], meant, inline=inline, path=True)
        candidates = self._candidates(name)
        if len(self._distinct(candidates)) > 1:
            return Given(text, name, candidates=candidates, inline=inline)
        if candidates:
            return Given(text, name, self.names[candidates[0]], candidates[0], inline=inline)
        if not name.startswith("--") and (short := self.names.get(name[:2])):
            return Given(text, name[:2], short, name[:2], inline=spelled[2:])
        if _NEGATIVE_NUMBER.fullmatch(text) or " " in text:
            return None
        return Given(text, name, inline=inline)

    def _candidates(self, name: str) -> list[str]:
        return sorted(known for known in self.names if known.startswith(name)) if len(name) > 2 else []

    def _distinct(self, names: Iterable[str]) -> set[str]:
        """Names of one flag are no choice, unless one turns it off."""
        off = {name for name in names if name in (*self.names[name]["negatives"], *self.names[name]["hidden"])}
        return {f"{self.names[name]['name']} {name in off}" for name in names}

    def _level(self, text: str, name: str, inline: str | None) -> Given | None:
        """``-O3`` and ``-O.key=value``, which stand for longer flags."""
        short, targets = self.engine.LEVELS
        if not short or not name.startswith(short) or name.startswith("--"):
            return None
        rest = name[len(short) :]
        if rest and not rest.isdigit() and not rest.startswith("."):
            return None
        # Levels came with the first target; paths into the configuration belong to the last.
        order = targets[::-1] if rest.startswith(".") else targets
        meant = next((target for target in order if target in self.names), None)
        if meant is None:
            return None
        flag = self.names[meant]
        if rest.isdigit():
            return Given(text, short, flag, meant, inline=rest)
        return Given(text, short, flag, meant, inline=inline, path=rest.startswith("."))


def hidden(name: str) -> dict[str, Any]:
    """A flag that is taken and not in the help."""
    return entry(name, takes_value="one")
