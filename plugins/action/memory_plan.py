# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

import copy
from typing import Any

from ansible.plugins.action import ActionBase

from ansible_collections.gb10.serving.plugins.plugin_utils._memory import plan

ARGUMENT_SPEC: dict[str, Any] = {
    "nodes": {
        "type": "list",
        "elements": "dict",
        "required": True,
        "options": {
            "host": {"type": "str", "required": True},
            "total_bytes": {"type": "int"},
            "available_bytes": {"type": "int"},
        },
    },
    "model": {"type": "dict", "required": True},
    "wishes": {
        "type": "dict",
        "options": {
            "tensor_parallel": {"type": "int"},
            "context_length": {"type": "int"},
            "max_num_seqs": {"type": "int"},
            "max_num_batched_tokens": {"type": "int"},
            "kv_cache_dtype": {"type": "str", "default": "auto", "choices": ["auto", "fp8"]},
            "kv_cache_bytes": {"type": "int"},
            "reserve_bytes": {"type": "int"},
            "overhead_bytes": {"type": "int"},
            "gpu_memory_utilization": {"type": "float"},
            "speculative_tokens": {"type": "int", "default": 0},
            "prefix_caching": {"type": "bool", "default": True},
            "enforce_eager": {"type": "bool", "default": False},
            "language_model_only": {"type": "bool", "default": False},
            "vision_sharded": {"type": "bool", "default": False},
            "block_size": {"type": "int"},
        },
    },
    "engine": {"type": "dict"},
    "previous": {"type": "dict"},
}


def refusal(answer: dict[str, Any]) -> str:
    """One message: what does not fit, and what would, best first."""
    lines = [f"This model does not fit {answer['world_size']} node(s) with these settings; nothing has been changed."]
    lines += [f"  - {reason}" for reason in answer["reasons"]]
    lines.append("What would help, the smallest change first:")
    lines += [f"  {number}. {remedy}" for number, remedy in enumerate(answer["remedies"], 1)]
    return "\n".join(lines)


def wish_problems(wishes: dict[str, Any]) -> list[str]:
    """Values that have the right type and no meaning."""
    least = {"reserve_bytes": 0, "overhead_bytes": 0, "speculative_tokens": 0}
    found = [
        f"wishes.{key} is {value}; expected a whole number from {least.get(key, 1)} on."
        for key, value in wishes.items()
        if isinstance(value, int) and not isinstance(value, bool) and value < least.get(key, 1)
    ]
    share = wishes.get("gpu_memory_utilization")
    if share is not None and not 0 < share <= 1:
        found.append(f"wishes.gpu_memory_utilization is {share}; expected a share above 0 and at most 1.")
    return found


class ActionModule(ActionBase):
    """Answers from its arguments alone: no node is asked."""

    TRANSFERS_FILES = False
    _requires_connection = False
    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        _validation, args = self.validate_argument_spec(argument_spec=copy.deepcopy(ARGUMENT_SPEC))
        wishes = args["wishes"] or {}
        problems = wish_problems(wishes)
        if problems:
            return {**result, "failed": True, "changed": False, "msg": " ".join([*problems, "Correct the variables."])}
        answer = plan(args["nodes"], args["model"], wishes, args["engine"], args["previous"] or None)
        result.update(changed=False, plan=answer)
        if answer["verdict"] == "refused":
            result.update(failed=True, msg=refusal(answer))
        return result
