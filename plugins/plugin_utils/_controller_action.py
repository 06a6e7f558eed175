# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
# Private to this collection: no stability promised.
"""What the actions that never leave the controller have in common."""

from __future__ import annotations

import copy
from typing import Any, ClassVar

from ansible.plugins.action import ActionBase


class ControllerAction(ActionBase):
    """Checks its options against SPEC and hands them to answer(). It changes nothing, so check mode is the same."""

    TRANSFERS_FILES = False
    _requires_connection = False
    _supports_check_mode = True

    SPEC: ClassVar[dict[str, dict[str, Any]]] = {}
    REQUIRED_IF: ClassVar[list[tuple[str, Any, list[str]]]] = []

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        task_vars = task_vars or {}
        result = super().run(tmp, task_vars)
        # A copy: the validator fills in the defaults of suboptions.
        spec = copy.deepcopy(self.SPEC)
        _validation, args = self.validate_argument_spec(argument_spec=spec, required_if=self.REQUIRED_IF)
        return {**result, "changed": False, **self.answer(args, task_vars)}

    def answer(self, args: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """The result of the task for checked options."""
        raise NotImplementedError
