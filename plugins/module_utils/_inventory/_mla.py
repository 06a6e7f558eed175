# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 gb10.serving contributors
#
# Private to this collection: may change without notice.
"""Multi-head latent attention: DeepSeek V2, V3 and V3.2, Kimi K2, GLM-4.7-Flash, GLM-5."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from ansible_collections.gb10.serving.plugins.module_utils._inventory._hybrid import gated_mlp
from ansible_collections.gb10.serving.plugins.module_utils._inventory._read import layers, names, section, tied, whole
from ansible_collections.gb10.serving.plugins.module_utils._inventory._types import Family, Tensor, linear
from ansible_collections.gb10.serving.plugins.module_utils._inventory._vision import moon_vision


@dataclass(frozen=True)
class Traits:
    """What the families differ in."""

    router_dtype: str | None = None
    always_corrected: bool = False  # the router has a correction bias whatever topk_method says
    draft_embeddings: bool = True  # the checkpoint repeats input and output embeddings in the draft layer


def attention(text: dict[str, Any], module: str) -> Iterator[Tensor]:
    hidden, heads = whole(text, "hidden_size"), whole(text, "num_attention_heads")
    nope, rope = whole(text, "qk_nope_head_dim"), whole(text, "qk_rope_head_dim", least=0)
    rank, value = whole(text, "kv_lora_rank"), whole(text, "v_head_dim")
    if text.get("q_lora_rank") is None:
        yield linear(f"{module}.q_proj", heads * (nope + rope), hidden)
    else:
        q_rank = whole(text, "q_lora_rank")
        yield linear(f"{module}.q_a_proj", q_rank, hidden)
        yield Tensor(f"{module}.q_a_layernorm", (q_rank,))
        yield linear(f"{module}.q_b_proj", heads * (nope + rope), q_rank)
    yield linear(f"{module}.kv_a_proj_with_mqa", rank + rope, hidden)
    yield Tensor(f"{module}.kv_a_layernorm", (rank,))
    yield linear(f"{module}.kv_b_proj", heads * (nope + value), rank)
    yield linear(f"{module}.o_proj", hidden, heads * value)


def indexer(text: dict[str, Any], module: str) -> Iterator[Tensor]:
    """Chooses the tokens of sparse attention. Only its query projection may be quantised."""
    hidden, heads, dim = whole(text, "hidden_size"), whole(text, "index_n_heads"), whole(text, "index_head_dim")
    yield linear(f"{module}.wq_b", heads * dim, whole(text, "q_lora_rank"))
    yield Tensor(f"{module}.wk", (dim, hidden))
    yield Tensor(f"{module}.weights_proj", (heads, hidden))
    yield Tensor(f"{module}.k_norm", (dim,), dtype="float32")
    yield Tensor(f"{module}.k_norm.bias", (dim,), dtype="float32")


def indexed_layers(text: dict[str, Any]) -> list[bool]:
    """Of each layer, whether it has an indexer of its own; the others take the choice of the one before."""
    count = layers(text, "num_hidden_layers", least=1)
    if text.get("index_topk") is None:
        return [False] * count
    whole(text, "index_topk")
    named = names(text, "indexer_types", ("full", "shared"), count)
    pattern = text.get("index_topk_pattern")
    if pattern is not None:
        if not isinstance(pattern, (str, list)) or len(pattern) != count or set(pattern) - {"F", "S"}:
            raise ValueError(f"index_topk_pattern is {pattern!r:.60}, expected F or S for each of {count} layers")
        return [letter != "S" for letter in pattern]
    if named is not None and text.get("index_topk_freq") is None:
        return [kind == "full" for kind in named]
    every = layers(text, "index_topk_freq", default=1, least=1)
    first = layers(text, "index_skip_topk_offset", default=2)
    return [max(number - first + 1, 0) % every == 0 for number in range(count)]


def _dense_layers(text: dict[str, Any]) -> list[bool]:
    count = layers(text, "num_hidden_layers", least=1)
    if not whole(text, "n_routed_experts", default=0, least=0):
        return [True] * count
    named = names(text, "mlp_layer_types", ("dense", "sparse"), count)
    if named is not None and text.get("first_k_dense_replace") is None:
        return [kind == "dense" for kind in named]
    first = layers(text, "first_k_dense_replace", default=0)
    every = layers(text, "moe_layer_freq", default=1, least=1)
    return [number < first or number % every != 0 for number in range(count)]


def experts(text: dict[str, Any], module: str, traits: Traits) -> Iterator[Tensor]:
    hidden, count = whole(text, "hidden_size"), whole(text, "n_routed_experts")
    inner = whole(text, "moe_intermediate_size")
    yield Tensor(f"{module}.gate", (count, hidden), dtype=traits.router_dtype)
    if traits.always_corrected or text.get("topk_method") == "noaux_tc":
        yield Tensor(f"{module}.gate.e_score_correction_bias", (count,), dtype="float32")
    yield from gated_mlp(f"{module}.experts.*", inner, hidden, count)
    shared = whole(text, "n_shared_experts", default=0, least=0, most=4096)
    if shared:
        yield from gated_mlp(f"{module}.shared_experts", inner * shared, hidden)


def _layer(text: dict[str, Any], module: str, dense: bool, indexed: bool, traits: Traits) -> Iterator[Tensor]:
    hidden = whole(text, "hidden_size")
    yield from attention(text, f"{module}.self_attn")
    if indexed:
        yield from indexer(text, f"{module}.self_attn.indexer")
    if dense:
        yield from gated_mlp(f"{module}.mlp", whole(text, "intermediate_size"), hidden)
    else:
        yield from experts(text, f"{module}.mlp", traits)
    yield Tensor(f"{module}.input_layernorm", (hidden,))
    yield Tensor(f"{module}.post_attention_layernorm", (hidden,))


def _mtp(text: dict[str, Any], module: str, traits: Traits) -> Iterator[Tensor]:
    """Draft layers follow the model's own by number. Always with an indexer, where the model has any."""
    hidden, vocab, first = whole(text, "hidden_size"), whole(text, "vocab_size"), layers(text, "num_hidden_layers")
    routed = whole(text, "n_routed_experts", default=0, least=0)
    every = layers(text, "moe_layer_freq", default=1, least=1)
    indexed = text.get("index_topk") is not None
    for number in range(first, first + layers(text, "num_nextn_predict_layers", default=0)):
        layer = f"{module}.layers.{number}"
        for name in ("enorm", "hnorm", "shared_head.norm"):
            yield Tensor(f"{layer}.{name}", (hidden,))
        yield Tensor(f"{layer}.eh_proj", (hidden, 2 * hidden))
        if traits.draft_embeddings:
            yield Tensor(f"{layer}.embed_tokens", (vocab, hidden))
            yield Tensor(f"{layer}.shared_head.head", (vocab, hidden))
        yield from _layer(text, layer, not routed or number % every != 0, indexed, traits)


def decoder(
    text: dict[str, Any], config: dict[str, Any], traits: Traits = Traits(), prefix: str = ""
) -> Iterator[Tensor]:
    hidden, vocab = whole(text, "hidden_size"), whole(text, "vocab_size")
    module = f"{prefix}model"
    yield Tensor(f"{module}.embed_tokens", (vocab, hidden))
    for number, (dense, indexed) in enumerate(zip(_dense_layers(text), indexed_layers(text), strict=True)):
        yield from _layer(text, f"{module}.layers.{number}", dense, indexed, traits)
    yield Tensor(f"{module}.norm", (hidden,))
    if not tied(text, config):
        yield linear(f"{prefix}lm_head", vocab, hidden)
    yield from _mtp(text, module, traits)


def kimi_k25(text: dict[str, Any], config: dict[str, Any]) -> Iterator[Tensor]:
    if text is config:
        raise KeyError("text_config")
    yield from decoder(text, config, prefix="language_model.")
    vision = section(config, "vision_config")
    if vision:
        compressed = _method(config, text) == "compressed-tensors"
        for tensor in moon_vision(vision, whole(text, "hidden_size")):
            # A scheme of that method names no layer of the tower, and means none.
            yield replace(tensor, linear=tensor.linear and not compressed)


def _method(config: dict[str, Any], text: dict[str, Any]) -> object:
    raw = config.get("quantization_config") or text.get("quantization_config")
    return raw.get("quant_method") if isinstance(raw, dict) else None


FAMILIES: dict[str, Family] = {
    "deepseek_v2": decoder,
    "deepseek_v3": decoder,
    "deepseek_v32": decoder,
    "kimi_k2": decoder,
    "kimi_k25": kimi_k25,
    "glm4_moe_lite": partial(decoder, traits=Traits("float32", always_corrected=True)),
    "glm_moe_dsa": partial(decoder, traits=Traits(draft_embeddings=False)),
}
