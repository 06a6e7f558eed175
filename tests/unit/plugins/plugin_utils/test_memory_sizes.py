# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""Sizes of tensor parallelism that an engine refuses; what versions differ in; what a plan says of its cache."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gb10.serving.plugins.plugin_utils._memory import plan
from ansible_collections.gb10.serving.plugins.plugin_utils._memory_model import Engine, Model, Wishes
from ansible_collections.gb10.serving.plugins.plugin_utils._memory_weights import tp_problems, weight_terms
from ansible_collections.gb10.serving.tests.unit.plugins.plugin_utils.memory_models import GIB, model, nodes

CUTS: list[tuple[dict[str, Any], dict[str, Any], int, str]] = [
    (
        {"method": "fp8", "splits": {"shared_expert_intermediate_size": {"of": 128, "form": "fp8_block"}}},
        {"moe_intermediate_size": 512, "shared_expert_intermediate_size": 512, "hidden_size": 2048},
        8,
        "input_size_per_partition = 64 is not divisible by weight quantization block_k = 128",
    ),
    (
        {"method": "fp8", "block": [128, 128], "experts": "fp8_block"},
        {"moe_intermediate_size": 432, "hidden_size": 2048},
        3,
        "gate's and up's weight = 144",
    ),
    (
        {"method": "compressed-tensors", "group": 128, "experts": "int4"},
        {"moe_intermediate_size": 768, "hidden_size": 2048},
        4,
        "tensor-parallel partition (192) to be divisible by group_size (128)",
    ),
    (
        {"method": "compressed-tensors", "group": 128, "experts": "fp8_block"},
        {"moe_intermediate_size": 768, "hidden_size": 2048},
        8,
        "gate's and up's weight = 96",
    ),
    (
        {"method": "awq", "splits": {"intermediate_size": {"of": 128, "form": "int4"}}},
        {"intermediate_size": 9728, "dense_layers": 36},
        8,
        "parallel size: 1216 is not divisible by group_size = 128 (intermediate_size)",
    ),
    (
        {"method": "gptq", "splits": {"linear_attention": {"of": 128, "form": "int4"}}},
        {"linear": {"value_heads": 4, "value_head_dim": 128}},
        8,
        "in_features per partition 64 is not divisible by group_size = 128 (linear_num_value_heads x head dim)",
    ),
    (
        {"method": "modelopt", "splits": {"intermediate_size": {"of": 16, "form": "nvfp4"}}},
        {"intermediate_size": 10944, "dense_layers": 1},
        8,
        "not multiple of 16: 1368",
    ),
    (
        {"method": "compressed-tensors", "splits": {"intermediate_size": {"of": 128, "form": "fp8_block"}}},
        {"intermediate_size": 10944, "dense_layers": 1},
        1,
        "10944 is not divisible by weight quantization block_k = 128",
    ),
]


@pytest.mark.parametrize(("quantization", "config", "tp", "words"), CUTS)
def test_shards_that_cut_scales_are_refused(
    quantization: dict[str, Any], config: dict[str, Any], tp: int, words: str
) -> None:
    engine = Engine.of({"name": "vllm", "version": "0.32.0"})
    found = tp_problems(Model(config, {}, "config.json", quantization), tp, engine)
    assert any(words in problem for problem in found), found


TOWER = {"vision_heads": 12, "vision_copied": False}


@pytest.mark.parametrize(
    ("config", "tp", "wishes", "engine", "refused"),
    [
        (TOWER, 8, {}, "vllm", True),
        (TOWER, 4, {}, "vllm", False),
        (TOWER, 8, {"vision_sharded": False}, "vllm", False),
        (TOWER, 8, {"language_model_only": True}, "vllm", False),
        (TOWER, 8, {}, "sglang", False),
        ({**TOWER, "vision_copied": True}, 8, {}, "vllm", False),
        ({"vision_heads": None}, 8, {}, "vllm", False),
    ],
)
def test_a_vision_tower_is_split_by_its_heads(
    config: dict[str, Any], tp: int, wishes: dict[str, Any], engine: str, refused: bool
) -> None:
    seen = Model(config, {"vision": 1000}, "config.json", None)
    found = tp_problems(seen, tp, Engine(engine), wishes=Wishes(**wishes))
    assert bool(found) == refused
    assert not refused or ("12 is not divisible by 8" in found[0] and "--mm-encoder-tp-mode data" in found[0])


def test_a_tower_that_is_copied_where_its_heads_do_not_divide() -> None:
    seen = Model({"vision_heads": 12, "vision_copied": True}, {"vision": 960}, "config.json", None)
    assert [term.bytes for tp in (4, 8) for term in weight_terms(seen, tp, Wishes())] == [240, 960]


@pytest.mark.parametrize(("method", "tp", "copied"), [("gptq", 4, 0.75), ("gptq", 1, 0), ("fp8", 4, 0)])
def test_narrow_inputs_of_the_delta_net_are_copied_for_marlin(method: str, tp: int, copied: float) -> None:
    linear = {"value_heads": 48, "separate_inputs": True}
    config = {"linear": linear, "hidden_size": 5120, "layer_kinds": {"linear": 48}, "dtype": "bfloat16"}
    terms = weight_terms(Model(config, {"linear_attention": 10**9}, "config.json", {"method": method}), tp, Wishes())
    extra = sum(term.bytes for term in terms if term.name.endswith("_padding"))
    assert extra == 2 * 48 * 5120 * 48 * 2 * copied


# version, tokens counted by requests at once, batches in flight, how DeepSeek-V4 packs its pages
VERSIONS = [
    ("0.20.0", False, 1, "tuples"),
    ("0.20.1.dev0+g101584af0", False, 1, "tuples"),
    ("0.20.1", True, 1, "tuples"),
    ("0.24.0", True, 1, "slots"),
    ("0.25.1", True, 1, "slots"),
    ("0.25.2.dev0", True, 2, "slots"),
    ("0.26.0", True, 2, "slots"),
    ("0.29.0rc1", True, 2, "slots"),
    ("0.29.0", True, 2, ""),
    ("0.1.dev20800+g569215ca8", True, 2, ""),
    ("", True, 2, ""),
]


@pytest.mark.parametrize(("version", "by_requests", "batches", "rule"), VERSIONS)
def test_what_versions_differ_in(version: str, by_requests: bool, batches: int, rule: str) -> None:
    engine = Engine.of({"name": "vllm", "version": version})
    assert (engine.report_by_concurrency, engine.in_flight_batches, engine.layer_tuples) == (by_requests, batches, rule)


def test_a_reserve_that_was_asked_for_is_kept_on_a_small_gpu() -> None:
    small = [{"host": "a", "total_bytes": 80 * GIB}]
    kept = [
        plan(small, model("llama-8b"), {"reserve_bytes": asked}, {"name": "vllm"})["ranks"][0]["reserve_bytes"]
        for asked in (None, 8 * GIB)
    ]
    assert kept == [0, 8 * GIB]


@pytest.mark.parametrize(("asked", "words"), [(None, "one request of the context length"), (GIB, "as set")])
def test_a_cache_names_who_fixed_it(asked: int | None, words: str) -> None:
    wishes = {"context_length": 32768, "kv_cache_bytes": asked}
    found = plan([{"host": "a"}], model("llama-8b", 100.0), wishes, {"name": "vllm"})
    (kv,) = [term for term in found["terms"] if term["name"] == "kv"]
    assert words in kv["formula"], (found["verdict"], kv)
    assert ("gb10_plan_kv_cache_gib" in kv["formula"]) == (asked is not None)


@pytest.mark.parametrize(("own", "refused"), [(None, True), ({"method": "fp8"}, False)])
def test_a_broken_file_beside_the_config_is_fatal_where_the_bytes_hang_on_it(own: Any, refused: bool) -> None:
    of = {**model("llama-8b"), "quantization": own}
    of["problems"] = ["hf_quant_config.json is not valid JSON (x). Fetch this file again."]
    found = plan(nodes(1), of, {"context_length": 8192}, {"name": "vllm"})
    assert (found["verdict"] == "refused" and "hf_quant_config.json" in found["reasons"][0]) == refused
