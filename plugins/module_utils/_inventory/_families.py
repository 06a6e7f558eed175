# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 gb10.serving contributors
#
# Private to this collection: may change without notice.
"""model_type of config.json -> who knows the architecture's tensors. A family is added by a line here."""

from __future__ import annotations

from ansible_collections.gb10.serving.plugins.module_utils._inventory import (
    _deepseek_v4,
    _glm5_next,
    _gqa,
    _hybrid,
    _mamba,
    _mla,
    _moe,
    _qwen4,
)
from ansible_collections.gb10.serving.plugins.module_utils._inventory._types import Family

FAMILIES: dict[str, Family] = {
    **_gqa.FAMILIES,
    **_moe.FAMILIES,
    **_hybrid.FAMILIES,
    **_mla.FAMILIES,
    **_mamba.FAMILIES,
    **_deepseek_v4.FAMILIES,
    **_qwen4.FAMILIES,
    **_glm5_next.FAMILIES,
}
