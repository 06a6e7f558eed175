# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 gb10.serving contributors
#
# Private to this collection: may change without notice.
"""Bytes by tensor class of a model of which only config.json is there. An unknown architecture is no guess."""

from __future__ import annotations

from typing import Any

from ansible_collections.gb10.serving.plugins.module_utils._inventory._families import FAMILIES
from ansible_collections.gb10.serving.plugins.module_utils._inventory._quantization import Scheme
from ansible_collections.gb10.serving.plugins.module_utils._model_config import DTYPE_BYTES, dtype_of, text_config
from ansible_collections.gb10.serving.plugins.module_utils._model_tensors import CLASSES, tensor_class

NEEDS_HEADERS = (
    "The weights cannot be derived from config.json ({}): planning needs the safetensors headers. "
    "Download the model, or give its Hugging Face id so that the headers are read from the hub."
)
CORRECT = (
    "The weights cannot be derived from config.json ({}). Fetch the file again or correct it; with the safetensors "
    "headers, of the downloaded model or of its Hugging Face id, they need not be derived."
)


def inventory(config: dict[str, Any]) -> tuple[dict[str, int], str | None]:
    """(bytes by class, None), or ({}, the reason why they cannot be derived)."""
    text = text_config(config)
    model_type = str(config.get("model_type") or text.get("model_type") or "")
    family = FAMILIES.get(model_type) or FAMILIES.get(str(text.get("model_type") or ""))
    if family is None:
        return {}, NEEDS_HEADERS.format(f"model_type {model_type or 'missing'} is not known")
    scheme, reason = Scheme.of(config)
    if scheme is None:
        return {}, CORRECT.format(reason)
    plain = DTYPE_BYTES.get(dtype_of(config), 2)
    layers = text.get("num_hidden_layers")
    by_class: dict[str, int] = {}
    try:
        for tensor in family(text, config):
            if min(tensor.shape) < 1 or tensor.count < 0:
                raise ValueError(f"{tensor.module} would have the shape {list(tensor.shape)}")
            if tensor.linear:
                size = scheme.bytes(tensor, plain)
            else:
                size = tensor.elements * (DTYPE_BYTES[tensor.dtype] if tensor.dtype else plain)
            cls = tensor_class(tensor.module, layers)
            by_class[cls] = by_class.get(cls, 0) + size
    except KeyError as exc:
        return {}, CORRECT.format(f"it has no {exc.args[0]}")
    except (TypeError, ValueError, AttributeError, IndexError, ZeroDivisionError) as exc:
        return {}, CORRECT.format(f"a value in it makes no sense: {str(exc)[:300]}")
    return {cls: by_class[cls] for cls in CLASSES if by_class.get(cls)}, None


NEAR = 0.02  # a class whose bytes in the headers and from config.json differ by less is the same tensors
UPCAST = 2.1  # an engine keeps routers and their biases in up to twice the bytes of the checkpoint


def refined(derived: dict[str, int], headers: dict[str, int]) -> dict[str, int]:
    """Bytes by class of a checkpoint as the engine allocates them: its dtype of scales and routers, no idle tensors.

    The headers decide what is there. Where config.json, by what inventory() derived of it, tells nearly the same of a
    class, its figure is the exact one.
    """
    result = dict(headers)
    for name, size in headers.items():
        known = derived.get(name, 0)
        near = abs(known - size) <= NEAR * size
        if near or (name == "norms_router" and size < known <= UPCAST * size):
            result[name] = known
    return result
