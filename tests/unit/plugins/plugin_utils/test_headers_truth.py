# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""From safetensors headers: names, dtypes and sizes of a checkpoint against the parameters of vLLM's classes."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil
from typing import Any

import pytest

from ansible_collections.gb10.serving.plugins.module_utils._inventory._build import inventory, refined
from ansible_collections.gb10.serving.plugins.module_utils._inventory._families import FAMILIES
from ansible_collections.gb10.serving.plugins.module_utils._inventory._quantization import Scheme
from ansible_collections.gb10.serving.plugins.module_utils._inventory._types import Tensor
from ansible_collections.gb10.serving.plugins.module_utils._model_config import essentials, quantization, text_config
from ansible_collections.gb10.serving.plugins.module_utils._model_tensors import summarise
from ansible_collections.gb10.serving.plugins.plugin_utils._memory_model import Model, Wishes
from ansible_collections.gb10.serving.plugins.plugin_utils._memory_weights import weight_terms
from ansible_collections.gb10.serving.tests.unit.plugins.plugin_utils.truth_models import SIZES, TRUTH, config_of

Header = tuple[str, int]


def fp8_block(out: int, into: int) -> dict[str, Header]:
    scales = ceil(out / 128) * ceil(into / 128)
    return {"weight": ("F8_E4M3", out * into), "weight_scale_inv": ("F32", 4 * scales)}


def fp8_channel(out: int, into: int) -> dict[str, Header]:
    return {"weight": ("F8_E4M3", out * into), "weight_scale": ("BF16", 2 * out)}


def nvfp4(out: int, into: int) -> dict[str, Header]:
    scales: dict[str, Header] = {"weight_scale": ("F8_E4M3", out * into // 16)}
    return {"weight": ("U8", out * into // 2), "weight_scale_2": ("F32", 4), "input_scale": ("F32", 4), **scales}


def packed(out: int, into: int) -> dict[str, Header]:
    scales: dict[str, Header] = {"weight_scale": ("BF16", 2 * out * into // 32)}
    return {"weight_packed": ("I32", out * into // 2), "weight_shape": ("I32", 8), **scales}


def gptq(out: int, into: int) -> dict[str, Header]:
    groups = out * into // 128
    parts: dict[str, Header] = {"qzeros": ("I32", groups // 2), "scales": ("F16", 2 * groups)}
    return {"qweight": ("I32", out * into // 2), "g_idx": ("I32", 4 * into), **parts}


# name, how the checkpoint writes a quantised linear layer
CHECKPOINTS = [
    ("qwen3-8b", None),
    ("qwen3-30b-a3b-fp8", fp8_block),
    ("glm-4.5-air-fp8", fp8_channel),
    ("deepseek-v3", fp8_block),
    ("minimax-m2.5", fp8_block),
    ("minimax-m2.7-nvfp4", nvfp4),
    ("qwen3.5-122b-a10b-nvfp4", nvfp4),
    ("kimi-k2.6-nvfp4", nvfp4),
    ("kimi-k2.5", packed),
    ("qwen3-30b-a3b-gptq-int4", gptq),
    ("nvidia-nemotron-3-super-120b-a12b-fp8", None),
    ("gemma-3-27b-it", None),
]


def written(tensor: Tensor, scheme: Scheme, form: Any) -> Iterator[tuple[str, Header]]:
    """Names and headers of the file; the experts of a layer under the number of the first one, which is all the same.

    Routers are kept in 16 bits there, whatever the engine makes of them.
    """
    module = tensor.module.replace("*", "0")
    if tensor.linear and scheme.format(tensor.module) is not None:
        for suffix, (dtype, size) in form(*tensor.shape).items():
            yield f"{module}.{suffix}", (dtype, tensor.count * size)
        return
    wide = tensor.dtype == "float32" and "bias" in module
    suffix = "" if module.endswith(("bias", "A_log", "D", "sinks")) else ".weight"
    yield f"{module}{suffix}", ("F32" if wide else "BF16", tensor.elements * (4 if wide else 2))


def headers(config: dict[str, Any], form: Any) -> dict[str, Header]:
    scheme, reason = Scheme.of(config)
    assert scheme, reason
    text = text_config(config)
    family = FAMILIES.get(str(config.get("model_type"))) or FAMILIES[text["model_type"]]
    return dict(pair for tensor in family(text, config) for pair in written(tensor, scheme, form))


@pytest.mark.parametrize(("name", "form"), CHECKPOINTS)
def test_weights_of_a_rank_from_the_headers(name: str, form: Any) -> None:
    config = config_of(name)
    facts = essentials(config)[0]
    found = summarise(headers(config, form), facts["num_hidden_layers"])
    model = Model(facts, refined(inventory(config)[0], found["by_class"]), "safetensors headers", quantization(config))
    for tp in SIZES:
        expected = TRUTH[name]["bytes"][str(tp)]
        if expected:
            terms = weight_terms(model, tp, Wishes())
            planned = sum(term.bytes for term in terms)
            assert planned == pytest.approx(expected, rel=0.002), f"tp {tp}"


def test_headers_decide_what_is_there() -> None:
    config = config_of("qwen3-8b")
    assert refined(inventory(config)[0], {"mlp": 1000, "vision": 5}) == {"mlp": 1000, "vision": 5}
    assert refined(inventory({"model_type": "never_heard_of"})[0], {"mlp": 7}) == {"mlp": 7}
