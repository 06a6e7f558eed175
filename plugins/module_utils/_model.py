# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 gb10.serving contributors
#
# Private to this collection: may change without notice.
"""Look at a model directory: its files, its config, every safetensors header, and what is wrong with it."""

from __future__ import annotations

import hashlib
import json
import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ansible_collections.gb10.serving.plugins.module_utils._model_config import essentials, quantization, text_config
from ansible_collections.gb10.serving.plugins.module_utils._model_tensors import summarise
from ansible_collections.gb10.serving.plugins.module_utils._safetensors import Shard, read_shard

INDEX = "model.safetensors.index.json"
MAX_PROBLEMS = 20
MAX_FILES = 1000
_CONTENT_SUFFIXES = (".json", ".jinja", ".txt", ".py")
_CONTENT_LIMIT = 4 * 1024 * 1024
_THREADS = 8


def resolve(path: str) -> tuple[str, str | None]:
    """The directory with the files: a Hugging Face cache entry leads to its snapshot. (path, problem)."""
    path = os.path.abspath(os.path.expanduser(path))
    snapshots = os.path.join(path, "snapshots")
    if not (os.path.basename(path).startswith("models--") and os.path.isdir(snapshots)):
        return path, None
    try:
        with open(os.path.join(path, "refs", "main"), encoding="utf-8") as stream:
            wanted = os.path.join(snapshots, stream.read().strip())
        if os.path.isdir(wanted):
            return wanted, None
    except OSError:
        pass
    found = sorted(entry.name for entry in os.scandir(snapshots) if entry.is_dir())
    if len(found) == 1:
        return os.path.join(snapshots, found[0]), None
    if not found:
        return path, f"{snapshots} holds no snapshot: the download has not begun or was removed. Download the model."
    return path, (
        f"{snapshots} holds {len(found)} snapshots and refs/main names none of them. "
        f"Give the path of one: {', '.join(os.path.join(snapshots, name) for name in found[:3])}."
    )


def list_files(directory: str) -> tuple[list[tuple[str, int]], list[str]]:
    """(relative name, size) of all files but hidden ones, sorted; links are followed, dangling ones are problems."""
    files: list[tuple[str, int]] = []
    problems: list[str] = []

    def visit(folder: str, prefix: str) -> None:
        with os.scandir(folder) as entries:
            found = sorted(entries, key=lambda e: e.name)
        for entry in found:
            if entry.name.startswith("."):
                continue
            name = prefix + entry.name
            if entry.is_dir(follow_symlinks=False):
                visit(entry.path, name + "/")
                continue
            try:
                info = entry.stat()
            except OSError:
                target = os.readlink(entry.path) if entry.is_symlink() else "?"
                problems.append(
                    f"{name} is a link to {target}, which does not exist: the download was interrupted or the cache "
                    "was pruned. Download the model again."
                )
                continue
            if entry.is_file():
                files.append((name, info.st_size))

    visit(directory, "")
    return sorted(files), problems


def _read_json(directory: str, name: str, problems: list[str]) -> dict[str, Any] | None:
    try:
        with open(os.path.join(directory, name), "rb") as stream:
            data = json.loads(stream.read())
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


def _shards(directory: str, names: list[str], problems: list[str]) -> tuple[list[Shard], dict[str, str]]:
    """Headers of the files that hold the weights, checked against each other and the index; and tensor -> file."""
    weight_map: dict[str, str] | None = None
    wanted = [n for n in names if n.endswith(".safetensors") and "/" not in n]
    if INDEX in names:
        index = _read_json(directory, INDEX, problems)
        raw = (index or {}).get("weight_map")
        if isinstance(raw, dict) and all(isinstance(v, str) for v in raw.values()):
            weight_map = raw
            listed = sorted(set(raw.values()))
            present = set(names)
            missing = [n for n in listed if n not in present]
            problems.extend(
                f"{n} is named in {INDEX} but is not there. Fetch this file, or let the model copy run to its end."
                for n in missing
            )
            wanted = [n for n in listed if n in present]
        elif index is not None:
            problems.append(f"{INDEX} has no weight_map of tensor names to file names. Fetch this file again.")
    with ThreadPoolExecutor(_THREADS) as pool:
        shards = list(pool.map(lambda n: read_shard(directory, n), wanted))
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
    return shards, holders


def _digest(directory: str, files: list[tuple[str, int]], shards: list[Shard]) -> str:
    """Identity of the model without reading its weights: names, sizes, headers, and small text files in full."""
    total = hashlib.sha256()
    headers = {s.name: s.header_sha256 for s in shards}
    for name, size in files:
        content = headers.get(name, "")
        if not content and size <= _CONTENT_LIMIT and name.endswith(_CONTENT_SUFFIXES):
            try:
                with open(os.path.join(directory, name), "rb") as stream:
                    content = hashlib.sha256(stream.read()).hexdigest()
            except OSError:
                content = "unreadable"
        total.update(f"{name}\0{size}\0{content}\n".encode("utf-8", "surrogateescape"))
    return "sha256:" + total.hexdigest()


def inspect(path: str) -> dict[str, Any]:
    """Everything that model_info returns. Never raises for a missing or broken model."""
    directory, problem = resolve(path)
    problems: list[str] = [problem] if problem else []
    result: dict[str, Any] = {
        "path": directory,
        "exists": os.path.isdir(directory),
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
    if problem or not result["exists"]:
        if not problem:
            what = "is a file" if os.path.exists(directory) else "does not exist"
            problems.append(f"{directory} {what}; expected a model directory. Download the model or correct the path.")
        return result
    try:
        files, dangling = list_files(directory)
    except OSError as exc:
        problems.append(f"{exc.filename or directory} cannot be listed: {exc.strerror}. Check owner and permissions.")
        return result
    problems.extend(dangling)
    names = [name for name, _size in files]
    config: dict[str, Any] | None = None
    if "config.json" in names:
        config = _read_json(directory, "config.json", problems)
    elif not any(p.startswith("config.json ") for p in dangling):
        problems.append(
            f"{directory} has no config.json, so it is not a model directory in Hugging Face format. "
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
    shards, _holders = _shards(directory, names, problems)
    seen: dict[str, tuple[str, int]] = {}
    for shard in shards:
        seen.update(shard.tensors)
    if not seen and not any(".safetensors" in p for p in problems):
        problems.append(
            f"{directory} has no safetensors weights. Download the model; other formats (*.bin, *.gguf) are not served."
        )
    result["tensors"] = summarise(seen, result["config"].get("num_hidden_layers"))
    result["weights_bytes"] = sum(size for _dtype, size in seen.values())
    result["total_bytes"] = sum(size for _name, size in files)
    result["files"] = [{"name": name, "size": size} for name, size in files[:MAX_FILES]]
    result["files_count"] = len(files)
    result["shards"] = len(shards)
    result["digest"] = _digest(directory, files, shards)
    result["complete"] = not problems
    if len(problems) > MAX_PROBLEMS:
        problems[MAX_PROBLEMS:] = [f"And {len(problems) - MAX_PROBLEMS} more problems of the same kinds."]
    return result
