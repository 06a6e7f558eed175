# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
#
# Private to this collection: may change without notice.
"""What makes no sense before any sum is made: wishes, and a model's numbers. Names the variable or key. Pure."""

from __future__ import annotations

import math
from typing import Any

from ansible_collections.gb10.serving.plugins.plugin_utils._memory_kv_sglang import POOLS
from ansible_collections.gb10.serving.plugins.plugin_utils._memory_model import GIB, VARIABLES, Engine, Model, Wishes

_LEAST = {
    "tensor_parallel": 1,
    "pipeline_parallel": 1,
    "context_length": 1,
    "max_num_seqs": 1,
    "max_num_batched_tokens": 1,
    "kv_cache_bytes": 1,
    "reserve_bytes": 0,
    "overhead_bytes": 0,
    "speculative_tokens": 0,
    "block_size": 1,
}
_MOST = 1 << 50
_SHARES = ("gpu_memory_utilization", "mem_fraction_static")
_DTYPES = ("auto", "bfloat16", "float16", "float32")
_MODEL_KEYS = ("num_hidden_layers", "hidden_size", "num_attention_heads", "vocab_size", "layer_kinds")


def variable(wish: str) -> str:
    """The variable that a user sets for a wish."""
    return VARIABLES.get(wish, f"the server's argument for {wish}")


def _shown(key: str, value: Any) -> str:
    """A value in the unit of its variable."""
    gib = variable(key).endswith("_gib") and isinstance(value, int) and not isinstance(value, bool)
    return f"{value / GIB:g} ({value} bytes)" if gib else repr(value)


def _range(key: str, least: int) -> str:
    if variable(key).endswith("_gib"):
        return f"GiB, from {least and 1 / 1024:.2g} to {_MOST // GIB}"
    return f"a whole number from {least} to {_MOST}"


def wish_problems(wishes: Wishes, engine: Engine) -> list[str]:
    found: list[str] = []
    for key, least in _LEAST.items():
        value = getattr(wishes, key)
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= _MOST:
            found.append(f"{variable(key)} is {_shown(key, value)}; expected {_range(key, least)}.")
    for key in _SHARES:
        value = getattr(wishes, key)
        number = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
        if value is not None and not (number and 0 < value <= 1):
            found.append(f"{variable(key)} is {value!r}; expected a share above 0 and at most 1.")
    if not (isinstance(wishes.kv_cache_dtype, str) and wishes.kv_cache_dtype):
        found.append(f"{variable('kv_cache_dtype')} is {wishes.kv_cache_dtype!r}; expected auto or fp8.")
    if wishes.dtype not in _DTYPES:
        found.append(f"{variable('dtype')} is {wishes.dtype!r}; expected one of {', '.join(_DTYPES)}.")
    if engine.name not in ("vllm", "sglang"):
        found.append(f"gb10_server_engine is {engine.name!r}; expected vllm or sglang.")
    if not isinstance(wishes.pools, dict) or set(wishes.pools) - set(POOLS):
        found.append(f"pools is {wishes.pools!r}; expected a mapping with some of {', '.join(POOLS)}.")
    if found:
        return found
    if engine.name == "sglang" and wishes.kv_cache_dtype == "float16":
        found.append(
            "gb10_plan_kv_cache_dtype is 'float16', which SGLang does not take; expected one of auto, bfloat16, fp8, "
            "fp8_e4m3, fp8_e5m2. Set gb10_plan_kv_cache_dtype to auto."
        )
    if engine.name == "sglang" and wishes.gpu_memory_utilization is not None:
        found.append(
            "gb10_plan_gpu_memory_utilization is set, which SGLang does not know. Set gb10_plan_mem_fraction_static."
        )
    if engine.name == "sglang" and wishes.mem_fraction_static is not None and wishes.kv_cache_bytes is not None:
        found.append(
            "gb10_plan_mem_fraction_static and gb10_plan_kv_cache_gib are both set; expected one of them: SGLang is "
            "told a share alone. Leave one of them out."
        )
    if engine.name == "vllm" and wishes.mem_fraction_static is not None:
        found.append(
            "gb10_plan_mem_fraction_static is set, which vLLM does not know. Set gb10_plan_gpu_memory_utilization."
        )
    if engine.name == "vllm" and wishes.max_num_seqs and wishes.max_num_seqs > wishes.batched_tokens:
        found.append(
            f"max_num_batched_tokens ({wishes.batched_tokens}) must be greater than or equal to max_num_seqs "
            f"({wishes.max_num_seqs}). Correct gb10_plan_max_num_batched_tokens or gb10_plan_max_num_seqs."
        )
    return found


def _positive(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value < 1 << 40


def _too_long(context: int, limit: int, engine: str) -> str:
    """In the engine's words."""
    name, of, words = "max_model_len", f"max_position_embeddings={limit}", "vLLM takes both by --hf-overrides"
    unchecked = "VLLM_ALLOW_LONG_MAX_MODEL_LEN"
    if engine == "sglang":
        name, of, words = "context_length", str(limit), "SGLang takes both by --json-model-override-args"
        unchecked = "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN"
    said = f"User-specified {name} ({context}) is greater than the derived {name} ({of})."
    return (
        f"{said} Set gb10_plan_context_length to at most {limit}. A longer one needs rope scaling (YaRN) and a larger "
        f"max_position_embeddings in config.json, which is what a plan reads; {words}, and checks nothing with "
        f"{unchecked}=1."
    )


def model_problems(model: Model, context: int | None, limit: int | None, engine: str = "vllm") -> list[str]:
    found = list(model.problems)
    c = model.config
    needed = [*_MODEL_KEYS, *(() if model.mla else ("num_key_value_heads", "head_dim"))]
    missing = [key for key in needed if not (c.get(key) if key == "layer_kinds" else _positive(c.get(key)))]
    if missing and not found:
        seen = ", ".join(f"{key} is {c.get(key)!r}" for key in missing)
        found.append(
            f"The model's config gives no usable {', '.join(missing)}: {seen}; expected whole numbers from 1 on. "
            "Check config.json of the model."
        )
    linear = c.get("linear")
    if linear and not all(
        _positive(linear.get(k)) for k in ("key_heads", "value_heads", "key_head_dim", "value_head_dim")
    ):
        found.append("The model's config describes its linear attention only in part. Check linear_* in config.json.")
    if c.get("not_modelled"):
        found.append(
            f"This model uses {', '.join(c['not_modelled'])}, whose memory is not modelled. "
            "Choose a model without it; a plan that guesses could freeze the nodes."
        )
    if any(not isinstance(size, int) or size < 0 for size in model.by_class.values()):
        found.append("The model's tensors have sizes that make no sense. Inspect the model again.")
    if not found and not model.by_class:
        found.append("The model's weights are not known: planning needs config.json or the safetensors headers.")
    if not found and context is None and not limit:
        found.append("The model's config has no max_position_embeddings. Set gb10_plan_context_length.")
    if not found and limit and context and context > limit:
        found.append(_too_long(context, limit, engine))
    return found
