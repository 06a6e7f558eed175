# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 gb10.serving contributors
# Private to gb10.serving: the cause of an error that no rule knows, by the place that raised it. Data.
"""A traceback names the library that gave up. Where no rule fits the message, that place is the best guess there is."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ansible_collections.gb10.serving.plugins.module_utils._engine_log_lines import FRAME, Line

_KERNELS = (
    r"deep_?gemm|flashinfer|triton/|cutlass|cute_?dsl|torch/_ops\.py|_inductor/|_dynamo/|flash_?attn|flash_?mla"
    r"|sgl_kernel|marlin|tilelang|/kernels?/|fused_moe/|\.cuh?\b|\.hpp:\d|csrc/|_scaled_mm|torch/cuda/graphs"
    r"|custom_all_reduce|v1/attention/|layers/(?:attention|moe)/"
)
_MODEL_CODE = (
    r"layers/quantization/|model_executor/models/|sglang/srt/(?:models|configs)/"
    r"|transformers/.*(?:token|process|config|auto|dynamic_module)"
)

#: Where arguments are looked at. What is said there of kernels is said of the arguments that choose them.
_ARGUMENTS = r"arg_utils\.py|arg_groups/|vllm/config/|server_args\.py|argparse\.py|pydantic/|cli_args"
_OF_ARGUMENTS = re.compile(_ARGUMENTS)

#: (what a message or a frame's path shows, cause).
PLACES: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), cause)
    for pattern, cause in (
        (_KERNELS, "kernel_unsupported"),
        (r"huggingface_hub/", "model_not_found"),
        (r"safetensors/", "model_corrupt"),
        (_MODEL_CODE, "model_unsupported"),
        (r"load_weights|weight_utils|default_loader|base_loader|weight_loader|model_loader", "model_unsupported"),
        (r"torch/distributed/|parallel_state\.py|pynccl", "nccl_system_error"),
        (_ARGUMENTS, "bad_flag"),
        (r"importlib|__import__|import_utils", "missing_dependency"),
    )
)

#: What a message is about, for one whose traceback says nothing.
WORDS: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), cause)
    for pattern, cause in (
        (r"\bkernels?\b|\bsm_?\d{2,3}|\bcapability\b|\bcu(?:da|blas|dnn)\b", "kernel_unsupported"),
        (r"permission|denied|unauthori[sz]ed|forbidden", "model_access_denied"),
        (r"out of memory|\boom\b|(?:not enough|insufficient) memory", "out_of_memory"),
        (r"\bnccl\b", "nccl_system_error"),
        (r"tokenizer|config\.json|\.safetensors", "model_incomplete"),
        (r"quanti[sz]|checkpoint|\bweights?\b|\wFor(?:Causal|Conditional)\w", "model_unsupported"),
        (r"(?<!\S)`?--[a-z]|\barguments?\b|must be (?:one of|set|specified|positive)|cannot be used", "bad_flag"),
        (r"\b(?:dis)?connect|timed? ?out|unreachable|\bresolve\b", "rendezvous_unreachable"),
        (r"\bimport|\bmodule\b|\binstall|\bpackage\b", "missing_dependency"),
    )
)

#: Frames before an error that are looked at, the innermost first.
DEPTH = 6


def place_of(lines: Sequence[Line], index: int) -> str | None:
    """The cause by the message at ``index``, else by the frames above it, else by the message's words."""
    frames = [line.text for line in lines[max(0, index - 4 * DEPTH) : index] if line.kind == FRAME]
    frames = [text for text in frames if text.startswith("File ")][-DEPTH:]
    if frames and _OF_ARGUMENTS.search(frames[-1]):
        return "bad_flag"
    for pattern, cause in PLACES:
        if pattern.search(lines[index].text):
            return cause
    for frame in reversed(frames):
        for pattern, cause in PLACES:
            if pattern.search(frame):
                return cause
    return next((cause for pattern, cause in WORDS if pattern.search(lines[index].text)), None)
