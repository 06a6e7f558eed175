# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 gb10.serving contributors
#
# Private to this collection: may change without notice.
"""Are these all weights of the model? What the names of the files, the layers and config.json say against it."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from itertools import islice
from typing import Any

from ansible_collections.gb10.serving.plugins.module_utils._model_experts import MOST_LAYERS
from ansible_collections.gb10.serving.plugins.module_utils._model_tensors import tensor_class

LEAST = 0.5  # of the bytes that config.json describes; what a checkpoint may leave out is less than the other half
_NAMED = 3  # missing things that a message names
_SHARD = re.compile(r"(.*)-(\d{1,9})-of-(\d{1,9})\.safetensors")
_LAYER = re.compile(r"(?:^|\.)(?:h|blocks?|layer)\.(\d{1,9})\.")
GB = 1_000_000_000


def _first(missing: Iterable[str], count: int) -> str:
    named = list(islice(missing, _NAMED))
    more = count - len(named)
    return ", ".join(named) + (f" and {more} more" if more > 0 else "")


def missing_shards(names: Iterable[str]) -> list[str]:
    """A sentence for each set of files NAME-00001-of-00039.safetensors that is not whole."""
    sets: dict[tuple[str, str], dict[int, str]] = {}
    for name in names:
        match = _SHARD.fullmatch(name)
        if match:
            start, number, count = match.groups()
            sets.setdefault((start, count), {})[int(number)] = number
    problems = []
    for (start, written), there in sets.items():
        count, first = int(written), 0 if 0 in there else 1
        wanted = range(first, first + count)
        lacking = count - sum(number in wanted for number in there)
        if lacking <= 0:
            continue
        width = len(next(iter(there.values())))
        absent = (f"{start}-{n:0{width}}-of-{written}.safetensors" for n in wanted if n not in there)
        problems.append(
            f"{count - lacking} of {count} files {start}-*-of-{written}.safetensors are there; missing: "
            f"{_first(absent, lacking)}. Fetch them, or let the model copy run to its end."
        )
    return problems


def _layers_seen(names: Iterable[str]) -> set[int]:
    """Numbers of the layers that have a tensor; those of vision towers and of drafting layers do not count."""
    places: set[tuple[str, str]] = set()  # a model has few beside the number of the layer
    heads = set()
    for name in names:
        start = name.find("layers.")
        if start >= 0:
            heads.add(name[: name.find(".", start + 7)])  # behind the number
        elif match := _LAYER.search(name):
            places.add((name[: match.start(1)], match.group(1)))
    for head in heads:
        start = head.find("layers.") + 7
        places.add((head[:start], head[start:]))
    counting = {prefix: not tensor_class(f"{prefix}0.x").startswith(("vision", "mtp")) for prefix, _number in places}
    return {int(number) for prefix, number in places if counting[prefix] and number.isdecimal() and len(number) < 10}


def missing_layers(names: Iterable[str], layers: Any) -> list[str]:
    """A sentence when layers of the model have no tensor at all. Names without numbers of layers say nothing."""
    if not isinstance(layers, int) or not 0 < layers <= MOST_LAYERS:
        return []
    seen = _layers_seen(names)
    lacking = [str(n) for n in range(layers) if n not in seen]
    if not seen or not lacking or set(range(1, layers + 1)) <= seen:
        return []
    problem = (
        f"The safetensors files hold tensors of {layers - len(lacking)} of {layers} layers; missing: layer "
        f"{_first(lacking, len(lacking))}. Files are missing, or config.json is another model's: fetch the model again."
    )
    return [problem]


def missing_bytes(seen: int, derived: Mapping[str, int]) -> list[str]:
    """A sentence when the files hold far less than config.json describes."""
    expected = sum(derived.values())
    if seen >= LEAST * expected:
        return []
    problem = (
        f"The safetensors files hold {seen / GB:.3f} GB of tensors; expected about {expected / GB:.3f} GB by "
        "config.json. Files are missing, or config.json is another model's or lacks its quantization_config: fetch "
        "the model again."
    )
    return [problem]


def lacking(
    tensors: Mapping[str, tuple[str, int]], text: Mapping[str, Any], layers: Any, derived: Mapping[str, int]
) -> list[str]:
    """What is missing of a model whose headers are all in order.

    Args:
        tensors: name -> (dtype, bytes) of all files.
        text: config.json's part on the language model.
        layers: how many it has, if that is known.
        derived: bytes by class from config.json; empty for an unknown architecture.
    """
    names: Collection[str] = tensors.keys()
    problems = [] if "block_configs" in text else missing_layers(names, layers)  # where a layer may be left out
    return problems or missing_bytes(sum(size for _dtype, size in tensors.values()), derived)
