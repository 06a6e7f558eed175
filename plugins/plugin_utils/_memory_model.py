# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
#
# Private to this collection: may change without notice.
"""The inputs of memory planning in one shape: model, wishes, engine. Pure."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field, replace
from typing import Any

from ansible_collections.gb10.serving.plugins.module_utils._model_config import DTYPE_BYTES

MIB = 1024**2
GIB = 1024**3

DEFAULT_RESERVE = 8 * GIB  # below 7 GiB MemAvailable hosts have frozen
DEFAULT_SEQS = 256
DEFAULT_BATCHED_TOKENS = 2048

# Field of Wishes -> the variable that a user sets. What has no variable of its own is an argument of the server.
VARIABLES = {
    "tensor_parallel": "gb10_plan_tp",
    "pipeline_parallel": "gb10_plan_pp",
    "expert_parallel": "gb10_plan_ep",
    "context_length": "gb10_plan_context_length",
    "max_num_seqs": "gb10_plan_max_num_seqs",
    "max_num_batched_tokens": "gb10_plan_max_num_batched_tokens",
    "kv_cache_dtype": "gb10_plan_kv_cache_dtype",
    "kv_cache_bytes": "gb10_plan_kv_cache_gib",
    "reserve_bytes": "gb10_plan_reserve_gib",
    "overhead_bytes": "gb10_plan_overhead_gib",
    "gpu_memory_utilization": "gb10_plan_gpu_memory_utilization",
    "mem_fraction_static": "gb10_plan_mem_fraction_static",
    "dtype": "gb10_plan_dtype",
}


@dataclass(frozen=True)
class Term:
    """One line of the sum. The formula is a name that documentation and tests can look for."""

    name: str
    bytes: int
    formula: str
    uncertainty_bytes: int = 0
    source: str = ""  # where the figure is from: a file of the model, a measurement on a host, a named prior, the user

    def as_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "bytes": self.bytes,
            "formula": self.formula,
            "uncertainty_bytes": self.uncertainty_bytes,
            "source": self.source,
        }


@dataclass(frozen=True)
class Engine:
    """What differs between engines and versions, as data."""

    name: str = "vllm"
    version: tuple[int, ...] = ()
    cpu: bool = False

    @classmethod
    def of(cls, engine: dict[str, Any] | None) -> Engine:
        engine = engine or {}
        text = str(engine.get("version") or "")
        numbers = re.match(r"v?(\d+(?:\.\d+)*)", text)
        version = tuple(int(n) for n in numbers.group(1).split(".")) if numbers else ()
        if version[:2] == (0, 1) or version[:1] > (1000,):  # a build without a tag, or a date: no release
            version = ()
        if version and any(version) and re.search(r"\d(rc\d+|\.dev\d+)", text):  # later than the release before it
            last = max(n for n, part in enumerate(version) if part)
            version = (*version[:last], version[last] - 1, 999)
        return cls(str(engine.get("name") or "vllm"), version, engine.get("device") == "cpu" or "+cpu" in text)

    def since(self, *version: int) -> bool:
        """True from that version on, and for an unknown version (taken as the newest)."""
        return not self.version or self.version >= version

    @property
    def block_tokens(self) -> int:
        """Tokens of one KV block before hybrids enlarge it."""
        return 128 if self.cpu else 16

    @property
    def in_flight_batches(self) -> int:
        """Batches that are scheduled at once: asynchronous scheduling keeps two."""
        return 2 if self.since(0, 25, 1, 1) else 1  # 0.25.1 had one, 0.26.0 has two

    @property
    def report_by_concurrency(self) -> bool:
        """'KV cache size: N tokens' is concurrency x max_model_len; before, it was blocks of one group x block."""
        return self.since(0, 20, 1)

    @property
    def layer_tuples(self) -> str:
        """How DeepSeek-V4's pages share a block: before 0.29 each page was padded to one of the full layers' sizes."""
        if not self.version or self.since(0, 29):
            return ""
        return "slots" if self.since(0, 23) else "tuples"

    @property
    def requests_by_bytes(self) -> bool:
        """Requests at once were counted by the bytes of their groups, not by blocks."""
        return bool(self.version) and not self.since(0, 27)

    @property
    def default_seqs(self) -> int:
        """What the server takes when it is not told: until 0.33 a GB10 counted as a large data-centre GPU."""
        return DEFAULT_SEQS if self.since(0, 33) else 1024

    @property
    def default_batched_tokens(self) -> int:
        return DEFAULT_BATCHED_TOKENS if self.since(0, 33) else 8192

    @property
    def graphs_in_budget(self) -> bool:
        """CUDA graphs are estimated and taken off the budget; before, they came on top of it."""
        return self.name == "vllm" and self.since(0, 21)

    @property
    def fp8_block_strict(self) -> bool:
        """A shard that cuts a 128 x 128 scale block stops the start."""
        return self.name != "vllm" or not self.since(0, 32)


@dataclass(frozen=True)
class Wishes:
    tensor_parallel: int | None = None
    pipeline_parallel: int | None = None
    expert_parallel: bool | None = None
    context_length: int | None = None
    max_num_seqs: int | None = None
    max_num_batched_tokens: int | None = None
    kv_cache_dtype: str = "auto"
    kv_cache_bytes: int | None = None
    reserve_bytes: int | None = None
    overhead_bytes: int | None = None
    gpu_memory_utilization: float | None = None
    mem_fraction_static: float | None = None
    dtype: str = "auto"  # of weights that are not quantised, and of activations
    speculative_tokens: int = 0
    separate_drafter: bool = False  # drafts come from another model, or from none
    drafting_args: list[str] = field(default_factory=list)  # the server's arguments that speak of drafts
    prefix_caching: bool = True
    enforce_eager: bool = False
    language_model_only: bool = False
    vision_sharded: bool = True  # as the engine does by default: --mm-encoder-tp-mode weights
    block_size: int | None = None
    load_format: str = "auto"
    workspace_factor: int | None = None  # attention_config.sparse_mla_prefill_workspace_factor
    pools: dict[str, Any] = field(
        default_factory=dict
    )  # how SGLang is told to divide its pool: _memory_kv_sglang.POOLS

    @classmethod
    def of(cls, wishes: dict[str, Any] | None) -> Wishes:
        known = {k: v for k, v in (wishes or {}).items() if k in cls.__dataclass_fields__ and v is not None}
        return cls(**known)

    def as_started(self, engine: Engine) -> Wishes:
        """With a share given, the plan foretells that start: what is left open is what this version takes itself."""
        if engine.name != "vllm" or not engine.version or self.gpu_memory_utilization is None:
            return self
        batched = self.max_num_batched_tokens or engine.default_batched_tokens
        return replace(self, max_num_batched_tokens=batched, max_num_seqs=self.max_num_seqs or engine.default_seqs)

    @property
    def no_drafts(self) -> dict[str, Any]:
        """What turns drafts off, however they were asked for."""
        arguments = {"gb10_server_args": {"add": [], "remove": list(self.drafting_args)}} if self.drafting_args else {}
        return {"gb10_plan_speculative_tokens": 0, **arguments}

    @property
    def seqs(self) -> int:
        return self.max_num_seqs or min(DEFAULT_SEQS, self.batched_tokens)

    @property
    def batched_tokens(self) -> int:
        return self.max_num_batched_tokens or DEFAULT_BATCHED_TOKENS

    @property
    def reserve(self) -> int:
        return DEFAULT_RESERVE if self.reserve_bytes is None else self.reserve_bytes


UNASKED = Wishes()


@dataclass(frozen=True)
class Model:
    """A model as the plan sees it."""

    config: dict[str, Any]
    by_class: dict[str, int]
    source: str  # of the bytes: "safetensors headers" or "config.json"
    quantization: dict[str, Any] | None
    problems: tuple[str, ...] = field(default_factory=tuple)

    @classmethod
    def of(cls, model: dict[str, Any]) -> Model:
        """From model_info's answer. Headers count when the model is complete; else the config of a known family."""
        config = model.get("config") or {}
        quantization = model.get("quantization")
        tensors = model.get("tensors") or {}
        reported = [str(p) for p in model.get("problems") or []]
        fatal = ("config.json: ",) if quantization else ("config.json: ", "hf_quant_config.json ")  # bytes hang on it
        wrong = tuple(p for p in reported if p.startswith(fatal))
        by_class, source = tensors.get("by_class") or {}, tensors.get("source") or "safetensors headers"
        if wrong or not by_class:
            reason = tensors.get("reason")
            if reason:  # a config.json alone is no fault: what hinders to plan with it is
                reported = [str(reason), *(p for p in reported if " has no safetensors weights" not in p)]
            return cls(config, {}, "nothing", quantization, wrong or tuple(reported))
        if source == "safetensors headers" and reported:
            return cls(config, {}, "nothing", quantization, tuple(reported))
        return cls(config, dict(by_class), source, quantization)

    def loaded_as(self, dtype: str) -> Model:
        """The model with weights and activations in this dtype. Left open, an engine takes 32-bit weights as 16-bit."""
        own = self.dtype_bytes
        wanted = dtype if dtype != "auto" else "bfloat16" if own == DTYPE_BYTES["float32"] else None
        if wanted is None:
            return self
        # A quantised checkpoint keeps its large matrices; the rest has 16 bits either way.
        scaled = own != DTYPE_BYTES[wanted] and not self.quantization
        factor = DTYPE_BYTES[wanted] / own if scaled else 1
        by_class = {name: math.ceil(size * factor) for name, size in self.by_class.items()}
        return replace(self, config={**self.config, "dtype": wanted}, by_class=by_class)

    @property
    def dtype_bytes(self) -> int:
        return DTYPE_BYTES.get(str(self.config.get("dtype")), 2)

    @property
    def is_moe(self) -> bool:
        return bool(self.config.get("num_experts"))

    @property
    def mla(self) -> dict[str, Any] | None:
        return self.config.get("mla")

    def kv_dtype_bytes(self, wish: str) -> int:
        if wish.startswith("fp8") or (wish == "auto" and (self.quantization or {}).get("kv_cache") == "fp8"):
            return 1
        return self.dtype_bytes

    def kinds(self, speculative_tokens: int) -> dict[str, int]:
        """Layers by kind; the multi-token-prediction layer is one more full-attention layer."""
        kinds = dict(self.config.get("layer_kinds") or {})
        if speculative_tokens and self.config.get("mtp_layers"):
            kinds["full"] = kinds.get("full", 0) + 1
        return kinds
