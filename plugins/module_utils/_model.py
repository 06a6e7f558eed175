# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 gb10.serving contributors
#
# Private to this collection: may change without notice.
"""Look at a model: its files, its config, every safetensors header, and what is wrong with it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ansible_collections.gb10.serving.plugins.module_utils._inventory._build import inventory, refined
from ansible_collections.gb10.serving.plugins.module_utils._inventory._quantization import merge_hf_quant_config
from ansible_collections.gb10.serving.plugins.module_utils._model_complete import lacking, missing_shards
from ansible_collections.gb10.serving.plugins.module_utils._model_config import essentials, quantization, text_config
from ansible_collections.gb10.serving.plugins.module_utils._model_directory import Directory, Source, SourceError
from ansible_collections.gb10.serving.plugins.module_utils._model_tensors import summarise
from ansible_collections.gb10.serving.plugins.module_utils._safetensors import Shard

INDEX = "model.safetensors.index.json"
QUANTISED_BESIDE = "hf_quant_config.json"  # where ModelOpt puts what other tools put into config.json
MAX_PROBLEMS = 20
MAX_FILES = 1000
_CONTENT_SUFFIXES = (".json", ".jinja", ".txt", ".py")
_CONTENT_LIMIT = 4 * 1024 * 1024
_THREADS = 16


def _read_json(source: Source, name: str, problems: list[str]) -> dict[str, Any] | None:
    try:
        data = json.loads(source.content(name))
    except OSError as exc:
        problems.append(f"{name} cannot be read: {exc.strerror or exc}. Check its owner and permissions.")
        return None
    except (ValueError, RecursionError) as exc:
        problems.append(f"{name} is not valid JSON ({exc}). Fetch this file again.")
        return None
    if not isinstance(data, dict):
        problems.append(f"{name} holds {type(data).__name__}, expected a JSON object. Fetch this file again.")
        return None
    return data


def _shards(source: Source, sizes: dict[str, int], problems: list[str]) -> list[Shard]:
    """Headers of the files that hold the weights, checked against each other and the index."""
    weight_map: dict[str, str] | None = None
    wanted = [n for n in sizes if n.endswith(".safetensors") and "/" not in n]
    if INDEX in sizes:
        index = _read_json(source, INDEX, problems)
        raw = (index or {}).get("weight_map")
        if isinstance(raw, dict) and all(isinstance(v, str) for v in raw.values()):
            weight_map = raw
            listed = sorted(set(raw.values()))
            missing = [n for n in listed if n not in sizes]
            problems.extend(
                f"{n} is named in {INDEX} but is not there. Fetch this file, or let the model copy run to its end."
                for n in missing
            )
            wanted = [n for n in listed if n in sizes]
        elif index is not None:
            problems.append(f"{INDEX} has no weight_map of tensor names to file names. Fetch this file again.")
    if weight_map is None:
        problems.extend(missing_shards(wanted))
    with ThreadPoolExecutor(_THREADS) as pool:
        shards = list(pool.map(lambda n: source.shard(n, sizes[n]), wanted))
    holders: dict[str, str] = {}
    for shard in shards:
        problems.extend(shard.problems)
        problems.extend(
            f"Tensor {tensor} is in {holders[tensor]} and in {shard.name}: two sets of weights lie in this directory. "
            "Remove the files of one set."
            for tensor in holders.keys() & shard.tensors.keys()
        )
        holders.update(dict.fromkeys(shard.tensors, shard.name))
    if weight_map is not None:
        readable = {s.name for s in shards if not s.problems}
        problems.extend(
            f"{INDEX} says that {holder} holds tensor {tensor}, which is not in it: index and shards are of different "
            "versions. Fetch the model again."
            for tensor, holder in weight_map.items()
            if holders.get(tensor) != holder and holder in readable
        )
    return shards


def _digest(source: Source, files: list[tuple[str, int]], shards: list[Shard]) -> str:
    """Identity of the model without reading its weights: names, sizes, headers, and small text files in full."""
    contents = {s.name: s.header_sha256 for s in shards}
    small = [
        name
        for name, size in files
        if not contents.get(name) and size <= _CONTENT_LIMIT and name.endswith(_CONTENT_SUFFIXES)
    ]

    def content(name: str) -> str:
        try:
            return source.content_sha256(name)
        except OSError:
            return "unreadable"

    with ThreadPoolExecutor(_THREADS) as pool:
        contents.update(zip(small, pool.map(content, small), strict=True))
    total = hashlib.sha256()
    for name, size in files:
        total.update(f"{name}\0{size}\0{contents.get(name, '')}\n".encode("utf-8", "backslashreplace"))
    return "sha256:" + total.hexdigest()


def digest(source: Source, sizes: Mapping[str, int]) -> str:
    """The digest that model_info gives, over these files only."""
    files = sorted(sizes.items())
    return _digest(source, files, _shards(source, dict(files), []))


def _config(source: Source, names: set[str], problems: list[str]) -> dict[str, Any] | None:
    """config.json, with what ModelOpt wrote beside it."""
    config = _read_json(source, "config.json", problems)
    if config is not None and QUANTISED_BESIDE in names:
        beside = _read_json(source, QUANTISED_BESIDE, problems)
        if beside is not None:
            inner = beside.get("quantization")
            algorithm = inner.get("quant_algo", False) if isinstance(inner, dict) else False
            if algorithm is False:
                problems.append(f"{QUANTISED_BESIDE} has no quantization.quant_algo. Fetch this file again.")
            elif algorithm is not None and (not isinstance(algorithm, str) or not algorithm):
                problems.append(
                    f"{QUANTISED_BESIDE} has the quantization.quant_algo {str(algorithm)[:60]!r}; expected a name such "
                    "as FP8 or NVFP4, or null. Fetch this file again."
                )
            config = merge_hf_quant_config(config, beside)
    return config


def _tensors(
    config: dict[str, Any] | None, layers: Any, seen: dict[str, tuple[str, int]], problems: list[str], broken: bool
) -> dict[str, Any]:
    """Bytes by class: from the headers when all are there, else from config.json where the architecture is known."""
    if config is None:
        return summarise(seen, None)
    own = text_config(config).get("num_hidden_layers")
    result = summarise(seen, own if isinstance(own, int) else None)
    derived, reason = inventory(config)
    if seen and not broken:
        found = lacking(seen, text_config(config), layers, derived)
        problems.extend(found)
        broken = bool(found)
    if broken or not seen:
        result.update(by_class=derived, source="config.json" if derived else None, reason=reason)
    else:
        result["by_class"] = refined(derived, result["by_class"])
    return result


def printable(value: Any) -> Any:
    """With what is no Unicode text, in names of files or in JSON, written as it is in Python: no answer may have it."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "backslashreplace").decode("utf-8")
    if isinstance(value, dict):
        return {printable(key): printable(one) for key, one in value.items()}
    return [printable(one) for one in value] if isinstance(value, list) else value


def inspect(source: str | Source) -> dict[str, Any]:
    """Everything that model_info returns of a model's content. Never raises for a missing or broken model.

    All text can be written as UTF-8, but for path, which leads to the files.
    """
    if isinstance(source, str):
        source = Directory(source)
    problems: list[str] = []
    result: dict[str, Any] = {
        "path": source.path,
        "exists": False,
        "complete": False,
        "problems": problems,
        "total_bytes": 0,
        "weights_bytes": 0,
        "files": [],
        "files_count": 0,
        "shards": 0,
        "architectures": [],
        "model_type": None,
        "quantization": None,
        "config": {},
        "tensors": summarise({}, None),
        "digest": None,
    }
    try:
        files, dangling = source.files()
    except SourceError as exc:
        problems.append(printable(str(exc)))
        result["exists"] = isinstance(source, Directory) and source.exists
        return result
    result["exists"] = True
    problems.extend(dangling)
    sizes = dict(files)
    config: dict[str, Any] | None = None
    if "config.json" in sizes:
        config = _config(source, set(sizes), problems)
    elif not any(p.startswith("config.json ") for p in dangling):
        problems.append(
            f"{source.path} has no config.json, so it is not a model directory in Hugging Face format. "
            "Give the directory that holds config.json, or download the model again."
        )
    if config is not None:
        wanted, wrong = essentials(config)
        problems.extend(wrong)
        architectures = config.get("architectures")
        result["architectures"] = architectures if isinstance(architectures, list) else []
        result["model_type"] = config.get("model_type") or text_config(config).get("model_type")
        result["quantization"] = quantization(config)
        result["config"] = wanted
    before = len(problems)
    shards = _shards(source, sizes, problems)
    seen: dict[str, tuple[str, int]] = {}
    for shard in shards:
        seen.update(shard.tensors)
    broken = len(problems) > before
    result["tensors"] = _tensors(config, result["config"].get("num_hidden_layers"), seen, problems, broken)
    if not seen and not any(".safetensors" in p for p in problems):
        problems.append(
            f"{source.path} has no safetensors weights. Download the model; other formats (*.bin, *.gguf) are not "
            "served."
        )
    result["weights_bytes"] = sum(size for _dtype, size in seen.values())
    result["total_bytes"] = sum(sizes.values())
    result["files"] = [{"name": name, "size": size} for name, size in files[:MAX_FILES]]
    result["files_count"] = len(files)
    result["shards"] = len(shards)
    result["digest"] = _digest(source, files, shards)
    result["complete"] = not problems
    if len(problems) > MAX_PROBLEMS:
        problems[MAX_PROBLEMS:] = [f"And {len(problems) - MAX_PROBLEMS} more problems of the same kinds."]
    return {**printable(result), "path": source.path}
