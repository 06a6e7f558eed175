# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 gb10.serving contributors
#
# Private to this collection: may change without notice.
"""Vision and audio towers of the families in _gqa and _moe: what stands before the decoder."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ansible_collections.gb10.serving.plugins.module_utils._inventory._common import (
    biased,
    vector,
)
from ansible_collections.gb10.serving.plugins.module_utils._inventory._read import flag, layers, section, whole
from ansible_collections.gb10.serving.plugins.module_utils._inventory._types import Tensor, linear

# What the engine builds where config.json has no vision_config at all.
_SIGLIP = {
    "hidden_size": 768,
    "intermediate_size": 3072,
    "num_hidden_layers": 12,
    "image_size": 224,
    "patch_size": 16,
}
_LLAMA4 = {
    "hidden_size": 768,
    "intermediate_size": 5632,
    "num_hidden_layers": 34,
    "image_size": 448,
    "patch_size": 14,
    "vision_output_dim": 7680,
    "projector_input_dim": 4096,
    "projector_output_dim": 4096,
}


def _required(config: dict[str, Any]) -> dict[str, Any]:
    vision = section(config, "vision_config")
    if vision is None:
        raise KeyError("vision_config")
    return vision


def _layer_norm(module: str, size: int) -> Iterator[Tensor]:
    yield vector(module, size)
    yield vector(f"{module}.bias", size)


def _square(module: str, hidden: int, names: tuple[str, ...], bias: bool) -> Iterator[Tensor]:
    for name in names:
        yield from biased(f"{module}.{name}", hidden, hidden, bias)


def _patches(vision: dict[str, Any]) -> int:
    return (whole(vision, "image_size") // whole(vision, "patch_size")) ** 2


def siglip(vision: dict[str, Any], prefix: str, text_hidden: int) -> Iterator[Tensor]:
    """SigLIP and the projector of Gemma 3."""
    vision = vision or _SIGLIP
    hidden, inner = whole(vision, "hidden_size"), whole(vision, "intermediate_size")
    pixels = whole(vision, "num_channels", default=3) * whole(vision, "patch_size") ** 2
    yield vector(f"{prefix}.embeddings.patch_embedding", hidden, pixels)
    yield vector(f"{prefix}.embeddings.patch_embedding.bias", hidden)
    yield vector(f"{prefix}.embeddings.position_embedding", _patches(vision), hidden)
    for n in range(layers(vision, "num_hidden_layers", least=1)):
        layer = f"{prefix}.encoder.layers.{n}"
        yield from _square(f"{layer}.self_attn", hidden, ("q_proj", "k_proj", "v_proj", "out_proj"), True)
        yield from biased(f"{layer}.mlp.fc1", inner, hidden, True)
        yield from biased(f"{layer}.mlp.fc2", hidden, inner, True)
        yield from _layer_norm(f"{layer}.layer_norm1", hidden)
        yield from _layer_norm(f"{layer}.layer_norm2", hidden)
    yield from _layer_norm(f"{prefix}.post_layernorm", hidden)
    yield vector("multi_modal_projector.mm_input_projection_weight", hidden, text_hidden)
    yield vector("multi_modal_projector.mm_soft_emb_norm", hidden)


def pixtral(config: dict[str, Any], text_hidden: int) -> Iterator[Tensor]:
    """The Pixtral tower and the projector of Mistral 3."""
    vision = _required(config)
    if vision.get("model_type", "pixtral") != "pixtral":
        raise ValueError(f"vision_config.model_type is {vision.get('model_type')!r}; expected pixtral")
    if config.get("vision_feature_layer", -1) != -1:
        raise ValueError(f"vision_feature_layer is {config['vision_feature_layer']!r}; expected -1")
    hidden, inner = whole(vision, "hidden_size"), whole(vision, "intermediate_size")
    yield vector(
        "vision_tower.patch_conv", hidden, whole(vision, "num_channels", default=3) * whole(vision, "patch_size") ** 2
    )
    yield vector("vision_tower.ln_pre", hidden)
    for n in range(layers(vision, "num_hidden_layers", least=1)):
        layer = f"vision_tower.transformer.layers.{n}"
        yield from _square(f"{layer}.attention", hidden, ("q_proj", "k_proj", "v_proj", "o_proj"), False)
        yield linear(f"{layer}.feed_forward.gate_proj", inner, hidden)
        yield linear(f"{layer}.feed_forward.up_proj", inner, hidden)
        yield linear(f"{layer}.feed_forward.down_proj", hidden, inner)
        yield vector(f"{layer}.attention_norm", hidden)
        yield vector(f"{layer}.ffn_norm", hidden)
    bias = flag(config, "multimodal_projector_bias")
    merged = hidden * whole(config, "spatial_merge_size", default=2) ** 2
    yield vector("multi_modal_projector.norm", hidden)
    yield vector("multi_modal_projector.patch_merger.merging_layer", hidden, merged)
    yield from biased("multi_modal_projector.linear_1", text_hidden, hidden, bias)
    yield from biased("multi_modal_projector.linear_2", text_hidden, text_hidden, bias)


def llama4(vision: dict[str, Any], text_hidden: int) -> Iterator[Tensor]:
    vision = vision or _LLAMA4
    hidden, inner = whole(vision, "hidden_size"), whole(vision, "intermediate_size")
    pixels = whole(vision, "num_channels", default=3) * whole(vision, "patch_size") ** 2
    yield linear("vision_model.patch_embedding.linear", hidden, pixels)
    yield vector("vision_model.class_embedding", hidden)
    yield vector("vision_model.positional_embedding_vlm", _patches(vision) + 1, hidden)
    yield from _layer_norm("vision_model.layernorm_pre", hidden)
    yield from _layer_norm("vision_model.layernorm_post", hidden)
    for n in range(layers(vision, "num_hidden_layers", least=1)):
        layer = f"vision_model.model.layers.{n}"
        yield from _square(f"{layer}.self_attn", hidden, ("q_proj", "k_proj", "v_proj", "o_proj"), True)
        yield from biased(f"{layer}.mlp.fc1", inner, hidden, True)
        yield from biased(f"{layer}.mlp.fc2", hidden, inner, True)
        yield from _layer_norm(f"{layer}.input_layernorm", hidden)
        yield from _layer_norm(f"{layer}.post_attention_layernorm", hidden)
    middle, bias = whole(vision, "projector_input_dim"), flag(vision, "multi_modal_projector_bias")
    yield from biased("vision_model.vision_adapter.mlp.fc1", middle, inner, bias)
    yield from biased("vision_model.vision_adapter.mlp.fc2", whole(vision, "projector_output_dim"), middle, bias)
    yield linear("multi_modal_projector.linear_1", text_hidden, whole(vision, "vision_output_dim"))


def gemma4_vision(vision: dict[str, Any], text_hidden: int) -> Iterator[Tensor]:
    prefix = "model.vision_tower"
    hidden, inner = whole(vision, "hidden_size"), whole(vision, "intermediate_size")
    query, size = whole(vision, "num_attention_heads"), whole(vision, "head_dim", default=64)
    kv = whole(vision, "num_key_value_heads", default=query)
    yield linear(f"{prefix}.patch_embedder.input_proj", hidden, 3 * whole(vision, "patch_size") ** 2)
    table = whole(vision, "position_embedding_size", default=10240)
    yield vector(f"{prefix}.patch_embedder.position_embedding_table", 2, table, hidden)
    for n in range(layers(vision, "num_hidden_layers", least=1)):
        layer = f"{prefix}.encoder.layers.{n}"
        yield linear(f"{layer}.self_attn.q_proj.linear", query * size, hidden)
        yield linear(f"{layer}.self_attn.k_proj.linear", kv * size, hidden)
        yield linear(f"{layer}.self_attn.v_proj.linear", kv * size, hidden)
        yield linear(f"{layer}.self_attn.o_proj.linear", hidden, query * size)
        yield vector(f"{layer}.self_attn.q_norm", size)
        yield vector(f"{layer}.self_attn.k_norm", size)
        yield linear(f"{layer}.mlp.gate_proj.linear", inner, hidden)
        yield linear(f"{layer}.mlp.up_proj.linear", inner, hidden)
        yield linear(f"{layer}.mlp.down_proj.linear", hidden, inner)
        for place in ("input", "post_attention", "pre_feedforward", "post_feedforward"):
            yield vector(f"{layer}.{place}_layernorm", hidden)
    yield linear("model.embed_vision.embedding_projection", text_hidden, hidden)


def gemma4_audio(audio: dict[str, Any], text_hidden: int) -> Iterator[Tensor]:
    """A conformer of which nothing is shared between ranks."""
    prefix, hidden = "model.audio_tower", whole(audio, "hidden_size")
    size = hidden // whole(audio, "num_attention_heads")
    channels = audio.get("subsampling_conv_channels") or [128, 32]
    if not isinstance(channels, list) or len(channels) != 2:
        raise ValueError(f"subsampling_conv_channels is {channels!r}; expected two numbers")
    first, second = (whole({"subsampling_conv_channels": n}, "subsampling_conv_channels") for n in channels)
    front = f"{prefix}.subsample_conv_projection"
    yield vector(f"{front}.layer0.conv", first, 9)
    yield vector(f"{front}.layer0.norm", first)
    yield vector(f"{front}.layer1.conv", second, first * 9)
    yield vector(f"{front}.layer1.norm", second)
    yield linear(f"{front}.input_proj_linear", hidden, first // 4 * second)
    for n in range(layers(audio, "num_hidden_layers", least=1)):
        layer = f"{prefix}.layers.{n}"
        for name in ("feed_forward1", "feed_forward2"):
            yield linear(f"{layer}.{name}.ffw_layer_1.linear", 4 * hidden, hidden)
            yield linear(f"{layer}.{name}.ffw_layer_2.linear", hidden, 4 * hidden)
            yield vector(f"{layer}.{name}.pre_layer_norm", hidden)
            yield vector(f"{layer}.{name}.post_layer_norm", hidden)
        for name in ("q_proj.linear", "k_proj.linear", "v_proj.linear", "post.linear", "relative_k_proj"):
            yield linear(f"{layer}.self_attn.{name}", hidden, hidden)
        yield vector(f"{layer}.self_attn.per_dim_scale", size)
        yield linear(f"{layer}.lconv1d.linear_start.linear", 2 * hidden, hidden)
        yield linear(f"{layer}.lconv1d.linear_end.linear", hidden, hidden)
        yield vector(f"{layer}.lconv1d.depthwise_conv1d", hidden, whole(audio, "conv_kernel_size", default=5))
        for name in ("lconv1d.pre_layer_norm", "lconv1d.conv_norm", "norm_pre_attn", "norm_post_attn", "norm_out"):
            yield vector(f"{layer}.{name}", hidden)
    out = whole(audio, "output_proj_dims", default=1536)
    yield from biased(f"{prefix}.output_proj", out, hidden, True)
    yield linear("model.embed_audio.embedding_projection", text_hidden, out)


def gemma4_unified(config: dict[str, Any], text_hidden: int) -> Iterator[Tensor]:
    """No towers: patches and sound are projected as they are."""
    vision, prefix = _required(config), "model.vision_embedder"
    inner, audio = whole(vision, "mm_embed_dim"), section(config, "audio_config")
    pixels = 3 * (whole(vision, "patch_size", default=16) * whole(vision, "pooling_kernel_size", default=3)) ** 2
    yield from _layer_norm(f"{prefix}.patch_ln1", pixels)
    yield from biased(f"{prefix}.patch_dense", inner, pixels, True)
    yield from _layer_norm(f"{prefix}.patch_ln2", inner)
    yield vector(f"{prefix}.pos_embedding", whole(vision, "mm_posemb_size", default=1120), 2, inner)
    yield from _layer_norm(f"{prefix}.pos_norm", inner)
    out = whole(vision, "output_proj_dims", default=3840)
    yield vector("model.embed_vision.embedding_projection", text_hidden, out)
    if audio is not None:
        yield vector(
            "model.embed_audio.embedding_projection", text_hidden, whole(audio, "audio_embed_dim", default=640)
        )


def perception(config: dict[str, Any], text_hidden: int) -> Iterator[Tensor]:
    """The perception encoder and projector of Step 3.7."""
    vision, prefix = _required(config), "model.vision_model"
    hidden, patch, ratio = (
        whole(vision, "width", "hidden_size"),
        whole(vision, "patch_size"),
        vision.get("mlp_ratio", 4.0),
    )
    if isinstance(ratio, bool) or not isinstance(ratio, (int, float)) or not 0 < ratio < 100:
        raise ValueError(f"mlp_ratio is {ratio!r}; expected a number such as 4.0")
    inner, cls = int(hidden * ratio), flag(vision, "use_cls_token")
    yield vector(f"{prefix}.conv1", hidden, 3 * patch**2)
    for name in ("pre", "post"):
        if flag(vision, f"use_ln_{name}", True):
            yield from _layer_norm(f"{prefix}.ln_{name}", hidden)
    if cls:
        yield vector(f"{prefix}.class_embedding", hidden)
    if flag(vision, "use_abs_posemb", True):
        yield vector(f"{prefix}.positional_embedding", _patches(vision) + cls, hidden)
    for n in range(layers(vision, "layers", "num_hidden_layers", least=1)):
        layer = f"{prefix}.transformer.resblocks.{n}"
        yield from biased(f"{layer}.attn.in_proj", 3 * hidden, hidden, True)
        yield from biased(f"{layer}.attn.out_proj", hidden, hidden, True)
        yield from biased(f"{layer}.mlp.c_fc", inner, hidden, True)
        yield from biased(f"{layer}.mlp.c_proj", hidden, inner, True)
        yield from _layer_norm(f"{layer}.ln_1", hidden)
        yield from _layer_norm(f"{layer}.ln_2", hidden)
        if vision.get("ls_init_value") is not None:
            yield vector(f"{layer}.ls_1.gamma", hidden)
            yield vector(f"{layer}.ls_2.gamma", hidden)
    for name, wide in (("vit_downsampler1", 1), ("vit_downsampler2", 2)):
        yield vector(f"{prefix}.{name}", 2 * wide * hidden, wide * hidden * 9)
        yield vector(f"{prefix}.{name}.bias", 2 * wide * hidden)
    bias = flag(config, "projector_bias", True)
    yield from biased("model.vit_large_projector", text_hidden, 4 * hidden, bias)


def minimax_vl(config: dict[str, Any], text_hidden: int) -> Iterator[Tensor]:
    vision, prefix = _required(config), "vision_tower.vision_model"
    shrink = section(vision, "img_token_compression_config") or {}
    hidden, inner = whole(vision, "hidden_size"), whole(vision, "intermediate_size")
    pixels = whole(vision, "num_channels", default=3) * whole(vision, "patch_size") ** 2
    yield vector(
        f"{prefix}.embeddings.patch_embedding", hidden, pixels * whole(shrink, "temporal_patch_size", default=2)
    )
    yield from _layer_norm(f"{prefix}.pre_layrnorm", hidden)
    for n in range(layers(vision, "num_hidden_layers", least=1)):
        layer = f"{prefix}.encoder.layers.{n}"
        yield from _square(f"{layer}.self_attn", hidden, ("q_proj", "k_proj", "v_proj", "out_proj"), True)
        yield from biased(f"{layer}.mlp.fc1", inner, hidden, True)
        yield from biased(f"{layer}.mlp.fc2", hidden, inner, True)
        yield from _layer_norm(f"{layer}.layer_norm1", hidden)
        yield from _layer_norm(f"{layer}.layer_norm2", hidden)
    middle, merged = (
        whole(config, "projector_hidden_size", default=text_hidden),
        whole(shrink, "spatial_merge_size", default=2) ** 2,
    )
    sizes = {"multi_modal_projector": ("multimodal_projector_bias", hidden)}
    sizes["patch_merge_mlp"] = ("patch_merge_bias", text_hidden * merged)
    for name, (key, into) in sizes.items():
        bias = flag(vision, key, True)
        yield from biased(f"vision_tower.{name}.linear_1", middle, into, bias)
        yield from biased(f"vision_tower.{name}.linear_2", text_hidden, middle, bias)
