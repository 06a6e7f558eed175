# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""config.json -> groups of layers that keep something in the cache."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gb10.serving.plugins.module_utils._model_layers import (
    cache_layers,
    drafting_layers,
    principal_kinds,
)

PLAIN: dict[str, Any] = {"hidden_size": 64, "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 16}
LATENT = {**PLAIN, "kv_lora_rank": 512, "qk_rope_head_dim": 64}
MAMBA = {
    "mamba_num_heads": 8, "mamba_head_dim": 64, "n_groups": 2, "ssm_state_size": 128, "model_type": "nemotron_h",
}  # fmt: skip


def found(text: dict[str, Any], layers: int = 4) -> list[dict[str, Any]]:
    groups, problems, unknown = cache_layers(text, layers)
    assert (problems, unknown) == ([], [])
    assert all(group["layers"] == len(group["at"]) == len(set(group["at"])) for group in groups)
    return groups


def at(groups: list[dict[str, Any]], kind: str, of: str = "model") -> list[int]:
    return sorted(n for group in groups if group["kind"] == kind and group["of"] == of for n in group["at"])


@pytest.mark.parametrize(
    ("text", "full", "sliding"),
    [
        ({}, [0, 1, 2, 3], []),
        ({"layer_types": ["sliding_attention", "full_attention"] * 2, "sliding_window": 128}, [1, 3], [0, 2]),
        ({"sliding_window": 128, "sliding_window_pattern": 2}, [1, 3], [0, 2]),
        ({"sliding_window": 128, "sliding_window_pattern": "LLG"}, [2], [0, 1, 3]),
        ({"sliding_window": 128, "model_type": "gpt_oss"}, [1, 3], [0, 2]),
        ({"sliding_window": 4096, "model_type": "mistral"}, [], [0, 1, 2, 3]),
        ({"sliding_window": None, "model_type": "mistral"}, [0, 1, 2, 3], []),
        ({"sliding_window": 4096, "use_sliding_window": False, "max_window_layers": 2}, [0, 1, 2, 3], []),
        ({"hybrid_layer_pattern": [0, 1, 1, 0], "sliding_window_size": 128}, [0, 3], [1, 2]),
    ],
)
def test_which_layers_have_a_window(text: dict[str, Any], full: list[int], sliding: list[int]) -> None:
    groups = found({**PLAIN, **text})
    assert (at(groups, "full"), at(groups, "sliding")) == (full, sliding)


def test_windowed_layers_may_have_other_heads() -> None:
    text = {
        **PLAIN, "head_dim": 192, "v_head_dim": 128, "hybrid_layer_pattern": [0, 1, 1, 1], "sliding_window_size": 128,
        "swa_num_key_value_heads": 8, "swa_head_dim": 192, "swa_v_head_dim": 128,
    }  # fmt: skip
    full, sliding = found(text)
    assert (full["kv_heads"], full["head_dim"], full["value_head_dim"]) == (4, 192, 128)
    assert (sliding["kv_heads"], sliding["head_dim"], sliding["value_head_dim"], sliding["window"]) == (
        8,
        192,
        128,
        128,
    )
    text = {
        **PLAIN, "num_key_value_heads": None, "num_attention_groups": 8, "sliding_window": 512,
        "layer_types": ["full_attention", "sliding_attention"] * 2,
        "attention_other_setting": {"attention_type": "sliding_attention", "num_attention_groups": 2, "head_dim": 32},
    }  # fmt: skip
    full, sliding = found(text)
    assert (full["kv_heads"], full["head_dim"], sliding["kv_heads"], sliding["head_dim"]) == (8, 16, 2, 32)


@pytest.mark.parametrize(("equal", "heads"), [(True, 2), (False, 4)])
def test_global_layers_may_have_wider_heads(equal: bool, heads: int) -> None:
    text = {
        **PLAIN, "global_head_dim": 512, "num_global_key_value_heads": 2, "attention_k_eq_v": equal,
        "layer_types": ["sliding_attention"] * 3 + ["full_attention"], "sliding_window": 1024,
    }  # fmt: skip
    sliding, full = found(text)
    assert (full["kv_heads"], full["head_dim"], full["value_head_dim"]) == (heads, 512, 512)
    assert (sliding["kv_heads"], sliding["head_dim"], sliding["layers"]) == (4, 16, 3)


def test_layers_that_share_a_cache_are_named_apart() -> None:
    groups = found({**PLAIN, "num_kv_shared_layers": 3})
    assert (at(groups, "full"), at(groups, "full", "shared")) == ([0], [1, 2, 3])


def test_chunks_but_for_every_fourth_layer() -> None:
    groups = found({**PLAIN, "model_type": "llama4_text", "attention_chunk_size": 8192}, 8)
    assert (at(groups, "full"), at(groups, "chunked")) == ([3, 7], [0, 1, 2, 4, 5, 6])
    groups = found({**PLAIN, "model_type": "llama4_text", "attention_chunk_size": 8, "no_rope_layers": [0, 1, 1, 1]})
    assert at(groups, "full") == [0]


def test_a_chunk_of_another_family_is_no_chunk() -> None:
    assert principal_kinds(found({**PLAIN, "model_type": "mimo_v2_flash", "attention_chunk_size": 128})) == {"full": 4}


@pytest.mark.parametrize(
    ("text", "with_keys"),
    [
        ({}, [0, 1, 2, 3, 4, 5, 6, 7]),
        ({"indexer_types": ["full", "shared", "shared", "shared"] * 2}, [0, 4]),
        ({"index_topk_freq": 4, "index_skip_topk_offset": 3}, [0, 1, 2, 6]),
        ({"index_topk_pattern": "FSSSFSSS"}, [0, 4]),
    ],
)
def test_latents_with_index_keys_of_their_own(text: dict[str, Any], with_keys: list[int]) -> None:
    groups = found({**LATENT, "index_topk": 2048, "num_nextn_predict_layers": 1, **text}, 8)
    assert (at(groups, "mla"), at(groups, "index")) == (list(range(8)), with_keys)
    assert (at(groups, "mla", "mtp"), at(groups, "index", "mtp")) == ([8], [8])


def test_delta_attention_beside_latents() -> None:
    linear = {"kda_layers": [1, 2, 3], "num_heads": 96, "head_dim": 128, "short_conv_kernel_size": 4}
    groups = found({**LATENT, "linear_attn_config": linear})
    assert (at(groups, "kda"), at(groups, "mla")) == ([0, 1, 2], [3])


def test_a_family_whose_loader_fills_in_what_the_file_leaves_out() -> None:
    groups = found({**PLAIN, "model_type": "glm5_next_text", "linear_attn_config": {"num_heads": 32}}, 8)
    assert (at(groups, "kda"), at(groups, "mla"), at(groups, "ring")) == ([0, 1, 2, 4, 5, 6], [3, 7], [3, 7])
    assert [(g["heads"], g["head_dim"]) for g in groups if g["kind"] == "kda"] == [(32, 128)]
    assert [(g["latent"], g["rope"]) for g in groups if g["kind"] == "mla"] == [(512, 0)]


def test_states_experts_and_attention_by_letter_or_by_word() -> None:
    letters = found({**PLAIN, **MAMBA, "hybrid_override_pattern": "ME*-", "mtp_hybrid_override_pattern": "*E",
                     "num_nextn_predict_layers": 1})  # fmt: skip
    words = found({**PLAIN, **MAMBA, "layers_block_type": ["mamba", "moe", "attention", "mlp"],
                   "mtp_layers_block_type": ["attention", "moe"], "num_nextn_predict_layers": 1})  # fmt: skip
    assert letters == words
    assert (at(letters, "mamba2"), at(letters, "full"), at(letters, "full", "mtp")) == ([0], [2], [4])
    assert letters[0]["state_dtype"] == "float32"
    assert principal_kinds(letters) == {"full": 1, "mamba": 1}


def test_compressed_attention_layer_by_layer() -> None:
    text = {**PLAIN, "model_type": "deepseek_v4", "sliding_window": 128, "compress_ratios": [0, 4, 128, 4, 0],
            "num_nextn_predict_layers": 1}  # fmt: skip
    groups = found(text)
    assert (at(groups, "window_mla"), at(groups, "window_mla", "mtp")) == ([0, 1, 2, 3], [4])
    assert (at(groups, "compressed"), at(groups, "index")) == ([1, 2, 3], [1, 3])
    assert at(groups, "compressor") == [1, 1, 2, 3, 3]


def test_a_dspark_drafter_keeps_windows_alone() -> None:
    """Three stages, whatever the file says of prediction layers and however far its ratios go."""
    text = {**PLAIN, "model_type": "deepseek_v4", "sliding_window": 128, "num_nextn_predict_layers": 1,
            "dspark_target_layer_ids": [1, 2, 3]}  # fmt: skip
    for drafts in ([], [0], [0, 0, 0]):
        groups = found({**text, "compress_ratios": [0, 4, 128, 4, *drafts]})
        assert at(groups, "window_mla", "mtp") == [4, 5, 6]
        assert {group["kind"] for group in groups if group["of"] == "mtp"} == {"window_mla"}


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ({}, 0),
        ({"num_nextn_predict_layers": 3}, 3),
        ({"mtp_num_hidden_layers": 1}, 1),
        ({"num_mtp_modules": 3}, 1),
        ({"num_nextn_predict_layers": 3, "model_type": "mimo_v2_flash"}, 1),
        ({"num_nextn_predict_layers": 1, "model_type": "deepseek_v4"}, 1),
        ({"num_nextn_predict_layers": 1, "model_type": "deepseek_v4", "dspark_target_layer_ids": [1, 2]}, 3),
        ({"n_mtp_layers": 2, "model_type": "deepseek_v4", "dspark_target_layer_ids": [1, 2]}, 2),
    ],
)
def test_how_many_layers_draft(text: dict[str, Any], count: int) -> None:
    assert drafting_layers(text) == count


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ({"layer_types": ["full_attention"] * 3}, "layer_types names 3 layers, num_hidden_layers is 4"),
        ({"layer_types": 7}, "layer_types is 7; expected a list of 4 values"),
        ({"layer_types": [1, 2, 3, 4]}, "layer_types is [1, 2, 3, 4]; expected a list"),
        ({"hybrid_override_pattern": "M*"}, "hybrid_override_pattern names 2 layers"),
        ({"num_key_value_heads": 0}, "num_key_value_heads is 0; expected a whole number from 1 on"),
        *(
            (
                {"layer_types": ["linear_attention"] * 4, "mamba_ssm_dtype": value},
                f"mamba_ssm_dtype is {value!r}; expected one of auto, bfloat16, float16",
            )
            for value in ("banana", -1, 0, [64], 1e15, "")
        ),
        (
            {"hybrid_override_pattern": "MMM*", "mamba_ssm_cache_dtype": "int8"},
            "mamba_ssm_cache_dtype is 'int8'; expected one of auto, bfloat16",
        ),
        ({"head_dim": 16.5}, "head_dim is 16.5; expected a whole number"),
        ({"head_dim": 2**40}, f"head_dim is {2**40}; expected a whole number up to"),
        ({"num_kv_shared_layers": 4}, "num_kv_shared_layers is 4; expected a whole number up to 3"),
        ({"linear_attn_config": 3}, "linear_attn_config is 3; expected a JSON object"),
        ({"linear_attn_config": {}}, "linear_attn_config.kda_layers is missing"),
        ({"compress_ratios": [4, 5, 4, 0], "model_type": "deepseek_v4", "sliding_window": 8}, "compress_ratios has 5"),
        ({"num_nextn_predict_layers": 5000}, "the number of MTP layers is 5000; expected a whole number up to 1024"),
    ],
)
def test_a_value_that_makes_no_sense_is_named_with_what_is_accepted(text: dict[str, Any], words: str) -> None:
    _groups, problems, _unknown = cache_layers({**PLAIN, **text}, 4)
    assert any(words in problem for problem in problems)
    assert all(problem.startswith("config.json: ") for problem in problems)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ({"layer_types": ["odd"] * 4}, "layers of type odd"),
        ({"attn_type_list": [0, 1, 1, 1]}, "lightning attention"),
        ({"compress_ratios": [4] * 4, "model_type": "deepseek_v41"}, "compressed attention of deepseek_v41"),
        ({"kv_lora_rank": 512}, "layers whose qk_rope_head_dim config.json does not give"),
        ({"layer_types": ["linear_attention"] * 4}, "layers whose linear_key_head_dim, linear_num_key_heads"),
        ({"head_dim": None, "hidden_size": None}, "layers whose num_key_value_heads or head_dim"),
        ({"sliding_window": 9, "model_type": "new"}, "a sliding window without a list of the layers that have it"),
        ({"hybrid_override_pattern": "EEEE"}, "no layer that keeps a cache"),
    ],
)
def test_what_is_not_known_is_said_and_not_guessed(text: dict[str, Any], words: str) -> None:
    groups, problems, unknown = cache_layers({**PLAIN, **text}, 4)
    assert (groups, problems) == ([], [])
    assert words in unknown[0]


def test_too_many_layers_are_refused_before_they_are_counted() -> None:
    groups, problems, _unknown = cache_layers(PLAIN, 10**9)
    assert groups == []
    assert "num_hidden_layers is 1000000000; expected a whole number up to 1024" in problems[0]


def test_no_layers_no_groups() -> None:
    assert cache_layers(PLAIN, None) == ([], [], [])
