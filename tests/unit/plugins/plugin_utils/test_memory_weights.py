# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gb10.serving.plugins.plugin_utils._memory_model import Engine, Model, Wishes
from ansible_collections.gb10.serving.plugins.plugin_utils._memory_weights import tp_problems, weight_terms
from ansible_collections.gb10.serving.tests.unit.plugins.plugin_utils.memory_models import GIB, model


def weights(of: Model, tp: int, **wishes: Any) -> dict[str, int]:
    return {term.name.removeprefix("weights."): term.bytes for term in weight_terms(of, tp, Wishes(**wishes))}


# From config.json alone -> GiB of a rank at tp 1, 2, 4, 8 (None: not a size this model accepts)
RANKS: list[tuple[str, tuple[float, float, float, float]]] = [
    ("qwen3.5-122b-fp8", (116.1, 58.5, 29.7, 15.3)),
    ("qwen3.5-397b-fp8", (372.1, 186.6, 93.9, 47.5)),
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
    "mtp": 200,
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
        "vision": 400,
        "linear_attention": 200,
        "other": 7,
    }


@pytest.mark.parametrize(
    ("wishes", "config", "name", "expected"),
    [
        ({"speculative_tokens": 1}, {}, "mtp", 50),
        ({"language_model_only": True}, {}, "vision", None),
        ({"vision_sharded": True}, {}, "vision", 100),
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
    quantised = weights(Model.of(model("deepseek-v3")), 8)["mla_absorbed"]
    assert quantised == 2 * (128 // 8) * (128 + 128) * 512 * 61
    assert "mla_absorbed" not in weights(Model.of(model("glm-4.7-flash")), 4)
