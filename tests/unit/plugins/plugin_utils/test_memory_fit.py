# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""Terms of the sum, limits, and what a refusal proposes."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gb10.serving.plugins.plugin_utils._memory import plan
from ansible_collections.gb10.serving.tests.unit.plugins.plugin_utils.memory_models import GIB, model, nodes

VLLM = {"name": "vllm", "version": "0.33.0"}

# tensor parallel, wishes -> name of a term and its GiB
DRAFTS = {"speculative_tokens": 1, "separate_drafter": True}
OVERHEAD: list[tuple[int, dict[str, Any], str, float]] = [
    (1, {}, "non_torch", 0.3),
    (2, {}, "non_torch", 2.1),
    (4, {}, "non_torch", 2.1),
    (8, {}, "non_torch", 3.6),
    (1, {}, "graphs", 0.7),
    (1, {"enforce_eager": True}, "graphs", 0.0),
    (1, {}, "fixed", 1.2),
    (2, {}, "fixed", 0.4),
    (8, {}, "fixed", 1.4),
    (1, {"load_format": "fastsafetensors"}, "loader", 4.4),
    (1, {"max_num_seqs": 128, **DRAFTS}, "activation", 128 * 128256 * 15.4 * 1.5 / GIB),
    (1, DRAFTS, "drafter", 0.9),
    (2, DRAFTS, "drafter", 1.4),
    (1, {"max_num_seqs": 1024}, "activation", 1024 * 128256 * 15.4 / GIB),
    (1, {"max_num_seqs": 1, "max_num_batched_tokens": 8192}, "activation", 8192 * 25 * 4096 / GIB),
]


@pytest.mark.parametrize(("tp", "wishes", "name", "gib"), OVERHEAD)
def test_the_terms_of_the_overhead(tp: int, wishes: dict[str, Any], name: str, gib: float) -> None:
    terms = plan(nodes(tp), model("llama-8b", 15.0), wishes, VLLM)["ranks"][0]["terms"]
    assert {t["name"]: t["bytes"] for t in terms}[name] / GIB == pytest.approx(gib, rel=1e-6)


def test_a_limit_of_utilisation_bounds_the_cache() -> None:
    answer = plan(nodes(1), model("llama-8b", 40.0), {"gpu_memory_utilization": 0.6, "context_length": 8192}, VLLM)
    free = plan(nodes(1), model("llama-8b", 40.0), {"context_length": 8192}, VLLM)
    assert answer["gpu_memory_utilization"] <= 0.6 < free["gpu_memory_utilization"]
    assert answer["kv_cache_bytes"] < free["kv_cache_bytes"] - 20 * GIB


def test_a_pool_without_a_block_to_hold_back_is_refused() -> None:
    """llama-8b: blocks of 2 MiB; a request of 1,024 tokens takes 64 of them."""
    of, verdicts = model("llama-8b", 15.0), []
    for blocks in (64, 65):
        wishes = {"context_length": 1024, "kv_cache_bytes": blocks * 2 * 1024**2}
        verdicts.append(plan(nodes(1), of, wishes, VLLM)["verdict"])
    assert verdicts == ["refused", "fits"]


def test_no_number_of_nodes_is_proposed_that_the_model_does_not_divide_into() -> None:
    answer = plan(nodes(4), model("glm-4.7-flash", 500.0), {"context_length": 8192}, VLLM)
    assert answer["verdict"] == "refused"
    assert not any("8 nodes" in remedy for remedy in answer["remedies"])


def test_a_checkpoint_that_carries_scales_for_its_cache_gets_it_in_8_bits() -> None:
    scaled = {"quant_method": "modelopt", "quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8"}
    plain = plan(nodes(1), model("llama-8b", 15.0), {}, VLLM)["kv_bytes_per_token"]
    assert (
        plan(nodes(1), model("llama-8b", 15.0, quantization_config=scaled), {}, VLLM)["kv_bytes_per_token"] * 2 == plain
    )


def test_speculative_decoding_is_proposed_to_go_when_that_suffices() -> None:
    of = model("qwen3.5-122b", 40.0)
    of["tensors"]["by_class"]["mtp"] = 60 * GIB
    answer = plan(nodes(1), of, {"speculative_tokens": 2, "context_length": 8192}, VLLM)
    assert any(remedy.startswith("Turn speculative decoding off") for remedy in answer["remedies"])
    assert plan(nodes(1), of, {"context_length": 8192}, VLLM)["verdict"] == "fits"
