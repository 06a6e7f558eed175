# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gb10.serving.plugins.module_utils._model import inspect
from ansible_collections.gb10.serving.tests.unit.plugins.module_utils.test_safetensors import encode
from ansible_collections.gb10.serving.tests.unit.plugins.plugin_utils.memory_models import CONFIGS

INDEX = "model.safetensors.index.json"
CONFIG = {**CONFIGS["tiny"], "model_type": "tiny"}


def header(*tensors: str, elements: int = 4) -> dict[str, Any]:
    size = 2 * elements
    return {
        name: {"dtype": "BF16", "shape": [elements], "data_offsets": [n * size, (n + 1) * size]}
        for n, name in enumerate(tensors)
    }


def shard_name(number: int, count: int) -> str:
    return f"model-{number:05}-of-{count:05}.safetensors"


def write_model(folder: Path, shards: int = 2, per_shard: int = 3) -> Path:
    """A small model with the layers of the tiny test architecture, whose other sizes nothing is known of; an index."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(CONFIG))
    (folder / "README.md").write_text("# model\n")
    weight_map: dict[str, str] = {}
    for number in range(1, shards + 1):
        names = [f"model.layers.{(number + n) % 4}.mlp.experts.{number}.{n}.weight" for n in range(per_shard)]
        (folder / shard_name(number, shards)).write_bytes(encode(header(*names), 8 * per_shard))
        weight_map |= dict.fromkeys(names, shard_name(number, shards))
    (folder / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
    return folder


def test_a_whole_model(tmp_path: Path) -> None:
    found = inspect(str(write_model(tmp_path / "m")))
    assert (found["exists"], found["complete"], found["problems"]) == (True, True, [])
    assert (found["shards"], found["weights_bytes"], found["files_count"]) == (2, 48, 5)
    assert found["total_bytes"] == sum(f["size"] for f in found["files"])
    assert found["tensors"] == {
        "source": "safetensors headers",
        "reason": None,
        "count": 6,
        "by_class": {"experts": 48},
        "by_dtype": {"BF16": 48},
    }
    assert found["architectures"] == ["Qwen3_5MoeForCausalLM"]
    assert found["config"]["layer_kinds"] == {"full": 1, "linear": 3}
    assert [f["name"] for f in found["files"]] == sorted(f["name"] for f in found["files"])


def remove(name: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).unlink()


def put(name: str, content: bytes) -> Callable[[Path], None]:
    def fault(folder: Path) -> None:
        (folder / name).write_bytes(content)

    return fault


def cut(folder: Path) -> None:
    os.truncate(folder / shard_name(2, 2), 300)


def no_weights(folder: Path) -> None:
    for path in folder.glob("*.safetensors*"):
        path.unlink()


def dangle(folder: Path) -> None:
    path = folder / shard_name(2, 2)
    path.unlink()
    path.symlink_to("../../blobs/absent")


def twice(folder: Path) -> None:
    (folder / INDEX).unlink()
    shutil.copy(folder / shard_name(1, 2), folder / "consolidated.safetensors")


def stale_index(folder: Path) -> None:
    index = json.loads((folder / INDEX).read_text())
    index["weight_map"]["model.layers.9.new.weight"] = shard_name(1, 2)
    (folder / INDEX).write_text(json.dumps(index))


FAULTS: list[tuple[str, Callable[[Path], None], list[str]]] = [
    ("no config", remove("config.json"), ["has no config.json"]),
    ("config no JSON", put("config.json", b"{"), ["config.json is not valid JSON"]),
    ("config a list", put("config.json", b"[1]"), ["config.json holds list"]),
    ("config nonsense", put("config.json", b'{"num_attention_heads": 0}'), ["num_attention_heads is 0"]),
    ("index no JSON", put(INDEX, b"{"), [f"{INDEX} is not valid JSON"]),
    ("index empty", put(INDEX, b"{}"), [f"{INDEX} has no weight_map"]),
    ("shard missing", remove(shard_name(2, 2)), [f"{shard_name(2, 2)} is named in {INDEX} but is not there"]),
    ("shard cut", cut, [f"{shard_name(2, 2)} is truncated"]),
    ("no weights", no_weights, ["has no safetensors weights"]),
    ("dangling", dangle, ["is a link to ../../blobs/absent, which does not exist", "is named in"]),
    ("two sets", twice, ["is in consolidated.safetensors and in model-00001-of-00002.safetensors"]),
    ("stale index", stale_index, ["index and shards are of different versions"]),
]


@pytest.mark.parametrize(("fault", "words"), [row[1:] for row in FAULTS], ids=[row[0] for row in FAULTS])
def test_each_fault_is_found_and_named(tmp_path: Path, fault: Callable[[Path], None], words: list[str]) -> None:
    folder = write_model(tmp_path / "m")
    fault(folder)
    found = inspect(str(folder))
    assert found["complete"] is False
    for part in words:
        assert any(part in problem for problem in found["problems"]), found["problems"]
    assert all(problem.endswith(".") for problem in found["problems"])


@pytest.mark.parametrize("make", [False, True])
def test_no_directory(tmp_path: Path, make: bool) -> None:
    if make:
        (tmp_path / "m").write_text("a file")
    found = inspect(str(tmp_path / "m"))
    assert (found["exists"], found["complete"], found["digest"]) == (False, False, None)
    assert ("is a file" if make else "does not exist") in found["problems"][0]


def test_files_beside_the_index_do_not_count_as_weights(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "m")
    shutil.copy(folder / shard_name(1, 2), folder / "consolidated.safetensors")
    found = inspect(str(folder))
    assert (found["complete"], found["weights_bytes"], found["shards"]) == (True, 48, 2)


def cache_entry(tmp_path: Path, *commits: str, main: str | None = None) -> Path:
    """As the hub client keeps it: snapshots of links to blobs."""
    entry = tmp_path / "hub" / "models--org--name"
    (entry / "blobs").mkdir(parents=True)
    (entry / "snapshots").mkdir()
    for commit in commits:
        snapshot = write_model(entry / "snapshots" / commit)
        for path in snapshot.iterdir():
            blob = entry / "blobs" / f"{commit}-{path.name}"
            path.rename(blob)
            path.symlink_to(os.path.relpath(blob, snapshot))
    if main:
        (entry / "refs").mkdir()
        (entry / "refs" / "main").write_text(main)
    return entry


@pytest.mark.parametrize(
    ("commits", "main", "wanted"),
    [(["aaa"], None, "aaa"), (["aaa", "bbb"], "bbb", "bbb"), (["aaa", "bbb"], None, None), (["aaa"], "gone", "aaa"),
     ([], None, None)],
)  # fmt: skip
def test_a_cache_entry_leads_to_its_snapshot(
    tmp_path: Path, commits: list[str], main: str | None, wanted: str | None
) -> None:
    entry = cache_entry(tmp_path, *commits, main=main)
    found = inspect(str(entry))
    assert found["complete"] is (wanted is not None)
    if wanted:
        assert found["path"] == str(entry / "snapshots" / wanted)
        assert found["weights_bytes"] == 48
        assert found["digest"] == inspect(str(write_model(tmp_path / "plain")))["digest"]
    else:
        assert "snapshot" in found["problems"][0]


def test_equal_copies_have_equal_digests_whatever_lies_hidden_beside(tmp_path: Path) -> None:
    first, second = write_model(tmp_path / "a" / "m"), write_model(tmp_path / "b" / "m")
    (second / ".cache" / "huggingface").mkdir(parents=True)
    (second / ".cache" / "huggingface" / "x.lock").write_text("1")
    (second / ".gitattributes").write_text("x")
    os.utime(second / "config.json", (1, 1))
    one, two = inspect(str(first)), inspect(str(second))
    assert (one["digest"], one["files"], one["total_bytes"]) == (two["digest"], two["files"], two["total_bytes"])


@pytest.mark.parametrize(
    "change",
    [
        put("config.json", json.dumps({**CONFIGS["tiny"], "vocab_size": 513}).encode()),
        put("README.md", b"longer than before"),
        put("new.bin", b"1"),
        put("generation_config.json", b"{}"),
        remove("README.md"),
        put(shard_name(1, 2), encode(header("z.0.0.weight", "z.0.1.weight", "z.0.2.weight"), 24)),
    ],
)
def test_the_digest_follows_each_change(tmp_path: Path, change: Callable[[Path], None]) -> None:
    folder = write_model(tmp_path / "m")
    before = inspect(str(folder))["digest"]
    change(folder)
    assert inspect(str(folder))["digest"] != before


def test_the_digest_follows_a_header_of_the_same_size(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "m")
    before = inspect(str(folder))["digest"]
    shard = folder / shard_name(1, 2)
    shard.write_bytes(shard.read_bytes().replace(b"BF16", b"F16 ").replace(b'"F16 "', b'"F16" '))
    assert inspect(str(folder))["digest"] != before


def test_the_answer_on_many_shards_is_small(tmp_path: Path) -> None:
    found = inspect(str(write_model(tmp_path / "m", shards=130, per_shard=100)))
    assert (found["complete"], found["shards"], found["tensors"]["count"]) == (True, 130, 13000)
    assert len(json.dumps(found)) < 20_000


def test_many_problems_stay_few_lines(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "m", shards=130, per_shard=1)
    for path in folder.glob("model-*.safetensors"):
        path.unlink()
    found = inspect(str(folder))
    assert len(found["problems"]) == 21
    assert found["problems"][-1].startswith("And 110 more problems")
