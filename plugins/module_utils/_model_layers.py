# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 gb10.serving contributors
#
# Private to this collection: may change without notice.
"""config.json -> what each layer keeps in the cache, as groups of equal layers.

A group: {kind, of, layers: how many, at: their numbers, and the sizes of its kind}. of is "model"; "mtp" for layers of
multi-token prediction; "shared" for layers that read the cache of a layer before them, which some engines allocate all
the same. One layer may be in several groups (a latent and its index keys). Kinds: full, sliding, chunked, mla, index,
gdn, mamba2, kda, conv, ring, and for DeepSeek-V4 window_mla, compressed and compressor.
"""

from __future__ import annotations

from typing import Any

from ansible_collections.gb10.serving.plugins.module_utils._model_layer_parts import (
    KINDS,
    Layers,
    Part,
    attention_sizes,
    beside,
    deepseek_v4,
    gdn,
    kda,
    latent_layer,
    mamba2,
    nested,
    per_layer_embedding,
)

MOST_LAYERS = 1024
_LETTERS = {"M": "mamba2", "*": "full", "E": "none", "-": "none"}
_ALWAYS_SLIDING = {"mistral", "mixtral", "phi3", "starcoder2"}  # one window for every layer, where one is given
DSPARK_STAGES = 3  # vLLM: getattr(config, "n_mtp_layers", None) or 3
_DRAFTS_UNSAID = {"qwen3_next", "qwen4_exp", "qwen4_exp_text"}  # vLLM: getattr(config, ..., 1)
# What the loader of this family takes for keys that its config.json leaves out.
_GLM5_NEXT: dict[str, Any] = {
    "kv_lora_rank": 512,
    "qk_rope_head_dim": 0,
    "index_topk": 2048,
    "index_kpool": 16,
    "linear_num_heads": 64,
    "linear_head_dim": 128,
    "linear_conv_kernel_dim": 4,
    "linear_lower_bound": -5.0,
}
_PATTERNS = {"gemma3": 6, "gemma3_text": 6, "gemma2": 2, "cohere2": 4, "gpt_oss": 2}  # every n-th layer is full


def _kinds(layers: Layers, drafts: int) -> list[str]:
    """The kind of every layer, drafting layers included; empty where it is not known."""
    text, count = layers.text, layers.layers
    letters = text.get("hybrid_override_pattern")
    flags = layers.by_layer("hybrid_layer_pattern", (int,))
    types = layers.by_layer("layer_types", more=drafts) or layers.by_layer("layers_block_type")
    interval = layers.read.get("full_attention_interval")
    if isinstance(letters, str):
        kinds = [_LETTERS.get(letter, letter) for letter in letters if letter != "|"]
        if len(kinds) != count:
            layers.problems.append(
                f"config.json: hybrid_override_pattern names {len(kinds)} layers, num_hidden_layers is {count}; "
                "expected the same."
            )
            return []
    elif types is not None:
        kinds = [KINDS.get(str(kind), str(kind)) for kind in types]
    elif flags is not None:
        kinds = ["sliding" if flag else "full" for flag in flags]
    elif interval and text.get("linear_num_value_heads"):
        kinds = ["full" if (n + 1) % interval == 0 else "gdn" for n in range(count)]
    else:
        kinds = _windows(layers)
    unknown = sorted(set(kinds) - {*KINDS.values(), "none"})
    if unknown:
        layers.not_modelled.append(f"layers of type {', '.join(unknown)[:80]}")
        return []
    if text.get("sliding_window") is None and text.get("sliding_window_size") is None:
        kinds = ["full" if kind == "sliding" else kind for kind in kinds]
    return [*kinds, *_drafts(layers, drafts)][: count + drafts] if len(kinds) == count else kinds


def _windows(layers: Layers) -> list[str]:
    """Models that name no layer types: a window in all layers, in most, in none; Llama-4's chunks."""
    text, count, model_type = layers.text, layers.layers, str(layers.text.get("model_type"))
    if layers.read.get("attention_chunk_size") and model_type.startswith("llama4"):
        step = layers.read.get("no_rope_layer_interval", default=4) or 4
        rope = layers.by_layer("no_rope_layers", (int,)) or [int((n + 1) % step != 0) for n in range(count)]
        return ["chunked" if turns else "full" for turns in rope]
    window = layers.read.get("sliding_window")
    if not window or text.get("use_sliding_window") is False:
        return ["full"] * count
    pattern = text.get("sliding_window_pattern")
    if isinstance(pattern, str) and set(pattern) <= {"L", "G"} and pattern:
        return ["full" if pattern[n % len(pattern)] == "G" else "sliding" for n in range(count)]
    pattern = layers.read.get("sliding_window_pattern", default=_PATTERNS.get(model_type))
    if pattern:
        return ["full" if (n + 1) % pattern == 0 else "sliding" for n in range(count)]
    if model_type in _ALWAYS_SLIDING:
        return ["sliding"] * count
    layers.not_modelled.append("a sliding window without a list of the layers that have it")
    return []


def _drafts(layers: Layers, drafts: int) -> list[str]:
    """The attention of the drafting layers: full, but for the families below."""
    letters, types = layers.text.get("mtp_hybrid_override_pattern"), layers.text.get("mtp_layers_block_type")
    if isinstance(letters, str):
        return [_LETTERS[letter] for letter in letters if _LETTERS.get(letter) in ("full", "mamba2")] * drafts
    if isinstance(types, list):
        return [k for k in (KINDS.get(str(kind)) for kind in types) if k in ("full", "mamba2")] * drafts
    return ["sliding" if layers.text.get("swa_num_key_value_heads") else "full"] * drafts


def _fill(layers: Layers, drafts: int) -> None:
    text, count = layers.text, layers.layers
    if text.get("compress_ratios") is not None:
        if text.get("model_type") not in ("deepseek_v4", "deepseek_ref"):
            layers.not_modelled.append(f"compressed attention of {text.get('model_type')}")
            return None
        return deepseek_v4(layers, drafts)
    attention = attention_sizes(layers)
    linear, latent = nested(layers, "linear_attn_config"), text.get("kv_lora_rank") is not None
    if "linear_num_heads" in text:  # GLM-5-Next: which layers is said by layer_types
        linear = None
    types = layers.by_layer("indexer_types") if text.get("index_topk") else None
    if linear is not None:  # Kimi: layers are counted from 1
        with_state = linear.values.get("kda_layers")
        if not isinstance(with_state, list) or not all(isinstance(n, int) for n in with_state):
            layers.problems.append("config.json: linear_attn_config.kda_layers is missing; expected a list of numbers.")
            return None
        kinds = ["kda" if at + 1 in with_state else "full" for at in range(count)] + ["full"] * drafts
    else:
        kinds = _kinds(layers, drafts)
    if latent and linear is None:
        kinds = ["kda" if kind == "gdn" else kind for kind in kinds]
    sparse = nested(layers, "sparse_attention_config")
    rare = layers.text.get("attn_type_list")
    if isinstance(rare, list) and any(kind != 1 for kind in rare):
        layers.not_modelled.append("lightning attention")
        return None
    shared = layers.read.get("num_kv_shared_layers", default=0, least=0, most=count - 1) or 0
    for at, kind in enumerate(kinds):
        if kind == "none":
            continue
        layers.shared = count - shared <= at < count
        if kind == "gdn":
            layers.add(at, gdn(layers))
        elif kind == "mamba2":
            layers.add(at, mamba2(layers))
        elif kind == "kda":
            layers.add(at, kda(layers, linear or layers.read))
        elif latent:
            latent_layer(layers, at, types)
        else:
            layers.add(at, attention(kind))
            beside(layers, at, kind, sparse)
    if layers.read.get("ple_embed_dim"):
        per_layer_embedding(layers)
    return None


def _completed(text: dict[str, Any], layers: int) -> dict[str, Any]:
    """With what a family's loader fills in."""
    if text.get("model_type") not in ("glm5_next", "glm5_next_text"):
        return text
    linear = text.get("linear_attn_config")
    named = {"num_heads": "linear_num_heads", "head_dim": "linear_head_dim"}
    named |= {"short_conv_kernel_size": "linear_conv_kernel_dim", "gate_lower_bound": "linear_lower_bound"}
    given = {named[k]: v for k, v in linear.items() if k in named} if isinstance(linear, dict) else {}
    kinds = ["full_attention" if n % 4 == 3 else "linear_attention" for n in range(layers)]
    known = {key: value for key, value in text.items() if value is not None}
    return {"layer_types": kinds, **_GLM5_NEXT, **known, **given}


def usual_drafts(text: dict[str, Any]) -> int:
    """Drafting layers of a file that does not say how many: these families' classes then create one."""
    return int(str(text.get("model_type")) in _DRAFTS_UNSAID)


def has_dspark(text: dict[str, Any]) -> bool:
    """Whether what the file calls prediction layers is a DSpark drafter, however many it says there are."""
    return text.get("model_type") == "deepseek_v4" and bool(text.get("dspark_target_layer_ids"))


def drafting_layers(text: dict[str, Any]) -> int:
    """Layers of the multi-token prediction that an engine creates from this file."""
    problems: list[str] = []
    read, usual = Layers(text, 1, problems).read, usual_drafts(text)
    if has_dspark(text):
        return read.get("n_mtp_layers", default=DSPARK_STAGES, least=0) or DSPARK_STAGES
    count = read.get("mtp_num_hidden_layers", "num_nextn_predict_layers", default=usual, least=0) or 0
    if not count:
        count = min(1, read.get("num_mtp_modules", default=0, least=0) or 0)
    return min(1, count) if str(text.get("model_type")).startswith("mimo") else count


def principal_kinds(groups: list[Part]) -> dict[str, int]:
    """Layers of the model by the kind of their attention."""
    names = {"full": "full", "mla": "full", "window_mla": "full", "sliding": "sliding", "chunked": "sliding",
             "gdn": "linear", "kda": "kda", "mamba2": "mamba"}  # fmt: skip
    found = dict.fromkeys(("full", "linear", "sliding", "kda", "mamba"), 0)
    for group in groups:
        if group["of"] == "model" and group["kind"] in names:
            found[names[group["kind"]]] += group["layers"]
    return {name: count for name, count in found.items() if count}


def cache_layers(text: dict[str, Any], layers: int | None) -> tuple[list[Part], list[str], list[str]]:
    """(groups, sentences on values that make no sense, what is not modelled) of the language model's part."""
    problems: list[str] = []
    if not layers:
        return [], [], []
    drafts = drafting_layers(text)
    if layers > MOST_LAYERS or drafts > MOST_LAYERS:
        key, value = ("num_hidden_layers", layers) if layers > MOST_LAYERS else ("the number of MTP layers", drafts)
        return [], [f"config.json: {key} is {value}; expected a whole number up to {MOST_LAYERS}."], []
    found = Layers(_completed(text, layers), layers, problems)
    _fill(found, drafts)
    missing = sorted(set(found.read.missing))
    if missing and not problems:
        found.not_modelled.append(f"layers whose {', '.join(missing)} config.json does not give")
    keeps = any(group["of"] == "model" for group in found.groups)
    if not keeps and not problems and not found.not_modelled:
        found.not_modelled.append("no layer that keeps a cache")
    return found.groups if keeps and not missing else [], problems, found.not_modelled
