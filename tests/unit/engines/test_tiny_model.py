# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""The tiny model: a whole checkpoint, the same bytes each time."""

from __future__ import annotations

import importlib.util
import json
import math
import struct
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ENGINES = Path(__file__).resolve().parents[2] / "engines"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"rehearsal_{name.strip('_')}", ENGINES / f"{name}.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


tiny_model = load("tiny_model")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    directory = tmp_path_factory.mktemp("model")
    return directory, tiny_model.write(directory)


def header(path: Path) -> tuple[dict[str, Any], int]:
    with path.open("rb") as file:
        (size,) = struct.unpack("<Q", file.read(8))
        return json.loads(file.read(size)), size


def test_digest_is_the_known_one(model: tuple[Path, str]) -> None:
    # A change of the model is a change of every recorded figure: change this line knowingly.
    assert model[1] == "sha256:ead45a3c13dfb101449e954437d19609719d3976ff5d66da3b345ecdde97b387"


def test_index_names_every_tensor_once(model: tuple[Path, str]) -> None:
    directory, _ = model
    index = json.loads((directory / "model.safetensors.index.json").read_text())
    shards = sorted(directory.glob("*.safetensors"))
    assert len(shards) >= 4
    assert set(index["weight_map"].values()) == {path.name for path in shards}
    total = 0
    for path in shards:
        entries, size = header(path)
        entries.pop("__metadata__")
        assert {name for name, shard in index["weight_map"].items() if shard == path.name} == set(entries)
        end = 0
        for entry in entries.values():
            start, stop = entry["data_offsets"]
            assert start == end
            assert stop - start == math.prod(entry["shape"]) * {"BF16": 2, "F32": 4}[entry["dtype"]]
            end = stop
        assert path.stat().st_size == 8 + size + end
        total += end
    assert index["metadata"]["total_size"] == total


@pytest.mark.parametrize("ranks", [2, 4])
def test_tensor_parallel_divides_what_is_sharded(ranks: int) -> None:
    config = tiny_model.CONFIG
    sharded = ("num_attention_heads", "linear_num_key_heads", "linear_num_value_heads", "moe_intermediate_size")
    assert [config[key] % ranks for key in (*sharded, "vocab_size")] == [0] * 5


def test_noise_is_small_and_has_both_signs() -> None:
    raw = tiny_model._noise("x", 1000, 0x3C)
    values = [struct.unpack("<f", b"\0\0" + raw[i : i + 2])[0] for i in range(0, len(raw), 2)]
    assert all(0.0078 <= abs(value) < 0.0313 for value in values)
    assert 400 < sum(value > 0 for value in values) < 600


def test_every_token_is_known_and_only_readable_ones_are_ever_said() -> None:
    tokens = tiny_model.vocabulary()
    assert len(set(tokens)) == len(tokens) == tiny_model.CONFIG["vocab_size"]
    head = tiny_model.content(next(tensor for tensor in tiny_model.tensors() if tensor.name == "lm_head.weight"))
    row = len(head) // len(tokens)
    said = [token for i, token in enumerate(tokens) if any(head[i * row : (i + 1) * row])]
    assert "e" in said and "th" in said
    assert not set(said) & {*tiny_model.SPECIAL, "\u0100", "!"}
