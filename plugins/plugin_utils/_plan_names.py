# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
#
# Private to this collection: may change without notice.
"""Names of the plan's variables: what somebody meant who wrote another one, and advice in their words. Pure."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from ansible_collections.gb10.serving.plugins.plugin_utils._plan_variables import VARIABLES
from ansible_collections.gb10.serving.plugins.plugin_utils._problems import Problem

PREFIX = "gb10_plan_"

#: Short names of variables, and what else people call them: by engines, by other tools, by what they are.
_ALSO = {
    "tp": "tensor_parallel tensor_parallel_size tp_size tensor_parallelism",
    "pp": "pipeline_parallel pipeline_parallel_size pp_size pipeline_parallelism stages",
    "ep": "expert_parallel enable_expert_parallel ep_size expert_parallel_size",
    "context_length": "context ctx context_len max_context max_length max_model_len max_len ctx_len",
    "max_num_seqs": "seqs num_seqs max_seqs concurrency max_concurrency batch batch_size max_running_requests users",
    "max_num_batched_tokens": "batched_tokens max_batched_tokens batch_tokens chunked_prefill_size prefill",
    "kv_cache_dtype": "kv_dtype kv_type kv_cache_type cache_dtype cache_type",
    "kv_cache_gib": "kv_cache kv_gib kv_cache_bytes kv_cache_memory_bytes kv_bytes cache_gib kv_cache_memory",
    "reserve_gib": "reserve reserve_bytes reserve_gb reserved",
    "overhead_gib": "overhead overhead_bytes overhead_gb",
    "gpu_memory_utilization": "utilization gpu_util gpu_memory gpu_utilization memory_utilization gmu",
    "mem_fraction_static": "mem_fraction memory_fraction static_fraction",
    "dtype": "type precision weights_dtype weight_dtype",
    "speculative_tokens": "num_speculative_tokens speculative spec_tokens drafts draft_tokens mtp",
    "nodes": "node num_nodes nnodes node_count world_size hosts sparks gpus",
    "memory_bytes": "memory mem memory_gib memory_gb node_memory total_bytes total_memory",
    "available_bytes": "available available_gib available_memory free free_bytes free_memory",
    "engine_version": "version vllm_version sglang_version",
    "gb10_server_engine": "engine server_engine engine_name server",
    "gb10_model_dir": "model_dir model_path path dir folder",
    "gb10_model_id": "model_id model hub_id repo name_or_path",
    "measure": "measured measure_nodes",
    "fail": "fail_if_refused",
    "output": "json out file output_file json_output",
    "svg": "picture plot image",
    "options": "variants compare option",
}
_MEANT = {
    other: name if name.startswith("gb10_") else PREFIX + name
    for name, others in _ALSO.items()
    for other in others.split()
}


def meant(word: str, names: Collection[str]) -> str | None:
    """The variable, out of ``names``, that a word without the prefix stands for."""
    short = word.lower().replace("-", "_").removeprefix(PREFIX)
    if (known := _MEANT.get(short)) in names:
        return known
    plain = {name.removeprefix(PREFIX).removeprefix("gb10_"): name for name in names}
    plain.update({other: name for other, name in _MEANT.items() if name in names and len(other) > 3})
    near = difflib.get_close_matches(short, plain, 1)
    return plain[near[0]] if near else None


def unknown(names: Iterable[str]) -> list[Problem]:
    """Names that begin like a variable of the plan and are none."""
    problems = []
    for name in sorted(names):
        if name.startswith(PREFIX) and name not in VARIABLES:
            near = meant(name, VARIABLES)
            hint = f"use {near} instead." if near else "take it out; docs/variables.md lists them."
            problems.append(Problem(name, "it is set, and no variable has this name.", "a known name.", hint))
    return problems


#: Words in which the plan speaks of its wishes -> the variable to set. "dtype" is a word of other sentences, too.
_WORDS = {known.wish: name for name, known in VARIABLES.items() if known.wish and known.wish != "dtype"}
_PHRASES = re.compile(
    r"\b(" + "|".join(sorted(map(re.escape, _WORDS), key=len, reverse=True)) + r")\b(?=\s|=|\.|,|$)",
)


def named(text: str) -> str:
    """A sentence of the plan with the names of the variables that a user sets."""
    return _PHRASES.sub(lambda match: _WORDS[match.group(1)], text)


def named_plan(plan: Mapping[str, Any]) -> dict[str, Any]:
    """A plan whose advice speaks of variables."""
    result = {**plan, "remedies": [named(text) for text in plan.get("remedies") or []]}
    if plan.get("changes"):
        result["changes"] = [{**change, "change": named(str(change["change"]))} for change in plan["changes"]]
    return result
