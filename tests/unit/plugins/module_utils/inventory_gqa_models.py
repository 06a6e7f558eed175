# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""The keys of published config.json files from which tensors follow, and how many parameters the models have."""

from __future__ import annotations

from typing import Any

Config = dict[str, Any]


def decoder(
    model_type: str, hidden: int, layers: int, heads: tuple[int, int, int | None], vocab: int, **more: Any
) -> Config:
    query, kv, size = heads
    config = {
        "model_type": model_type,
        "hidden_size": hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": query,
        "num_key_value_heads": kv,
        "vocab_size": vocab,
        "torch_dtype": "bfloat16",
        **more,
    }
    return {**config, "head_dim": size} if size else config


def wrapped(model_type: str, text: Config, vision: Config | None, **more: Any) -> Config:
    return {"model_type": model_type, "text_config": text, "vision_config": vision, **more}


SIGLIP = {"hidden_size": 1152, "intermediate_size": 4304, "num_hidden_layers": 27, "image_size": 896, "patch_size": 14}
LLAMA4_VISION = {
    "hidden_size": 1408,
    "intermediate_size": 5632,
    "num_hidden_layers": 34,
    "image_size": 336,
    "patch_size": 14,
    "vision_output_dim": 4096,
    "projector_input_dim": 4096,
    "projector_output_dim": 4096,
}
PIXTRAL = {"hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24, "patch_size": 14}
GEMMA4_VISION = {
    "hidden_size": 1152,
    "intermediate_size": 4304,
    "num_hidden_layers": 27,
    "num_attention_heads": 16,
    "num_key_value_heads": 16,
    "head_dim": 72,
    "patch_size": 16,
    "position_embedding_size": 10240,
}
GEMMA4_SMALL_VISION = {
    **GEMMA4_VISION,
    "hidden_size": 768,
    "intermediate_size": 3072,
    "num_hidden_layers": 16,
    "num_attention_heads": 12,
    "num_key_value_heads": 12,
    "head_dim": 64,
}
GEMMA4_AUDIO = {"hidden_size": 1024, "num_hidden_layers": 12, "num_attention_heads": 8, "output_proj_dims": 1536}
QWEN_VISION = {
    "hidden_size": 1152,
    "intermediate_size": 4304,
    "depth": 27,
    "num_heads": 16,
    "out_hidden_size": 4096,
    "num_position_embeddings": 2304,
    "patch_size": 16,
    "temporal_patch_size": 2,
    "spatial_merge_size": 2,
    "in_channels": 3,
    "deepstack_visual_indexes": [8, 16, 24],
}
MINIMAX_VISION = {
    "hidden_size": 1280,
    "intermediate_size": 5120,
    "num_hidden_layers": 32,
    "patch_size": 14,
    "img_token_compression_config": {"spatial_merge_size": 2, "temporal_patch_size": 2},
}


def kinds(layers: int, period: int) -> list[str]:
    return ["full_attention" if (n + 1) % period == 0 else "sliding_attention" for n in range(layers)]


def mixtral(hidden: int, layers: int, heads: int, inner: int, vocab: int) -> Config:
    return decoder("mixtral", hidden, layers, (heads, 8, None), vocab, intermediate_size=inner, num_local_experts=8)


def qwen3_moe(model_type: str, hidden: int, layers: int, heads: tuple[int, int, int], inner: int) -> Config:
    return decoder(
        model_type, hidden, layers, heads, 151936, moe_intermediate_size=inner, num_experts=128, intermediate_size=6144
    )


def gpt_oss(layers: int, count: int) -> Config:
    return decoder("gpt_oss", 2880, layers, (64, 8, 64), 201088, intermediate_size=2880, num_local_experts=count)


def glm(hidden: int, layers: int, dense: int, inner: int, size: int, count: int, **more: Any) -> Config:
    return decoder(
        "glm4_moe",
        hidden,
        layers,
        (96, 8, 128),
        151552,
        attention_bias=True,
        first_k_dense_replace=dense,
        intermediate_size=inner,
        moe_intermediate_size=size,
        n_routed_experts=count,
        n_shared_experts=1,
        num_nextn_predict_layers=1,
        **more,
    )


def gemma4(hidden: int, layers: int, heads: tuple[int, int, int], inner: int, period: int, **more: Any) -> Config:
    return decoder(
        "gemma4_text",
        hidden,
        layers,
        heads,
        262144,
        intermediate_size=inner,
        global_head_dim=512,
        layer_types=kinds(layers, period),
        **{"hidden_size_per_layer_input": 0, **more},
    )


def llama4(count: int, step: int) -> Config:
    return decoder(
        "llama4_text",
        5120,
        48,
        (40, 8, 128),
        202048,
        intermediate_size=8192,
        intermediate_size_mlp=16384,
        num_local_experts=count,
        interleave_moe_layer_step=step,
    )


STEP = {
    "model_type": "step3p5",
    "hidden_size": 4096,
    "intermediate_size": 11264,
    "num_hidden_layers": 45,
    "num_attention_heads": 64,
    "num_attention_groups": 8,
    "head_dim": 128,
    "vocab_size": 128896,
    "moe_num_experts": 288,
    "moe_intermediate_size": 1280,
    "share_expert_dim": 1280,
    "moe_layers_enum": ",".join(str(n) for n in range(3, 45)),
    "use_head_wise_attn_gate": True,
    "layer_types": (["full_attention"] + ["sliding_attention"] * 3) * 12,
    "attention_other_setting": {
        "attention_type": "sliding_attention",
        "num_attention_heads": 96,
        "num_attention_groups": 8,
        "head_dim": 128,
    },
    "num_nextn_predict_layers": 3,
}
MIMO = decoder(
    "mimo_v2_flash",
    4096,
    48,
    (64, 4, 192),
    152576,
    intermediate_size=16384,
    v_head_dim=128,
    swa_num_attention_heads=64,
    swa_num_key_value_heads=8,
    swa_head_dim=192,
    swa_v_head_dim=128,
    hybrid_layer_pattern=[0, 1, 1, 1, 1, 0] + ([1] * 5 + [0]) * 7,
    moe_layer_freq=[0] + [1] * 47,
    n_routed_experts=256,
    moe_intermediate_size=2048,
    add_swa_attention_sink_bias=True,
)
MINIMAX_M3 = decoder(
    "minimax_m3_text",
    6144,
    60,
    (64, 4, 128),
    200064,
    intermediate_size=3072,
    dense_intermediate_size=12288,
    num_local_experts=128,
    n_shared_experts=1,
    use_routing_bias=True,
    moe_layer_freq=[0] * 3 + [1] * 57,
    sparse_attention_config={
        "sparse_index_dim": 128,
        "sparse_num_index_heads": 4,
        "sparse_attention_freq": [0] * 3 + [1] * 57,
    },
)
ERNIE = decoder(
    "ernie4_5_moe",
    2560,
    28,
    (20, 4, 128),
    103424,
    intermediate_size=12288,
    moe_num_experts=64,
    moe_intermediate_size=1536,
    moe_num_shared_experts=2,
    moe_layer_start_index=1,
    moe_layer_end_index=27,
    moe_layer_interval=1,
)
HY3 = decoder(
    "hy_v3",
    4096,
    80,
    (64, 8, 128),
    120832,
    intermediate_size=13312,
    num_experts=192,
    expert_hidden_dim=1536,
    num_shared_experts=1,
    first_k_dense_replace=1,
    qk_norm=True,
)

PERCEPTION = {
    "width": 1536,
    "layers": 47,
    "image_size": 728,
    "patch_size": 14,
    "mlp_ratio": 8960 / 1536,
    "ls_init_value": 0.1,
    "use_ln_post": False,
}
GEMMA4_PATCHES = {
    "mm_embed_dim": 3840,
    "mm_posemb_size": 1120,
    "patch_size": 16,
    "pooling_kernel_size": 3,
    "output_proj_dims": 3840,
}
GEMMA4_12B = gemma4(3840, 48, (16, 8, 256), 15360, 6, attention_k_eq_v=True, num_global_key_value_heads=1) | {
    "model_type": "gemma4_unified_text"
}

# name -> (config, parameters without those for multi-token prediction)
MODELS: dict[str, tuple[Config, int]] = {
    "Llama-3.1-8B": (decoder("llama", 4096, 32, (32, 8, None), 128256, intermediate_size=14336), 8_030_261_248),
    "Llama-3.1-70B": (decoder("llama", 8192, 80, (64, 8, None), 128256, intermediate_size=28672), 70_553_706_496),
    "Llama-3.1-405B": (decoder("llama", 16384, 126, (128, 8, None), 128256, intermediate_size=53248), 405_853_388_800),
    "Mistral-7B-v0.3": (decoder("mistral", 4096, 32, (32, 8, None), 32768, intermediate_size=14336), 7_248_023_552),
    "Mistral-Small-3.2-24B": (
        wrapped(
            "mistral3",
            decoder("mistral", 5120, 40, (32, 8, 128), 131072, intermediate_size=32768),
            PIXTRAL,
            spatial_merge_size=2,
        ),
        24_011_361_280,
    ),
    "Phi-4": (decoder("phi3", 5120, 40, (40, 10, None), 100352, intermediate_size=17920), 14_659_507_200),
    "Qwen2.5-1.5B": (
        decoder("qwen2", 1536, 28, (12, 2, None), 151936, intermediate_size=8960, tie_word_embeddings=True),
        1_543_714_304,
    ),
    "Qwen2.5-72B": (decoder("qwen2", 8192, 80, (64, 8, None), 152064, intermediate_size=29568), 72_706_203_648),
    "Qwen3-0.6B": (
        decoder("qwen3", 1024, 28, (16, 8, 128), 151936, intermediate_size=3072, tie_word_embeddings=True),
        596_049_920,
    ),
    "Qwen3-8B": (decoder("qwen3", 4096, 36, (32, 8, 128), 151936, intermediate_size=12288), 8_190_735_360),
    "Qwen3-VL-8B": (
        wrapped(
            "qwen3_vl",
            decoder("qwen3_vl_text", 4096, 36, (32, 8, 128), 151936, intermediate_size=12288),
            QWEN_VISION,
        ),
        8_767_123_696,
    ),
    "Gemma-2-27B": (decoder("gemma2", 4608, 46, (32, 16, 128), 256000, intermediate_size=36864), 27_227_128_320),
    "Gemma-3-27B": (
        wrapped("gemma3", decoder("gemma3_text", 5376, 62, (32, 16, 128), 262208, intermediate_size=21504), SIGLIP),
        27_432_406_640,
    ),
    "Gemma-3-4B": (
        wrapped(
            "gemma3",
            {"model_type": "gemma3_text", "hidden_size": 2560, "intermediate_size": 10240, "num_hidden_layers": 34},
            SIGLIP,
        ),
        4_300_079_472,
    ),
    "Gemma-3-1B": (decoder("gemma3_text", 1152, 26, (4, 1, 256), 262144, intermediate_size=6912), 999_885_952),
    "Gemma-4-31B": (
        wrapped(
            "gemma4",
            gemma4(5376, 60, (32, 16, 256), 21504, 6, attention_k_eq_v=True, num_global_key_value_heads=4),
            GEMMA4_VISION,
        ),
        31_383_186_992,  # with the values that the engine keeps beside the equal keys
    ),
    "Gemma-4-26B-A4B": (
        wrapped(
            "gemma4",
            gemma4(
                2816,
                30,
                (16, 8, 256),
                2112,
                6,
                attention_k_eq_v=True,
                num_global_key_value_heads=2,
                num_experts=128,
                moe_intermediate_size=704,
            ),
            GEMMA4_VISION,
        ),
        25_820_351_792,
    ),
    "Gemma-4-E4B": (
        wrapped(
            "gemma4",
            gemma4(2560, 42, (8, 2, 256), 10240, 6, hidden_size_per_layer_input=256, num_kv_shared_layers=18),
            GEMMA4_SMALL_VISION,
            audio_config=GEMMA4_AUDIO,
        ),
        7_941_100_832,
    ),
    "Gemma-4-E2B": (
        wrapped(
            "gemma4",
            gemma4(
                1536,
                35,
                (8, 1, 256),
                6144,
                5,
                hidden_size_per_layer_input=256,
                num_kv_shared_layers=20,
                use_double_wide_mlp=True,
            ),
            GEMMA4_SMALL_VISION,
            audio_config=GEMMA4_AUDIO,
        ),
        5_104_297_504,
    ),
    "Gemma-4-12B": (
        wrapped("gemma4_unified", GEMMA4_12B, GEMMA4_PATCHES, audio_config={"audio_embed_dim": 640}),
        11_975_458_816,
    ),
    "Granite-3.3-8B": (
        decoder("granite", 4096, 40, (32, 8, None), 49159, intermediate_size=12800, tie_word_embeddings=True),
        8_170_864_640,
    ),
    "ERNIE-4.5-0.3B": (decoder("ernie4_5", 1024, 18, (16, 2, 128), 103424, intermediate_size=3072), 360_748_032),
    "GLM-4-32B": (decoder("glm4", 6144, 61, (48, 2, 128), 151552, intermediate_size=23040), 32_566_081_536),
    "EXAONE-4.0-32B": (
        decoder("exaone4", 5120, 64, (40, 8, 128), 102400, intermediate_size=27392),
        32_003_216_384,
    ),
    "Mixtral-8x7B": (mixtral(4096, 32, 32, 14336, 32000), 46_702_792_704),
    "Mixtral-8x22B": (mixtral(6144, 56, 48, 16384, 32768), 140_630_071_296),
    "Qwen2-57B-A14B": (
        decoder(
            "qwen2_moe",
            3584,
            28,
            (28, 4, None),
            151936,
            num_experts=64,
            moe_intermediate_size=2560,
            shared_expert_intermediate_size=20480,
        ),
        57_408_658_944,
    ),
    "Qwen3-30B-A3B": (qwen3_moe("qwen3_moe", 2048, 48, (32, 4, 128), 768), 30_532_122_624),
    "Qwen3-235B-A22B": (qwen3_moe("qwen3_moe", 4096, 94, (64, 4, 128), 1536), 235_093_634_560),
    "Qwen3-VL-235B-A22B": (
        wrapped("qwen3_vl_moe", qwen3_moe("qwen3_vl_moe_text", 4096, 94, (64, 4, 128), 1536), QWEN_VISION),
        235_670_022_896,
    ),
    "gpt-oss-20b": (gpt_oss(24, 32), 20_914_757_184),
    "gpt-oss-120b": (gpt_oss(36, 128), 116_829_156_672),
    "MiniMax-M2": (
        decoder(
            "minimax_m2",
            3072,
            62,
            (48, 8, 128),
            200064,
            intermediate_size=1536,
            num_local_experts=256,
            use_routing_bias=True,
        ),
        228_689_764_864,
    ),
    "MiniMax-M3": (
        wrapped("minimax_m3_vl", MINIMAX_M3, MINIMAX_VISION, projector_hidden_size=6144),
        427_040_140_160,
    ),
    "GLM-4.5-Air": (glm(4096, 46, 1, 10944, 1408, 128), 106_852_251_264),
    "GLM-4.6": (glm(5120, 92, 3, 12288, 1536, 160, use_qk_norm=True), 352_797_829_024),
    "Llama-4-Scout": (wrapped("llama4", llama4(16, 1), LLAMA4_VISION), 108_641_793_536),
    "Llama-4-Maverick": (wrapped("llama4", llama4(128, 2), LLAMA4_VISION), 401_583_781_376),
    "Step-3.5-Flash": (STEP, 196_956_130_368),
    "Step-3.7-Flash": (wrapped("step3p7", STEP, PERCEPTION, projector_bias=False), 198_937_145_152),
    "MiMo-V2-Flash": (MIMO, 308_778_780_864),
    "ERNIE-4.5-21B-A3B": (ERNIE, 21_825_437_888),
    "Hy3": (HY3, 295_033_543_488),
}
