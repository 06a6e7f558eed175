# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gb10.serving.plugins.plugin_utils._memory_model import Engine, Model, Wishes
from ansible_collections.gb10.serving.plugins.plugin_utils._memory_overhead import absorbed_bytes, overhead_terms
from ansible_collections.gb10.serving.plugins.plugin_utils._memory_padding import expert_factor
from ansible_collections.gb10.serving.plugins.plugin_utils._memory_stages import layers_of_stages
from ansible_collections.gb10.serving.plugins.plugin_utils._memory_weights import (
    kv_share,
    tp_problems,
    weight_terms,
)
from ansible_collections.gb10.serving.tests.unit.plugins.plugin_utils.memory_models import GIB, model


def weights(of: Model, tp: int, **wishes: Any) -> dict[str, int]:
    return {term.name.removeprefix("weights."): term.bytes for term in weight_terms(of, tp, Wishes(**wishes))}


# From config.json alone -> GiB of a rank at tp 1, 2, 4, 8 (None: not a size this model accepts)
RANKS: list[tuple[str, tuple[float, float, float, float]]] = [
    ("qwen3-235b-fp8", (220.2, 110.1, 55.1, 27.7)),
    ("minimax-m2", (214.2, 107.2, 53.6, 26.9)),
    ("glm-4.6-fp8", (330.2, 165.1, 82.6, 41.4)),
    ("llama-70b-fp8", (67.7, 33.8, 16.9, 8.5)),
    ("deepseek-v3", (626.9, 314.0, 157.5, 79.3)),
]


@pytest.mark.parametrize(("name", "expected"), RANKS)
def test_weights_of_a_rank_from_the_config(name: str, expected: tuple[float, ...]) -> None:
    for tp, gib in zip((1, 2, 4, 8), expected, strict=True):
        assert sum(weights(Model.of(model(name)), tp).values()) / GIB == pytest.approx(gib, rel=0.005, abs=0.05)


@pytest.mark.parametrize(
    ("name", "gib"), [("qwen3.5-35b", 65.53), ("qwen3.5-27b", 51.1), ("llama-8b", 15.0), ("glm-4.7-flash", 55.87)]
)
def test_weights_of_a_16_bit_model_against_the_engines_log(name: str, gib: float) -> None:
    assert sum(weights(Model.of(model(name)), 1).values()) / GIB == pytest.approx(gib, rel=0.006)


CLASSES = {
    "experts": 800,
    "attention": 800,
    "attention_kv": 800,
    "attention_replicated": 100,
    "norms_router": 50,
    "embeddings": 512,
    "lm_head": 512,
    "vision": 400,
    "vision_replicated": 30,
    "mtp": 200,
    "mtp.experts": 400,
    "mtp.replicated": 40,
    "unused": 9,
    "linear_attention": 800,
    "other": 7,
}


def by_hand(**config: Any) -> Model:
    return Model({"num_key_value_heads": 2, "vocab_size": 512, **config}, CLASSES, "safetensors headers", None)


def test_each_class_is_split_or_copied_by_its_rule() -> None:
    assert weights(by_hand(), 4) == {
        "experts": 200,
        "attention": 200,
        "attention_kv": 400,
        "attention_replicated": 100,
        "norms_router": 50,
        "embeddings": 128,
        "lm_head": 128,
        "vision": 100,
        "vision_replicated": 30,
        "linear_attention": 200,
        "other": 7,
    }


@pytest.mark.parametrize(
    ("wishes", "config", "name", "expected"),
    [
        ({"speculative_tokens": 1}, {}, "mtp", 50),
        ({"speculative_tokens": 1}, {}, "mtp.experts", 100),
        ({"speculative_tokens": 1}, {}, "mtp.replicated", 40),
        ({"language_model_only": True}, {}, "vision", None),
        ({"language_model_only": True}, {}, "vision_replicated", None),
        ({"vision_sharded": False}, {}, "vision", 400),
        ({}, {"tie_word_embeddings": True}, "lm_head", None),
        ({}, {"vocab_size": 500}, "embeddings", 132),
    ],
)
def test_wishes_and_config_change_what_is_loaded(
    wishes: dict[str, Any], config: dict[str, Any], name: str, expected: int | None
) -> None:
    assert weights(by_hand(**config), 4, **wishes).get(name) == expected


@pytest.mark.parametrize(
    ("name", "tp", "words"),
    [
        ("glm-4.7-flash", 8, ["Total number of attention heads (20) must be divisible by tensor parallel size (8)."]),
        (
            "qwen3.5-122b-fp8",
            3,
            [
                "attention heads (32)",
                "num_key_value_heads 2",
                "248320 is not divisible by 3",
                "16 is not divisible by 3 (linear_num_key_heads)",
                "1024 is not divisible by 3 (moe_intermediate_size)",
            ],
        ),
        ("qwen3-235b-fp8", 8, ["gate's and up's weight = 192 is not divisible by weight quantization block_n = 128."]),
        ("minimax-m2", 3, ["num_key_value_heads 8 and tensor parallel size 3"]),
    ],
)
def test_a_size_that_does_not_divide_is_refused_in_the_engines_words(name: str, tp: int, words: list[str]) -> None:
    found = tp_problems(Model.of(model(name)), tp, Engine.of({"name": "vllm", "version": "0.30.0"}))
    for part in words:
        assert any(part in problem for problem in found), found


def test_newer_versions_accept_shards_that_cut_a_scale_block() -> None:
    assert tp_problems(Model.of(model("qwen3-235b-fp8")), 8, Engine.of({"name": "vllm", "version": "0.33.0"})) == []


@pytest.mark.parametrize(
    "name",
    [
        "qwen3.5-27b",
        "qwen3.5-35b",
        "qwen3.5-122b-fp8",
        "qwen3.5-397b-fp8",
        "deepseek-v3",
        "kimi-k2-fp8",
        "llama-70b-fp8",
        "gpt-oss-20b",
    ],
)
def test_the_usual_sizes_are_accepted(name: str) -> None:
    for tp in (1, 2, 4, 8):
        assert tp_problems(Model.of(model(name)), tp, Engine.of({"version": "0.30.0"})) == []


def test_a_quantised_latent_projection_is_kept_a_second_time() -> None:
    def copies(name: str, tp: int) -> list[int]:
        terms = overhead_terms(Model.of(model(name)), tp, Wishes())
        return [term.bytes for term in terms if term.name == "mla_absorbed"]

    assert copies("deepseek-v3", 8) == [2 * (128 // 8) * (128 + 128) * 512 * 61]
    assert copies("glm-4.7-flash", 4) == []


def test_the_copy_depends_on_the_format_of_the_projection_itself() -> None:
    sizes = {"qk_nope_head_dim": 128, "v_head_dim": 128, "kv_lora_rank": 512}
    config = {"mla": sizes, "num_attention_heads": 64, "num_hidden_layers": 10}
    for latent, expected in ((True, 2 * 32 * 256 * 512 * 10), (False, 0)):
        quantization = {"method": "modelopt", "latent": latent}
        assert absorbed_bytes(Model(config, {}, "config.json", quantization), 2) == expected


def test_layers_with_their_own_key_heads_are_shared_by_their_own_number() -> None:
    cache = [
        {"of": "model", "kind": "full", "layers": 1, "kv_heads": 2, "head_dim": 512},
        {"of": "model", "kind": "sliding", "layers": 2, "kv_heads": 8, "head_dim": 256},
    ]
    share, formula = kv_share({"cache": cache, "num_key_value_heads": 8}, 8)
    assert share == pytest.approx((2048 / 2 + 2 * 4096 / 8) / (2048 + 2 * 4096))
    assert "2, 8" in formula


def test_expert_parallelism_gives_whole_experts_to_a_rank() -> None:
    of = by_hand(num_experts=10)
    found = {term.name: term.bytes for term in weight_terms(of, 4, Wishes(), ep=4)}
    assert found["weights.experts"] == 240  # 3 of 10
    assert found["weights.attention"] == 200


PARTS: list[tuple[str, list[int]]] = [
    ("embeddings", [512, 0, 0]),
    ("lm_head", [0, 0, 512]),
    ("vision", [400, 400, 400]),
    ("experts", [178, 356, 267]),  # of nine layers 2, 4, 3
    ("mlp", [100, 0, 0]),
    ("linear_attention", [400, 400, 0]),
    ("attention", [134, 267, 400]),  # of six layers 1, 2, 3
    ("norms_router", [15, 20, 15]),
]


@pytest.mark.parametrize(("name", "expected"), PARTS)
def test_a_stage_of_a_pipeline_has_the_layers_that_are_its_own(name: str, expected: list[int]) -> None:
    cache = [{"of": "model", "kind": "linear", "layers": 4, "at": [0, 2, 3, 5]}]
    config = {"num_hidden_layers": 10, "num_experts": 8, "dense_layers": 1, "cache": cache, "vocab_size": 512}
    of = Model(config, {**CLASSES, "mlp": 100}, "safetensors headers", None)
    stages = [{t.name: t.bytes for t in weight_terms(of, 1, Wishes(), pp=3, stage=n)} for n in range(3)]
    assert [stage.get(f"weights.{name}", 0) for stage in stages] == expected


def test_some_architectures_build_both_ends_on_every_stage() -> None:
    of = Model({"architecture": "MixtralForCausalLM", "num_hidden_layers": 4}, CLASSES, "safetensors headers", None)
    for stage in range(2):
        found = {t.name: t.bytes for t in weight_terms(of, 1, Wishes(), pp=2, stage=stage)}
        assert (found["weights.embeddings"], found["weights.lm_head"]) == (32768, 32768)


def test_leftover_layers_go_to_the_stages_before_the_last() -> None:
    assert layers_of_stages(10, 3) == [3, 4, 3]
    assert layers_of_stages(61, 2) == [31, 30]
    assert layers_of_stages(94, 4) == [23, 24, 24, 23]
    assert layers_of_stages(7, 4) == [2, 2, 2, 1]


FACTORS: list[tuple[dict[str, Any], dict[str, Any], int, float]] = [
    ({"experts": "mxfp4"}, {"hidden_size": 2880, "moe_intermediate_size": 2880}, 8, 3072 * 384 / (2880 * 360)),
    (
        {"experts": "mxfp4", "method": "compressed-tensors"},
        {"hidden_size": 3072, "moe_intermediate_size": 1536},
        8,
        1.0,
    ),
    ({"experts": "int8_channel"}, {"hidden_size": 4096, "moe_intermediate_size": 1536}, 4, 1 + 0.75 * 16 / (3 * 1536)),
    (
        {"experts": "int4", "bits": 4, "group": 0, "method": "compressed-tensors"},
        {"hidden_size": 2048, "moe_intermediate_size": 768},
        8,
        1 + 7 / 8 * 16 / (3 * 96 * 4),
    ),
    ({"experts": "mxfp4"}, {"hidden_size": 4096, "moe_intermediate_size": 2048}, 8, 1.0),
    (
        {"experts": "fp8_block", "block": [128, 128]},
        {"hidden_size": 2048, "moe_intermediate_size": 768},
        8,
        (1 + 4 / 1024) / (1 + 4 / 16384),
    ),
    ({"experts": "fp8_block", "block": [128, 128]}, {"hidden_size": 2048, "moe_intermediate_size": 768}, 2, 1.0),
    ({"experts": "fp8_channel"}, {"hidden_size": 4096, "moe_intermediate_size": 1536}, 4, 1 + 0.75 * 16 / (3 * 1536)),
    (
        {"experts": "int4", "bits": 4, "group": 128, "zeros": True, "method": "awq"},
        {"hidden_size": 2048, "moe_intermediate_size": 768},
        8,
        (4 + 20 / 32) / (4 + 20 / 128),
    ),
    ({"experts": "nvfp4"}, {"hidden_size": 2048, "moe_intermediate_size": 768}, 8, 1.0),
    ({"experts": None}, {}, 8, 1.0),
]


@pytest.mark.parametrize(("quantization", "config", "tp", "expected"), FACTORS)
def test_experts_that_the_engine_pads(
    quantization: dict[str, Any], config: dict[str, Any], tp: int, expected: float
) -> None:
    assert expert_factor(Model(config, {}, "config.json", quantization), tp).factor == pytest.approx(expected)
