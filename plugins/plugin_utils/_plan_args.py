# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
#
# Private to this collection: may change without notice.
"""What an engine's arguments mean for memory, and what is wrong with those that mean something. Pure."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Sequence
from typing import Any

from ansible_collections.gb10.serving.plugins.plugin_utils import _flags
from ansible_collections.gb10.serving.plugins.plugin_utils._engines import ENGINES
from ansible_collections.gb10.serving.plugins.plugin_utils._memory_kv_sglang import STRATEGIES
from ansible_collections.gb10.serving.plugins.plugin_utils._memory_workspaces import (
    FACTOR_KEY,
    LEAST_FACTOR,
    MOST_FACTOR,
)
from ansible_collections.gb10.serving.plugins.plugin_utils._plan_switches import foreign, switched
from ansible_collections.gb10.serving.plugins.plugin_utils._problems import Problem

WHERE = "gb10_server_args"
DTYPES = ("auto", "bfloat16", "float16", "float32")
_OTHER_DTYPES = {"half": "float16", "float": "float32"}
MOST_DRAFTS = 128
MOST_BLOCK = 1 << 16
MOST_SLOTS = 1 << 20
#: Blocks of tokens that an engine takes: multiples of this. Attention kernels of vLLM take no others on a GPU.
_BLOCK_STEP = {"vllm": 16, "sglang": 1}
#: Flags that the spec decides by itself, and the plan by a variable.
_OF_THE_PLAN = dict.fromkeys(("--pipeline-parallel-size", "-pp", "--pp-size"), "gb10_plan_pp")


def decided(args: Sequence[str], engine: str) -> list[Problem]:
    """Flags that contradict the plan, since it decides them: what a deploy says of them, too."""
    if engine not in ENGINES:
        return []
    texts = [str(arg) for arg in args]
    return [
        *_flags.owned_by_name(texts, ENGINES[engine], _OF_THE_PLAN),
        *_foreign(texts, engine),
        *foreign(texts, engine),
    ]


def _foreign(texts: list[str], engine: str) -> list[Problem]:
    """What the plan decides, by the name that another engine has for it."""
    found, own = [], ENGINES[engine]
    for text in texts:
        name = text.partition("=")[0]
        for other in (known for title, known in ENGINES.items() if title != engine):
            variable = other.OWNED.get(name, "")
            if name in own.OWNED or not variable.startswith("gb10_plan_"):
                continue
            concept = next((key for key, (flag, _note) in other.CONCEPTS.items() if flag == name), "")
            variable = own.OWNED.get(own.CONCEPTS.get(concept, ("", ""))[0]) or variable
            found.append(
                Problem(
                    WHERE,
                    f"{name} is given, which is another engine's and which the plan decides.",
                    "only flags that no gb10_* variable stands for.",
                    f"take it out, and set {variable} instead.",
                )
            )
    return found


def _given(args: list[str], *flags: str) -> tuple[str, str | None] | None:
    """(flag, value) as they were given last, as --flag VALUE or --flag=VALUE; underscores are like hyphens."""
    result = None
    for position, arg in enumerate(args):
        head, sign, tail = arg.partition("=")
        if head.replace("_", "-") in flags:
            result = (head, tail if sign else (args[position + 1] if position + 1 < len(args) else None))
    return result


def _wrong(flag: str, value: Any, expected: str) -> Problem:
    seen = f"{flag} has no value." if value is None else f"{flag} is {str(value)[:60]!r}."
    return Problem(WHERE, seen, f"{expected}.", f"correct {flag}, or take it out.")


def _whole(value: Any, least: int, most: int, step: int = 1) -> int | None:
    """A whole number in a range; None for anything else. Digits of other scripts are none."""
    text = str(value).strip()
    if isinstance(value, bool) or not re.fullmatch(r"[0-9]{1,12}(\.0)?", text):
        return None
    number = int(float(text))
    return number if least <= number <= most and number % step == 0 else None


def _separate(args: list[str]) -> bool:
    """Drafts that are not made by the model's own multi-token-prediction layer."""
    path = _given(args, "--speculative-draft-model-path", "--speculative-config.model")
    method = _given(args, "--speculative-config.method", "--speculative-algorithm", "--speculative-algo")
    named = str(method[1] if method else "").lower()
    if config := _given(args, "--speculative-config", "-sc"):
        try:
            found = json.loads(config[1] or "")
        except (ValueError, RecursionError):
            found = None
        if isinstance(found, dict):
            path, named = found.get("model") or path, str(found.get("method") or named).lower()
    return bool(path) or (bool(named) and not named.endswith("mtp") and named not in ("eagle", "nextn"))


def _share(value: Any, most: float) -> float | None:
    """A number above 0."""
    if not re.fullmatch(r"[0-9]{0,6}\.?[0-9]{1,12}", str(value).strip()):
        return None
    number = float(str(value))
    return number if 0 < number <= most else None


def _pools(args: list[str]) -> tuple[dict[str, Any], list[Problem]]:
    """How SGLang divides its pool."""
    result: dict[str, Any] = {}
    problems: list[Problem] = []
    for flag, wish, most, expected in (
        ("--mamba-full-memory-ratio", "state_ratio", 1000.0, "a number above 0, such as 0.9"),
        ("--swa-full-tokens-ratio", "window_ratio", 1.0, "a number above 0 and at most 1"),
    ):
        if given := _given(args, flag):
            result[wish] = _share(given[1], most)
            problems += [] if result[wish] else [_wrong(*given, expected)]
    if given := _given(args, "--max-mamba-cache-size"):
        result["state_slots"] = _whole(given[1], 1, MOST_SLOTS)
        problems += [] if result["state_slots"] else [_wrong(*given, f"a whole number from 1 to {MOST_SLOTS}")]
    if given := _given(args, "--mamba-radix-cache-strategy", "--mamba-scheduler-strategy"):
        known = given[1] in STRATEGIES
        problems += [] if known else [_wrong(*given, f"one of {', '.join(STRATEGIES)}")]
        result["state_strategy"] = given[1] if known else None
    if any(arg.replace("_", "-") == "--disable-overlap-schedule" for arg in args):
        result["overlap"] = False
    return {key: value for key, value in result.items() if value is not None}, problems


def _workspace_factor(args: list[str]) -> tuple[int | None, list[Problem]]:
    """Of the buffer that an indexer of sparse attention gathers keys in."""
    said = _given(args, f"--attention-config.{FACTOR_KEY.replace('_', '-')}", f"-ac.{FACTOR_KEY.replace('_', '-')}")
    if said is None and (config := _given(args, "--attention-config", "-ac")):
        with contextlib.suppress(ValueError, RecursionError):
            found = json.loads(config[1] or "")
            if isinstance(found, dict) and found.get(FACTOR_KEY) is not None:
                said = (f"{FACTOR_KEY} in {config[0]}", found[FACTOR_KEY])
    if said is None:
        return None, []
    factor = _whole(said[1], LEAST_FACTOR, MOST_FACTOR)
    return factor, [] if factor else [_wrong(*said, f"a whole number from {LEAST_FACTOR} to {MOST_FACTOR}")]


def _drafts(args: list[str]) -> tuple[int | None, list[Problem]]:
    """Draft tokens of speculative decoding, however they are said."""
    said = _given(args, "--speculative-config.num-speculative-tokens", "--speculative-num-steps")
    flag, value = said or ("", None)
    if config := _given(args, "--speculative-config", "-sc"):
        expected = 'JSON such as {"method": "mtp", "num_speculative_tokens": 2}'
        try:
            found = json.loads(config[1] or "")
        except (ValueError, RecursionError):
            return None, [_wrong(*config, expected)]
        if not isinstance(found, dict):
            return None, [_wrong(*config, expected)]
        if "num_speculative_tokens" in found:
            flag, value = f"num_speculative_tokens in {config[0]}", found["num_speculative_tokens"]
            said = (flag, value)
    if said is None:
        return None, []
    number = _whole(value, 0, MOST_DRAFTS)
    return number, [] if number is not None else [_wrong(flag, value, f"a whole number from 0 to {MOST_DRAFTS}")]


def from_args(args: list[str], engine: str = "vllm") -> tuple[dict[str, Any], list[Problem]]:
    """(what they mean for memory, what is wrong with them). Arguments that mean nothing for it are left alone."""
    switches, problems = switched(args, engine)
    result: dict[str, Any] = {"enforce_eager": False, "language_model_only": False, **switches}
    if result.get("prefix_caching"):
        del result["prefix_caching"]  # as it is by default
    size = _given(args, "--ep-size", "--expert-parallel-size", "--ep") if engine == "sglang" else None
    if size:
        ranks = _whole(size[1], 1, 1024)
        problems += [] if ranks else [_wrong(*size, "a whole number from 1 to 1024")]
        if ranks:
            result["expert_parallel"] = ranks > 1
    if mode := _given(args, "--mm-encoder-tp-mode"):
        result["vision_sharded"] = mode[1] == "weights"
        problems += [] if mode[1] in ("weights", "data") else [_wrong(*mode, "one of weights, data")]
    if block := _given(args, "--block-size", "--page-size"):
        step = _BLOCK_STEP.get(engine, 1)
        tokens = _whole(block[1], step, MOST_BLOCK, step)
        expected = f"a {f'multiple of {step}' if step > 1 else 'whole number'} from {step} to {MOST_BLOCK}"
        problems += [] if tokens else [_wrong(*block, expected)]
        if tokens:
            result["block_size"] = tokens
    if dtype := _given(args, "--dtype"):
        known = _OTHER_DTYPES.get(str(dtype[1]), dtype[1])
        problems += [] if known in DTYPES else [_wrong(*dtype, f"one of {', '.join((*DTYPES, *_OTHER_DTYPES))}")]
        if known in DTYPES:
            result["dtype"] = known
    if (loader := _given(args, "--load-format")) and loader[1]:
        result["load_format"] = loader[1]
    drafts, wrong = _drafts(args)
    if drafts is not None:
        result["speculative_tokens"] = drafts
    if _separate(args):
        result["separate_drafter"] = True
    names = [arg.partition("=")[0].replace("_", "-") for arg in args]
    drafting = list(dict.fromkeys(name for name in names if name.startswith("--speculative-") or name == "-sc"))
    if drafts:
        result["drafting_args"] = drafting
    if engine == "sglang" and drafts and not any(name.startswith("--speculative-alg") for name in drafting):
        wrong.append(
            Problem(
                WHERE,
                "--speculative-num-steps is given without --speculative-algorithm: SGLang then drafts nothing.",
                "both, such as --speculative-algorithm NEXTN for the model's own layer.",
                "add it, or set gb10_plan_speculative_tokens instead.",
            )
        )
    if engine == "vllm":
        factor, more = _workspace_factor(args)
        result, wrong = {**result, **({"workspace_factor": factor} if factor else {})}, [*wrong, *more]
    if engine == "sglang":
        pools, more = _pools(args)
        result, wrong = {**result, **({"pools": pools} if pools else {})}, [*wrong, *more]
    return result, problems + wrong


def version_of(image_ref: str) -> str:
    """The engine's version that the tag of an image names, or nothing."""
    tag = image_ref.rpartition("/")[2].partition(":")[2]
    found = re.match(r"v?(\d+\.\d+(?:\.\d+)?)", tag)
    return found.group(1) if found else ""
