# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
#
# Private to this collection: may change without notice.
"""Flags that are on or off, those of another engine, and what a variable says against an argument. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.gb10.serving.plugins.plugin_utils._engines import ENGINES
from ansible_collections.gb10.serving.plugins.plugin_utils._problems import Problem

WHERE = "gb10_server_args"
#: wish -> engine -> (flags that turn it on, flags that turn it off).
SWITCHES: dict[str, dict[str, tuple[tuple[str, ...], tuple[str, ...]]]] = {
    "enforce_eager": {
        "vllm": (("--enforce-eager",), ("--no-enforce-eager",)),
        "sglang": (("--disable-cuda-graph",), ()),
    },
    "language_model_only": {
        "vllm": (("--language-model-only",), ("--no-language-model-only",)),
        "sglang": (("--language-model-only",), ()),
    },
    "prefix_caching": {
        "vllm": (
            ("--enable-prefix-caching", "--no-disable-prefix-caching"),
            ("--no-enable-prefix-caching", "--disable-prefix-caching"),
        ),
        "sglang": ((), ("--disable-radix-cache",)),
    },
    "expert_parallel": {
        "vllm": (
            ("--enable-expert-parallel", "-ep", "--no-disable-expert-parallel"),
            ("--no-enable-expert-parallel", "--disable-expert-parallel"),
        ),
        "sglang": ((), ()),
    },
}
#: What an engine calls what the plan counts, besides its CONCEPTS: concept -> names.
_ALSO = {
    "vllm": {
        "no prefix cache": ("--disable-prefix-caching",),
        "expert parallelism": ("-ep",),
        "speculation": ("-sc",),
        "nothing": (
            "--no-enforce-eager",
            "--enable-prefix-caching",
            "--no-enable-expert-parallel",
            "--disable-expert-parallel",
            "--mm-encoder-tp-mode",
        ),
    },
    "sglang": {
        "expert parallelism": ("--ep", "--expert-parallel-size"),
        "speculation": (
            "--speculative-num-steps",
            "--speculative-num-draft-tokens",
            "--speculative-eagle-topk",
            "--speculative-draft-model-path",
        ),
        "nothing": (
            "--mamba-full-memory-ratio",
            "--max-mamba-cache-size",
            "--mamba-radix-cache-strategy",
            "--mamba-scheduler-strategy",
            "--swa-full-tokens-ratio",
        ),
    },
}
_COUNTED = ("no graphs", "no prefix cache", "expert parallelism", "speculation", "page size")


def _names(arg: str) -> tuple[str, str]:
    head, _sign, tail = arg.partition("=")
    return head.replace("_", "-"), tail


def switched(args: Sequence[str], engine: str) -> tuple[dict[str, bool], list[Problem]]:
    """What the last flag of each kind says; and those with a value, which none of them takes."""
    found: dict[str, bool] = {}
    problems: list[Problem] = []
    for wish, engines in SWITCHES.items():
        on, off = engines.get(engine, ((), ()))
        for arg in args:
            name, _value = _names(arg)
            if name not in (*on, *off):
                continue
            found[wish] = name in on
            if "=" in arg:
                seen, other = f"{arg[:60]} has a value.", next(iter(off if name in on else on), "")
                remedy = f"write {name} without '='{f', or {other}' if other else ''}."
                problems.append(Problem(WHERE, seen, f"{name} alone; it takes none.", remedy))
    if engine == "vllm" and _no_graphs(args):
        found["enforce_eager"] = True
    return found, problems


def _no_graphs(args: Sequence[str]) -> bool:
    """No graphs by the level of optimisation or by the mode of capture."""
    none = False
    for position, arg in enumerate(args):
        name, value = _names(arg)
        after = value if "=" in arg else (args[position + 1] if position + 1 < len(args) else "")
        if name.startswith("-O") and name[2:].isdigit():
            none = int(name[2:]) == 0
        elif name in ("-O", "--optimization-level"):
            none = after == "0"
        elif name in ("-cc.cudagraph-mode", "--compilation-config.cudagraph-mode", "-O.cudagraph-mode"):
            none = after.upper() == "NONE"
        elif name in ("--compilation-config", "-cc"):
            try:
                config = json.loads(after)
            except (ValueError, RecursionError):
                continue
            if isinstance(config, dict) and "cudagraph_mode" in config:
                none = str(config["cudagraph_mode"]).upper() in ("NONE", "0")
    return none


def _flags_of(engine: str) -> dict[str, str]:
    """Flags for what the plan counts -> concept."""
    concepts = ENGINES[engine].CONCEPTS
    found = {concepts[concept][0]: concept for concept in _COUNTED if concept in concepts and concepts[concept][0]}
    for concept, names in _ALSO.get(engine, {}).items():
        found.update(dict.fromkeys(names, concept))
    return found


def foreign(args: Sequence[str], engine: str) -> list[Problem]:
    """Flags for what the plan counts that only another engine has."""
    problems, own = [], _flags_of(engine)
    for arg in args:
        name = _names(arg)[0].partition(".")[0]
        theirs = [_flags_of(other) for other in ENGINES if other != engine]
        concept = next((flags[name] for flags in theirs if name in flags and name not in own), "")
        if not concept:
            continue
        here, note = ENGINES[engine].CONCEPTS.get(concept, ("", ""))
        instead = f", and give {here}{f' ({note})' if note else ''} instead" if here else ""
        problems.append(
            Problem(
                WHERE,
                f"{name} is given, which is another engine's.",
                "only flags of the engine that is planned.",
                f"take it out{instead}.",
            )
        )
    return problems


def against(values: Mapping[str, Any], args: Sequence[str], asked: Mapping[str, Any]) -> list[Problem]:
    """Variables that somebody set and arguments that say something else: neither is taken in silence."""
    problems = []
    for wish, variable in (
        ("speculative_tokens", "gb10_plan_speculative_tokens"),
        ("expert_parallel", "gb10_plan_ep"),
        ("dtype", "gb10_plan_dtype"),
    ):
        value = values.get(variable)
        if value in (None, "auto") or wish not in asked or asked[wish] == value:
            continue
        flag = _said(args, wish)
        problems.append(
            Problem(
                variable,
                f"it is {str(value).lower()}, and {flag} in gb10_server_args says {str(asked[wish]).lower()}.",
                "one of them, or both alike.",
                f"take {variable} or {flag} out.",
            )
        )
    return problems


def _said(args: Sequence[str], wish: str) -> str:
    """The flag that said it last."""
    switches = [name for sides in SWITCHES["expert_parallel"].values() for names in sides for name in names]
    known = {
        "speculative_tokens": ("--speculative-config", "-sc", "--speculative-num-steps"),
        "expert_parallel": (*switches, "--ep-size", "--expert-parallel-size", "--ep"),
        "dtype": ("--dtype",),
    }[wish]
    return next((_names(arg)[0] for arg in reversed(args) if _names(arg)[0].partition(".")[0] in known), wish)
