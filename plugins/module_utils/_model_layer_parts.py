# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 gb10.serving contributors
#
# Private to this collection: may change without notice.
"""What one layer of a kind keeps in the cache: sizes read from config.json, under one name each whatever the family."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

KINDS = {
    "full_attention": "full",
    "attention": "full",
    "deepseek_sparse_attention": "full",
    "indexed_attention": "full",
    "global": "full",
    "linear_attention": "gdn",
    "sliding_attention": "sliding",
    "chunked_attention": "chunked",
    "mamba": "mamba2",
    "moe": "none",
    "mlp": "none",
}

_DILATED = ("ple_conv_kernel_size", "ngram_size", "hc_count")

STATE_DTYPES = ("auto", "bfloat16", "float16", "half", "float32", "float")

Part = dict[str, Any]


class Numbers:
    """Whole numbers of one JSON object; a sentence for each that makes no sense, a name for each that is missing."""

    def __init__(self, values: dict[str, Any], problems: list[str], inside: str = "") -> None:
        self.values, self.problems, self.inside = values, problems, inside
        self.missing: list[str] = []

    def get(self, *keys: str, default: int | None = None, least: int = 1, most: int = 2**30) -> int | None:
        for key in keys:
            value = self.values.get(key)
            if value is None or isinstance(value, list):  # what differs by layer is reported where it is read
                continue
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                self._problem(f"{self.inside}{key} is {value!r:.60}; expected a whole number from {least} on.")
                return default
            if value > most:
                self._problem(f"{self.inside}{key} is {value!r:.60}; expected a whole number up to {most}.")
                return default
            return value
        return default

    def state_dtype(self, key: str, default: str = "auto") -> str:
        """torch's name of the dtype of a state; "auto" is the model's own."""
        value = self.values.get(key)
        if value is None:
            return default
        name = value.removeprefix("torch.") if isinstance(value, str) else ""
        if name in STATE_DTYPES:
            return name
        self._problem(f"{self.inside}{key} is {value!r:.60}; expected one of {', '.join(STATE_DTYPES)}.")
        return default

    def need(self, *keys: str, least: int = 1) -> int:
        found = self.get(*keys, least=least)
        if found is None:
            self.missing.append(self.inside + keys[0])
        return found or 0

    def _problem(self, text: str) -> None:
        sentence = f"config.json: {text} Fetch the file again or correct it."
        if sentence not in self.problems:
            self.problems.append(sentence)


class Layers:
    """Collects what the layers keep; equal parts become one group."""

    def __init__(self, text: dict[str, Any], layers: int, problems: list[str]) -> None:
        self.text, self.layers, self.problems = text, layers, problems
        self.read = Numbers(text, problems)
        self.groups: list[Part] = []
        self.not_modelled: list[str] = []
        self.shared = False  # the layers added now read another layer's cache

    def add(self, at: int, part: Part) -> None:
        of = "mtp" if at >= self.layers else "shared" if self.shared else "model"
        for group in self.groups:
            if group["of"] == of and all(group.get(k) == v for k, v in part.items()) and len(group) == len(part) + 3:
                group["layers"] += 1
                group["at"].append(at)
                return
        self.groups.append({**part, "of": of, "layers": 1, "at": [at]})

    def by_layer(self, key: str, accepted: tuple[type, ...] = (str,), more: int = 0) -> list[Any] | None:
        """A list with one value for each layer (and perhaps each drafting layer)."""
        values = self.text.get(key)
        if values is None:
            return None
        wanted = f"expected a list of {self.layers} values, one for each of num_hidden_layers"
        if not isinstance(values, list) or not all(isinstance(v, accepted) for v in values):
            self.problems.append(f"config.json: {key} is {str(values)[:40]}; {wanted}.")
            return None
        if len(values) != self.layers and not self.layers < len(values) <= self.layers + more:
            self.problems.append(
                f"config.json: {key} names {len(values)} layers, num_hidden_layers is {self.layers}; expected the same."
            )
            return None
        return values


def nested(layers: Layers, key: str) -> Numbers | None:
    values = layers.text.get(key)
    if values is None:
        return None
    if not isinstance(values, dict):
        layers.problems.append(f"config.json: {key} is {str(values)[:40]}; expected a JSON object.")
        return None
    return Numbers(values, layers.problems, f"{key}.")


def attention_sizes(layers: Layers) -> Callable[[str], Part]:
    """kind -> the sizes of such an attention layer, by the keys that the families use."""
    read, text = layers.read, layers.text
    hidden, heads = read.get("hidden_size", "n_embd"), read.get("num_attention_heads", "n_head")
    kv = read.get("num_key_value_heads", "num_attention_groups", default=heads) or 0
    plain = read.get("head_dim") or (hidden // heads if hidden and heads else 0)
    value = read.get("v_head_dim", default=plain) or plain
    sizes: dict[str, tuple[int, int, int]] = {"full": (kv, plain, value)}
    sizes["sliding"] = sizes["chunked"] = sizes["full"]
    wide = read.get("global_head_dim")
    if wide:  # Gemma-4: the windowed layers have the plain sizes
        equal = bool(text.get("attention_k_eq_v"))
        sizes["full"] = ((read.get("num_global_key_value_heads", default=kv) or kv) if equal else kv, wide, wide)
        sizes["sliding"] = (kv, plain, plain)
    if text.get("swa_head_dim") or text.get("swa_num_key_value_heads"):  # MiMo-V2
        swa = read.get("swa_head_dim", default=plain) or plain
        sizes["sliding"] = (
            read.get("swa_num_key_value_heads", default=kv) or kv,
            swa,
            read.get("swa_v_head_dim", default=swa) or swa,
        )
    other = nested(layers, "attention_other_setting")  # Step-3
    if other is not None:
        kind = KINDS.get(str(other.values.get("attention_type")), "sliding")
        size = other.get("head_dim", default=plain) or plain
        sizes[kind] = (other.get("num_attention_groups", default=kv) or kv, size, size)
    window = read.get("sliding_window", "sliding_window_size")
    chunk = read.get("attention_chunk_size")

    def part(kind: str) -> Part:
        n, key_dim, value_dim = sizes[kind]
        if not (n and key_dim):
            read.missing.append("num_key_value_heads or head_dim")
        result: Part = {"kind": kind, "kv_heads": n, "head_dim": key_dim, "value_head_dim": value_dim}
        if kind != "full":
            length = window if kind == "sliding" else chunk
            if not length:
                read.missing.append("sliding_window" if kind == "sliding" else "attention_chunk_size")
            result["window"] = length or 1
        return result

    return part


def gdn(layers: Layers) -> Part:
    read = layers.read
    return {
        "kind": "gdn",
        "key_heads": read.need("linear_num_key_heads"),
        "value_heads": read.need("linear_num_value_heads"),
        "key_head_dim": read.need("linear_key_head_dim"),
        "value_head_dim": read.need("linear_value_head_dim"),
        "conv_kernel": read.get("linear_conv_kernel_dim", default=4) or 4,
        "state_dtype": read.state_dtype("mamba_ssm_dtype"),
    }


def mamba2(layers: Layers) -> Part:
    read = layers.read
    usual = "float32" if layers.text.get("model_type") == "nemotron_h" else "auto"
    return {
        "kind": "mamba2",
        "heads": read.need("mamba_num_heads", "mamba_n_heads"),
        "head_dim": read.need("mamba_head_dim", "mamba_d_head"),
        "groups": read.get("n_groups", "mamba_n_groups", default=1) or 1,
        "state": read.need("ssm_state_size", "mamba_d_state"),
        "conv_kernel": read.get("conv_kernel", "mamba_d_conv", default=4) or 4,
        "state_dtype": read.state_dtype("mamba_ssm_cache_dtype", usual),
    }


def kda(layers: Layers, linear: Numbers) -> Part:
    keys = ("num_heads", "head_dim") if linear.inside else ("linear_num_heads", "linear_head_dim")
    conv = ("short_conv_kernel_size", "linear_conv_kernel_dim")
    part = {"kind": "kda", "heads": linear.need(keys[0]), "head_dim": linear.need(keys[1])}
    layers.read.missing += linear.missing if linear is not layers.read else []
    bounded = any(linear.values.get(key) is not None for key in ("gate_lower_bound", "linear_lower_bound"))
    return {**part, "conv_kernel": linear.get(*conv, default=4) or 4, "checkpoint": bounded}


def _latent(layers: Layers, sparse: bool) -> Part:
    rope = layers.read.get("qk_rope_head_dim", least=0)
    if rope is None:
        layers.read.missing.append("qk_rope_head_dim")
    return {"kind": "mla", "latent": layers.read.need("kv_lora_rank"), "rope": rope or 0, "sparse": sparse}


def _indexed(layers: Layers, at: int, types: list[Any] | None) -> bool:
    """Does this layer have index keys of its own, or does it use those of a layer before it?"""
    if at >= layers.layers:
        return True
    if types is not None:
        return str(types[at]) == "full"
    pattern = layers.text.get("index_topk_pattern")
    if isinstance(pattern, str) and at < len(pattern):
        return pattern[at] != "S"
    offset = layers.read.get("index_skip_topk_offset", default=2, least=0) or 0
    return max(at - offset + 1, 0) % (layers.read.get("index_topk_freq", default=1) or 1) == 0


def latent_layer(layers: Layers, at: int, types: list[Any] | None) -> None:
    sparse = bool(layers.text.get("index_topk"))
    layers.add(at, _latent(layers, sparse))
    if sparse and _indexed(layers, at, types):
        pool = layers.read.get("index_kpool", default=1) or 1
        size = layers.read.get("index_head_dim", default=128) or 128
        layers.add(at, {"kind": "index", "head_dim": size, "ratio": pool, "dtype": "fp8"})
        if pool > 1:
            layers.add(at, {"kind": "ring", "bytes": 2 * size * 2, "ratio": pool, "power": True})


def deepseek_v4(layers: Layers, drafts: int) -> None:
    ratios = layers.by_layer("compress_ratios", (int,), more=drafts)
    size, window = layers.read.need("head_dim"), layers.read.need("sliding_window")
    index = layers.read.get("index_head_dim", default=128) or 128
    for at, ratio in enumerate([*(ratios or []), *[0] * drafts][: layers.layers + drafts]):
        layers.add(at, {"kind": "window_mla", "head_dim": size, "window": window})
        if ratio in (4, 128):
            layers.add(at, {"kind": "compressed", "head_dim": size, "ratio": ratio})
            layers.add(at, {"kind": "compressor", "head_dim": size, "ratio": ratio})
        elif ratio not in (0, 1):
            layers.problems.append(f"config.json: compress_ratios has {ratio}; expected 0, 4 or 128 for each layer.")
            return
        if ratio == 4:
            layers.add(at, {"kind": "index", "head_dim": index, "ratio": 4, "dtype": "fp8"})
            layers.add(at, {"kind": "compressor", "head_dim": index, "ratio": 4})


def beside(layers: Layers, at: int, kind: str, sparse: Numbers | None) -> None:
    """Index keys beside an attention layer's keys and values."""
    if sparse is not None:  # MiniMax-M3
        turns = sparse.values.get("sparse_attention_freq")
        if not isinstance(turns, list) or at >= len(turns) or turns[at]:
            size = sparse.get("sparse_index_dim", default=128) or 128
            layers.add(at, {"kind": "index", "head_dim": size, "ratio": 1, "dtype": "model"})
    ratio = layers.read.get("indexer_compress_ratio")
    if ratio and kind == "full":  # Qwen4's
        size = layers.read.need("indexer_head_dim")
        layers.add(at, {"kind": "index", "head_dim": size, "ratio": ratio, "dtype": "model"})
        layers.add(at, {"kind": "ring", "bytes": (-(-size // 4) * 4 + 12) * 2, "ratio": ratio, "power": False})


def per_layer_embedding(layers: Layers) -> None:
    """The convolution behind an n-gram table: its window is kept in full on every rank."""
    kernel, grams, streams = (layers.read.get(key, default=1) or 1 for key in _DILATED)
    where = layers.text.get("ple_layer_ids")
    width = layers.read.need("hidden_size") * streams
    for at in where if isinstance(where, list) else []:
        if isinstance(at, int) and 0 <= at < layers.layers:
            layers.add(at, {"kind": "conv", "width": width, "window": (kernel - 1) * grams})
