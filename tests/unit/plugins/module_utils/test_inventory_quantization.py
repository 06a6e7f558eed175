# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""Which format each module has, and the bytes of a format."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gb10.serving.plugins.module_utils._inventory import _formats as formats
from ansible_collections.gb10.serving.plugins.module_utils._inventory._layer_formats import formats_of
from ansible_collections.gb10.serving.plugins.module_utils._inventory._quantization import Scheme, merge_hf_quant_config
from ansible_collections.gb10.serving.plugins.module_utils._inventory._types import Tensor, linear

L = "model.layers.3"
FP8 = {"quant_method": "fp8", "weight_block_size": [128, 128]}
FLOAT8 = {"num_bits": 8, "type": "float", "strategy": "channel"}
INT4 = {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 32, "symmetric": True}


def scheme(quantization: Any, **config: Any) -> Scheme:
    found, reason = Scheme.of({**config, "quantization_config": quantization})
    assert found, reason
    return found


def groups(weights: dict[str, Any], **more: Any) -> dict[str, Any]:
    group = {"targets": ["Linear"], "weights": weights}
    return {"quant_method": "compressed-tensors", "config_groups": {"group_0": {**group, **more}}}


def modelopt(algorithm: str, **more: Any) -> dict[str, Any]:
    return {"quant_method": "modelopt", "quant_algo": algorithm, **more}


# (quantization_config, keys beside it, module, name of the format or None for the model's own dtype)
CASES: list[tuple[Any, dict[str, Any], str, str | None]] = [
    (None, {}, f"{L}.mlp.up_proj", None),
    ({}, {}, f"{L}.mlp.up_proj", None),
    (FP8, {}, f"{L}.mlp.experts.*.up_proj", "fp8_block"),
    (FP8, {}, "lm_head", None),
    ({"quant_method": "fp8"}, {}, f"{L}.mlp.up_proj", "fp8"),
    ({**FP8, "modules_to_not_convert": [f"{L}.self_attn.o_proj"]}, {}, f"{L}.self_attn.o_proj", None),
    ({**FP8, "modules_to_not_convert": [f"{L}.self_attn.o_proj"]}, {}, "model.layers.31.self_attn.o_proj", "fp8_block"),
    ({**FP8, "modules_to_not_convert": ["gate"]}, {}, f"{L}.mlp.gate", None),
    ({**FP8, "modules_to_not_convert": ["gate"]}, {}, f"{L}.mlp.gate_proj", "fp8_block"),
    ({**FP8, "modules_to_not_convert": ["model.visual"]}, {}, "model.visual.blocks.1.attn.qkv", None),
    (FP8, {"expert_dtype": "fp4"}, "layers.3.ffn.experts.*.w1", "mxfp4"),
    (FP8, {"expert_dtype": "fp4"}, "layers.3.ffn.shared_experts.w1", "fp8_block"),
    (FP8, {"expert_dtype": "fp8"}, "layers.3.ffn.experts.*.w1", "fp8_block"),
    (
        {**FP8, "quantized_layers": {"layers.3.ffn.experts": {"quant_algo": "NVFP4"}}},
        {"expert_dtype": "fp4"},
        "layers.3.ffn.experts.*.w1",
        "nvfp4",
    ),
    (
        {**FP8, "quantized_layers": {"layers.3.ffn.experts": {"quant_algo": "NVFP4"}}},
        {"expert_dtype": "fp4"},
        "mtp.0.ffn.experts.*.w1",
        "mxfp4",
    ),
    (modelopt("NVFP4"), {}, f"{L}.mlp.up_proj", "nvfp4"),
    (modelopt("NVFP4"), {}, "lm_head", "nvfp4"),
    (modelopt("NVFP4", ignore=["lm_head"]), {}, "lm_head", None),
    (modelopt("NVFP4", ignore=["lm_head"]), {}, "language_model.lm_head", None),
    (modelopt("NVFP4", ignore=[f"{L}*"]), {}, f"{L}.mlp.up_proj", None),
    (modelopt("NVFP4", ignore=[f"{L}.*"]), {}, "model.layers.31.mlp.up_proj", "nvfp4"),
    (modelopt("NVFP4", ignore=[f"{L}*"]), {}, "model.layers.31.mlp.up_proj", None),
    (modelopt("NVFP4", ignore=["*.mlp.shared_expert.*"]), {}, f"{L}.mlp.shared_expert.up_proj", None),
    (modelopt("NVFP4", ignore=["*.mlp.shared_expert.*"]), {}, f"{L}.mlp.experts.*.up_proj", "nvfp4"),
    (modelopt("FP8", exclude_modules=["lm_head"]), {}, f"{L}.mlp.up_proj", "fp8"),
    (modelopt("FP8_PB_WO"), {}, f"{L}.mlp.up_proj", "fp8_block"),
    (
        modelopt("MIXED_PRECISION", quantized_layers={f"{L}.mlp.experts": {"quant_algo": "W4A16_NVFP4"}}),
        {},
        f"{L}.mlp.experts.*.up_proj",
        "nvfp4",
    ),
    (
        modelopt("MIXED_PRECISION", quantized_layers={"lm_head": {"quant_algo": "FP8"}}),
        {},
        "lm_head",
        "fp8",
    ),
    (
        modelopt("MIXED_PRECISION", quantized_layers={"lm_head": {"quant_algo": "FP8"}}),
        {},
        f"{L}.mlp.experts.*.up_proj",
        None,
    ),
    (
        modelopt("MIXED_PRECISION", quantized_layers={f"{L}.mlp.experts.0.up_proj": {"quant_algo": "FP8"}}),
        {},
        f"{L}.mlp.experts.*.up_proj",
        "fp8",
    ),
    (modelopt("NVFP4", ignore=[f"{L}.self_attn*"]), {}, f"language_{L}.self_attn.q_proj", "nvfp4"),
    (modelopt("NVFP4", ignore=[f"{L}.self_attn*"]), {}, f"language_model.{L}.self_attn.q_proj", None),
    ({"quantization": {"quant_algo": "NVFP4", "exclude_modules": []}}, {}, f"{L}.mlp.up_proj", "nvfp4"),
    (groups(FLOAT8), {}, f"{L}.mlp.up_proj", "fp8_channel"),
    (groups({**FLOAT8, "strategy": "tensor"}), {}, f"{L}.mlp.up_proj", "fp8"),
    (groups({**FLOAT8, "strategy": "block", "block_structure": [128, 128]}), {}, f"{L}.mlp.up_proj", "fp8_block"),
    (groups({**FLOAT8, "type": "int"}), {}, f"{L}.mlp.up_proj", "int8"),
    (groups({"num_bits": 4, "type": "float", "group_size": 16}), {}, f"{L}.mlp.up_proj", "nvfp4"),
    (groups({"num_bits": 4, "type": "float", "group_size": 32}), {}, f"{L}.mlp.up_proj", "mxfp4"),
    (groups(INT4), {}, f"{L}.mlp.experts.*.up_proj", "int4"),
    (groups(INT4), {}, "vision_tower.encoder.blocks.0.wqkv", None),
    ({**groups(INT4), "ignore": ["re:.*self_attn.*"]}, {}, f"{L}.self_attn.q_proj", None),
    ({**groups(INT4), "ignore": ["re:.*mlp\\.(gate|up)_proj.*"]}, {}, f"{L}.mlp.up_proj", None),
    (groups(INT4, targets=["re:.*experts.*"]), {}, f"{L}.mlp.experts.*.up_proj", "int4"),
    (groups(INT4, targets=["re:.*experts.*"]), {}, f"{L}.self_attn.q_proj", None),
    ({"quant_method": "mxfp4"}, {}, f"{L}.mlp.experts.gate_up_proj", "mxfp4"),
    ({"quant_method": "mxfp4"}, {}, f"{L}.self_attn.q_proj", None),
    ({"quant_method": "fbgemm_fp8", "modules_to_not_convert": ["model.layers.3"]}, {}, f"{L}.mlp.up_proj", None),
    ({"quant_method": "awq", "bits": 4, "group_size": 128}, {}, f"{L}.mlp.up_proj", "int4"),
    ({"quant_method": "awq_marlin", "bits": 4, "group_size": 128}, {}, f"{L}.mlp.up_proj", "int4"),
    ({"quant_method": "modelopt_fp4", "quant_algo": "NVFP4"}, {}, f"{L}.mlp.up_proj", "nvfp4"),
    ({"quant_method": "auto_round", "bits": 4}, {}, f"{L}.mlp.up_proj", "int4"),
    ({"quant_method": "gpt_oss_mxfp4"}, {}, f"{L}.mlp.experts.gate_up_proj", "mxfp4"),
    ({"quant_method": "awq", "modules_to_not_convert": ["self_attn"]}, {}, f"{L}.self_attn.q_proj", None),
    # "mlp.gate" is a part of mlp.gate_up_proj, which is what the engine makes of both; experts are asked for together.
    ({"quant_method": "awq", "modules_to_not_convert": ["mlp.gate"]}, {}, f"{L}.mlp.up_proj", None),
    ({"quant_method": "awq", "modules_to_not_convert": ["mlp.gate"]}, {}, f"{L}.mlp.down_proj", "int4"),
    ({"quant_method": "awq", "modules_to_not_convert": ["gate"]}, {}, f"{L}.mlp.experts.*.gate_proj", "int4"),
    ({"quant_method": "awq", "modules_to_not_convert": ["gate"]}, {}, "backbone.layers.3.mixer.up_proj", "int4"),
    (modelopt("NVFP4", ignore=[f"{L}.mlp.gate"]), {}, f"{L}.mlp.up_proj", None),
    (modelopt("NVFP4", ignore=[f"{L}.mlp.gate"]), {}, f"{L}.mlp.experts.*.up_proj", "nvfp4"),
    ({"quant_method": "awq", "modules_to_not_convert": None}, {}, "model.visual.blocks.0.attn.qkv", None),
    ({"quant_method": "gptq", "bits": 8, "group_size": -1}, {}, f"{L}.mlp.up_proj", "int8"),
    ({"quant_method": "gptq", "bits": 4, "dynamic": {"-:.*gate$": {}}}, {}, f"{L}.mlp.gate", None),
    ({"quant_method": "gptq", "bits": 4, "dynamic": {"+:.*down.*": {"bits": 8}}}, {}, f"{L}.mlp.down_proj", "int8"),
    ({"quant_method": "auto-round", "bits": 4}, {}, f"{L}.mlp.up_proj", "int4"),
    (
        {"quant_method": "auto-round", "bits": 4, "extra_config": {f"{L}.mlp.gate": {"bits": 16}}},
        {},
        f"{L}.mlp.gate",
        None,
    ),
    (
        {"quant_method": "auto-round", "bits": 4, "extra_config": {".*mlp.down_proj": {"bits": 8}}},
        {},
        f"{L}.mlp.down_proj",
        "int8",
    ),
]


@pytest.mark.parametrize(("quantization", "config", "module", "expected"), CASES)
def test_the_format_of_a_module(quantization: Any, config: dict[str, Any], module: str, expected: str | None) -> None:
    found = scheme(quantization, **config).format(module)
    assert (found.name if found else None) == expected


def test_a_nested_quantization_config_is_found() -> None:
    found, _reason = Scheme.of({"text_config": {"quantization_config": FP8}})
    assert found
    assert found.format(f"{L}.mlp.up_proj")


SIZES = [
    (formats.fp8_block(128, 128), 200, 128, 200 * 128 + 4 * 2),
    (formats.fp8_block(128, 128, 8), 256, 256, 256 * 256 + 4),
    (formats.FP8_TENSOR, 10, 10, 108),
    (formats.FP8_CHANNEL, 10, 20, 200 + 40),
    (formats.NVFP4, 16, 32, 256 + 32 + 8),
    (formats.MXFP4, 16, 64, 512 + 32),
    (formats.integer(4, 128, zeros=True), 64, 256, 64 * 128 + 64 * 2 * 2 + 64),
    (formats.integer(4, 32, zeros=False), 64, 64, 64 * 32 + 64 * 2 * 2),
    (formats.integer(8, -1, zeros=False), 64, 64, 64 * 64 + 64 * 2),
]


@pytest.mark.parametrize(("form", "out", "into", "expected"), SIZES)
def test_bytes_of_a_layer(form: formats.Format, out: int, into: int, expected: int) -> None:
    assert form.bytes(out, into) == expected


def test_bytes_of_many_layers_of_one_shape() -> None:
    assert scheme(FP8).bytes(linear(f"{L}.mlp.experts.*.up_proj", 128, 256, 5), 2) == 5 * (128 * 256 + 8)
    assert scheme(FP8).bytes(Tensor("lm_head", (10, 20), linear=True), 2) == 400


# (quantization_config, keys beside it, what the reason must say)
UNKNOWN: list[tuple[Any, dict[str, Any], list[str]]] = [
    ("fp8", {}, ["quantization_config", "'fp8'", "a table"]),
    ({"quant_method": "bitsandbytes"}, {}, ["quant_method", "'bitsandbytes'", "compressed-tensors"]),
    ({"quant_method": "fp8_nonsense"}, {}, ["quant_method", "'fp8_nonsense'", "known are fp8, modelopt"]),
    ({"quant_method": "fp8x"}, {}, ["quant_method", "'fp8x'", "known are"]),
    ({"quant_method": "awq_marlinfoo", "bits": 4}, {}, ["quant_method", "'awq_marlinfoo'", "known are"]),
    ({"bits": 4}, {}, ["quant_method", "None"]),
    ([], {}, ["quantization_config", "[]", "null"]),
    (0, {}, ["quantization_config", "0", "null"]),
    ("", {}, ["quantization_config", "''", "null"]),
    (False, {}, ["quantization_config", "False", "null"]),
    ({**FP8, "weight_block_size": [10**9, 10**9]}, {}, ["weight_block_size", "1000000000", "from 1 to 1048575"]),
    ({"quant_method": "auto-round", "extra_config": {"a": {"bits": "16"}}}, {}, ["bits of a", "'16'", "8, 16 or 32"]),
    ({"quant_method": "auto-round", "extra_config": {"a": 3}}, {}, ["extra_config", "{'a': 3}", "a table of tables"]),
    ({"quant_method": "gptq", "dynamic": [1]}, {}, ["dynamic", "[1]", "a table of tables"]),
    ({**FP8, "weight_block_size": [128]}, {}, ["weight_block_size", "[128]", "two whole numbers"]),
    ({**FP8, "weight_block_size": [0, 128]}, {}, ["weight_block_size", "0", "from 1 to 1048575"]),
    ({**FP8, "weight_block_size": 128}, {}, ["weight_block_size", "128"]),
    ({**FP8, "modules_to_not_convert": "lm_head"}, {}, ["modules_to_not_convert", "lm_head", "a list"]),
    (FP8, {"expert_dtype": "int3"}, ["expert_dtype", "'int3'", "fp8 and fp4"]),
    (modelopt("INT2"), {}, ["quant_algo", "'INT2'", "NVFP4"]),
    (modelopt("MIXED_PRECISION"), {}, ["MIXED_PRECISION", "quantized_layers"]),
    (modelopt("MIXED_PRECISION", quantized_layers=[1]), {}, ["quantized_layers", "a table"]),
    (modelopt("MIXED_PRECISION", quantized_layers={"a": {"quant_algo": "Q"}}), {}, ["quant_algo", "'Q'"]),
    (groups({"num_bits": 5, "type": "int", "group_size": 32}), {}, ["5 bits", "not known"]),
    (groups({"num_bits": 4, "type": "int", "group_size": 0}), {}, ["group_size", "0"]),
    ({"quant_method": "compressed-tensors"}, {}, ["config_groups", "None"]),
    ({**groups(INT4), "sparsity_config": {"format": "sparse-24"}}, {}, ["sparsity_config"]),
    ({"quant_method": "awq", "bits": 5}, {}, ["bits", "5", "2, 3, 4 or 8"]),
    ({"quant_method": "gptq", "bits": 4, "group_size": "x"}, {}, ["group_size", "'x'"]),
    ({"quant_method": "auto-round", "bits": 4, "data_type": "mx_fp"}, {}, ["data_type", "'mx_fp'"]),
]


@pytest.mark.parametrize(("quantization", "config", "words"), UNKNOWN)
def test_an_unknown_quantisation_has_a_reason(quantization: Any, config: dict[str, Any], words: list[str]) -> None:
    found, reason = Scheme.of({**config, "quantization_config": quantization})
    assert found is None
    assert reason
    for word in words:
        assert word in reason


BESIDE = {
    "producer": {"name": "modelopt", "version": "0.29"},
    "quantization": {
        "quant_algo": "NVFP4",
        "kv_cache_quant_algo": "FP8",
        "group_size": 16,
        "exclude_modules": ["model.layers.0"],
    },
}


def test_what_lies_beside_is_merged_in() -> None:
    merged = merge_hf_quant_config({"model_type": "llama"}, BESIDE)
    assert merged["quantization_config"]["quant_method"] == "modelopt"
    assert merged["quantization_config"]["kv_cache_quant_algo"] == "FP8"
    assert scheme(merged["quantization_config"]).format(f"{L}.mlp.up_proj") is formats.NVFP4
    assert scheme(merged["quantization_config"]).format("model.layers.0.mlp.up_proj") is None


@pytest.mark.parametrize(
    ("config", "beside"),
    [
        ({"quantization_config": FP8}, BESIDE),
        ({"model_type": "llama"}, {}),
        ({"model_type": "llama"}, {"quantization": None}),
        ({"model_type": "llama"}, {"quantization": {"quant_algo": None}}),
        ({"model_type": "llama"}, []),
    ],
)
def test_a_quantisation_of_its_own_stays(config: dict[str, Any], beside: Any) -> None:
    assert merge_hf_quant_config(config, beside) == config


def test_what_planning_must_know() -> None:
    awq = {"quant_method": "awq", "bits": 4, "group_size": 64, "modules_to_not_convert": ["gate", "self_attn"]}
    assert formats_of({"model_type": "minimax_m2", "quantization_config": awq}, 62) == {
        "experts": "int4",
        "group": 64,
        "zeros": True,
        "symmetric": False,
        "latent": False,
        "splits": {
            key: {"of": 64, "form": "int4"}
            for key in ("intermediate_size", "shared_expert_intermediate_size", "linear_attention")
        },
        "ordered": None,
    }
    assert formats_of({"model_type": "deepseek_v3", "quantization_config": FP8}, 61)["latent"]
    assert formats_of({"quantization_config": {"quant_method": "never"}}, 1)["experts"] is None


@pytest.mark.parametrize(
    ("quantization", "expected"),
    [
        ({"quant_method": "gptq", "bits": 4, "desc_act": True, "group_size": 128}, "desc_act"),
        ({"quant_method": "gptq", "bits": 4, "desc_act": True, "group_size": -1}, None),
        ({"quant_method": "gptq", "bits": 4, "desc_act": False, "group_size": 128}, None),
        (groups({"num_bits": 4, "type": "int", "group_size": 128, "actorder": "group"}), "actorder"),
        (groups({"num_bits": 4, "type": "int", "group_size": 128, "actorder": "static"}), None),
        (groups({"num_bits": 4, "type": "int", "group_size": 128}), None),
    ],
)
def test_an_order_of_inputs_is_noticed(quantization: dict[str, Any], expected: str | None) -> None:
    assert formats_of({"quantization_config": quantization}, 4)["ordered"] == expected
