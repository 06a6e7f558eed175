# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""The configs of vLLM's own parameter counts. "{0-3,5}" in a name stands for each number, "4 x a" for four of them."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

from ansible_collections.gb10.serving.plugins.module_utils._inventory._build import inventory
from ansible_collections.gb10.serving.plugins.module_utils._model_config import essentials, quantization
from ansible_collections.gb10.serving.plugins.plugin_utils._memory_model import Model

_FIXTURE = json.loads(
    (Path(__file__).parents[2] / "fixtures" / "memory" / "vllm_parameters.json").read_text(encoding="utf-8")
)
TRUTH: dict[str, Any] = _FIXTURE["models"]
VARIANTS: list[dict[str, Any]] = _FIXTURE["variants"]  # with expert parallelism, of a stage, ...
SIZES = (1, 2, 4, 8)


def _numbers(text: str) -> list[int]:
    ranges = (part.split("-") for part in text.split(","))
    return [number for ends in ranges for number in range(int(ends[0]), int(ends[-1]) + 1)]


def _names(name: str) -> list[str]:
    run = re.fullmatch(r"(\d+) x (.*)", name)
    if run:
        return [run[2]] * int(run[1])
    each = re.search(r"\{([\d,-]+)\}", name)
    return [name[: each.start()] + str(n) + name[each.end() :] for n in _numbers(each[1])] if each else [name]


def unpacked(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: unpacked(inner) for key, inner in value.items() for name in _names(key)}
    if isinstance(value, list):
        return [one for item in value for one in (_names(item) if isinstance(item, str) else [unpacked(item)])]
    return value


def config_of(name: str) -> dict[str, Any]:
    return unpacked(TRUTH[name]["config"])


@cache
def model_of(name: str) -> Model:
    config = config_of(name)
    by_class, reason = inventory(config)
    assert reason is None, reason
    return Model(essentials(config)[0], by_class, "config.json", quantization(config))
