# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
#
# Private to this collection: may change without notice.
"""Which part of each class of tensors a stage of a pipeline has. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from ansible_collections.gb10.serving.plugins.plugin_utils._memory_model import Model

# Architectures whose classes build the embeddings, or the output layer, on every stage.
EMBED_EVERYWHERE = ("Qwen3Moe", "Qwen3Next", "Qwen3_5", "Qwen3VLMoe", "Mixtral", "Gemma", "GptOss", "NemotronH")
HEAD_EVERYWHERE = ("Qwen3Moe", "Qwen3Next", "Qwen3VLMoe", "Mixtral", "GptOss", "NemotronH")


def layers_of_stages(layers: int, pp: int) -> list[int]:
    """Layers of each stage: what is left over goes to the stages before the last one, from the back."""
    counts = [layers // pp] * pp
    for n in range(2, layers % pp + 2):
        counts[-n] += 1
    return counts


@dataclass(frozen=True)
class Stage:
    """Layers first..last-1 of a model; the first stage embeds, the last one predicts, each one has the vision part."""

    layers: int
    first: int
    last: int
    opening: bool
    closing: bool
    dense: int = 0  # leading layers without experts
    linear: frozenset[int] = frozenset()
    tied: bool = False
    architecture: str = ""

    @classmethod
    def of(cls, model: Model, pp: int, stage: int) -> Stage:
        config = model.config
        layers = int(config.get("num_hidden_layers") or 1)
        counts = layers_of_stages(layers, pp)
        first = sum(counts[:stage])
        linear = {
            number
            for group in config.get("cache") or ()
            if group.get("of") == "model" and group.get("kind") in ("linear", "mamba")
            for number in group.get("at") or ()
        }
        dense = int(config.get("dense_layers") or 0) if config.get("num_experts") else 0
        return cls(
            layers,
            first,
            first + counts[stage],
            stage == 0,
            stage == pp - 1,
            dense if dense < layers else 0,
            frozenset(linear),
            bool(config.get("tie_word_embeddings")),
            str(config.get("architecture") or ""),
        )

    def _among(self, numbers: list[int]) -> float:
        return sum(self.first <= n < self.last for n in numbers) / len(numbers) if numbers else 0.0

    def part(self, name: str) -> float:
        """Share of a class of tensors in this stage."""
        if self.opening and self.closing:
            return 1.0
        if name.startswith("vision"):
            return 1.0
        if name == "embeddings":
            everywhere = self.architecture.startswith(EMBED_EVERYWHERE)
            return float(self.opening or everywhere or (self.tied and self.closing))
        if name == "lm_head":
            return float(self.closing or self.architecture.startswith(HEAD_EVERYWHERE))
        if name.startswith("mtp"):
            return float(self.closing)
        every = list(range(self.layers))
        if name in ("experts", "shared_experts"):
            return self._among(every[self.dense :])
        if name == "mlp" and self.dense:
            return self._among(every[: self.dense])
        if name == "linear_attention" and self.linear:
            return self._among(sorted(self.linear))
        if name in ("attention", "attention_kv") and self.linear:
            return self._among([n for n in every if n not in self.linear]) or self._among(every)
        return self._among(every)
