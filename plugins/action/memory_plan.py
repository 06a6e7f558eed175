# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

import copy
import os
from typing import Any

from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

from ansible_collections.gb10.serving.plugins.plugin_utils import (
    _plan_document,
    _plan_names,
    _plan_text,
    _plan_variables,
)
from ansible_collections.gb10.serving.plugins.plugin_utils._memory import plan
from ansible_collections.gb10.serving.plugins.plugin_utils._problems import message

display = Display()

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
            "pipeline_parallel": {"type": "int"},
            "expert_parallel": {"type": "bool"},
            "context_length": {"type": "int"},
            "max_num_seqs": {"type": "int"},
            "max_num_batched_tokens": {"type": "int"},
            "kv_cache_dtype": {"type": "str", "default": "auto", "choices": list(_plan_variables.KV_DTYPES)},
            "kv_cache_bytes": {"type": "int"},
            "reserve_bytes": {"type": "int"},
            "overhead_bytes": {"type": "int"},
            "gpu_memory_utilization": {"type": "float"},
            "mem_fraction_static": {"type": "float"},
            "dtype": {"type": "str", "default": "auto", "choices": ["auto", "bfloat16", "float16", "float32"]},
            "speculative_tokens": {"type": "int", "default": 0},
            "separate_drafter": {"type": "bool", "default": False},
            "drafting_args": {"type": "list", "elements": "str", "default": []},
            "prefix_caching": {"type": "bool", "default": True},
            "enforce_eager": {"type": "bool", "default": False},
            "language_model_only": {"type": "bool", "default": False},
            "vision_sharded": {"type": "bool", "default": True},
            "block_size": {"type": "int"},
            "load_format": {"type": "str", "default": "auto"},
            "workspace_factor": {"type": "int"},
            "pools": {"type": "dict", "default": {}},
        },
    },
    "variables": {"type": "dict"},
    "args": {"type": "list", "elements": "str", "default": []},
    "engine": {"type": "dict"},
    "previous": {"type": "dict"},
    "show": {"type": "bool", "default": False},
}


def wish_problems(wishes: dict[str, Any]) -> list[str]:
    """Values that have the right type and no meaning."""
    least = {"reserve_bytes": 0, "overhead_bytes": 0, "speculative_tokens": 0}
    found = [
        f"wishes.{key} is {value}; expected a whole number from {least.get(key, 1)} on."
        for key, value in wishes.items()
        if isinstance(value, int) and not isinstance(value, bool) and value < least.get(key, 1)
    ]
    for key in ("gpu_memory_utilization", "mem_fraction_static"):
        share = wishes.get(key)
        if share is not None and not 0 < share <= 1:
            found.append(f"wishes.{key} is {share}; expected a share above 0 and at most 1.")
    return found


def document(answer: dict[str, Any], args: dict[str, Any]) -> dict[str, Any]:
    """The plan in the form that is shown."""
    engine, path = args["engine"] or {}, str(args["model"].get("path") or "")
    about = {
        "model": {"name": os.path.basename(path), "path": path},
        "engine": _plan_document.engine_of(engine),
        "nodes": {"count": len(args["nodes"])},
    }
    return _plan_document.document(answer, about)


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
        asked, wrong = _plan_variables.wishes(
            args["variables"] or {}, args["args"], str((args["engine"] or {}).get("name") or "vllm")
        )
        if wrong:
            return {**result, "failed": True, "changed": False, "msg": message(wrong)}
        if args["variables"] is not None or args["args"]:
            wishes = {**wishes, **asked}
        answer = plan(args["nodes"], args["model"], wishes, args["engine"], args["previous"] or None)
        if args["variables"] is not None:
            # The reader of this plan sets variables, not wishes.
            answer = _plan_names.named_plan(answer)
        result.update(changed=False, plan=answer)
        shown = document(answer, args)
        if args["show"]:
            for line in _plan_text.lines(shown, brief=True):
                display.display(line)
        if answer["verdict"] == "refused":
            result.update(failed=True, msg=_plan_text.refusal(shown))
        return result
