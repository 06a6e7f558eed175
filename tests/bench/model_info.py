#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""What model_info costs on many shards against one loop over them with the safetensors library, as JSON.

The shards are sparse files whose headers have the names and shapes of a large FP8 mixture of experts. Both readers run
in turns in this process; the first turn only warms up. Nothing is left behind.

    .venv/bin/pip install --group bench
    .venv/bin/python tests/bench/model_info.py [--shards 130] [--rounds 5]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import struct
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "collections"))

from ansible_collections.gb10.serving.plugins.module_utils._model import INDEX, inspect

LAYERS, EXPERTS, HIDDEN, INNER = 48, 256, 3072, 1024
CONFIG = {
    "architectures": ["Qwen3MoeForCausalLM"],
    "model_type": "qwen3_moe",
    "torch_dtype": "bfloat16",
    "num_hidden_layers": LAYERS,
    "hidden_size": HIDDEN,
    "num_attention_heads": 32,
    "num_key_value_heads": 2,
    "head_dim": 256,
    "num_experts": EXPERTS,
    "num_experts_per_tok": 8,
    "moe_intermediate_size": INNER,
    "intermediate_size": 4 * INNER,
    "vocab_size": 151936,
    "max_position_embeddings": 262144,
    "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]},
}


def tensors() -> Iterator[tuple[str, str, list[int], int]]:
    """(name, dtype, shape, bytes) of every expert's matrices with their block scales."""
    shapes = {"gate_proj": [INNER, HIDDEN], "up_proj": [INNER, HIDDEN], "down_proj": [HIDDEN, INNER]}
    for layer in range(LAYERS):
        for expert in range(EXPERTS):
            for part, (rows, columns) in shapes.items():
                name = f"model.layers.{layer}.mlp.experts.{expert}.{part}"
                yield f"{name}.weight", "F8_E4M3", [rows, columns], rows * columns
                scales = [rows // 128, columns // 128]
                yield f"{name}.weight_scale_inv", "F32", scales, 4 * scales[0] * scales[1]


def write_model(folder: Path, shards: int) -> int:
    """Sparse shards with an index. Returns the number of tensors."""
    everything = list(tensors())
    weight_map: dict[str, str] = {}
    for number in range(shards):
        name = f"model-{number + 1:05}-of-{shards:05}.safetensors"
        header: dict[str, Any] = {}
        position = 0
        for tensor, dtype, shape, size in everything[number::shards]:
            header[tensor] = {"dtype": dtype, "shape": shape, "data_offsets": [position, position + size]}
            position += size
            weight_map[tensor] = name
        raw = json.dumps(header).encode()
        with (folder / name).open("wb") as stream:
            stream.write(struct.pack("<Q", len(raw)) + raw)
            stream.truncate(8 + len(raw) + position)
    (folder / "config.json").write_text(json.dumps(CONFIG))
    (folder / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
    return len(everything)


def one_loop(folder: Path) -> int:
    """The baseline: shape and dtype of every tensor by the library that defines the format, file after file."""
    from safetensors import safe_open

    count = 0
    for path in sorted(folder.glob("*.safetensors")):
        with safe_open(path, framework="numpy") as stream:
            for name in stream.keys():  # noqa: SIM118 - not a dict
                part = stream.get_slice(name)
                part.get_shape()
                part.get_dtype()
                count += 1
    return count


def seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shards", type=int, default=130)
    parser.add_argument("--rounds", type=int, default=5)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory)
        count = write_model(folder, chosen.shards)
        found = inspect(directory)
        if not found["complete"] or found["tensors"]["count"] != count:
            print(f"model_info finds the generated model broken: {found['problems'][:3]}", file=sys.stderr)
            return 1
        readers: dict[str, Callable[[], object]] = {
            "model_info": lambda: inspect(directory),
            "safetensors_loop": lambda: one_loop(folder),
        }
        times: dict[str, list[float]] = {name: [] for name in readers}
        for turn in range(chosen.rounds + 1):
            for name, work in readers.items():
                taken = seconds(work)
                if turn:
                    times[name].append(taken)
    medians = {name: statistics.median(values) for name, values in times.items()}
    print(
        json.dumps(
            {
                "shards": chosen.shards,
                "tensors": count,
                "cores": os.cpu_count(),
                "seconds": {name: round(value, 3) for name, value in medians.items()},
                "ratio": round(medians["model_info"] / medians["safetensors_loop"], 2),
            },
            indent=2,
        )
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
