# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""Exclude lists against the names that the engine has for a module, where they are not the checkpoint's."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gb10.serving.plugins.module_utils._inventory._quantization import Scheme

L = "model.layers.3"
GPT_OSS = {"architectures": ["GptOssForCausalLM"]}
MLA, NO_LATENT_QUERY = {"q_lora_rank": 1536}, {"q_lora_rank": None}


def _packed(*ignore: str) -> dict[str, Any]:
    weights = {"num_bits": 8, "type": "float", "strategy": "channel"}
    group = {"targets": ["Linear"], "weights": weights}
    return {"quant_method": "compressed-tensors", "config_groups": {"group_0": group}, "ignore": list(ignore)}


def _modelopt(*ignore: str) -> dict[str, Any]:
    return {"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": list(ignore)}


# quantization_config, keys beside it, module, whether it is quantised
CASES: list[tuple[dict[str, Any], dict[str, Any], str, bool]] = [
    # vLLM's class says attn for self_attn: names are carried over, expressions are not
    (_packed("re:.*self_attn.*"), GPT_OSS, f"{L}.self_attn.q_proj", True),
    (_packed("re:.*\\.attn\\..*"), GPT_OSS, f"{L}.self_attn.q_proj", False),
    (_packed(f"{L}.self_attn.q_proj"), GPT_OSS, f"{L}.self_attn.q_proj", False),
    (_packed("re:.*self_attn.*"), {}, f"{L}.self_attn.q_proj", False),
    (_packed("re:.*router.*"), GPT_OSS, f"{L}.mlp.router", False),
    # the down projections of MLA are one layer, against whose name a wildcard is held
    (_modelopt("*q_a_proj*", "*kv_a_proj_with_mqa*"), MLA, f"{L}.self_attn.q_a_proj", True),
    (_modelopt("*q_a_proj*", "*kv_a_proj_with_mqa*"), MLA, f"{L}.self_attn.kv_a_proj_with_mqa", True),
    (_modelopt("*fused_qkv_a_proj*"), MLA, f"{L}.self_attn.q_a_proj", False),
    (_modelopt(f"{L}.self_attn*"), MLA, f"{L}.self_attn.q_a_proj", False),
    (_modelopt(f"{L}.self_attn.q_a_proj"), MLA, f"{L}.self_attn.q_a_proj", False),
    (_modelopt("*kv_b_proj*"), MLA, f"{L}.self_attn.kv_b_proj", False),
    (_modelopt("*kv_a_proj_with_mqa*"), NO_LATENT_QUERY, f"{L}.self_attn.kv_a_proj_with_mqa", False),
    (_modelopt("*q_a_proj*"), {"text_config": MLA}, f"{L}.self_attn.q_a_proj", True),
]


@pytest.mark.parametrize(("quantization", "config", "module", "quantised"), CASES)
def test_what_is_left_alone(quantization: dict[str, Any], config: dict[str, Any], module: str, quantised: bool) -> None:
    found, reason = Scheme.of({**config, "quantization_config": quantization})
    assert found, reason
    assert (found.format(module) is not None) == quantised
