# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""Every tensor of hybrid, latent-attention and Mamba models, from config.json alone."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gb10.serving.plugins.module_utils._inventory._types import Tensor
from ansible_collections.gb10.serving.plugins.module_utils._model_tensors import tensor_class
from ansible_collections.gb10.serving.tests.unit.plugins.module_utils.inventory_hybrid_models import (
    MODELS,
    WIDTH,
    tensors,
)


def split(config: dict[str, Any]) -> tuple[list[Tensor], list[Tensor]]:
    """(the model, its draft layers)."""
    layers = config.get("text_config", config).get("num_hidden_layers")
    found: tuple[list[Tensor], list[Tensor]] = ([], [])
    for tensor in tensors(config):
        found[tensor_class(tensor.module, layers).startswith("mtp")].append(tensor)
    return found


@pytest.mark.parametrize(
    ("name", "size"),
    [  # bytes of all parameters that vLLM 0.32 creates on one rank without quantisation and without draft layers
        ("qwen3-next-80b", 159348784896),
        ("qwen3.5-27b", 54713461728),
        ("qwen3.5-35b", 70214365792),
        ("qwen3.5-397b", 793604727392),
        ("deepseek-v2-lite", 31412968448),
        ("deepseek-v3", 1342052868096),
        ("deepseek-v3.2", 1343755949056),
        ("kimi-k2", 2052816510976),
        ("kimi-k2.5", 2053758798816),
        ("glm-4.7-flash", 59898852352),
        ("glm-5", 1487822515200),
        ("glm-5.2", 1486754088960),
        ("glm-5.3-flash", 627859016440),
        ("nemotron-nano", 63171716352),
        ("nemotron-super", 241505239040),
    ],
)
def test_bytes_equal_what_the_engine_allocates(name: str, size: int) -> None:
    model, _draft = split(MODELS[name])
    assert sum(tensor.elements * WIDTH[tensor.dtype] for tensor in model) == size


def test_bytes_but_for_rows_that_the_engine_pads() -> None:
    model, _draft = split(MODELS["qwen3.8-flash"])
    assert sum(tensor.elements * WIDTH[tensor.dtype] for tensor in model) == pytest.approx(354809257568, rel=1e-4)


@pytest.mark.parametrize(
    ("name", "with_draft", "model"),
    [  # billions of parameters, as the hub and the model cards count them
        ("qwen3-next-80b", 81.3, 79.7),
        ("qwen3.5-27b", 27.8, 27.4),
        ("qwen3.5-35b", 36.0, 35.1),
        ("qwen3.5-397b", 403.4, 396.8),
        ("deepseek-v2-lite", 15.7, 15.7),
        ("deepseek-v3", 684.5, 671.0),
        ("deepseek-v3.2", 685.4, 671.9),
        ("kimi-k2", 1026.4, 1026.4),
        ("glm-4.7-flash", 31.2, 29.9),
        ("glm-5", 753.9, 743.9),
        ("glm-5.3-flash", 321.3, 313.9),
        ("deepseek-v4-flash", 290.9, 284.3),
        ("nemotron-nano", 31.6, 31.6),
        ("nemotron-super", 123.6, 120.7),
    ],
)
def test_parameters_of_public_models(name: str, with_draft: float, model: float) -> None:
    main, draft = (sum(tensor.elements for tensor in part) / 1e9 for part in split(MODELS[name]))
    assert (round(main + draft, 1), round(main, 1)) == (with_draft, model)


@pytest.mark.parametrize(
    ("name", "layer", "expected"),
    [
        (
            "qwen3.5-35b",
            "model.language_model.layers.0.linear_attn.",
            {
                "in_proj_qkv": (8192, 2048), "in_proj_z": (4096, 2048), "in_proj_a": (32, 2048),
                "in_proj_b": (32, 2048), "conv1d": (8192, 1, 4), "A_log": (32,), "dt_bias": (32,), "norm": (128,),
                "out_proj": (2048, 4096),
            },
        ),
        (
            "qwen3-next-80b",
            "model.layers.0.linear_attn.in",
            {"_proj_qkvz": (12288, 2048), "_proj_ba": (64, 2048)},
        ),
        (
            "qwen3.5-35b",
            "model.language_model.layers.3.self_attn.",
            {
                "q_proj": (8192, 2048), "k_proj": (512, 2048), "v_proj": (512, 2048), "o_proj": (2048, 4096),
                "q_norm": (256,), "k_norm": (256,),
            },
        ),
        (
            "qwen3.5-35b",
            "model.language_model.layers.0.mlp.",
            {
                "gate": (256, 2048), "experts.*.gate_proj": (512, 2048), "experts.*.up_proj": (512, 2048),
                "experts.*.down_proj": (2048, 512), "shared_expert.gate_proj": (512, 2048),
                "shared_expert.up_proj": (512, 2048), "shared_expert.down_proj": (2048, 512),
                "shared_expert_gate": (1, 2048),
            },
        ),
        (
            "deepseek-v3",
            "model.layers.3.self_attn.",
            {
                "q_a_proj": (1536, 7168), "q_a_layernorm": (1536,), "q_b_proj": (24576, 1536),
                "kv_a_proj_with_mqa": (576, 7168), "kv_a_layernorm": (512,), "kv_b_proj": (32768, 512),
                "o_proj": (7168, 16384),
            },
        ),
        (
            "deepseek-v3",
            "model.layers.61.e",
            {"norm": (7168,), "h_proj": (7168, 14336), "mbed_tokens": (129280, 7168)},
        ),
        ("deepseek-v2-lite", "model.layers.0.self_attn.q", {"_proj": (3072, 2048)}),
        (
            "glm-5.2",
            "model.layers.6.self_attn.indexer.",
            {
                "wq_b": (4096, 2048), "wk": (128, 6144), "weights_proj": (32, 6144), "k_norm": (128,),
                "k_norm.bias": (128,),
            },
        ),
        ("glm-5.2", "model.layers.7.self_attn.indexer.", {}),
        ("kimi-k2.5", "language_model.lm_head", {"": (163840, 7168)}),
        ("kimi-k2.5", "mm_projector.", {
            "pre_norm": (1152,), "pre_norm.bias": (1152,), "proj.0": (4608, 4608), "proj.0.bias": (4608,),
            "proj.2": (7168, 4608), "proj.2.bias": (7168,),
        }),
        (
            "nemotron-super",
            "backbone.layers.0.",
            {
                "norm": (4096,), "mixer.in_proj": (18560, 4096), "mixer.conv1d": (10240, 1, 4),
                "mixer.conv1d.bias": (10240,), "mixer.A_log": (128,), "mixer.D": (128,), "mixer.dt_bias": (128,),
                "mixer.norm": (8192,), "mixer.out_proj": (4096, 8192),
            },
        ),
        (
            "nemotron-super",
            "backbone.layers.1.mixer.",
            {
                "gate": (512, 4096), "gate.e_score_correction_bias": (512,), "experts.*.up_proj": (2688, 1024),
                "experts.*.down_proj": (1024, 2688), "fc1_latent_proj": (1024, 4096),
                "fc2_latent_proj": (4096, 1024), "shared_experts.up_proj": (5376, 4096),
                "shared_experts.down_proj": (4096, 5376),
            },
        ),
        (
            "nemotron-super",
            "mtp.layers.0.",
            {
                "enorm": (4096,), "hnorm": (4096,), "eh_proj": (4096, 8192), "norm": (4096,),
                "mixer.q_proj": (4096, 4096), "mixer.k_proj": (256, 4096), "mixer.v_proj": (256, 4096),
                "mixer.o_proj": (4096, 4096),
            },
        ),
        (
            "deepseek-v4-flash",
            "layers.2.attn.compressor.",
            {"ape": (4, 1024), "wkv": (1024, 4096), "wgate": (1024, 4096), "norm": (512,)},
        ),
        (
            "deepseek-v4-flash",
            "layers.3.attn.compressor.",
            {"ape": (128, 512), "wkv": (512, 4096), "wgate": (512, 4096), "norm": (512,)},
        ),
        ("deepseek-v4-flash", "layers.3.attn.indexer.", {}),
        (
            "glm-5.3-flash",
            "model.language_model.layers.0.self_attn.",
            {
                "q_proj": (8192, 4096), "k_proj": (8192, 4096), "v_proj": (8192, 4096), "q_conv1d": (8192, 1, 4),
                "k_conv1d": (8192, 1, 4), "v_conv1d": (8192, 1, 4), "b_proj": (64, 4096), "f_a_proj": (128, 4096),
                "f_b_proj": (8192, 128), "g_a_proj": (128, 4096), "g_b_proj": (8192, 128), "dt_bias": (8192,),
                "A_log": (64,), "o_norm": (128,), "o_proj": (4096, 8192),
            },
        ),
        (
            "qwen3.8-flash",
            "model.language_model.layers.1.ple.",
            {
                "ple_embedding.ngram_embedding": (320000000, 160), "key_proj": (10240, 2560),
                "value_proj": (2560, 2560), "norm_key": (10240,), "norm_query": (10240,), "norm_conv": (10240,),
                "conv1d": (10240, 1, 4),
            },
        ),
        ("qwen3.8-flash", "model.language_model.layers.2.ple.", {}),
        (
            "qwen3.8-flash",
            "model.language_model.layers.3.self_attn.indexer.",
            {"index_qk_proj": (640, 2560), "q_layernorm": (128,), "k_layernorm": (128,)},
        ),
        (
            "qwen3.8-flash",
            "model.language_model.hyper_connection_mixer.",
            {"hc_norm": (10240,), "input_mix_weight_down": (320, 10240), "input_mix_weight_up": (10240, 320)},
        ),
        ("deepseek-v4-flash", "layers.2.ffn.gate", {"": (256, 4096), ".tid2eid": (129280, 6)}),
        ("deepseek-v4-flash", "layers.3.ffn.gate", {"": (256, 4096), ".bias": (256,)}),
    ],
)  # fmt: skip
def test_tensors_of_a_layer(name: str, layer: str, expected: dict[str, tuple[int, ...]]) -> None:
    found = {t.module.removeprefix(layer): t.shape for t in tensors(MODELS[name]) if t.module.startswith(layer)}
    assert found == expected


def test_experts_are_one_tensor_with_a_count() -> None:
    experts = [t for t in tensors(MODELS["deepseek-v3"]) if ".experts." in t.module]
    assert {(t.count, t.linear) for t in experts} == {(256, True)}
    assert len(experts) == 3 * (61 - 3 + 1)


def test_a_dspark_drafter_has_the_tensors_of_its_checkpoint() -> None:
    """As the index of V4-Flash-0731 counts them, a quantised layer's scales included."""
    config = {**MODELS["deepseek-v4-flash"], "dspark_target_layer_ids": [40, 41, 42], "dspark_markov_rank": 256}
    counts: dict[str, int] = {}
    for tensor in tensors(config):
        if tensor.module.startswith("mtp."):
            stage = tensor.module[: len("mtp.0")]
            counts[stage] = counts.get(stage, 0) + tensor.count * (2 if tensor.linear else 1)
    assert counts == {"mtp.0": 1568, "mtp.1": 1565, "mtp.2": 1572}
