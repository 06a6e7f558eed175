# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
#
# Private to this collection: may change without notice.
"""The inputs of memory planning in one shape: model, wishes, engine. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.gb10.serving.plugins.module_utils._model_config import DTYPE_BYTES
from ansible_collections.gb10.serving.plugins.plugin_utils._memory_inventory import inventory

MIB = 1024**2
GIB = 1024**3

DEFAULT_RESERVE = 8 * GIB  # below 7 GiB MemAvailable hosts have frozen
PRIOR_TOTAL = 130_562_000_000  # 121.6 GiB: what CUDA and MemTotal report on a GB10
PRIOR_AVAILABLE = 109 * GIB  # headless, page cache dropped: 109 to 116 GiB are seen


@dataclass(frozen=True)
class Term:
    """One line of the sum. The formula is a name that documentation and tests can look for."""

    name: str
    bytes: int
    formula: str
    uncertainty_bytes: int = 0

    def as_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "bytes": self.bytes,
            "formula": self.formula,
            "uncertainty_bytes": self.uncertainty_bytes,
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
        return 2 if self.since(0, 25) else 1

    @property
    def report_by_concurrency(self) -> bool:
        """'KV cache size: N tokens' is concurrency x max_model_len; before, it was blocks of one group x block."""
        return self.since(0, 21)

    @property
    def fp8_block_strict(self) -> bool:
        """A shard that cuts a 128 x 128 scale block stops the start."""
        return self.name != "vllm" or not self.since(0, 33)


@dataclass(frozen=True)
class Wishes:
    tensor_parallel: int | None = None
    context_length: int | None = None
    max_num_seqs: int | None = None
    max_num_batched_tokens: int | None = None
    kv_cache_dtype: str = "auto"
    kv_cache_bytes: int | None = None
    reserve_bytes: int | None = None
    overhead_bytes: int | None = None
    gpu_memory_utilization: float | None = None
    speculative_tokens: int = 0
    prefix_caching: bool = True
    enforce_eager: bool = False
    language_model_only: bool = False
    vision_sharded: bool = False
    block_size: int | None = None

    @classmethod
    def of(cls, wishes: dict[str, Any] | None) -> Wishes:
        known = {k: v for k, v in (wishes or {}).items() if k in cls.__dataclass_fields__ and v is not None}
        return cls(**known)

    @property
    def seqs(self) -> int:
        return self.max_num_seqs or 256  # the server's default on a GB10

    @property
    def batched_tokens(self) -> int:
        return self.max_num_batched_tokens or 2048  # the server's default on a GB10

    @property
    def reserve(self) -> int:
        return DEFAULT_RESERVE if self.reserve_bytes is None else self.reserve_bytes


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
        by_class = (model.get("tensors") or {}).get("by_class") or {}
        reported = [str(p) for p in model.get("problems") or []]
        if by_class and not reported:
            return cls(config, dict(by_class), "safetensors headers", quantization)
        wrong = tuple(p for p in reported if p.startswith("config.json: "))
        if wrong:
            return cls(config, {}, "nothing", quantization, wrong)
        derived, reason = inventory(config, str(model.get("model_type") or ""), quantization)
        if derived:
            return cls(config, derived, "config.json", quantization)
        return cls(config, {}, "nothing", quantization, (*reported, *([reason] if reason else ())))

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
