# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 gb10.serving contributors
#
# Private to this collection: may change without notice.
"""Vision towers. Their linear layers may be quantised by name like any other; most checkpoints exclude them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ansible_collections.gb10.serving.plugins.module_utils._inventory._read import layers, whole
from ansible_collections.gb10.serving.plugins.module_utils._inventory._types import Tensor, linear


def biased(module: str, out: int, into: int) -> Iterator[Tensor]:
    yield linear(module, out, into)
    yield Tensor(f"{module}.bias", (out,))


def layer_norm(module: str, size: int) -> Iterator[Tensor]:
    yield Tensor(module, (size,))
    yield Tensor(f"{module}.bias", (size,))


def qwen_vision(vision: dict[str, Any], prefix: str) -> Iterator[Tensor]:
    """Qwen3-VL and Qwen3.5: a ViT, a patch merger, and one more merger for each layer that is fed deeper."""
    hidden, inner = whole(vision, "hidden_size"), whole(vision, "intermediate_size")
    out, depth = whole(vision, "out_hidden_size"), layers(vision, "depth")
    patch, frames = whole(vision, "patch_size", most=4096), whole(vision, "temporal_patch_size", default=2, most=4096)
    channels = whole(vision, "in_channels", default=3, most=4096)
    merged = hidden * whole(vision, "spatial_merge_size", default=2, most=64) ** 2
    deep = vision.get("deepstack_visual_indexes") or []
    if not isinstance(deep, list) or len(deep) > depth:
        raise ValueError(f"deepstack_visual_indexes is {deep!r:.60}, expected a list of layers below depth {depth}")
    yield Tensor(f"{prefix}.patch_embed.proj", (hidden, channels, frames, patch, patch))
    yield Tensor(f"{prefix}.patch_embed.proj.bias", (hidden,))
    yield Tensor(f"{prefix}.pos_embed", (whole(vision, "num_position_embeddings"), hidden))
    for number in range(depth):
        block = f"{prefix}.blocks.{number}"
        yield from layer_norm(f"{block}.norm1", hidden)
        yield from layer_norm(f"{block}.norm2", hidden)
        yield from biased(f"{block}.attn.qkv", 3 * hidden, hidden)
        yield from biased(f"{block}.attn.proj", hidden, hidden)
        yield from biased(f"{block}.mlp.linear_fc1", inner, hidden)
        yield from biased(f"{block}.mlp.linear_fc2", hidden, inner)
    mergers = [("merger", hidden)] + [(f"deepstack_merger_list.{number}", merged) for number in range(len(deep))]
    for name, normed in mergers:
        yield from layer_norm(f"{prefix}.{name}.norm", normed)
        yield from biased(f"{prefix}.{name}.linear_fc1", merged, merged)
        yield from biased(f"{prefix}.{name}.linear_fc2", out, merged)


def glm_vision(vision: dict[str, Any], prefix: str) -> Iterator[Tensor]:
    """GLM-4.5V: gated MLPs as wide as the language model, and a merger as wide as intermediate_size."""
    hidden, out = whole(vision, "hidden_size"), whole(vision, "out_hidden_size")
    inner, patch = whole(vision, "intermediate_size"), whole(vision, "patch_size", most=4096)
    frames, merge = (
        whole(vision, "temporal_patch_size", default=2, most=4096),
        whole(vision, "spatial_merge_size", most=64),
    )
    yield Tensor(f"{prefix}.patch_embed.proj", (hidden, whole(vision, "in_channels", default=3), frames, patch, patch))
    yield Tensor(f"{prefix}.patch_embed.proj.bias", (hidden,))
    yield Tensor(f"{prefix}.embeddings.position_embedding", ((whole(vision, "image_size") // patch) ** 2, hidden))
    for name in ("post_conv_layernorm", "post_layernorm"):
        yield Tensor(f"{prefix}.{name}", (hidden,))
    bias = bool(vision.get("attention_bias"))
    for number in range(layers(vision, "depth")):
        block = f"{prefix}.blocks.{number}"
        yield Tensor(f"{block}.norm1", (hidden,))
        yield Tensor(f"{block}.norm2", (hidden,))
        yield linear(f"{block}.attn.qkv", 3 * hidden, hidden)
        if bias:
            yield Tensor(f"{block}.attn.qkv.bias", (3 * hidden,))
        yield linear(f"{block}.attn.proj", hidden, hidden)
        for projection in ("gate_proj", "up_proj"):
            yield linear(f"{block}.mlp.{projection}", out, hidden)
        yield linear(f"{block}.mlp.down_proj", hidden, out)
    yield Tensor(f"{prefix}.downsample", (out, hidden, merge, merge))
    yield Tensor(f"{prefix}.downsample.bias", (out,))
    yield linear(f"{prefix}.merger.proj", out, out)
    yield from layer_norm(f"{prefix}.merger.post_projection_norm", out)
    for projection in ("gate_proj", "up_proj"):
        yield linear(f"{prefix}.merger.{projection}", inner, out)
    yield linear(f"{prefix}.merger.down_proj", out, inner)


def moon_vision(vision: dict[str, Any], text_hidden: int) -> Iterator[Tensor]:
    """Kimi's MoonViT and the projector into the language model."""
    hidden = whole(vision, "vt_hidden_size", "hidden_size")
    inner = whole(vision, "vt_intermediate_size", "intermediate_size")
    depth = layers(vision, "vt_num_hidden_layers", "num_hidden_layers")
    patch = whole(vision, "patch_size", most=4096)
    height, width = (whole(vision, f"init_pos_emb_{side}", default=64, most=65536) for side in ("height", "width"))
    merge = vision.get("merge_kernel_size", [2, 2])
    if not isinstance(merge, (list, tuple)) or len(merge) != 2:
        raise ValueError(f"merge_kernel_size is {merge!r:.60}, expected two whole numbers")
    sides = dict(zip(("merge_kernel_size[0]", "merge_kernel_size[1]"), merge, strict=True))
    merged = hidden * whole(sides, "merge_kernel_size[0]", most=64) * whole(sides, "merge_kernel_size[1]", most=64)
    yield Tensor("vision_tower.patch_embed.proj", (hidden, 3, patch, patch))
    yield Tensor("vision_tower.patch_embed.proj.bias", (hidden,))
    yield Tensor("vision_tower.patch_embed.pos_emb", (height, width, hidden))
    for number in range(depth):
        block = f"vision_tower.encoder.blocks.{number}"
        yield from layer_norm(f"{block}.norm0", hidden)
        yield from layer_norm(f"{block}.norm1", hidden)
        yield from biased(f"{block}.wqkv", 3 * hidden, hidden)
        yield from biased(f"{block}.wo", hidden, hidden)
        yield from biased(f"{block}.mlp.fc0", inner, hidden)
        yield from biased(f"{block}.mlp.fc1", hidden, inner)
    yield from layer_norm("vision_tower.encoder.final_layernorm", hidden)
    projector = vision.get("mm_projector_type", "patchmerger")
    if projector != "patchmerger":
        raise ValueError(f"mm_projector_type is {projector!r:.60}, known is patchmerger")
    yield from layer_norm("mm_projector.pre_norm", hidden)
    yield from biased("mm_projector.proj.0", merged, merged)
    yield from biased("mm_projector.proj.2", text_hidden, merged)
