# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 gb10.serving contributors
#
# Private to this collection: may change without notice.
"""config.json -> sizes of MLP, experts and shared experts, which each family names in its own way."""

from __future__ import annotations

from typing import Any, Protocol

MOST_LAYERS = 4096  # no list is made for a nonsense number


class Reader(Protocol):
    def integer(self, *keys: str, default: int | None = None, least: int = 1) -> int | None: ...


def _from_list(value: list[Any] | str) -> set[int]:
    parts = value.split(",") if isinstance(value, str) else value
    return {int(str(item)) for item in parts if str(item).strip().isdecimal()}


def _dense_layers(read: Reader, text: dict[str, Any], layers: int, blocks: list[Any] | None) -> int:
    """Layers of a mixture of experts that have a plain MLP."""
    named, frequency, listed = text.get("mlp_layer_types"), text.get("moe_layer_freq"), text.get("moe_layers_enum")
    if blocks is not None:
        return blocks.count("mlp")
    if text.get("enable_moe_block"):  # Gemma 4: experts beside the MLP
        return layers
    if "first_k_dense_replace" in text:
        return read.integer("first_k_dense_replace", default=0, least=0) or 0
    if isinstance(named, list):
        return named.count("dense")
    if isinstance(frequency, list):
        return frequency.count(0)
    if isinstance(listed, (str, list)):
        return layers - len(_from_list(listed) & set(range(layers)))
    if "interleave_moe_layer_step" in text:
        step = read.integer("interleave_moe_layer_step", default=1, least=0) or 0
        return layers - layers // step if step else layers
    if "moe_layer_start_index" in text:
        step = read.integer("moe_layer_interval", default=1) or 1
        first = read.integer("moe_layer_start_index", default=0, least=0) or 0
        last = read.integer("moe_layer_end_index", default=layers - 1, least=-1)
        last = layers - 1 if last is None or last < 0 else last
        return sum(not first <= n <= last or (n + 1) % step != 0 for n in range(layers))
    only, step = text.get("mlp_only_layers"), read.integer("decoder_sparse_step", default=1) or 1
    dense = {n for n in range(layers) if (n + 1) % step}
    return len(dense | (_from_list(only) & set(range(layers)) if isinstance(only, list) else set()))


def feed_forward(read: Reader, text: dict[str, Any], layers: int | None, blocks: list[Any] | None) -> dict[str, Any]:
    counts = ("num_experts", "n_routed_experts", "num_local_experts", "moe_num_experts")
    experts = read.integer(*counts, default=0, least=0) or 0
    dense = read.integer("dense_intermediate_size", "intermediate_size_mlp", "intermediate_size", "ffn_hidden_size")
    sizes = ("moe_intermediate_size", "expert_ffn_hidden_size", "expert_hidden_dim", "expert_intermediate_size")
    moe = read.integer(*sizes, "intermediate_size") if experts else None
    together = ("shared_expert_intermediate_size", "share_expert_dim", "shared_intermediate_size")
    shared = read.integer(*together, default=0, least=0) or 0
    each = read.integer("moe_shared_expert_intermediate_size", default=moe, least=0)
    number = ("n_shared_experts", "num_shared_experts", "moe_num_shared_experts")
    always = 1 if experts and "intermediate_size_mlp" in text else 0  # Llama 4 does not say it
    shared_count = read.integer(*number, default=always, least=0) or 0
    count = min(layers or 0, MOST_LAYERS)
    active = ("num_experts_per_tok", "num_experts_per_token", "top_k_experts", "moe_top_k", "moe_k")
    return {
        "intermediate_size": dense,
        "moe_intermediate_size": moe,
        "shared_expert_intermediate_size": shared or (each or 0) * shared_count,
        "num_experts": experts,
        "num_experts_per_tok": read.integer(*active),
        "dense_layers": _dense_layers(read, text, count, blocks) if experts else count,
    }
