# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 gb10.serving contributors
#
# Private to this collection: may change without notice.
"""Nemotron-H: Mamba2, attention, dense and mixture-of-experts layers in an order that the file names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ansible_collections.gb10.serving.plugins.module_utils._inventory._read import (
    MOST_LAYERS,
    flag,
    layers,
    names,
    tied,
    whole,
)
from ansible_collections.gb10.serving.plugins.module_utils._inventory._types import Family, Tensor, linear

LETTERS = {"M": "mamba", "-": "mlp", "*": "attention", "E": "moe"}
_NAMES = {"mamba": "mamba", "linear_attention": "mamba", "attention": "attention", "full_attention": "attention"}
_NAMES.update(mlp="mlp", moe="moe")
_DRAFT_NAMES = tuple(name for name, kind in _NAMES.items() if kind in ("attention", "moe"))


def _kinds(text: dict[str, Any], pattern: str, listed: str, known: tuple[str, ...]) -> list[str]:
    """Kind of each layer, from a list of names or from a string with a letter for each layer."""
    named = names(text, listed, known)
    if named is not None:
        return [_NAMES[name] for name in named]
    letters = text.get(pattern)
    if letters is None:
        raise KeyError(f"{listed} and no {pattern}")
    if not isinstance(letters, str) or not 1 <= len(letters) <= MOST_LAYERS:
        raise ValueError(f"{pattern} is {letters!r:.60}, expected a letter for each layer")
    allowed = {letter: kind for letter, kind in LETTERS.items() if kind in known}
    wrong = next((letter for letter in letters if letter not in allowed), None)
    if wrong is not None:
        raise ValueError(f"{pattern} has a layer {wrong!r}, known are {' '.join(allowed)}")
    return [allowed[letter] for letter in letters]


def layer_kinds(text: dict[str, Any]) -> list[str]:
    kinds = _kinds(text, "hybrid_override_pattern", "layers_block_type", tuple(_NAMES))
    count = layers(text, "num_hidden_layers", default=len(kinds), least=1)
    if count != len(kinds):
        raise ValueError(f"the pattern names {len(kinds)} layers, num_hidden_layers is {count}, expected the same")
    return kinds


def _mamba(text: dict[str, Any], module: str) -> Iterator[Tensor]:
    hidden, heads = whole(text, "hidden_size"), whole(text, "mamba_num_heads")
    inner = heads * whole(text, "mamba_head_dim")
    groups = whole(text, "n_groups", "mamba_n_groups", default=8) * whole(text, "ssm_state_size")
    convolved = inner + 2 * groups
    bias = flag(text, "use_bias")
    yield linear(f"{module}.in_proj", inner + convolved + heads, hidden)
    yield Tensor(f"{module}.conv1d", (convolved, 1, whole(text, "conv_kernel", "mamba_d_conv", default=4, most=4096)))
    if flag(text, "use_conv_bias", True):
        yield Tensor(f"{module}.conv1d.bias", (convolved,))
    yield Tensor(f"{module}.A_log", (heads,), dtype="float32")
    yield Tensor(f"{module}.D", (heads,))
    yield Tensor(f"{module}.dt_bias", (heads,))
    yield Tensor(f"{module}.norm", (inner,))
    yield linear(f"{module}.out_proj", hidden, inner)
    if bias:
        yield Tensor(f"{module}.in_proj.bias", (inner + convolved + heads,))
        yield Tensor(f"{module}.out_proj.bias", (hidden,))


def _attention(text: dict[str, Any], module: str) -> Iterator[Tensor]:
    hidden, heads = whole(text, "hidden_size"), whole(text, "num_attention_heads")
    dim = whole(text, "head_dim", default=hidden // heads)
    kv_heads = whole(text, "num_key_value_heads", default=heads)
    yield linear(f"{module}.q_proj", heads * dim, hidden)
    yield linear(f"{module}.k_proj", kv_heads * dim, hidden)
    yield linear(f"{module}.v_proj", kv_heads * dim, hidden)
    yield linear(f"{module}.o_proj", hidden, heads * dim)


def _mlp(module: str, inner: int, hidden: int, bias: bool = False, count: int = 1) -> Iterator[Tensor]:
    """Squared ReLU: no gate."""
    yield linear(f"{module}.up_proj", inner, hidden, count)
    yield linear(f"{module}.down_proj", hidden, inner, count)
    if bias:
        yield Tensor(f"{module}.up_proj.bias", (inner,), count)
        yield Tensor(f"{module}.down_proj.bias", (hidden,), count)


def _experts(text: dict[str, Any], module: str) -> Iterator[Tensor]:
    """The routed experts may work in a smaller latent space, the shared expert does not."""
    hidden, experts = whole(text, "hidden_size"), whole(text, "n_routed_experts")
    yield Tensor(f"{module}.gate", (experts, hidden), dtype="float32")
    yield Tensor(f"{module}.gate.e_score_correction_bias", (experts,), dtype="float32")
    latent = whole(text, "moe_latent_size", default=hidden)
    yield from _mlp(f"{module}.experts.*", whole(text, "moe_intermediate_size"), latent, count=experts)
    if text.get("moe_latent_size") is not None:
        for name, out, into in (("fc1_latent_proj", latent, hidden), ("fc2_latent_proj", hidden, latent)):
            yield linear(f"{module}.{name}", out, into)
            if flag(text, "mlp_bias"):
                yield Tensor(f"{module}.{name}.bias", (out,))
    shared = whole(text, "n_shared_experts", default=0, least=0, most=4096)
    if shared:
        yield from _mlp(f"{module}.shared_experts", shared * whole(text, "moe_shared_expert_intermediate_size"), hidden)


def _layer(text: dict[str, Any], module: str, kind: str) -> Iterator[Tensor]:
    hidden = whole(text, "hidden_size")
    yield Tensor(f"{module}.norm", (hidden,))
    mixer = f"{module}.mixer"
    if kind == "mamba":
        yield from _mamba(text, mixer)
    elif kind == "attention":
        yield from _attention(text, mixer)
    elif kind == "moe":
        yield from _experts(text, mixer)
    else:
        yield from _mlp(mixer, whole(text, "intermediate_size"), hidden, flag(text, "mlp_bias"))


def _mtp(text: dict[str, Any]) -> Iterator[Tensor]:
    steps = layers(text, "num_nextn_predict_layers", default=0)
    if not steps:
        return
    hidden = whole(text, "hidden_size")
    kinds = _kinds(text, "mtp_hybrid_override_pattern", "mtp_layers_block_type", _DRAFT_NAMES)
    for number, kind in enumerate(kinds * steps):
        layer = f"mtp.layers.{number}"
        if number % len(kinds) == 0:
            yield Tensor(f"{layer}.enorm", (hidden,))
            yield Tensor(f"{layer}.hnorm", (hidden,))
            yield linear(f"{layer}.eh_proj", hidden, 2 * hidden)
        yield from _layer(text, layer, kind)
        if number % len(kinds) == len(kinds) - 1:
            yield Tensor(f"{layer}.final_layernorm", (hidden,))


def nemotron_h(text: dict[str, Any], config: dict[str, Any]) -> Iterator[Tensor]:
    hidden, vocab = whole(text, "hidden_size"), whole(text, "vocab_size")
    yield Tensor("backbone.embeddings", (vocab, hidden))
    for number, kind in enumerate(layer_kinds(text)):
        yield from _layer(text, f"backbone.layers.{number}", kind)
    yield Tensor("backbone.norm_f", (hidden,))
    if not tied(text, config):
        yield linear("lm_head", vocab, hidden)
    yield from _mtp(text)


FAMILIES: dict[str, Family] = {"nemotron_h": nemotron_h}
