# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""Weights that are missing without an index that says so, and places that may not be looked at."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gb10.serving.plugins.module_utils._inventory._build import inventory
from ansible_collections.gb10.serving.plugins.module_utils._model import inspect
from ansible_collections.gb10.serving.plugins.module_utils._model_complete import (
    lacking,
    missing_bytes,
    missing_layers,
    missing_shards,
)
from ansible_collections.gb10.serving.plugins.plugin_utils._memory_model import Model
from ansible_collections.gb10.serving.tests.unit.plugins.module_utils.test_model import (
    CONFIG,
    INDEX,
    cache_entry,
    shard_name,
    write_model,
)
from ansible_collections.gb10.serving.tests.unit.plugins.plugin_utils.memory_models import CONFIGS

NOBODY = 65534


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["model.safetensors", "other-1-of-2.bin"], []),
        ([shard_name(1, 1)], []),
        ([shard_name(n, 3) for n in (1, 2, 3)], []),
        (["model-00000-of-00002.safetensors", "model-00001-of-00002.safetensors"], []),
        ([shard_name(1, 2)], ["1 of 2 files model-*-of-00002.safetensors", "missing: model-00002-of-00002.safetens"]),
        ([shard_name(1, 39)], ["1 of 39 files", f"missing: {shard_name(2, 39)}, ", f"{shard_name(4, 39)} and 35 more"]),
        (["m.safetensors-2-of-2.safetensors"], ["missing: m.safetensors-1-of-2.safetensors."]),
        ([*(shard_name(n, 2) for n in (1, 2)), shard_name(1, 3)], ["1 of 3 files"]),
        ([shard_name(7, 3)], ["0 of 3 files"]),
        (["model-1-of-999999999.safetensors"], ["1 of 999999999 files", "and 999999995 more."]),
    ],
)  # fmt: skip
def test_the_names_of_shards_say_how_many_there_are(names: list[str], words: list[str]) -> None:
    found = missing_shards(names)
    assert len(found) == bool(words)
    for part in words:
        assert part in found[0]


def layered(form: str, numbers: Iterator[int] | range | list[int]) -> list[str]:
    return [form.format(n) for n in numbers]


@pytest.mark.parametrize(
    ("names", "layers", "words"),
    [
        (layered("model.layers.{}.mlp.up_proj.weight", range(4)), 4, None),
        (layered("model.layers.{}.mlp.up_proj.weight", range(5)), 4, None),  # the last one drafts
        (layered("model.layers.{}.mlp.up_proj.weight", [0, 3]), 4, "2 of 4 layers; missing: layer 1, 2."),
        (
            layered("transformer.h.{}.mlp.weight", range(39)),
            48,
            "39 of 48 layers; missing: layer 39, 40, 41 and 6 more.",
        ),
        (layered("layers.{}.x", [1, 2, 3]), 4, "3 of 4 layers; missing: layer 0."),
        (layered("encoder.layer.{}.x", [1, 2, 3, 4]), 4, None),  # counted from 1
        (layered("model.layers.{}.x", [0]) + layered("visual.layers.{}.x", range(4)), 4, "1 of 4 layers"),
        (layered("model.layers.{}.x", [0]) + layered("mtp.layers.{}.x", [1]), 2, "1 of 2 layers"),
        (layered("model.layers.{}.x", [0]) + layered("model.moe.layers.{}.x", [1]), 2, None),
        (layered("visual.layers.{}.x", [0]), 4, None),
        (["model.embed_tokens.weight", "model.layers.x.weight"], 4, None),
        (layered("model.layers.{}.x", [0]), None, None),
        (layered("model.layers.{}.x", [0]), 10**9, None),
    ],
)
def test_layers_without_a_tensor_are_named(names: list[str], layers: int | None, words: str | None) -> None:
    found = missing_layers(names, layers)
    assert len(found) == bool(words)
    assert not words or words in found[0]


@pytest.mark.parametrize(
    ("seen", "derived", "words"),
    [
        (10**9, {}, None),
        (10**9, {"mlp": 2 * 10**9}, None),
        (10**9, {"mlp": 2 * 10**9, "experts": 10**9}, "hold 1.000 GB of tensors; expected about 3.000 GB"),
    ],
)
def test_most_bytes_have_to_be_there(seen: int, derived: dict[str, int], words: str | None) -> None:
    found = missing_bytes(seen, derived)
    assert len(found) == bool(words)
    assert not words or words in found[0]


def test_a_layer_may_be_left_out_where_each_is_configured_by_itself() -> None:
    tensors = {"model.layers.0.x": ("BF16", 8)}
    assert lacking(tensors, {"block_configs": [{}, {}]}, 2, {}) == []
    assert len(lacking(tensors, {}, 2, {})) == 1


def test_a_shard_alone_is_no_model_and_the_plan_is_made_from_the_config(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "m", shards=3)
    (folder / "config.json").write_text(json.dumps(CONFIGS["tiny"]))
    for name in (INDEX, shard_name(2, 3), shard_name(3, 3)):
        (folder / name).unlink()
    found = inspect(str(folder))
    assert (found["complete"], found["tensors"]["source"]) == (False, "config.json")
    assert f"missing: {shard_name(2, 3)}, {shard_name(3, 3)}." in found["problems"][0]
    assert found["tensors"]["by_class"] == inventory(CONFIGS["tiny"])[0]


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (CONFIG, None),
        (CONFIGS["tiny"], "expected about "),  # known, and its tensors are not of four numbers each
        (
            {**CONFIG, "num_hidden_layers": 6, "layer_types": ["full_attention"] * 6},
            "4 of 6 layers; missing: layer 4, 5.",
        ),
    ],
)
def test_headers_in_order_that_are_not_all(tmp_path: Path, config: dict[str, Any], words: str | None) -> None:
    folder = write_model(tmp_path / "m")
    (folder / "config.json").write_text(json.dumps(config))
    found = inspect(str(folder))
    assert found["complete"] is (words is None), found["problems"]
    if words:
        (problem,) = found["problems"]
        assert words in problem


@pytest.mark.parametrize("beside", [[3], "FP8", {}, None, {"quant_algo": 5}, {"quant_algo": ""}])
def test_a_broken_quantisation_beside_is_a_problem(tmp_path: Path, beside: Any) -> None:
    folder = write_model(tmp_path / "m")
    (folder / "hf_quant_config.json").write_text(json.dumps({"quantization": beside}))
    found = inspect(str(folder))
    assert found["complete"] is False
    assert any(p.startswith("hf_quant_config.json has ") for p in found["problems"])


@pytest.mark.parametrize(
    "change", [{"quantization_config": {"quant_method": "fp8x"}}, {"model_type": "never_heard_of"}]
)
def test_a_config_alone_is_refused_for_what_is_wrong_with_it(tmp_path: Path, change: dict[str, Any]) -> None:
    (tmp_path / "config.json").write_text(json.dumps({**CONFIGS["tiny"], **change}))
    found = Model.of(inspect(str(tmp_path)))
    assert found.problems[0].startswith("The weights cannot be derived from config.json (")
    assert not any("no safetensors weights" in problem for problem in found.problems)


@pytest.mark.parametrize("ref", ["/etc", "..", ".", "../blobs", "a/b", "a\0b", "a\nb", "a" * 300])
@pytest.mark.parametrize("commits", [["aaa"], ["aaa", "bbb"]])
def test_a_ref_names_one_directory(tmp_path: Path, commits: list[str], ref: str) -> None:
    entry = cache_entry(tmp_path, *commits, main=ref)
    found = inspect(str(entry))
    (problem,) = found["problems"]
    assert (found["complete"], found["path"], found["files"]) == (False, str(entry), [])
    assert "refs/main holds " in problem
    assert "expected the name of one directory" in problem


@contextlib.contextmanager
def as_nobody() -> Iterator[None]:
    """Root may look at everything, so it is not root for a while."""
    root = os.geteuid() == 0
    if root:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)


@pytest.fixture
def open_place() -> Iterator[Path]:
    """A directory that everybody can reach, unlike those of pytest."""
    place = Path(tempfile.mkdtemp(prefix="gb10-test-"))
    place.chmod(0o755)
    yield place
    for folder, folders, _files in os.walk(place):
        for name in folders:
            os.chmod(os.path.join(folder, name), 0o755)  # os.walk goes down after this
    shutil.rmtree(place)


def closed(name: str, mode: int = 0) -> Callable[[Path], None]:
    return lambda entry: (entry / name).chmod(mode)


DENIED = [
    ("snapshots", closed("snapshots"), ["snapshots cannot be listed: Permission denied", "Check owner"]),
    ("refs", closed("refs/main"), ["refs/main cannot be looked at: Permission denied"]),
    ("blobs", closed("blobs"), ["is a link to ../../blobs/aaa-", ", which cannot be looked at: Permission denied"]),
    ("snapshot", closed("snapshots/aaa", 0o644), ["Permission denied"]),
    ("above", closed("..", 0o644), ["cannot be looked at: Permission denied", "directories above"]),
]


@pytest.mark.parametrize(("fault", "words"), [row[1:] for row in DENIED], ids=[row[0] for row in DENIED])
def test_what_may_not_be_looked_at_is_not_said_to_be_missing(
    open_place: Path, fault: Callable[[Path], None], words: list[str]
) -> None:
    entry = cache_entry(open_place, "aaa", "bbb", main="aaa")
    if fault is DENIED[1][1]:  # what may be read is used
        (entry / "snapshots" / "aaa").rename(entry / "snapshots" / "ccc")
    if fault is DENIED[0][1]:
        (entry / "refs" / "main").unlink()
    fault(entry)
    with as_nobody():
        found = inspect(str(entry))
    assert found["complete"] is False
    for part in words:
        assert part in found["problems"][0], found["problems"]
    assert not any("does not exist" in p or "no safetensors weights" in p for p in found["problems"])


def test_a_circle_of_links_is_named(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "m")
    for here, there in (("x.bin", "y.bin"), ("y.bin", "x.bin")):
        (folder / here).symlink_to(there)
    (tmp_path / "loop").symlink_to("loop")
    assert "x.bin is a link to y.bin, which is a link that leads in a circle." in inspect(str(folder))["problems"][0]
    assert "loop is a link that leads in a circle." in inspect(str(tmp_path / "loop"))["problems"][0]


@pytest.mark.parametrize("path", ["a\0b", "/" + "x" * 5000])
def test_a_path_that_cannot_be(path: str) -> None:
    assert "cannot be looked at: " in inspect(path)["problems"][0]
