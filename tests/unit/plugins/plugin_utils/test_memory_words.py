# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""What a plan says: by the names that a user sets, with the true reason, and complete."""

from __future__ import annotations

import re
from typing import Any

import pytest

from ansible_collections.gb10.serving.plugins.plugin_utils._memory import plan
from ansible_collections.gb10.serving.plugins.plugin_utils._memory_model import Engine, Model
from ansible_collections.gb10.serving.plugins.plugin_utils._memory_sizes import tp_problems
from ansible_collections.gb10.serving.plugins.plugin_utils._plan_names import named_plan
from ansible_collections.gb10.serving.tests.unit.plugins.plugin_utils.memory_models import GIB, model, nodes
from ansible_collections.gb10.serving.tests.unit.plugins.plugin_utils.test_memory_search import TIGHT

VLLM = {"name": "vllm"}


@pytest.mark.parametrize(
    ("count", "wishes", "words"),
    [
        (3, {"tensor_parallel": 2}, "2 of 3 nodes are used: gb10_plan_tp is 2."),
        (3, {"pipeline_parallel": 2}, "2 of 3 nodes are used: gb10_plan_pp is 2,"),
        # 33 ranks are more than the layers that pipeline stages could share
        (33, {}, "32 of 33 nodes are used: Total number of attention heads (32) must be divisible by"),
    ],
)
def test_why_nodes_are_left_out(count: int, wishes: dict[str, Any], words: str) -> None:
    machines = [{"host": f"n{n}"} for n in range(count)]
    answer = plan(machines, model("llama-8b"), {"context_length": 8192, **wishes}, VLLM)
    assert any(note.startswith(words) and note.endswith(".") for note in answer["notes"]), answer["notes"]


def test_more_requests_are_a_lever_where_the_limit_decides() -> None:
    wishes = {"context_length": 8192, "max_num_seqs": 16}
    answer = plan(nodes(1, None), model("llama-8b"), wishes, VLLM)
    assert answer["kv"]["requests_at_once"] == 16 < answer["kv"]["max_concurrency"]
    (lever,) = answer["levers"]
    more = lever["settings"]["gb10_plan_max_num_seqs"]
    assert more == lever["requests_at_once"] == int(answer["kv"]["max_concurrency"])
    after = plan(nodes(1, None), model("llama-8b"), {**wishes, "max_num_seqs": more}, VLLM)
    assert after["verdict"] == "fits" and after["kv"]["max_concurrency"] == lever["max_concurrency"]


INTERNAL = re.compile(
    r"(?<![\w-])(tensor_parallel|pipeline_parallel|expert_parallel|max_num_seqs|kv_cache_bytes|kv_cache_dtype|load_format"
    r"|speculative_tokens|enforce_eager|language_model_only|gpu_memory_utilization|mem_fraction_static)\b"
)


@pytest.mark.parametrize(("name", "weights", "count", "free", "wishes"), TIGHT)
@pytest.mark.parametrize("eager", [False, True])
def test_advice_has_no_internal_name(
    name: str, weights: float | None, count: int, free: float | None, wishes: dict[str, Any], eager: bool
) -> None:
    answer = named_plan(plan(nodes(count, free), model(name, weights), {**wishes, "enforce_eager": eager}, VLLM))
    for advice in (*answer["changes"], *answer["levers"]):
        assert not INTERNAL.search(advice["change"]) and not re.search(r"\b(True|None)\b", advice["change"]), advice
        for parts in (advice["settings"].get("gb10_server_args") or {}).values():
            assert all(flag.split("-config")[0].split("-algorithm")[0] in advice["change"] for flag in parts), advice
    assert not any(INTERNAL.search(reason) for reason in answer["reasons"]), answer["reasons"]


def test_a_context_that_is_too_long_is_not_the_weights_fault() -> None:
    weights = 104.0  # more than the usual figure leaves beside the reserve, less than what is seen at the best
    short = plan(nodes(1, None), model("llama-8b", weights), {"context_length": 1024}, VLLM)
    long = plan(nodes(1, None), model("llama-8b", weights), {"context_length": 131072}, VLLM)
    assert (short["verdict"], long["verdict"]) == ("borderline", "refused")
    (reason,) = long["reasons"]
    assert reason.startswith("One request of 131072 tokens needs 16.0 GiB") and "weights do not fit" not in reason
    longest = int(reason.rstrip(".").rpartition(" ")[2])
    there = plan(nodes(1, None), model("llama-8b", weights), {"context_length": longest}, VLLM)
    assert longest and there["verdict"] == "borderline"


def test_a_context_beyond_the_model_has_a_way_out() -> None:
    (reason,) = plan(nodes(1, None), model("llama-8b"), {"context_length": 10**6}, VLLM)["reasons"]
    assert "YaRN" in reason and "--hf-overrides" in reason and "VLLM_ALLOW_LONG_MAX_MODEL_LEN=1" in reason


@pytest.mark.parametrize(
    ("sparse", "engine", "dtype", "words"),
    [
        (True, "vllm", "auto", "fp8_ds_mla"),
        (True, "sglang", "auto", "bf16"),
        (True, "sglang", "fp8", "fp8_ds_mla"),
        (False, "vllm", "auto", "bf16"),
        (False, "vllm", "fp8", "fp8"),
    ],
)
def test_rows_of_the_sparse_kernels_are_named(sparse: bool, engine: str, dtype: str, words: str) -> None:
    of = model("deepseek-v3")
    groups = [{**group, "sparse": sparse} if group.get("kind") == "mla" else group for group in of["config"]["cache"]]
    seen = {**of, "config": {**of["config"], "cache": groups}}
    wishes = {"context_length": 8192, "kv_cache_dtype": dtype}
    answer = plan(nodes(16, None), seen, wishes, {"name": engine})
    assert answer["kv"]["dtype"] == words
    per_token = {"fp8_ds_mla": 656, "bf16": 1152, "fp8": 576}[words]
    assert answer["kv"]["bytes_per_token_per_rank"] % per_token == 0


def test_reasons_are_sentences() -> None:
    config = {"vocab_size": 1000, "num_attention_heads": 7, "moe_intermediate_size": 10, "num_key_value_heads": 4}
    found = tp_problems(Model(config, {}, "config.json", None), 6, Engine.of(VLLM))
    assert len(found) > 3 and all(text.endswith(".") for text in found), found


@pytest.mark.parametrize(
    ("key", "name"), [("kv_cache_bytes", "gb10_plan_kv_cache_gib"), ("reserve_bytes", "gb10_plan_reserve_gib")]
)
def test_what_is_set_in_gib_is_shown_in_gib(key: str, name: str) -> None:
    (reason,) = plan(nodes(1, None), model("llama-8b"), {key: 2**51}, VLLM)["reasons"]
    assert reason.startswith(f"{name} is 2.09715e+06 (") and reason.endswith("to 1048576.")
    assert GIB * 1048576 == 2**50
