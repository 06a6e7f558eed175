# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
#
# Private to this collection: may change without notice.
"""What the gb10_plan_* variables and the engine's arguments ask of the plan. The one place that maps them. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ansible_collections.gb10.serving.plugins.plugin_utils._plan_args import DTYPES, MOST_DRAFTS, from_args
from ansible_collections.gb10.serving.plugins.plugin_utils._problems import Problem

GIB, MIB = 1 << 30, 1 << 20
NODES = 64  # more than anybody has cabled; layouts are tried one by one
#: The most that a number may be. A larger one is a slip, or would be counted for ever.
MOST_BYTES, MOST_GIB, LEAST_GIB = 1 << 50, 1 << 20, MIB / GIB
TRUE, FALSE = frozenset({"true", "yes", "on", "1"}), frozenset({"false", "no", "off", "0"})


@dataclass(frozen=True)
class Variable:
    """How a variable is read. ``wish`` is the key of the plan's wishes; empty for what is no wish."""

    kind: str  # int, bytes, share, gib, bool, choice, version, text
    wish: str = ""
    zero: str = "leaves it to the plan"  # what 0 means; empty where 0 is refused
    choices: tuple[str, ...] = ()
    keep_zero: bool = False
    most: int = 1 << 30  # of a whole number

    @property
    def accepted(self) -> str:
        if self.kind == "choice":
            return f"one of {', '.join(self.choices)}"
        if self.kind == "bool":
            return "true or false"
        if self.kind == "version":
            return "a version such as 0.33.0, or nothing for the newest"
        words = {
            "int": f"a whole number from 1 to {self.most}",
            "bytes": f"the bytes of a node's memory, such as 130562000000 for a GB10, and at most {MOST_BYTES} (1 PiB)",
            "share": "a share above 0 and at most 1",
            "gib": f"GiB, a number from {0 if self.keep_zero else '0.001 (1 MiB)'} to {MOST_GIB}",
        }[self.kind]
        return words if self.keep_zero or not self.zero else f"{words}; 0 {self.zero}"


#: vLLM's names; SGLang's file translates them.
KV_DTYPES = ("auto", "bfloat16", "float16", "fp8", "fp8_e4m3", "fp8_e5m2")

VARIABLES: dict[str, Variable] = {
    "gb10_plan_tp": Variable(
        "int", "tensor_parallel", "leaves it to the plan, which takes all nodes where it can", most=NODES
    ),
    "gb10_plan_pp": Variable("int", "pipeline_parallel", most=NODES),
    "gb10_plan_ep": Variable("bool", "expert_parallel"),
    "gb10_plan_context_length": Variable("int", "context_length", "is what the model allows"),
    "gb10_plan_max_num_seqs": Variable("int", "max_num_seqs", most=1 << 16),
    "gb10_plan_max_num_batched_tokens": Variable("int", "max_num_batched_tokens", most=1 << 24),
    "gb10_plan_kv_cache_dtype": Variable("choice", "kv_cache_dtype", choices=KV_DTYPES),
    "gb10_plan_kv_cache_gib": Variable("gib", "kv_cache_bytes", "takes what is left"),
    "gb10_plan_reserve_gib": Variable("gib", "reserve_bytes", keep_zero=True),
    "gb10_plan_overhead_gib": Variable("gib", "overhead_bytes", "takes the estimate"),
    "gb10_plan_gpu_memory_utilization": Variable("share", "gpu_memory_utilization"),
    "gb10_plan_mem_fraction_static": Variable("share", "mem_fraction_static"),
    "gb10_plan_dtype": Variable("choice", "dtype", choices=DTYPES),
    "gb10_plan_speculative_tokens": Variable(
        "int", "speculative_tokens", "is no speculative decoding", most=MOST_DRAFTS
    ),
    "gb10_plan_nodes": Variable("int", zero="takes gb10_plan_tp x gb10_plan_pp, or 2 nodes", most=NODES),
    "gb10_plan_memory_bytes": Variable("bytes", zero=""),
    "gb10_plan_available_bytes": Variable("bytes", zero="takes what a GB10 usually has free after a boot"),
    "gb10_plan_engine_version": Variable("version"),
    "gb10_server_engine": Variable("choice", choices=("vllm", "sglang")),
    "gb10_model_dir": Variable("text"),
    "gb10_model_id": Variable("text"),
    "gb10_plan_measure": Variable("bool"),
    "gb10_plan_fail": Variable("bool"),
    "gb10_plan_output": Variable("text"),
    "gb10_plan_svg": Variable("text"),
    "gb10_plan_options": Variable("text"),
}

_NUMBER = re.compile(r"[+-]?\d+(\.\d*)?([eE][+-]?\d+)?")


def shown(value: Any) -> str:
    """A value as it was written, without what Ansible's own types add to it."""
    return repr(str(value) if isinstance(value, str) else value)[:80]


def truth(value: Any) -> bool | None:
    """A bool that may have come as text from the command line; None when it is neither."""
    text = str(value).strip().lower()
    return True if text in TRUE else False if text in FALSE else None


def _number(value: Any) -> float | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, str) and not _NUMBER.fullmatch(value.strip()):
        return None
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def read(name: str, value: Any) -> tuple[Any, Problem | None]:
    """(the value, or None where it is left open; what is wrong with it). Reading a value again changes nothing."""
    known = VARIABLES[name]
    wrong = (
        Problem(name, f"it is {shown(value)}.", f"{known.accepted}.", f"correct {name}.")
        if known.kind != "text"
        else None
    )
    if known.kind == "text":
        return (value or None), None
    if value is None or str(value).strip() == "":
        return None, None
    if known.kind == "bool":
        found = truth(value)
        return found, wrong if found is None else None
    text = str(value).strip()
    if known.kind == "choice":
        return (text, None) if text in known.choices else (None, wrong)
    if known.kind == "version":
        return (text, None) if re.fullmatch(r"v?\d{1,6}(\.\d{1,6})*[\w.+-]{0,40}", text) else (None, wrong)
    number = _number(value)
    if number is None or number < 0 or (number == 0 and not known.keep_zero and not known.zero):
        return None, wrong
    if number == 0 and not known.keep_zero:
        return None, None
    if known.kind == "share":
        return (number, None) if number <= 1 else (None, wrong)
    if known.kind == "gib":
        fine = number <= MOST_GIB and (known.keep_zero or number >= LEAST_GIB)
        return (number, None) if fine else (None, wrong)
    if known.kind == "bytes" and number < GIB:
        fine = number * GIB <= MOST_BYTES
        meant = f"did you mean GiB? Write {name}={int(number * GIB)}." if fine else f"correct {name}."
        return None, Problem(name, f"it is {shown(value)}, which is less than 1 GiB.", f"{known.accepted}.", meant)
    most = MOST_BYTES if known.kind == "bytes" else known.most
    return (int(number), None) if number == int(number) and number <= most else (None, wrong)


def read_all(values: Mapping[str, Any]) -> tuple[dict[str, Any], list[Problem]]:
    """What is set among the known variables, and everything that is wrong with them."""
    found: dict[str, Any] = {}
    problems: list[Problem] = []
    for name in VARIABLES:
        if name in values:
            value, problem = read(name, values[name])
            if problem:
                problems.append(problem)
            elif value is not None:
                found[name] = value
    return found, problems


def wishes(
    values: Mapping[str, Any], args: Iterable[str] = (), engine: str = "vllm"
) -> tuple[dict[str, Any], list[Problem]]:
    """The plan's wishes: from the engine's arguments, and from the variables, which win."""
    found, problems = read_all(values)
    asked, wrong = from_args([str(arg) for arg in args], engine)
    for name, value in found.items():
        known = VARIABLES[name]
        # What a variable's default says is no wish against an argument.
        if known.wish and not (known.wish in asked and value in (False, "auto")):
            asked[known.wish] = int(value * GIB) if known.kind == "gib" else value
    return asked, problems + wrong
