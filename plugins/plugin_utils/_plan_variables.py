# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
#
# Private to this collection: may change without notice.
"""What the gb10_plan_* variables and the engine's arguments ask of the plan. The one place that maps them. Pure."""

from __future__ import annotations

import difflib
import json
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ansible_collections.gb10.serving.plugins.plugin_utils._problems import Problem

GIB = 1 << 30
#: The most that a number may be, and in which words that is said. A larger one is a slip, or would be counted for ever.
MOST = {
    "int": (2**40, "at most 2^40"),
    "count": (1024, "at most 1024"),
    "bytes": (2**50, "at most 2^50, 1 PiB"),
    "gib": (2**20, "at most 2^20, 1 PiB"),
}
TRUE, FALSE = frozenset({"true", "yes", "on", "1"}), frozenset({"false", "no", "off", "0"})


@dataclass(frozen=True)
class Variable:
    """How a variable is read. ``wish`` is the key of the plan's wishes; empty for what is no wish."""

    kind: str  # int, count, bytes, share, gib, bool, choice, version, text
    wish: str = ""
    zero: str = "leaves it to the plan"  # what 0 means; empty where 0 is refused
    choices: tuple[str, ...] = ()
    keep_zero: bool = False

    @property
    def accepted(self) -> str:
        if self.kind == "choice":
            return f"one of {', '.join(self.choices)}"
        if self.kind == "bool":
            return "true or false"
        if self.kind == "version":
            return "a version such as 0.33.0, or nothing for the newest"
        words = {
            "int": "a whole number from 1 on",
            "count": f"a whole number from 1 to {MOST['count'][0]}",
            "bytes": "the bytes of a node's memory, such as 130562000000 for a GB10",
            "share": "a share above 0 and at most 1",
            "gib": "GiB, a number from 0 on" if self.keep_zero else "GiB, a number above 0",
        }[self.kind]
        return words if self.keep_zero or not self.zero else f"{words}; 0 {self.zero}"


#: vLLM's names; SGLang's file translates them.
KV_DTYPES = ("auto", "bfloat16", "float16", "fp8", "fp8_e4m3", "fp8_e5m2")

VARIABLES: dict[str, Variable] = {
    "gb10_plan_tp": Variable("count", "tensor_parallel", "leaves it to the plan, which takes all nodes where it can"),
    "gb10_plan_pp": Variable("count", "pipeline_parallel"),
    "gb10_plan_ep": Variable("bool", "expert_parallel"),
    "gb10_plan_context_length": Variable("int", "context_length", "is what the model allows"),
    "gb10_plan_max_num_seqs": Variable("int", "max_num_seqs"),
    "gb10_plan_max_num_batched_tokens": Variable("int", "max_num_batched_tokens"),
    "gb10_plan_kv_cache_dtype": Variable("choice", "kv_cache_dtype", choices=KV_DTYPES),
    "gb10_plan_kv_cache_gib": Variable("gib", "kv_cache_bytes", "takes what is left"),
    "gb10_plan_reserve_gib": Variable("gib", "reserve_bytes", keep_zero=True),
    "gb10_plan_overhead_gib": Variable("gib", "overhead_bytes", "takes the estimate"),
    "gb10_plan_gpu_memory_utilization": Variable("share", "gpu_memory_utilization"),
    "gb10_plan_mem_fraction_static": Variable("share", "mem_fraction_static"),
    "gb10_plan_dtype": Variable("choice", "dtype", choices=("auto", "bfloat16", "float16", "float32")),
    "gb10_plan_speculative_tokens": Variable("int", "speculative_tokens", "is no speculative decoding"),
    "gb10_plan_nodes": Variable("count", zero="takes gb10_plan_tp x gb10_plan_pp, or 2 nodes"),
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
        Problem(name, f"it is {value!r:.80}.", f"{known.accepted}.", f"correct {name}.")
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
    if known.kind in MOST and number > MOST[known.kind][0]:
        return None, Problem(name, f"it is {value!r:.80}.", f"{MOST[known.kind][1]}.", f"correct {name}.")
    if known.kind == "share":
        return (number, None) if number <= 1 else (None, wrong)
    if known.kind == "gib":
        return number, None
    return (int(number), None) if number == int(number) else (None, wrong)


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


def unknown(names: Iterable[str]) -> list[Problem]:
    """Names that begin like a variable of the plan and are none."""
    problems = []
    for name in sorted(names):
        if name.startswith("gb10_plan_") and name not in VARIABLES:
            near = difflib.get_close_matches(name, VARIABLES, 1)
            hint = f"use {near[0]} instead." if near else "take it out; docs/variables.md lists them."
            problems.append(Problem(name, "it is set, and no variable has this name.", "a known name.", hint))
    return problems


def wishes(values: Mapping[str, Any], args: Iterable[str] = ()) -> tuple[dict[str, Any], list[Problem]]:
    """The plan's wishes: from the engine's arguments, and from the variables, which win."""
    found, problems = read_all(values)
    asked = from_args(list(args))
    for name, value in found.items():
        known = VARIABLES[name]
        # What a variable's default says is no wish against an argument.
        if known.wish and not (known.wish in asked and value in (False, "auto")):
            asked[known.wish] = int(value * GIB) if known.kind == "gib" else value
    return asked, problems


def _value(args: list[str], *flags: str) -> str | None:
    """The last value of a flag, given as --flag VALUE or --flag=VALUE; underscores are like hyphens."""
    result = None
    for position, arg in enumerate(args):
        head, sign, tail = arg.partition("=")
        if head.replace("_", "-") in flags:
            result = tail if sign else (args[position + 1] if position + 1 < len(args) else None)
    return result


def from_args(args: list[str]) -> dict[str, Any]:
    """What engine arguments mean for memory. Arguments that mean nothing for it are left alone."""
    args = [str(arg) for arg in args]
    given = {arg.partition("=")[0].replace("_", "-") for arg in args}
    result: dict[str, Any] = {
        "enforce_eager": bool(given & {"--enforce-eager", "--disable-cuda-graph"}),
        "language_model_only": "--language-model-only" in given,
    }
    if given & {"--no-enable-prefix-caching", "--disable-radix-cache"}:
        result["prefix_caching"] = False
    if given & {"--enable-expert-parallel", "-ep"}:
        result["expert_parallel"] = True
    if (mode := _value(args, "--mm-encoder-tp-mode")) is not None:
        result["vision_sharded"] = mode == "weights"
    block = _value(args, "--block-size", "--page-size")
    if block and block.isdigit() and int(block):
        result["block_size"] = int(block)
    dtype = _value(args, "--dtype")
    if dtype in VARIABLES["gb10_plan_dtype"].choices:
        result["dtype"] = dtype
    if loader := _value(args, "--load-format"):
        result["load_format"] = loader
    drafts = _value(args, "--speculative-num-steps")
    try:
        config = json.loads(_value(args, "--speculative-config") or "{}")
        drafts = config.get("num_speculative_tokens", drafts) if isinstance(config, dict) else drafts
    except ValueError:
        pass  # the engine itself will complain about it
    if drafts is not None and str(drafts).isdigit():
        result["speculative_tokens"] = int(drafts)
    return result


def version_of(image_ref: str) -> str:
    """The engine's version that the tag of an image names, or nothing."""
    tag = image_ref.rpartition("/")[2].partition(":")[2]
    found = re.match(r"v?(\d+\.\d+(?:\.\d+)?)", tag)
    return found.group(1) if found else ""


#: Words in which the plan speaks of its wishes -> the variable to set.
_WORDS = {known.wish: name for name, known in VARIABLES.items() if known.wish}
_PHRASES = re.compile(
    r"\b(" + "|".join(sorted(map(re.escape, _WORDS), key=len, reverse=True)) + r")\b(?=\s|=|\.|,|$)",
)


def named(text: str) -> str:
    """A sentence of the plan with the names of the variables that a user sets."""
    return _PHRASES.sub(lambda match: _WORDS[match.group(1)], text)


def named_plan(plan: Mapping[str, Any]) -> dict[str, Any]:
    """A plan whose advice speaks of variables."""
    result = {**plan, "remedies": [named(text) for text in plan.get("remedies") or []]}
    if plan.get("changes"):
        result["changes"] = [{**change, "change": named(str(change["change"]))} for change in plan["changes"]]
    return result
