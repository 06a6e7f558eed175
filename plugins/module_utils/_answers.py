# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 gb10.serving contributors
# Private to gb10.serving: what another node says in a transfer, looked at before anything is done with it. Pure.
"""Whatever is not as agreed is a Wrong: an error of the node that said it, so that the next one is asked."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from ansible_collections.gb10.serving.plugins.module_utils._wire import Wrong

#: No file, stream or time in nanoseconds is larger.
MOST = (1 << 63) - 1
_SHA256 = re.compile(r"[0-9a-f]{64}")
_DAY = 86_400.0


def _wrong(what: str, value: object, expected: str) -> Wrong:
    return Wrong(f"the source said {repr(value)[:80]} for {what}, expected {expected}")


def number(value: object, what: str, least: int = 0) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= MOST:
        raise _wrong(what, value, "a number of sensible size")
    return value


def texts(value: object, what: str) -> list[str]:
    """A list of strings; None is an empty one."""
    found = [] if value is None else value
    if not isinstance(found, list) or not all(isinstance(item, str) for item in found):
        raise _wrong(what, value, "a list of names")
    return found


def only_texts(value: object) -> list[str]:
    """What of a list are strings: for a request, where the rest is of no account."""
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def _text(value: object, what: str) -> str:
    if value is not None and not isinstance(value, str):
        raise _wrong(what, value, "a text")
    return value or ""


def _sha256(value: object, what: str) -> str:
    if not isinstance(value, str) or not _SHA256.fullmatch(value):
        raise _wrong(what, value, "a SHA-256")
    return value


def _entries(value: object, what: str) -> Iterable[tuple[str, Any]]:
    if not isinstance(value, dict):
        raise _wrong(what, value, "an object")
    return value.items()


def joined(answer: dict[str, Any]) -> tuple[list[str], float]:
    """The layers of an image, and after how many seconds its source gives up who takes nothing."""
    stall = answer.get("stall") or 0.0
    if isinstance(stall, bool) or not isinstance(stall, (int, float)) or not 0 <= stall <= _DAY:
        raise _wrong("stall", stall, "seconds")
    return texts(answer.get("layers"), "layers"), float(stall)


def note(told: dict[str, Any]) -> dict[str, int]:
    """What each layer takes in a stream; "" stands for all the rest."""
    takes = {name: number(size, "the size of a layer") for name, size in _entries(told.get("layers", {}), "layers")}
    return {**takes, "": number(told.get("rest", 0), "rest")}


def ended(status: dict[str, Any]) -> dict[str, Any]:
    """The status at the end of a stream."""
    code = status.get("rc")
    if isinstance(code, bool) or not isinstance(code, int):
        raise _wrong("rc", code, "a return code")
    return {
        "rc": code,
        "error": _text(status.get("error"), "error")[-4000:],
        "again": status.get("again") is True,
        "bytes": number(status.get("bytes", 0), "bytes"),
        "left_out_bytes": number(status.get("left_out_bytes") or 0, "left_out_bytes"),
        "saved_because": _text(status.get("saved_because"), "saved_because")[:4000],
    }


def _sums(value: object) -> None:
    for _name, digest in _entries({} if value is None else value, "sha256"):
        _sha256(digest, "sha256")


def of_model(request: dict[str, Any], answer: dict[str, Any]) -> dict[str, Any]:
    """The answer itself, when it is one to this request for a model."""
    operation = request.get("op")
    if operation == "list":
        if answer.get("ready") != "all":
            texts(answer.get("ready"), "ready")
        _text(answer.get("pulse"), "pulse")
        _sums(answer.get("sha256"))
    elif operation == "sha" and request.get("name") is None:
        _sums(answer.get("sha256"))
        _text(answer.get("revision"), "revision")
    elif operation == "sha":
        if answer.get("sha256"):
            _sha256(answer["sha256"], "sha256")
        else:
            number(answer.get("read_bytes") or 0, "read_bytes")
    elif operation == "get":
        number(answer.get("size"), "size")
        number(answer.get("mtime_ns"), "mtime_ns", -MOST)
    return answer
