# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
#
# Private to this collection: may change without notice.
"""Memory of one rank beside weights and cache: priors by family, engine and parallel size, with uncertainties. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ansible_collections.gb10.serving.plugins.plugin_utils._memory_model import GIB, Engine, Model, Term, Wishes
from ansible_collections.gb10.serving.plugins.plugin_utils._memory_workspaces import indexer_workspace

SAMPLER_BYTES = 15.4  # per sequence and vocabulary entry, on every rank
SPECULATIVE_SAMPLER = 1.5  # the rejection sampler works on twice the rows, in fewer copies
FORWARD_BYTES_DENSE = 25  # per token and hidden unit
FORWARD_BYTES_HYBRID = 45  # linear attention beside dense layers
FORWARD_BYTES_MOE = 120  # mixtures of experts: 120 to 135 seen
GRAPHS_GIB = (0.7, 0.7)
SGLANG_GRAPHS_GIB = (3.0, 0.7)  # 2.2 to 3.1 for decoding, 0.5 to 0.8 for prefill
VISION_GIB = (1.0, 1.0)
SPECULATIVE_GIB = ((0.9, 0.8), (1.4, 1.0))  # on one rank, on several
LOADER_GIB = (4.4, 1.0)
LOADERS = frozenset({"fastsafetensors", "instanttensor"})  # stage shards in pinned memory and keep it
PROCESSES_GIB = (6.0, 2.0)  # engine and API processes while they load
# up to this many ranks: (what NCCL and the driver take, its uncertainty), (buffers and workspaces, their uncertainty)
BY_RANKS = (
    (1, (0.3, 0.2), (1.2, 0.8)),
    (4, (2.1, 1.2), (0.4, 0.8)),
    (1 << 30, (3.6, 1.0), (1.4, 0.8)),
)
NETWORK_SOURCES = {
    1: "prior: measured on H100 and GB10, one rank",
    4: "prior: measured on H100, 2.06 to 2.17 GiB; what GB10s take beyond is in fixed",
    1 << 30: "prior: fitted to the log of one GB10 cluster of 8 ranks",
}
MEASURED = "prior: measured on GB10"


@dataclass(frozen=True)
class Family:
    """What logs of one architecture say that differs from the rest."""

    forward_bytes: float | None = None
    graphs_gib: tuple[float, float] | None = None
    repack_gib: tuple[float, float] | None = None  # kept by a kernel that repacks quantised experts


# Start of the architecture's name -> its figures
FAMILIES: tuple[tuple[str, Family], ...] = (
    ("DeepseekV4", Family(forward_bytes=165)),
    ("Qwen4", Family(forward_bytes=75)),
    ("Qwen3_8FlashNext", Family(forward_bytes=75)),
    # Estimated far too high, and taken off the budget all the same. Starts of two nodes, whose loader is not known, had
    # 6 to 8 GiB less for the cache than the terms leave.
    ("MiniMaxM2", Family(graphs_gib=(5.1, 6.5))),
    ("Step3", Family(forward_bytes=190, repack_gib=(6.7, 3.0))),
)


def family(model: Model) -> Family:
    name = str(model.config.get("architecture") or "")
    return next((figures for start, figures in FAMILIES if name.startswith(start)), Family())


def _prior(name: str, figures: tuple[float, float], formula: str, source: str) -> Term:
    return Term(name, int(figures[0] * GIB), f"{name}: {formula}", int(figures[1] * GIB), source)


def _activation(model: Model, wishes: Wishes) -> Term:
    """The peak of a pass that holds max_num_batched_tokens, or of sampling for max_num_seqs: whichever is larger."""
    hidden, vocab = model.config.get("hidden_size") or 0, model.config.get("vocab_size") or 0
    factor = SPECULATIVE_SAMPLER if wishes.speculative_tokens else 1
    rows = min(wishes.seqs, wishes.batched_tokens)
    sampler = int(rows * vocab * SAMPLER_BYTES * factor)  # the logits of all sequences in full, independent of tp
    known = family(model).forward_bytes
    kinds = (
        (model.is_moe, FORWARD_BYTES_MOE, "mixtures of experts"),
        (bool(model.config.get("linear")), FORWARD_BYTES_HYBRID, "dense hybrids"),
        (True, FORWARD_BYTES_DENSE, "dense models"),
    )
    per_unit: float
    per_unit, kind = next((figure, words) for applies, figure, words in kinds if applies)
    if known:
        per_unit, kind = known, str(model.config.get("architecture"))
    forward = int(wishes.batched_tokens * per_unit * hidden)
    if sampler >= forward:
        twice = f" x {factor} (speculative)" if factor > 1 else ""
        formula = f"sampler_peak: max_num_seqs {rows} x vocabulary {vocab} x {SAMPLER_BYTES} B{twice}"
        source = "prior: fitted to H100 and GB10 logs"
    else:
        formula = f"forward_peak: max_num_batched_tokens {wishes.batched_tokens} x {per_unit} B x hidden {hidden}"
        source = f"{'prior: measured on H100' if kind == 'dense models' else MEASURED}, {kind}"
    size = max(sampler, forward)
    return Term("activation", size, formula, size // 4, source)


def _graphs(model: Model, wishes: Wishes, engine: Engine) -> Term:
    if wishes.enforce_eager:
        return Term("graphs", 0, "graphs: none when eager", 0, "enforce_eager")
    if engine.name == "sglang":
        return _prior("graphs", SGLANG_GRAPHS_GIB, "decode and prefill graphs", MEASURED)
    if not engine.graphs_in_budget:
        return _prior("graphs", GRAPHS_GIB, "captured after the cache is made, on top of the budget", MEASURED)
    if wishes.gpu_memory_utilization is None or wishes.kv_cache_bytes is not None:
        return _prior("graphs", GRAPHS_GIB, "what they take; the cache is fixed, so no estimate is taken off", MEASURED)
    known = family(model).graphs_gib
    where = f"{MEASURED}{', this architecture' if known else ''}"
    return _prior("graphs", known or GRAPHS_GIB, "vLLM's estimate, taken off the cache since 0.21", where)


def absorbed_bytes(model: Model, tp: int) -> int:
    """The latent up-projection is used absorbed into query and output: of 16-bit weights a view, else a copy."""
    mla = model.mla
    if not mla or not (model.quantization or {}).get("latent"):
        return 0
    sizes = [mla.get(key) for key in ("qk_nope_head_dim", "v_head_dim", "kv_lora_rank")]
    if not all(sizes):
        return 0
    heads = math.ceil((model.config.get("num_attention_heads") or 1) / tp)
    nope, value, rank = (int(size or 0) for size in sizes)
    return 2 * heads * (nope + value) * rank * int(model.config.get("num_hidden_layers") or 0)


def overhead_terms(
    model: Model, tp: int, wishes: Wishes, engine: Engine | None = None, pp: int = 1, context: int | None = None
) -> list[Term]:
    """All that a rank takes beside weights and cache, one term for each cause."""
    engine = engine or Engine()
    if wishes.overhead_bytes is not None:
        return [Term("overhead", wishes.overhead_bytes, "overhead: given by the user", 0, "gb10_plan_overhead_gib")]
    ranks = tp if tp > 1 else 1
    limit, network, rest = next(row for row in BY_RANKS if ranks <= row[0])
    where = f"{MEASURED}, {f'TP{tp}' if tp > 1 else 'pipeline' if pp > 1 else 'one rank'}"
    terms = [
        _activation(model, wishes),
        _graphs(model, wishes, engine),
        _prior("non_torch", network, f"NCCL and driver at tensor parallel {tp}", NETWORK_SOURCES[limit]),
        _prior("fixed", rest, "buffers and workspaces", where.replace("measured on", "what remains in logs of")),
    ]
    reserved = indexer_workspace(model, wishes, engine, context)
    if reserved:
        terms.append(reserved)
    if model.config.get("vision") and not wishes.language_model_only:
        terms.append(_prior("vision_profile", VISION_GIB, "the largest image is encoded once at the start", MEASURED))
    if wishes.speculative_tokens:
        terms.append(_prior("drafter", SPECULATIVE_GIB[tp > 1], "buffers and graphs of speculative decoding", MEASURED))
    absorbed = -(-absorbed_bytes(model, tp) // pp)
    if absorbed:
        formula = "mla_absorbed: 2 B x heads/tp x (nope + v) x kv_lora x layers"
        terms.append(Term("mla_absorbed", absorbed, formula, absorbed // 10, "config.json"))
    repack = family(model).repack_gib
    if repack and model.quantization:
        terms.append(_prior("repack", repack, "kept after the experts were repacked for their kernel", MEASURED))
    if wishes.load_format in LOADERS:
        terms.append(_prior("loader", LOADER_GIB, f"pinned by --load-format {wishes.load_format}", MEASURED))
    return terms


def load_peak(weights: int, overhead: list[Term] | tuple[Term, ...]) -> Term:
    """The most that is in use while weights are read. Page cache is not counted: it gives way."""
    staging = sum(term.bytes for term in overhead if term.name in ("non_torch", "loader", "repack", "overhead"))
    return Term(
        "load_peak",
        weights + staging + int(PROCESSES_GIB[0] * GIB),
        "load_peak: weights + non_torch + loader + 6 GiB of engine processes; page cache gives way",
        int(PROCESSES_GIB[1] * GIB),
        "prior: seen on GB10",
    )
