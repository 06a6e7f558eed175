# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
#
# Private to this collection: may change without notice.
"""Wishes that an engine does not serve this model with, in its own words, and what takes them back. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ansible_collections.gb10.serving.plugins.plugin_utils._memory_model import Engine, Model, Wishes

#: Methods whose attention layers look for scales of the cache in the checkpoint, whether it has them or not.
_SCALES = ("fp8", "fbgemm_fp8", "modelopt", "quark")


@dataclass(frozen=True)
class Refusal:
    reason: str
    change: str
    wishes: dict[str, Any]  # what to ask for instead
    settings: dict[str, Any]


def _drafts(model: Model, wishes: Wishes, engine: Engine) -> Iterator[Refusal]:
    config = model.config
    drafts = config.get("mtp_layers") or any(group.get("of") in ("mtp", "draft") for group in config.get("cache") or ())
    if not wishes.speculative_tokens or drafts or wishes.separate_drafter:
        return
    kind = config.get("architecture") or "this model"
    said = (
        "vLLM stops: Unsupported speculative method: 'mtp'."
        if engine.name == "vllm"
        else "SGLang needs --speculative-draft-model-path for it."
    )
    yield Refusal(
        f"{wishes.speculative_tokens} draft tokens are asked for, and {kind} has no multi-token-prediction layer to "
        f"make them. {said}",
        "Set gb10_plan_speculative_tokens to 0, and take --speculative-... out of gb10_server_args; or name a separate "
        "drafter there.",
        {"speculative_tokens": 0},
        wishes.no_drafts,
    )


def _experts(model: Model, wishes: Wishes, engine: Engine) -> Iterator[Refusal]:
    if wishes.expert_parallel and not model.is_moe and engine.name == "vllm":
        yield Refusal(
            "Number of experts in the model must be greater than 0 when expert parallelism is enabled "
            "(gb10_plan_ep is true, and the model has no experts).",
            "Leave gb10_plan_ep out: there are no experts to share.",
            {"expert_parallel": None},
            {"gb10_plan_ep": False},
        )


def _cache(model: Model, wishes: Wishes, engine: Engine) -> Iterator[Refusal]:
    quantization = model.quantization or {}
    method = str(quantization.get("method"))
    scaled = method.startswith(_SCALES) or (method == "compressed-tensors" and bool(quantization.get("kv_cache")))
    if wishes.kv_cache_dtype == "fp8_e5m2" and engine.name == "vllm" and scaled:
        yield Refusal(
            "fp8_e5m2 kv-cache is not supported with fp8 checkpoints (gb10_plan_kv_cache_dtype is fp8_e5m2, and the "
            f"checkpoint is quantised with {method}).",
            "Set gb10_plan_kv_cache_dtype to fp8, which is as small.",
            {"kv_cache_dtype": "fp8"},
            {"gb10_plan_kv_cache_dtype": "fp8"},
        )


def _order(model: Model, wishes: Wishes, engine: Engine) -> Iterator[Refusal]:
    key = (model.quantization or {}).get("ordered")
    if not key or engine.name != "vllm" or not engine.since(0, 32):
        return
    said = {
        "desc_act": "GPTQ group activation ordering (desc_act=True) is no longer supported.",
        "actorder": "Compressed-tensors group/dynamic activation ordering (actorder) is no longer supported.",
    }[key]
    yield Refusal(
        f"{said} It is in quantization_config of this checkpoint.",
        "Use a checkpoint of this model without activation ordering, or with a static one (gb10_model_id); or a vLLM "
        "before 0.32.",
        {},
        {"gb10_model_id": None},
    )


def refusals(model: Model, wishes: Wishes, engine: Engine) -> list[Refusal]:
    return [
        *_drafts(model, wishes, engine),
        *_experts(model, wishes, engine),
        *_cache(model, wishes, engine),
        *_order(model, wishes, engine),
    ]
