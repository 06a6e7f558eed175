#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""Write a tiny random-weight Qwen3.5-MoE checkpoint: the tensor names and kinds of a real one, a few dozen megabytes.

    tiny_model.py DIRECTORY

Standard library only. The bytes depend on nothing but this file, so every machine writes the same model.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

SHARD_BYTES = 8 * 1024**2
SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
CONFIG: dict[str, Any] = {
    "architectures": ["Qwen3_5MoeForCausalLM"],
    "model_type": "qwen3_5_moe_text",
    "dtype": "bfloat16",
    "vocab_size": 512,
    "hidden_size": 256,
    "num_hidden_layers": 4,
    "layer_types": ["linear_attention", "linear_attention", "linear_attention", "full_attention"],
    "full_attention_interval": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 256,
    "attn_output_gate": True,
    "attention_bias": False,
    "attention_dropout": 0.0,
    "linear_conv_kernel_dim": 4,
    "linear_key_head_dim": 128,
    "linear_value_head_dim": 128,
    "linear_num_key_heads": 4,
    "linear_num_value_heads": 8,
    "mamba_ssm_dtype": "float32",
    "num_experts": 8,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 512,
    "shared_expert_intermediate_size": 512,
    "hidden_act": "silu",
    "initializer_range": 0.02,
    "rms_norm_eps": 1e-06,
    "max_position_embeddings": 4096,
    "rope_parameters": {
        "rope_type": "default",
        "rope_theta": 10000000,
        "partial_rotary_factor": 0.25,
        "mrope_interleaved": True,
        "mrope_section": [11, 11, 10],
    },
    "tie_word_embeddings": False,
    "use_cache": True,
    "bos_token_id": None,
    "eos_token_id": 510,
    "pad_token_id": 509,
}


class Tensor(NamedTuple):
    name: str
    shape: tuple[int, ...]
    dtype: str  # BF16 or F32
    fill: str  # "noise", "head" or a number

    @property
    def elements(self) -> int:
        total = 1
        for size in self.shape:
            total *= size
        return total

    @property
    def nbytes(self) -> int:
        return self.elements * (2 if self.dtype == "BF16" else 4)


def tensors(config: dict[str, Any] = CONFIG) -> Iterator[Tensor]:
    """Every tensor of the checkpoint, in the order in which the shards hold them."""
    hidden, root = config["hidden_size"], "model.language_model"
    yield Tensor(f"{root}.embed_tokens.weight", (config["vocab_size"], hidden), "BF16", "noise")
    for index, kind in enumerate(config["layer_types"]):
        layer = f"{root}.layers.{index}"
        yield Tensor(f"{layer}.input_layernorm.weight", (hidden,), "BF16", "0")
        yield from (_linear_attention if kind == "linear_attention" else _full_attention)(layer, config)
        yield Tensor(f"{layer}.post_attention_layernorm.weight", (hidden,), "BF16", "0")
        yield from _experts(layer, config)
    yield Tensor(f"{root}.norm.weight", (hidden,), "BF16", "0")
    yield Tensor("lm_head.weight", (config["vocab_size"], hidden), "BF16", "head")


def _linear_attention(layer: str, config: dict[str, Any]) -> Iterator[Tensor]:
    hidden, heads, name = config["hidden_size"], config["linear_num_value_heads"], f"{layer}.linear_attn"
    values = heads * config["linear_value_head_dim"]
    mixed = 2 * config["linear_num_key_heads"] * config["linear_key_head_dim"] + values
    yield Tensor(f"{name}.A_log", (heads,), "F32", "1")
    yield Tensor(f"{name}.dt_bias", (heads,), "BF16", "1")
    yield Tensor(f"{name}.conv1d.weight", (mixed, 1, config["linear_conv_kernel_dim"]), "BF16", "noise")
    yield Tensor(f"{name}.in_proj_qkv.weight", (mixed, hidden), "BF16", "noise")
    yield Tensor(f"{name}.in_proj_z.weight", (values, hidden), "BF16", "noise")
    yield Tensor(f"{name}.in_proj_a.weight", (heads, hidden), "BF16", "noise")
    yield Tensor(f"{name}.in_proj_b.weight", (heads, hidden), "BF16", "noise")
    yield Tensor(f"{name}.norm.weight", (config["linear_value_head_dim"],), "BF16", "1")
    yield Tensor(f"{name}.out_proj.weight", (hidden, values), "BF16", "noise")


def _full_attention(layer: str, config: dict[str, Any]) -> Iterator[Tensor]:
    hidden, head, name = config["hidden_size"], config["head_dim"], f"{layer}.self_attn"
    queries, keys = config["num_attention_heads"] * head, config["num_key_value_heads"] * head
    yield Tensor(f"{name}.q_proj.weight", (2 * queries, hidden), "BF16", "noise")  # twice: queries and their gate
    yield Tensor(f"{name}.k_proj.weight", (keys, hidden), "BF16", "noise")
    yield Tensor(f"{name}.v_proj.weight", (keys, hidden), "BF16", "noise")
    yield Tensor(f"{name}.o_proj.weight", (hidden, queries), "BF16", "noise")
    yield Tensor(f"{name}.q_norm.weight", (head,), "BF16", "0")
    yield Tensor(f"{name}.k_norm.weight", (head,), "BF16", "0")


def _experts(layer: str, config: dict[str, Any]) -> Iterator[Tensor]:
    hidden, count, name = config["hidden_size"], config["num_experts"], f"{layer}.mlp"
    inner, shared = config["moe_intermediate_size"], config["shared_expert_intermediate_size"]
    yield Tensor(f"{name}.gate.weight", (count, hidden), "BF16", "noise")
    yield Tensor(f"{name}.experts.gate_up_proj", (count, 2 * inner, hidden), "BF16", "noise")
    yield Tensor(f"{name}.experts.down_proj", (count, hidden, inner), "BF16", "noise")
    yield Tensor(f"{name}.shared_expert.gate_proj.weight", (shared, hidden), "BF16", "noise")
    yield Tensor(f"{name}.shared_expert.up_proj.weight", (shared, hidden), "BF16", "noise")
    yield Tensor(f"{name}.shared_expert.down_proj.weight", (hidden, shared), "BF16", "noise")
    yield Tensor(f"{name}.shared_expert_gate.weight", (1, hidden), "BF16", "noise")


def content(tensor: Tensor) -> bytes:
    """The bytes of one tensor, from a hash of its name."""
    if tensor.fill in ("noise", "head"):
        data = _noise(tensor.name, tensor.elements, exponent=0x3C if tensor.fill == "noise" else 0x3E)
        if tensor.fill == "noise":
            return data
        row = tensor.nbytes // tensor.shape[0]
        readable = [(token.isascii() and token.isalpha()) or token == "Ġ" for token in vocabulary()]
        return b"".join(data[i * row : (i + 1) * row] if ok else bytes(row) for i, ok in enumerate(readable))
    packed = struct.pack("<f", float(tensor.fill))
    return (packed[2:] if tensor.dtype == "BF16" else packed) * tensor.elements


def _noise(seed: str, count: int, exponent: int) -> bytes:
    """bfloat16 values of both signs. 0x3C as the high byte: 0.008 <= |x| < 0.032; each step more is a factor of 4."""
    stream = hashlib.shake_128(seed.encode()).digest(2 * count)
    high = bytes(exponent | (byte & 0x80) for byte in range(256))
    data = bytearray(2 * count)
    data[0::2] = stream[:count]
    data[1::2] = stream[count:].translate(high)
    return bytes(data)


def byte_symbols() -> list[str]:
    """The printable character that stands for each byte in a byte-level vocabulary."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    spare = iter(range(256, 512))
    return [chr(byte) if byte in printable else chr(next(spare)) for byte in range(256)]


def merges(config: dict[str, Any] = CONFIG) -> list[tuple[str, str]]:
    letters = "etaoinshrdlucmfwypvbgkjqxz"
    pairs = [(first, second) for first in letters for second in letters]
    return pairs[: config["vocab_size"] - 256 - len(SPECIAL)]


def vocabulary() -> list[str]:
    return [*byte_symbols(), *(first + second for first, second in merges()), *SPECIAL]


def tokenizer() -> dict[str, Any]:
    tokens = vocabulary()
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": True}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [{"id": tokens.index(token), "content": token, **flags} for token in SPECIAL],
        "normalizer": None,
        "pre_tokenizer": byte_level,
        "post_processor": None,
        "decoder": byte_level,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "vocab": {token: number for number, token in enumerate(tokens) if token not in SPECIAL},
            "merges": [list(pair) for pair in merges()],
        },
    }


def shards() -> list[list[Tensor]]:
    parts: list[list[Tensor]] = [[]]
    for tensor in tensors():
        if parts[-1] and sum(t.nbytes for t in parts[-1]) + tensor.nbytes > SHARD_BYTES:
            parts.append([])
        parts[-1].append(tensor)
    return parts


def safetensors(part: list[Tensor]) -> bytes:
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    offset = 0
    for tensor in part:
        span = [offset, offset + tensor.nbytes]
        header[tensor.name] = {"dtype": tensor.dtype, "shape": list(tensor.shape), "data_offsets": span}
        offset += tensor.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + b"".join(content(tensor) for tensor in part)


def files() -> Iterator[tuple[str, bytes]]:
    """Name and content of each file of the model directory."""
    parts = shards()
    weight_map: dict[str, str] = {}
    for number, part in enumerate(parts, start=1):
        name = f"model.safetensors-{number:05d}-of-{len(parts):05d}.safetensors"
        weight_map.update({tensor.name: name for tensor in part})
        yield name, safetensors(part)
    total = sum(tensor.nbytes for part in parts for tensor in part)
    documents: dict[str, Any] = {
        "config.json": CONFIG,
        "generation_config.json": {
            "do_sample": True,
            "temperature": 0.6,
            "top_k": 20,
            "top_p": 0.95,
            "eos_token_id": [510, 511],
            "pad_token_id": 509,
        },
        "model.safetensors.index.json": {"metadata": {"total_size": total}, "weight_map": weight_map},
        "tokenizer.json": tokenizer(),
        "tokenizer_config.json": {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "model_max_length": CONFIG["max_position_embeddings"],
            "bos_token": None,
            "eos_token": "<|im_end|>",
            "pad_token": "<|endoftext|>",
            "clean_up_tokenization_spaces": False,
            "chat_template": CHAT_TEMPLATE,
        },
    }
    for name, document in documents.items():
        yield name, (json.dumps(document, indent=1, ensure_ascii=False) + "\n").encode()


def write(directory: Path) -> str:
    """Write the model and return the digest of all of it."""
    directory.mkdir(parents=True, exist_ok=True)
    digest = hashlib.sha256()
    for name, data in files():
        digest.update(f"{name} {hashlib.sha256(data).hexdigest()}\n".encode())
        (directory / name).write_bytes(data)
    return f"sha256:{digest.hexdigest()}"


def main() -> None:
    parser = argparse.ArgumentParser(description="Write a tiny random-weight Qwen3.5-MoE model.")
    parser.add_argument("directory", type=Path)
    directory: Path = parser.parse_args().directory
    digest = write(directory)
    size = sum(path.stat().st_size for path in directory.iterdir())
    print(f"{directory}: {len(shards())} shards, {size / 1e6:.1f} MB, {digest}")


if __name__ == "__main__":
    main()
