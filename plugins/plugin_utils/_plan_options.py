# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
#
# Private to this collection: may change without notice.
"""The variants that plan.yml compares: each is the variables with some of them replaced. Pure."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ansible_collections.gb10.serving.plugins.plugin_utils import _plan_names, _plan_variables
from ansible_collections.gb10.serving.plugins.plugin_utils._plan_variables import NODES, VARIABLES
from ansible_collections.gb10.serving.plugins.plugin_utils._problems import Problem

MOST_OPTIONS = 50
CONTEXTS = (32768, 131072)  # beside the model's own limit, when nothing is said
_OF_THE_RUN = ("gb10_plan_measure", "gb10_plan_fail", "gb10_plan_output", "gb10_plan_svg", "gb10_plan_options")
#: Short names of the keys of an option -> variable.
KEYS = {name.removeprefix("gb10_plan_").removeprefix("gb10_"): name for name in VARIABLES if name not in _OF_THE_RUN}
KEYS["engine"] = KEYS.pop("server_engine")


@dataclass(frozen=True)
class Option:
    """One variant: its name and all variables that hold for it."""

    name: str
    values: dict[str, Any]
    #: Variables among them that nobody set: the plan did.
    picked: frozenset[str] = frozenset()

    @property
    def nodes(self) -> int:
        """Nodes of this variant: as said, else as many as its ranks need, else two."""
        tp, pp = (self.values.get(f"gb10_plan_{part}") for part in ("tp", "pp"))
        ranks = (tp or 1) * (pp or 1) if tp or pp else 2
        return int(self.values.get("gb10_plan_nodes") or ranks)

    def pick(self, **values: Any) -> Option:
        """With what the plan sets by itself."""
        return replace(self, values={**self.values, **values}, picked=self.picked | set(values))

    @property
    def engine(self) -> dict[str, Any]:
        name, version = self.values.get("gb10_server_engine") or "vllm", self.values.get("gb10_plan_engine_version")
        return {"name": name, "version": version}


def option_of(number: int, given: Any, base: Mapping[str, Any]) -> tuple[Option, list[Problem]]:
    """One entry of gb10_plan_options over the variables."""
    where = f"gb10_plan_options[{number}]"
    if not isinstance(given, Mapping):
        wrong = Problem(
            where,
            f"it is {_plan_variables.shown(given)}.",
            "a mapping, such as {name: one node, tp: 1}.",
            "write the variables as keys.",
        )
        return Option("", dict(base)), [wrong]
    name = str(given.get("name") or "")
    problems: list[Problem] = []
    raw: dict[str, Any] = {}
    for key, value in given.items():
        variable = KEYS.get(str(key)) or (key if key in KEYS.values() else None)
        if variable:
            raw[variable] = value
        elif key != "name":
            near = _plan_names.meant(str(key), KEYS.values())
            short = {variable: name for name, variable in KEYS.items()}
            hint = f"use '{short[near]}' instead." if near else f"use one of {', '.join(sorted(KEYS))}."
            problems.append(
                Problem(where, f"it has the key '{key}', which says nothing to the plan.", "a known key.", hint)
            )
    found, wrong_values = _plan_variables.read_all(raw)
    problems += [Problem(f"{where}: {p.where}", p.seen, p.expected, p.remedy) for p in wrong_values]
    values = dict(base)
    if {"gb10_model_dir", "gb10_model_id"} & set(found):  # another model, however the first was named
        values.pop("gb10_model_dir", None)
        values.pop("gb10_model_id", None)
    if {"gb10_plan_tp", "gb10_plan_pp"} & set(found) and "gb10_plan_nodes" not in raw:
        values.pop("gb10_plan_nodes", None)
    for variable in raw:  # 0 opens what the variables had closed
        values.pop(variable, None)
    values.update(found)
    shown = [f"{key} {_short(str(key), value)}" for key, value in given.items() if key != "name"]
    problems += too_many(values, f"{where}: ")
    return Option(name or ", ".join(shown) or f"option {number + 1}", values), problems


def options_of(given: Any, base: Mapping[str, Any]) -> tuple[list[Option], list[Problem]]:
    """The variants that the user named, the first of them being the main one; without any, the variables alone."""
    if not given:
        return [Option("", dict(base))], []
    if not isinstance(given, Sequence) or isinstance(given, (str, bytes)):
        seen = f"it is {_plan_variables.shown(given)}."
        expected = "a list of mappings, such as [{name: one node, tp: 1}, {name: two nodes, tp: 2}]."
        return [], [Problem("gb10_plan_options", seen, expected, "write it as a list; after -e, as JSON.")]
    if len(given) > MOST_OPTIONS:
        seen, most = f"it has {len(given)} entries.", f"at most {MOST_OPTIONS}."
        return [], [Problem("gb10_plan_options", seen, most, "compare fewer at a time.")]
    pairs = [option_of(number, entry, base) for number, entry in enumerate(given)]
    options = list(_told_apart([option for option, _problems in pairs]))
    return options, [problem for _option, found in pairs for problem in found]


def too_many(values: Mapping[str, Any], where: str = "") -> list[Problem]:
    """Ranks beyond any number of nodes that may be planned."""
    tp, pp = (values.get(f"gb10_plan_{part}") or 1 for part in ("tp", "pp"))
    if tp * pp <= NODES:
        return []
    seen = f"it is {tp} x {pp}, which needs {tp * pp} nodes."
    expected = f"at most {NODES} nodes."
    return [Problem(f"{where}gb10_plan_tp x gb10_plan_pp", seen, expected, "lower one of them.")]


def _short(key: str, value: Any) -> str:
    """A value in the name of an option: of a model its last part."""
    text = str(value)
    return os.path.basename(text.rstrip("/")) or text if key.endswith(("model_dir", "model_id")) else text


def _told_apart(options: list[Option]) -> Iterator[Option]:
    """Options of one name get a number: rows that look alike tell nothing."""
    names = [option.name for option in options]
    for number, option in enumerate(options):
        same = names[:number].count(option.name) + 1
        yield option if names.count(option.name) == 1 else replace(option, name=f"{option.name} ({same})")


def by_context(main: Option, limit: int | None) -> list[Option]:
    """Compared when nothing is said: what the plan takes by itself, usual contexts, all that the model allows."""
    lengths = [length for length in CONTEXTS if limit and length < limit]
    named = [(f"{length // 1024}k", length) for length in lengths] + ([("model's maximum", limit)] if limit else [])
    rows = [replace(main, name=name).pick(gb10_plan_context_length=length) for name, length in named]
    return [replace(main, name="as planned"), *rows]


def laid_out(option: Option, settings: Mapping[str, Any], nodes: int) -> Option:
    """The option in the layout of another plan, so that a row differs from it in what its name says alone."""
    layout = {
        "gb10_plan_nodes": nodes,
        "gb10_plan_tp": settings["tp"],
        "gb10_plan_pp": settings["pp"] or 1,
        "gb10_plan_ep": (settings["ep"] or 1) > 1,
    }
    return option.pick(**layout) if settings["tp"] else option
