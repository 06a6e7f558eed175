# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
#
# Private to this collection: may change without notice.
"""The variants that plan.yml compares: each is the variables with some of them replaced. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.gb10.serving.plugins.plugin_utils import _plan_variables
from ansible_collections.gb10.serving.plugins.plugin_utils._plan_variables import VARIABLES
from ansible_collections.gb10.serving.plugins.plugin_utils._problems import Problem

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

    @property
    def nodes(self) -> int:
        """Nodes of this variant: as said, else as many as its ranks need, else two."""
        ranks = self.values.get("gb10_plan_tp", 0) * self.values.get("gb10_plan_pp", 1)
        return int(self.values.get("gb10_plan_nodes") or ranks or 2)

    @property
    def engine(self) -> dict[str, Any]:
        name, version = self.values.get("gb10_server_engine") or "vllm", self.values.get("gb10_plan_engine_version")
        return {"name": name, "version": version}


def option_of(number: int, given: Any, base: Mapping[str, Any]) -> tuple[Option, list[Problem]]:
    """One entry of gb10_plan_options over the variables."""
    where = f"gb10_plan_options[{number}]"
    if not isinstance(given, Mapping):
        wrong = Problem(
            where, f"it is {given!r}.", "a mapping, such as {name: one node, tp: 1}.", "write the variables as keys."
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
            near = difflib.get_close_matches(str(key), KEYS, 1)
            hint = f"use '{near[0]}' instead." if near else f"use one of {', '.join(sorted(KEYS))}."
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
    shown = [f"{key} {value}" for key, value in given.items() if key not in ("name", "model_dir", "model_id")]
    return Option(name or ", ".join(shown) or f"option {number + 1}", values), problems


def options_of(given: Any, base: Mapping[str, Any]) -> tuple[list[Option], list[Problem]]:
    """The variants that the user named, the first of them being the main one; without any, the variables alone."""
    if not given:
        return [Option("", dict(base))], []
    if not isinstance(given, Sequence) or isinstance(given, (str, bytes)):
        seen = f"it is {type(given).__name__} {str(given)[:60]!r}."
        expected = "a list of mappings, such as [{name: one node, tp: 1}, {name: two nodes, tp: 2}]."
        return [], [Problem("gb10_plan_options", seen, expected, "write it as a list; after -e, as JSON.")]
    pairs = [option_of(number, entry, base) for number, entry in enumerate(given)]
    return [option for option, _problems in pairs], [problem for _option, found in pairs for problem in found]


def by_context(main: Option, limit: int | None) -> list[Option]:
    """Compared when nothing is said: what the plan takes by itself, usual contexts, all that the model allows."""
    lengths = [length for length in CONTEXTS if limit and length < limit]
    found = [Option(f"{length // 1024}k", {**main.values, "gb10_plan_context_length": length}) for length in lengths]
    most = [Option("model's maximum", {**main.values, "gb10_plan_context_length": limit})] if limit else []
    return [Option("as planned", dict(main.values)), *found, *most]


def laid_out(option: Option, settings: Mapping[str, Any], nodes: int) -> Option:
    """The option in the layout of another plan, so that a row differs from it in what its name says alone."""
    layout = {
        "gb10_plan_nodes": nodes,
        "gb10_plan_tp": settings["tp"],
        "gb10_plan_pp": settings["pp"] or 1,
        "gb10_plan_ep": (settings["ep"] or 1) > 1,
    }
    return Option(option.name, {**option.values, **layout}) if settings["tp"] else option
