# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
#
# Private to this collection: may change without notice.
"""Memory of one rank beside weights and cache. Priors, each with its uncertainty. Pure."""

from __future__ import annotations

from ansible_collections.gb10.serving.plugins.plugin_utils._memory_model import GIB, Model, Term, Wishes

SAMPLER_BYTES = 15.4  # per sequence and vocabulary entry, on every rank
FORWARD_BYTES_DENSE = 25  # per token and hidden unit
FORWARD_BYTES_MOE = 125  # mixtures of experts and linear-attention hybrids: 120 to 135 seen
GRAPHS_GIB = (1.0, 0.7)
FIXED_GIB = (1.5, 0.5)
NON_TORCH_GIB = ((1, 0.3, 0.2), (4, 2.1, 1.5), (1 << 30, 3.6, 1.0))  # up to tp, GiB, uncertainty


def overhead_terms(model: Model, tp: int, wishes: Wishes) -> list[Term]:
    if wishes.overhead_bytes is not None:
        return [Term("overhead", wishes.overhead_bytes, "overhead: given by the user")]
    hidden, vocab = model.config.get("hidden_size") or 0, model.config.get("vocab_size") or 0
    # sampler_peak: the logits of all sequences in full, independent of tp
    sampler = int(wishes.seqs * vocab * SAMPLER_BYTES)
    # forward_peak: activations of the largest batch
    wide = model.is_moe or bool(model.config.get("linear"))
    factor = FORWARD_BYTES_MOE if wide else FORWARD_BYTES_DENSE
    forward = wishes.batched_tokens * factor * hidden
    if sampler >= forward:
        formula = f"sampler_peak: max_num_seqs {wishes.seqs} x vocabulary {vocab} x {SAMPLER_BYTES} B"
    else:
        formula = f"forward_peak: max_num_batched_tokens {wishes.batched_tokens} x {factor} B x hidden {hidden}"
    activation = max(sampler, forward)
    graphs, graphs_error = (0.0, 0.0) if wishes.enforce_eager else GRAPHS_GIB
    network, network_error = next((size, error) for limit, size, error in NON_TORCH_GIB if tp <= limit)
    return [
        Term("activation", activation, formula, activation // 4),
        Term("graphs", int(graphs * GIB), "graphs: prior 1.0 GiB, none when eager", int(graphs_error * GIB)),
        Term("non_torch", int(network * GIB), f"non_torch: prior for tp {tp} (NCCL, driver)", int(network_error * GIB)),
        Term("fixed", int(FIXED_GIB[0] * GIB), "fixed: prior 1.5 GiB (buffers, workspaces)", int(FIXED_GIB[1] * GIB)),
    ]
