# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 gb10.serving contributors
#
# Private to this collection: may change without notice.
"""quantization_config of a checkpoint -> bytes of each linear layer's weight and scales. No guesses: what is not known
has a reason."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from ansible_collections.gb10.serving.plugins.module_utils._inventory import _formats as formats
from ansible_collections.gb10.serving.plugins.module_utils._inventory._formats import Format
from ansible_collections.gb10.serving.plugins.module_utils._inventory._patterns import (
    MLA_JOINED,
    anywhere,
    fused_name,
    matcher,
    names_of,
)
from ansible_collections.gb10.serving.plugins.module_utils._inventory._types import Tensor

KNOWN = "fp8, modelopt, compressed-tensors, mxfp4, awq, gptq, auto-round and fbgemm_fp8"
_EXPERT = re.compile(r"\bexperts?\b")
_HEAD = re.compile(r"(?:^|\.)(?:lm_head|head|shared_head\.head)$")
_VISION = re.compile(r"\b(?:visual|vision_\w+|multi_modal_projector|mm_projector|embed_vision)\b")


@dataclass(frozen=True)
class Scheme:
    """How the linear layers of one checkpoint are stored."""

    default: Format | None = None  # of linear layers that nothing else names
    experts: Format | None = None  # of the routed experts, where they differ
    ignored: tuple[str, ...] = ()  # patterns of modules in the model's own dtype
    layers: dict[str, Format | None] = field(default_factory=dict)  # module or its parent -> format; None is plain
    targets: tuple[tuple[tuple[str, ...], Format], ...] = ()  # patterns -> format
    head: bool = False  # the output layer is a linear layer as any other
    fused: tuple[str, ...] = ()  # patterns that the engine holds against the names of its fused layers as well
    joined: tuple[str, ...] = ()  # and wildcards that it holds against these alone: MLA's down projections are one
    renamed: tuple[str, str] = ("", "")  # what the engine calls a part of the names

    @classmethod
    def of(cls, config: dict[str, Any]) -> tuple[Scheme | None, str | None]:
        """(scheme, None), or (None, why it is not known)."""
        raw = raw_of(config)
        if raw is None:
            return cls(), None
        if not isinstance(raw, dict):
            return None, f"quantization_config is {raw!r:.60}; expected a table, or null for none"
        method = str(raw.get("quant_method") or "").lower()
        if not method and ("quant_algo" in raw or "quantization" in raw):
            method = "modelopt"
        reader = _METHODS.get(method.replace("_", "-"))
        if reader is None:
            return None, f"quantization_config: quant_method is {raw.get('quant_method')!r}; known are {KNOWN}"
        try:
            return _as_named(reader(raw, config), method, config), None
        except ValueError as exc:
            return None, str(exc)
        except (TypeError, AttributeError, KeyError) as exc:
            return None, f"quantization_config: a value in it makes no sense: {exc}"

    def format(self, module: str) -> Format | None:
        """Format of a linear layer, None for the model's own dtype."""
        module = module.replace("*", "0").replace(*self.renamed)  # the first expert stands for all of a layer
        if self.layers:
            name = module
            while name:
                if name in self.layers:
                    return self.layers[name]
                name = name.rpartition(".")[0]
        if (not self.head and _HEAD.search(module)) or self._ignores(module):
            return None
        for patterns, chosen in self.targets:
            if matcher(patterns)(module):
                return chosen
        if self.experts and _EXPERT.search(module):
            return self.experts
        return self.default

    def _ignores(self, module: str) -> bool:
        if self.fused:
            experts = _EXPERT.search(module)
            if experts and self.fused == self.ignored:  # parts of names: the engine asks for all experts at once
                return matcher(self.fused)(module[: experts.end()])
            if not experts and matcher(self.fused)(fused_name(module)):
                return True
        if self.joined and (fused := fused_name(module)).endswith(MLA_JOINED):
            plain = tuple(name for name in self.ignored if "*" not in name)
            return matcher(self.joined)(fused) or matcher(plain)(module)
        return bool(self.ignored) and matcher(self.ignored)(module)

    def bytes(self, tensor: Tensor, plain: int) -> int:
        chosen = self.format(tensor.module)
        if chosen is None:
            return tensor.elements * plain
        out, into = tensor.shape
        return tensor.count * chosen.bytes(out, into)


def _as_named(scheme: Scheme, method: str, config: dict[str, Any]) -> Scheme:
    """vLLM's classes call some modules otherwise than the checkpoint: names follow, expressions do not."""
    names = config.get("architectures")
    if method != "compressed-tensors" or not isinstance(names, list) or "GptOssForCausalLM" not in names:
        return scheme
    there, here = ".self_attn.", ".attn."
    ignored = tuple(name if name.startswith("re:") else name.replace(there, here) for name in scheme.ignored)
    return replace(scheme, ignored=ignored, renamed=(there, here))


def _fp8(raw: dict[str, Any], config: dict[str, Any]) -> Scheme:
    """8-bit floats by block or by tensor; routed experts may be 4-bit floats (DeepSeek-V4)."""
    ignored = names_of(raw.get("modules_to_not_convert") or raw.get("ignored_layers"), "modules_to_not_convert")
    block = raw.get("weight_block_size")
    scale = 8 if raw.get("scale_fmt") == "ue8m0" and config.get("expert_dtype") else 32
    default = formats.FP8_TENSOR
    if block is not None:
        default = formats.fp8_block(*formats.block_of(block, "weight_block_size"), scale)
    experts = None
    if config.get("expert_dtype") not in (None, "fp8"):
        if config["expert_dtype"] != "fp4":
            raise ValueError(f"expert_dtype is {config['expert_dtype']!r}; known are fp8 and fp4")
        experts = formats.MXFP4
    return Scheme(default, experts, ignored, _layers(raw.get("quantized_layers")))


def _layers(value: Any) -> dict[str, Format | None]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ValueError(f"quantization_config: quantized_layers is {str(value)[:60]}; expected a table")
    return {name: _algorithm(entry.get("quant_algo")) for name, entry in value.items()}


def _algorithm(name: Any) -> Format:
    found = formats.ALGORITHMS.get(str(name).upper())
    if found is None:
        known = ", ".join((*formats.ALGORITHMS, "MIXED_PRECISION"))
        raise ValueError(f"quantization_config: quant_algo is {name!r}; known are {known}")
    return found


def _modelopt(raw: dict[str, Any], config: dict[str, Any]) -> Scheme:
    """NVIDIA ModelOpt, as config.json or hf_quant_config.json has it."""
    inner = raw.get("quantization")
    if isinstance(inner, dict):
        raw = inner
    ignored = names_of(raw.get("ignore") or raw.get("exclude_modules"), "ignore")
    algorithm = raw.get("quant_algo")
    if algorithm is None and raw.get("config_groups"):
        return _compressed(dict(raw, ignore=list(ignored)), config)
    if str(algorithm).upper() == "MIXED_PRECISION":
        layers = _layers(raw.get("quantized_layers"))
        if not layers:
            raise ValueError("quantization_config: quant_algo is MIXED_PRECISION and quantized_layers is missing")
        return Scheme(ignored=ignored, layers=layers)
    parts = anywhere(name for name in ignored if "*" not in name)
    mla = any(part.get("q_lora_rank") for part in (config, config.get("text_config")) if isinstance(part, dict))
    joined = tuple(name for name in ignored if "*" in name) if mla else ()
    return Scheme(_algorithm(algorithm), ignored=ignored, head=True, fused=parts, joined=joined)


def _compressed(raw: dict[str, Any], config: dict[str, Any]) -> Scheme:
    """compressed-tensors: groups with targets, which are "Linear", module names or expressions."""
    if (raw.get("sparsity_config") or {}).get("format") not in (None, "dense"):
        raise ValueError("quantization_config: sparsity_config is not known; expected a dense checkpoint")
    groups = raw.get("config_groups")
    if not isinstance(groups, dict) or not groups:
        raise ValueError(f"quantization_config: config_groups is {groups!r}; expected at least one group")
    default, targets = None, []
    for group in groups.values():
        chosen = formats.of_weights(group.get("weights"), activations=bool(group.get("input_activations")))
        named = tuple(t for t in names_of(group.get("targets") or ["Linear"], "targets") if not _is_class(t))
        if len(named) < len(group.get("targets") or ["Linear"]):
            default = chosen
        if named:
            targets.append((named, chosen))
    ignored = (*names_of(raw.get("ignore"), "ignore"), *_TOWERS)
    return Scheme(default, ignored=ignored, targets=tuple(targets))


def _is_class(target: str) -> bool:
    """ "Linear", "FusedMoE": a class of layers rather than a name."""
    return target[:1].isupper() and target.isidentifier()


def _mxfp4(raw: dict[str, Any], config: dict[str, Any]) -> Scheme:
    """Routed experts alone."""
    return Scheme(experts=formats.MXFP4)


def _fbgemm(raw: dict[str, Any], config: dict[str, Any]) -> Scheme:
    return Scheme(formats.FP8_CHANNEL, ignored=names_of(raw.get("modules_to_not_convert"), "modules_to_not_convert"))


def _bits_group(raw: dict[str, Any], zeros: bool) -> Format:
    bits = formats.whole(raw.get("bits", raw.get("w_bit", 4)), "bits", "2, 3, 4 or 8")
    if bits not in (2, 3, 4, 8):
        raise ValueError(f"quantization_config: bits is {bits}; expected 2, 3, 4 or 8")
    group = raw.get("group_size", raw.get("q_group_size", 128))
    return formats.integer(bits, -1 if group == -1 else formats.whole(group, "group_size"), zeros)


def _tables(raw: dict[str, Any], key: str) -> list[tuple[str, dict[str, Any]]]:
    """Pattern -> what is different for the modules that it names."""
    value = {} if raw.get(key) is None else raw[key]
    if not isinstance(value, dict) or not all(isinstance(one, dict) for one in value.values()):
        raise ValueError(f"quantization_config: {key} is {str(value)[:60]}; expected a table of tables by module")
    return list(value.items())


def _awq(raw: dict[str, Any], config: dict[str, Any]) -> Scheme:
    """Names match anywhere in a module's name."""
    ignored = names_of(raw.get("modules_to_not_convert"), "modules_to_not_convert")
    patterns = (*anywhere(ignored), *_TOWERS)
    return Scheme(_bits_group(raw, True), ignored=patterns, fused=patterns)


_TOWERS = (rf"re:.*{_VISION.pattern}",)  # integer checkpoints leave them as they were


def _gptq(raw: dict[str, Any], config: dict[str, Any]) -> Scheme:
    """ "dynamic" has expressions: "-:" leaves a module as it was, "+:" gives it other bits."""
    ignored, targets = list(anywhere(names_of(raw.get("modules_in_block_to_not_quantize"), "modules"))), []
    for name, change in _tables(raw, "dynamic"):
        expression = f"re:.*(?:{name[2:] if name[:2] in ('-:', '+:') else name})"
        if name.startswith("-:"):
            ignored.append(expression)
        else:
            targets.append(((expression,), _bits_group({**raw, **change}, True)))
    return Scheme(_bits_group(raw, True), ignored=(*ignored, *_TOWERS), targets=tuple(targets))


def _auto_round(raw: dict[str, Any], config: dict[str, Any]) -> Scheme:
    """extra_config names the modules with bits of their own; 16 bits and more are not quantised."""
    data_type = str(raw.get("data_type") or "int")
    if data_type != "int":
        raise ValueError(f"quantization_config: data_type is {data_type!r}; known is int")
    ignored: list[str] = list(_TOWERS)
    targets: list[tuple[tuple[str, ...], Format]] = []
    for name, change in _tables(raw, "extra_config"):
        pattern = name if not re.search(r"[\\|(\[^$+?]|\.\*", name) else f"re:{name}"
        bits = change.get("bits", raw.get("bits", 4))
        if formats.whole(bits, f"extra_config: bits of {name[:60]}", "2, 3, 4, 8, 16 or 32") >= 16:
            ignored.append(pattern)
        else:
            targets.append(((pattern,), _bits_group({**raw, **change}, True)))
    return Scheme(_bits_group(raw, True), ignored=tuple(ignored), targets=tuple(targets))


# quant_method, "_" written as "-" -> reader. The names are those that engines and tools write; no other is guessed.
_METHODS: dict[str, Callable[[dict[str, Any], dict[str, Any]], Scheme]] = {
    "fp8": _fp8,
    "modelopt": _modelopt,
    "modelopt-fp8": _modelopt,
    "modelopt-fp4": _modelopt,
    "modelopt-mxfp8": _modelopt,
    "modelopt-mixed": _modelopt,
    "compressed-tensors": _compressed,
    "mxfp4": _mxfp4,
    "gpt-oss-mxfp4": _mxfp4,
    "fbgemm-fp8": _fbgemm,
    "awq": _awq,
    "awq-marlin": _awq,
    "gptq": _gptq,
    "gptq-marlin": _gptq,
    "auto-round": _auto_round,
    "inc": _auto_round,
}


def raw_of(config: dict[str, Any]) -> Any:
    """What config.json says of its quantisation, whatever it is; None where it says nothing."""
    for part in (config, config.get("text_config")):
        raw = part.get("quantization_config") if isinstance(part, dict) else None
        if raw is not None and raw != {}:
            return raw
    return None


def merge_hf_quant_config(config: dict[str, Any], hf_quant: Any) -> dict[str, Any]:
    """config.json with the quantisation of a hf_quant_config.json beside it, where it has none of its own."""
    inner = hf_quant.get("quantization") if isinstance(hf_quant, dict) else None
    if raw_of(config) is not None or not isinstance(inner, dict) or not inner.get("quant_algo"):
        return config
    return {**config, "quantization_config": {"quant_method": "modelopt", **inner}}
