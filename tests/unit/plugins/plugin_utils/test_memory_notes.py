# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""What one should know of a plan beside its verdict."""

from __future__ import annotations

import re

import pytest

from ansible_collections.gb10.serving.plugins.plugin_utils._memory import plan
from ansible_collections.gb10.serving.tests.unit.plugins.plugin_utils.memory_models import GIB, model, nodes

VLLM = {"name": "vllm"}


def _told(found: list[str], words: str) -> list[str]:
    return [note for note in found if words in note]


@pytest.mark.parametrize(
    ("name", "says"),
    [("Qwen3-8B-FP8", "FP8"), ("qwen-nvfp4", "nvfp4"), ("m-AWQ-INT4", "AWQ"), ("Qwen3-8B", ""), ("fp8x", "")],
)
def test_a_name_of_fewer_bits_than_the_config_is_noticed(name: str, says: str) -> None:
    of = {**model("llama-8b"), "path": f"/models/{name}"}
    found = _told(plan(nodes(1), of, {"context_length": 8192}, VLLM)["notes"], "planned as 16-bit")
    assert bool(found) == bool(says)
    if says:
        assert f"says {says}," in found[0] and "hf_quant_config.json beside config.json" in found[0]


def test_a_name_is_believed_where_config_or_headers_agree() -> None:
    quantised = {**model("llama-70b-fp8"), "path": "/models/llama-fp8"}
    headers = {**model("llama-8b", 9.0), "path": "/models/llama-fp8"}
    for of in (quantised, headers):
        assert not _told(plan(nodes(2), of, {"context_length": 8192}, VLLM)["notes"], "planned as 16-bit")


def test_what_is_smaller_than_a_gb10_is_no_gb10() -> None:
    node = [{"host": "a", "total_bytes": 80 * GIB}]
    (note,) = _told(plan(node, model("llama-8b"), {}, VLLM)["notes"], "discrete GPU")
    assert "80.0 GiB is less than a GB10 has" in note and "no reserve" in note
    answer = plan(node, model("llama-8b"), {"reserve_bytes": 4 * GIB}, VLLM)
    assert _told(answer["notes"], "a reserve of 4 GiB")
    assert answer["ranks"][0]["reserve_bytes"] == 4 * GIB
    assert not _told(plan(nodes(1), model("llama-8b"), {}, VLLM)["notes"], "discrete GPU")


def test_a_prior_says_with_how_much_less_it_would_not_fit() -> None:
    wishes = {"context_length": 16384, "tensor_parallel": 1, "max_num_seqs": 64}
    answer = plan(nodes(1, None), model("qwen3.5-122b", 86.0), wishes, VLLM)
    assert answer["verdict"] == "fits"
    (note,) = _told(answer["notes"], "Memory was not measured")
    figures = re.search(r"settings are borderline at ([\d.]+) GiB free or less", note)
    assert figures, note
    at = float(figures.group(1))
    assert plan(nodes(1, at - 0.1), model("qwen3.5-122b", 86.0), wishes, VLLM)["verdict"] == "borderline"
    assert plan(nodes(1, at + 0.4), model("qwen3.5-122b", 86.0), wishes, VLLM)["verdict"] == "fits"
    for sure in (
        plan(nodes(1, 109.0), model("qwen3.5-122b", 86.0), wishes, VLLM),
        plan(nodes(1, None), model("llama-8b"), {}, VLLM),
    ):
        assert not _told(sure["notes"], "Memory was not measured")


def test_state_slots_bound_the_requests_of_the_other_engine() -> None:
    asked = {"max_num_seqs": 256, "context_length": 8192}
    answer = plan(nodes(2), model("qwen3.5-122b-fp8"), asked, {"name": "sglang"})
    (note,) = _told(answer["notes"], "state slots")
    most = int(re.findall(r"slots for (\d+) requests", note)[0])
    assert answer["kv"]["max_concurrency"] <= most < 256
    assert "mamba_full_memory_ratio" in next(t["formula"] for t in answer["terms"] if t["name"] == "state")
    assert not _told(plan(nodes(2), model("llama-8b"), asked, {"name": "sglang"})["notes"], "state slots")


@pytest.mark.parametrize(
    ("name", "wish", "dtype"),
    [("llama-8b", "auto", "bf16"), ("llama-8b", "fp8", "fp8"), ("qwen3.5-122b-fp8", "auto", "bf16")],
)
def test_the_type_of_the_cache_is_resolved(name: str, wish: str, dtype: str) -> None:
    answer = plan(nodes(2), model(name), {"kv_cache_dtype": wish}, VLLM)
    assert (answer["kv"]["dtype"], answer["kv"]["fixed"]) == (dtype, False)
    of = model(name)
    of["quantization"] = {**(of["quantization"] or {"method": "fp8"}), "kv_cache": "fp8"}
    assert plan(nodes(2), of, {}, VLLM)["kv"]["dtype"] == "fp8"
    assert plan(nodes(2), model(name), {"kv_cache_bytes": 20 * GIB}, VLLM)["kv"]["fixed"] is True


def test_figures_from_elsewhere_do_not_claim_to_be_of_a_gb10() -> None:
    sources = {t["name"]: t["source"] for t in plan(nodes(2), model("qwen3.5-122b-fp8"), {}, VLLM)["terms"]}
    assert sources["non_torch"].startswith("prior: measured on H100")
