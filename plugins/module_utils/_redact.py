# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 gb10.serving contributors
# Private to gb10.serving: what must not be shown of logs and documents. Pure.
"""Secrets taken out of text: those that are known, and what is written as engines, shells and HTTP write secrets.

Everything that shows lines of an engine's log takes them from here: SGLang, for one, prints its API key at each start.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

MASK = "********"

#: A known secret that is shorter than this would take ordinary words out of the text.
SHORTEST = 6

#: Names of settings whose value is a secret, in an environment and in what engines print of their arguments.
_VARIABLE = r"\b(?:[A-Z0-9]+_)*(?:TOKEN|API_?KEY|SECRET(?:_KEY)?|ACCESS_KEY(?:_ID)?|PASSWORD|PASSWD)"
_SETTING = r"\b(?:\w+_)?(?:api_?key|password|passwd|hf_token|auth_token|access_token|secret(?:_key)?)"
_FLAG = r"--(?:[\w-]+-)?(?:api[-_]key|password|hf[-_]token|auth[-_]token|access[-_]token|secret(?:[-_]key)?)"
#: In quotes, in brackets, or a word.
_VALUE = r"""(?:\\?(?P<quote>['"])(?:(?!\\?(?P=quote)).)*\\?(?P=quote)|\[[^\]]*\]|[^\s,;)}\]'"\\]+)"""
_NOTHING = re.compile(r"""(?:\\?['"])*(?:None|null|True|False|true|false|\[\]|\*+|\[redacted\])?(?:\\?['"])*""")

_ASSIGNED = re.compile(rf"""(?P<name>(?:{_VARIABLE}|{_SETTING})(?:\\?['"])?\s*(?:=|:(?!:))\s*)(?P<value>{_VALUE})""")
_GIVEN = re.compile(rf"""(?P<name>{_FLAG}(?:(?:\\?['"])?,\s*|\s*=\s*|\s+))(?P<value>(?!-){_VALUE})""")
_HEADER = re.compile(
    r"""(?P<name>(?<![-\w])(?:authorization|x-api-key|api-key)(?:\\?['"])?\s*[:=]\s*(?:\\?['"])?(?:(?:bearer|basic|token)\s+)?"""
    r"""|\bbearer\s+)(?P<value>(?!(?:bearer|basic|token)\b)[\w.~+/=-]{6,})""",
    re.IGNORECASE,
)
_IN_URL = re.compile(r"(?P<name>\b\w+://[^\s/:@]*:)(?P<value>[^\s/@]+)(?=@)")
#: Keys that tell by their looks what they are: Hugging Face, OpenAI and its likes, NVIDIA, GitHub.
_KEY = re.compile(
    r"(?P<name>\b)(?P<value>(?:hf_[A-Za-z0-9]{16,}|sk-[A-Za-z0-9_-]{16,}|nvapi-[\w-]{16,}|gh[pousr]_\w{20,}))"
)

_PATTERNS = (_ASSIGNED, _GIVEN, _HEADER, _IN_URL, _KEY)
#: Searching for these first is far quicker.
_SIGNS = re.compile(r"key|token|secret|passw|authorization|bearer|://[^\s/]*@|hf_|sk-|nvapi-|gh[pousr]_", re.IGNORECASE)
_NAME = re.compile(rf"{_VARIABLE}\Z")
_BARE_FLAG = re.compile(rf"{_FLAG}\Z")


def is_secret_flag(name: str) -> bool:
    """Whether the value of a flag is a secret, by its name."""
    return bool(_BARE_FLAG.match(name))


def is_secret_name(name: str) -> bool:
    """Whether the value of a variable is a secret, by its name."""
    return bool(_NAME.match(name))


def known(secrets: Iterable[object]) -> tuple[str, ...]:
    """Secrets that can be looked for, the longest first."""
    texts = {str(secret) for secret in secrets if secret is not None}
    return tuple(sorted((text for text in texts if len(text) >= SHORTEST), key=len, reverse=True))


def of_env(env: dict[str, Any]) -> list[str]:
    """Values of an environment that are secret by their names."""
    return [str(value) for name, value in env.items() if _NAME.match(name) and value]


def text(line: str, secrets: Iterable[str] = ()) -> str:
    """A line, or several, without secrets. ``secrets`` comes from ``known``."""
    if "\n" in line:
        return "\n".join(text(one, secrets) for one in line.split("\n"))
    for secret in secrets:
        line = line.replace(secret, MASK)
    if not _SIGNS.search(line):
        return line
    for pattern in _PATTERNS:
        line = pattern.sub(_masked, line)
    return line


def _masked(found: re.Match[str]) -> str:
    value = found["value"]
    if _NOTHING.fullmatch(value):
        return found[0]
    quote = next((sign for sign in ("\\'", '\\"', "'", '"') if value.startswith(sign)), "")
    return f"{found['name']}{quote}{MASK}{quote}"


def whole(document: Any, secrets: Iterable[str] = ()) -> Any:
    """A JSON-ready document without secrets: in texts, after flags, and as values of variables."""
    if isinstance(document, str):
        return text(document, secrets)
    if isinstance(document, dict):
        return {
            key: MASK if isinstance(value, str) and value and _NAME.match(str(key)) else whole(value, secrets)
            for key, value in document.items()
        }
    if isinstance(document, (list, tuple)):
        cleaned = []
        for number, entry in enumerate(document):
            flag = document[number - 1] if number else None
            hide = isinstance(flag, str) and isinstance(entry, str) and _BARE_FLAG.match(flag)
            cleaned.append(MASK if hide else whole(entry, secrets))
        return cleaned
    return document
