#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""Bytes of all parameters that vLLM's own model classes create on one rank, without a GPU and without weights.

    python tests/bench/vllm_parameters.py CONFIG.json --tp 4 [--rank 3] [--ep] [--pp 2 --stage 1] [--full]

Run it with a Python that has vLLM (any build, also the one for CPUs) and, for some mixtures of experts, triton. The
model is built on torch's meta device under a platform that says it is a GB10, in process groups that only have a size.
CONFIG.json is the only file of the model that is read; a hf_quant_config.json beside it is used as vLLM does.
Prints JSON: {total, class, table: [{name with digits as *, count, shape, dtype, bytes}]} or {error, at}.

The unit tests compare the planner with such figures: tests/unit/fixtures/memory/vllm_parameters.json.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any

import _vllm_stubs as stubs


def build(torch: Any, folder: str, options: argparse.Namespace) -> Any:
    from vllm.config import (
        CacheConfig,
        DeviceConfig,
        LoadConfig,
        ModelConfig,
        ParallelConfig,
        SchedulerConfig,
        VllmConfig,
    )
    from vllm.model_executor.model_loader.utils import initialize_model
    from vllm.utils.torch_utils import set_default_torch_dtype

    more: dict[str, Any] = {"mm_encoder_tp_mode": "data"} if options.vision_data else {}
    if options.language_model_only:
        more["language_model_only"] = True
    model = ModelConfig(
        model=folder, tokenizer=folder, skip_tokenizer_init=True, enforce_eager=True, max_model_len=4096, **more
    )
    parallel = ParallelConfig(
        tensor_parallel_size=options.tp,
        pipeline_parallel_size=options.pp,
        enable_expert_parallel=options.ep,
        distributed_executor_backend="external_launcher",
        disable_custom_all_reduce=True,
    )
    parallel.rank = options.stage * options.tp + options.rank
    model.verify_with_parallel_config(parallel)
    config = VllmConfig(
        model_config=model,
        parallel_config=parallel,
        load_config=LoadConfig(load_format="dummy"),
        device_config=DeviceConfig(device="cuda"),
        cache_config=CacheConfig(block_size=16),
        scheduler_config=SchedulerConfig(
            max_model_len=4096, max_num_batched_tokens=2048, max_num_seqs=8, is_encoder_decoder=False
        ),
    )
    with set_default_torch_dtype(model.dtype), torch.device("meta"), stubs.on_meta(torch):
        return initialize_model(config)


def table(model: Any) -> list[dict[str, Any]]:
    rows: dict[tuple[str, tuple[int, ...], str], list[int]] = {}
    for name, parameter in model.named_parameters():
        key = (re.sub(r"\d+", "*", name), tuple(parameter.shape), str(parameter.dtype).removeprefix("torch."))
        row = rows.setdefault(key, [0, 0])
        row[0] += 1
        row[1] += parameter.numel() * parameter.element_size()
    return [
        {"name": name, "count": count, "shape": list(shape), "dtype": dtype, "bytes": size}
        for (name, shape, dtype), (count, size) in rows.items()
    ]


def measure(options: argparse.Namespace) -> dict[str, Any]:
    import torch

    stubs.stub_torch(torch)
    stubs.stub_operators(torch)
    # Before torchvision is stubbed: transformers must find it missing.
    import transformers.image_utils  # noqa: F401
    from transformers.utils.import_utils import is_torchvision_available

    is_torchvision_available()
    sys.meta_path.append(stubs.Stubs())
    stubs.stub_triton()
    stubs.fake_platform()
    stubs.fake_rest(torch)
    stubs.fake_groups(options.tp, options.rank, options.pp, options.stage)
    with tempfile.TemporaryDirectory() as folder:
        config = json.loads(options.config.read_text(encoding="utf-8"))
        kept = {key: value for key, value in config.items() if key != "auto_map" and not key.startswith("_")}
        Path(folder, "config.json").write_text(json.dumps(kept), encoding="utf-8")
        beside = options.config.parent / "hf_quant_config.json"
        if beside.exists():
            shutil.copy(beside, folder)
        try:
            model = build(torch, folder, options)
        except Exception as exc:  # what vLLM says of a size that it refuses is a result
            frames = traceback.extract_tb(exc.__traceback__)[-4:]
            at = [f"{frame.filename.split('site-packages/')[-1]}:{frame.lineno}" for frame in frames]
            return {"error": f"{type(exc).__name__}: {str(exc)[:600]}", "at": at}
    rows = table(model)
    result: dict[str, Any] = {"total": sum(row["bytes"] for row in rows), "class": type(model).__name__, "table": rows}
    if options.full:
        result["parameters"] = {n: p.numel() * p.element_size() for n, p in model.named_parameters()}
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("config", type=Path)
    for name, least in (("tp", 1), ("rank", 0), ("pp", 1), ("stage", 0)):
        parser.add_argument(f"--{name}", type=int, default=least)
    parser.add_argument("--ep", action="store_true", help="expert parallelism")
    parser.add_argument("--vision-data", action="store_true", help="--mm-encoder-tp-mode data")
    parser.add_argument("--language-model-only", action="store_true")
    parser.add_argument("--full", action="store_true", help="name each parameter too")
    options = parser.parse_args()
    answer = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what libraries print is no JSON
    os.environ.update(
        HF_HUB_OFFLINE="1", VLLM_LOGGING_LEVEL="ERROR", VLLM_NO_USAGE_STATS="1", VLLM_TARGET_DEVICE="cuda"
    )
    result = {"tp": options.tp, "rank": options.rank, "ep": options.ep, "pp": options.pp, "stage": options.stage}
    json.dump(result | measure(options), answer)
    answer.write("\n")
    answer.flush()
    os._exit(0)  # threads that libraries started would keep it alive


if __name__ == "__main__":
    main()
