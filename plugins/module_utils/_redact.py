# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 gb10.serving contributors
# Private to gb10.serving: what must not be shown of logs and documents. Pure.
"""Secrets taken out of text: those that are known, and what is written as engines, shells and HTTP write secrets.

Everything that shows lines of an engine's log takes them from here: SGLang, for one, prints its API key at each start.
"""

from __future__ import annotations

import json
import re
import urllib.parse
from collections.abc import Iterable
from typing import Any

from ansible_collections.gb10.serving.plugins.module_utils._redact_names import CERTAIN, LIKELY, kind_of

MASK = "********"

#: A known secret that is shorter than this would take ordinary words out of the text.
SHORTEST = 6
#: The same for the value of a name that is likely, and not certainly, that of a secret.
_LONG = 8

# A log may hold anything: what repeats is bounded, or begins only where nothing of its kind stands before it.
_COLOUR = r"(?:\x1b\[[0-9;]{0,12}m){0,4}"
#: In quotes, which may be escaped themselves; in brackets; or a word. What has no end goes to the end of the line.
_VALUE = re.compile(
    r"""(?P<before>(?:Secret(?:Str)?\()?[bufr]?)(?P<quote>\\{0,8}['"])(?P<quoted>.*?)(?:(?<!\\)(?P=quote)|$)"""
    r"""|(?P<listed>\[[^\]]*(?:\]|$)|\([^)]*(?:\)|$)|\{[^}]*(?:\}|$))"""
    r"""|(?P<word>(?:[^\s,;&)}\]'"\\\x1b]|\\(?!['"]))+)"""
)
_START = r"(?:\x1b\[[0-9;]{0,12}m|(?<![A-Za-z0-9_]))"
_AFTER = rf"""{_COLOUR}(?:\\{{0,8}}['"])?{_COLOUR}\s{{0,9}}"""

_ASSIGNED = re.compile(
    rf"{_START}(?P<name>[A-Za-z_][\w-]{{0,63}}){_AFTER}(?P<sign>=>|->|=|:(?!:)){_COLOUR}\s{{0,9}}{_COLOUR}"
)
_GIVEN = re.compile(
    r"""(?<![\w-])--?(?P<name>[A-Za-z][\w-]{0,63})(?P<sign>(?:\\{0,8}['"])?,\s{0,9}|\s{0,9}=\s{0,9}|\s{1,9})(?!-)"""
)
_HEADER = re.compile(
    rf"""(?P<head>(?<![\w-])(?:proxy-)?authorization{_AFTER}[:=,]{_COLOUR}\s*[bu]?(?:\\*['"])?"""
    r"""(?:(?:bearer|basic|token|digest)\s+)?|\bbearer\s+)(?P<value>(?!(?:bearer|basic|token)\b)[\w.~+/=-]{6,})""",
    re.IGNORECASE,
)
_COOKIE = re.compile(
    rf"""(?P<head>(?<![\w-])(?:set-)?cookie{_AFTER}[:=,]\s*[bu]?(?:\\*['"])?)(?P<value>[\w.-]+=[^'"\\]{{4,}})""",
    re.IGNORECASE,
)
_SAID = re.compile(
    r"(?P<head>(?<![\w-])(?:api[ _-]key|password|hf_token)(?: provided| is)?:?\s+)"
    r"(?P<value>(?=[^\s\d]*\d)(?=[^\sA-Za-z]*[A-Za-z])[\w.~+/-]{10,})",
    re.IGNORECASE,
)
_IN_URL = re.compile(r"(?P<head>\b\w+://[^\s/:@]*:)(?P<value>[^\s/@]+)(?=@)")
_USER_IN_URL = re.compile(r"(?P<head>\b\w+://)(?P<value>(?=[^\s\d/:@]*\d)(?=[^\sa-zA-Z/:@]*[a-zA-Z])[\w.~-]{10,})(?=@)")
_PARAMETER = re.compile(r"(?P<head>[?&](?:key|sig|X-Amz-\w+)=)(?P<value>[^\s&'\"]{8,})")
#: Keys that tell by their looks what they are: Hugging Face, OpenAI and its likes, NVIDIA, GitHub, GitLab, AWS, Slack,
#: JSON web tokens.
_KEY = re.compile(
    r"(?P<head>(?<![\w-]))(?P<value>hf_(?:[A-Za-z0-9]{30,}|(?=[A-Za-z]*\d)[A-Za-z0-9]{16,})|sk-(?:[A-Za-z0-9]{32,}|(?=[A-Za-z_-]*\d)[\w-]{16,})"
    r"|nvapi-[\w-]{16,}|gh[pousr]_\w{20,}|github_pat_\w{16,}|glpat-[\w-]{16,}|(?:AKIA|ASIA)[A-Z0-9]{16}\b|xox[abprs]-[\w-]{10,}"
    r"|eyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*)?)"
)

_NAMED = (_ASSIGNED, _GIVEN)
_BARE = (_HEADER, _COOKIE, _SAID, _IN_URL, _USER_IN_URL, _PARAMETER, _KEY)
#: Searching for these first is far quicker.
_SIGNS = re.compile(
    r"key|token|secret|pass|cred|auth|bearer|cookie|://[^\s/@]{0,200}@|amz-|sig=|hf_|sk-|nvapi-|gh[pousr]_|github_pat|glpat-|akia|asia"
    r"|xox|eyj",
    re.IGNORECASE,
)
#: No value, one that is masked, a placeholder.
_NOTHING = re.compile(r"""(?:None|null|True|False|true|false|\*+|\[redacted\]|<[^>]*>\W*)?""")
_METAVAR = re.compile(r"(?:[A-Z]+_)*(?:KEY|TOKEN|PASSWORD|SECRET|VALUE)S?")
_PLAIN = re.compile(r"[A-Za-z]+")
_NUMBER = re.compile(r"[\d.,_]+")
#: Words that follow a colon in messages about a setting, when nothing else does.
_SAYS = frozenset(
    {"missing", "required", "invalid", "unset", "empty", "wrong", "denied", "expected", "unknown", "string", "str"}
)


def is_secret_flag(name: str) -> bool:
    """Whether the value of a flag is a secret, by its name."""
    return name.startswith("--") and kind_of(name[2:]) == CERTAIN


def holds_secret(name: str, value: Any) -> bool:
    """Whether a variable is one whose value is a secret."""
    kind, given = kind_of(name), str(value or "")
    return bool(given) and (kind == CERTAIN or (kind == LIKELY and _is_likely(given)))


def _is_likely(value: str) -> bool:
    return len(value) >= _LONG and not _NUMBER.fullmatch(value)


def known(secrets: Iterable[object]) -> tuple[str, ...]:
    """Secrets that can be looked for, the longest first; also as Python, JSON and URLs write them."""
    texts = {str(secret) for secret in secrets if secret is not None}
    found = set()
    for text_ in (text for text in texts if len(text) >= SHORTEST):
        found |= {text_, repr(text_)[1:-1], ascii(text_)[1:-1], json.dumps(text_)[1:-1]}
        found |= {json.dumps(text_, ensure_ascii=False)[1:-1], urllib.parse.quote(text_, safe="")}
    return tuple(sorted(found, key=lambda text: (-len(text), text)))


def of_env(env: dict[str, Any]) -> list[str]:
    """Values of an environment that are secret by their names."""
    return [str(value) for name, value in env.items() if holds_secret(str(name), value)]


def text(line: str, secrets: Iterable[str] = ()) -> str:
    """A line, or several, without secrets. ``secrets`` comes from ``known``."""
    for secret in secrets:
        line = line.replace(secret, MASK)
    if "\n" in line:
        return "\n".join(text(one) for one in line.split("\n"))
    if not _SIGNS.search(line):
        return line
    for pattern in _NAMED:
        line = _replaced(pattern, line)
    for pattern in _BARE:
        line = pattern.sub(_masked, line)
    return line


def _replaced(pattern: re.Pattern[str], line: str) -> str:
    """A line without the values of secret names. What follows another name is looked at again: it may hold one."""
    parts, at, begin = [], 0, 0
    while found := pattern.search(line, at):
        at = found.end()
        kind = kind_of(found["name"])
        value = _VALUE.match(line, at) if kind else None
        if value is None or not _is_secret(kind, found["sign"], value, is_flag=pattern is _GIVEN):
            continue
        quote = value["quote"] or ""
        closed = quote if value.end("quoted") < value.end() else ""
        parts += [line[begin:at], value["before"] or "", quote, MASK, closed]
        at = begin = value.end()
    return "".join([*parts, line[begin:]])


def _is_secret(kind: str, sign: str, found: re.Match[str], is_flag: bool) -> bool:
    """Whether what follows a name of this kind is its secret, and not nothing, a placeholder or a sentence."""
    word = found["word"]
    value = word if word is not None else found["quoted"] if found["quote"] else found["listed"]
    bare = value.strip("[](){} ")
    if _NOTHING.fullmatch(bare) or (is_flag and _METAVAR.fullmatch(bare.split(" ")[0])):
        return False
    if word is not None and "=" not in sign and _is_prose(found, word):
        return False
    return kind == CERTAIN or (_is_likely(bare) and ("=" in sign or _is_mixed(bare)))


def _is_mixed(value: str) -> bool:
    return len(value) >= 20 or any(sign.isdigit() for sign in value)


def _is_prose(found: re.Match[str], value: str) -> bool:
    """Whether a value is the first word of a sentence: ``password: must be set``."""
    follows = re.match(r"[ ]+[a-z]", found.string[found.end() : found.end() + 8])
    return bool(_PLAIN.fullmatch(value)) and (bool(follows) or value.lower() in _SAYS)


def _masked(found: re.Match[str]) -> str:
    if found.re is _HEADER and (_is_prose(found, found["value"]) or _NOTHING.fullmatch(found["value"])):
        return found[0]
    return f"{found['head']}{MASK}"


def whole(document: Any, secrets: Iterable[str] = ()) -> Any:
    """A JSON-ready document without secrets: in texts, after flags, and as values of variables."""
    if isinstance(document, str):
        return text(document, secrets)
    if isinstance(document, dict):
        return {key: _under(str(key), value, secrets) for key, value in document.items()}
    if isinstance(document, (list, tuple)):
        cleaned = []
        for number, entry in enumerate(document):
            flag = document[number - 1] if number else None
            hide = isinstance(flag, str) and isinstance(entry, str) and is_secret_flag(flag) and entry
            cleaned.append(MASK if hide else whole(entry, secrets))
        return cleaned
    return document


def _under(name: str, value: Any, secrets: Iterable[str]) -> Any:
    """A value of a mapping: a text, a number or a list of them may be a secret by the name it has."""
    if isinstance(value, (list, tuple)) and kind_of(name):
        return [_under(name, entry, secrets) for entry in value]
    if isinstance(value, (str, int)) and not isinstance(value, bool) and holds_secret(name, value):
        return MASK
    return whole(value, secrets)
