# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 gb10.serving contributors
#
# Private to this collection: may change without notice.
"""What families of decoders share: reading keys strictly, and the tensors of attention, MLP and experts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ansible_collections.gb10.serving.plugins.module_utils._inventory._read import layers, tied, whole
from ansible_collections.gb10.serving.plugins.module_utils._inventory._types import Tensor, linear


def per_layer(text: dict[str, Any], key: str, count: int, allowed: tuple[Any, ...], longer: bool = False) -> list[Any]:
    """A list with one of the allowed values for each layer; KeyError where it is missing."""
    value = text.get(key)
    if value is None:
        raise KeyError(key)
    if not isinstance(value, list) or len(value) < count or (len(value) > count and not longer):
        seen = f"a list of {len(value)}" if isinstance(value, list) else repr(value)
        raise ValueError(f"{key} is {seen}; expected a list of {count}, one for each layer")
    wrong = next((item for item in value if item not in allowed), None)
    if wrong is not None:
        raise ValueError(f"{key} has {wrong!r} in it; expected {' or '.join(str(item) for item in allowed)}")
    return value[:count]


def index_list(text: dict[str, Any], key: str) -> frozenset[int]:
    """Layer numbers; none where the key is missing."""
    value = text.get(key)
    if value is None:
        return frozenset()
    if not isinstance(value, list) or any(isinstance(n, bool) or not isinstance(n, int) for n in value):
        raise ValueError(f"{key} is {value!r}; expected a list of layer numbers")
    return frozenset(value)


@dataclass(frozen=True)
class Heads:
    """The shape of one attention layer."""

    hidden: int
    query: int
    kv: int
    size: int  # of a query and key head
    value_size: int | None = None  # of a value head, where it differs
    qkv_bias: bool = False
    out_bias: bool = False
    norm: str | None = None  # of queries and keys: "head" (one weight for all heads) or "full"


def heads_of(text: dict[str, Any], **more: Any) -> Heads:
    hidden, query = whole(text, "hidden_size"), whole(text, "num_attention_heads", most=4096)
    kv, size = whole(text, "num_key_value_heads", default=query), whole(text, "head_dim", default=hidden // query)
    if not size:
        raise ValueError(f"num_attention_heads is {query}, expected at most hidden_size {hidden}, or a head_dim")
    if query % kv:
        raise ValueError(f"num_key_value_heads is {kv}, expected a divisor of num_attention_heads {query}")
    return Heads(hidden, query, kv, size, **more)


def vector(module: str, *shape: int, dtype: str | None = None) -> Tensor:
    """A tensor that is never quantised: a norm, a bias, an embedding."""
    return Tensor(module, shape, dtype=dtype)


def biased(module: str, out: int, into: int, bias: bool) -> Iterator[Tensor]:
    yield linear(module, out, into)
    if bias:
        yield vector(f"{module}.bias", out)


def attention(prefix: str, heads: Heads) -> Iterator[Tensor]:
    value = heads.value_size or heads.size
    yield from biased(f"{prefix}.q_proj", heads.query * heads.size, heads.hidden, heads.qkv_bias)
    yield from biased(f"{prefix}.k_proj", heads.kv * heads.size, heads.hidden, heads.qkv_bias)
    yield from biased(f"{prefix}.v_proj", heads.kv * value, heads.hidden, heads.qkv_bias)
    yield from biased(f"{prefix}.o_proj", heads.hidden, heads.query * value, heads.out_bias)
    if heads.norm:
        each = heads.norm == "head"
        yield vector(f"{prefix}.q_norm", heads.size * (1 if each else heads.query))
        yield vector(f"{prefix}.k_norm", heads.size * (1 if each else heads.kv))


def gated_mlp(prefix: str, hidden: int, inner: int, bias: bool = False) -> Iterator[Tensor]:
    yield from biased(f"{prefix}.gate_proj", inner, hidden, bias)
    yield from biased(f"{prefix}.up_proj", inner, hidden, bias)
    yield from biased(f"{prefix}.down_proj", hidden, inner, bias)


def experts(
    prefix: str,
    hidden: int,
    inner: int,
    count: int,
    names: tuple[str, str, str] = ("gate_proj", "up_proj", "down_proj"),
) -> Iterator[Tensor]:
    gate, up, down = names
    yield linear(f"{prefix}.*.{gate}", inner, hidden, count)
    yield linear(f"{prefix}.*.{up}", inner, hidden, count)
    yield linear(f"{prefix}.*.{down}", hidden, inner, count)


def norms(
    prefix: str, hidden: int, names: tuple[str, ...] = ("input_layernorm", "post_attention_layernorm")
) -> Iterator[Tensor]:
    for name in names:
        yield vector(f"{prefix}.{name}", hidden)


def ends(
    text: dict[str, Any], config: dict[str, Any], names: tuple[str, str], untied: bool = False
) -> Iterator[Tensor]:
    """Embeddings, last norm, and the output layer where it is not the embeddings."""
    model, head = names
    layers(text, "num_hidden_layers", least=1)  # a class follows from it, so it is read before the first tensor
    hidden, vocab = whole(text, "hidden_size"), whole(text, "vocab_size")
    yield vector(f"{model}.embed_tokens", vocab, hidden)
    yield vector(f"{model}.norm", hidden)
    if untied or not tied(text, config):
        yield linear(head, vocab, hidden)


def names_of(text: dict[str, Any], config: dict[str, Any], old: bool = False) -> tuple[str, str]:
    """(prefix of the decoder's modules, name of the output layer) as the checkpoint has them."""
    if text.get("model_type") == config.get("model_type") or "text_config" not in config:
        return "model", "lm_head"
    return ("language_model.model", "language_model.lm_head") if old else ("model.language_model", "lm_head")
