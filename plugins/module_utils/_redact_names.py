# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 gb10.serving contributors
# Private to gb10.serving: which names are those of secrets. Pure.
"""Whether the value of a setting, flag, variable or parameter is a secret, by its name."""

from __future__ import annotations

import functools
import re

#: It is one whatever it looks like; it is one if it looks like one.
CERTAIN, LIKELY = "certain", "likely"

_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
#: How names end whose values are secrets.
_CERTAIN = re.compile(
    r"(?:.*_)?(?:api_?keys?|passwords?|passwd|passphrase|secrets?|secret_(?:access_)?keys?|access_keys?(?:_id)?|private_keys?"
    r"|credentials?|(?:hf|hub|auth|access|session|refresh|api|bearer|security|huggingface|github|gitlab|personal)_tokens?)"
    r"|.+_pass"
)
#: What is counted or set of a model's tokens.
_OF_MODELS = frozenset(
    {
        "max", "min", "num", "eos", "bos", "pad", "unk", "special", "mask", "sep", "cls", "stop", "end",
        "start", "begin", "image", "video", "audio", "think", "thinking", "per", "next", "first", "last",
        "input", "output", "prompt", "completion", "draft", "total", "new", "batched", "decode", "prefill",
        "tool", "accepted", "bonus", "cached", "speech", "vision", "text",
    }
)  # fmt: skip


@functools.lru_cache(maxsize=4096)
def kind_of(name: str) -> str:
    """CERTAIN, LIKELY, or nothing."""
    plain = _HUMP.sub("_", name).replace("-", "_").lower().strip("_")
    if _CERTAIN.fullmatch(plain):
        return CERTAIN
    rest, _line, last = plain.rpartition("_")
    if last == "token":
        return "" if rest.rpartition("_")[2] in _OF_MODELS else LIKELY
    # Only environment has such names: OPENAI_KEY.
    return LIKELY if last == "key" and rest and name == name.upper() else ""
