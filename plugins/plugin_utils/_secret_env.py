# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
# Private to this collection: no stability promised.
"""Environment that is secret: it stands in the env file of a release, which only root may read, and nowhere else."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

from ansible_collections.gb10.serving.plugins.module_utils._redact import SHORTEST, holds_secret

from ._problems import Problem

WHERE = "gb10_server_secret_env"

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
#: So slow that trying likely secrets against the name of a release does not pay.
_ROUNDS = 200_000


def check(env: Mapping[Any, Any], secret: Mapping[Any, Any], key_variable: str) -> list[Problem]:
    """What is wrong with the secret environment, or stands in the open one instead. No value is shown."""
    problems = [
        Problem(
            "gb10_server_env",
            f"{name} is a secret by its name, and spec.json, launch.sh and the report show this environment.",
            f"secrets in {WHERE}.",
            f"move {name} to {WHERE} (keep it in ansible-vault).",
        )
        for name, value in env.items()
        if holds_secret(str(name), value)
    ]
    for name, value in secret.items():
        if seen := _wrong(name, value):
            problems.append(
                Problem(
                    WHERE,
                    f"{name} {seen}.",
                    f"names of letters, digits and '_', and values of one line with {SHORTEST} characters or more.",
                    "correct it; what is no secret belongs into gb10_server_env.",
                )
            )
    for name in sorted({str(name) for name in env} & {str(name) for name in secret}):
        problems.append(Problem(WHERE, f"{name} stands in gb10_server_env too.", "one of them.", "take one out."))
    if key_variable and key_variable in secret:
        problems.append(
            Problem(WHERE, f"{key_variable} is given.", "the API key in its own variable.", "set gb10_server_api_key.")
        )
    return problems


def _wrong(name: Any, value: Any) -> str:
    if not isinstance(name, str) or not _VARIABLE.fullmatch(name):
        return "is no name of a variable"
    if value is None or not str(value).isprintable():
        return "has no value, or one with a line break or another control character in it"
    # What is shorter cannot be taken out of a log without taking ordinary words out.
    return f"has a value of less than {SHORTEST} characters" if len(str(value)) < SHORTEST else ""


def digest(name: str, secret: Mapping[str, Any]) -> str:
    """What changes with the values and does not give them away; empty without any."""
    if not secret:
        return ""
    text = json.dumps({key: str(value) for key, value in secret.items()}, sort_keys=True)
    return hashlib.pbkdf2_hmac("sha256", text.encode(), f"gb10.serving/{name}".encode(), _ROUNDS).hex()
