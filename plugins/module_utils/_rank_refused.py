# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 gb10.serving contributors
# Private to gb10.serving: why a rank is not started, before its engine could say anything.
"""A start that is refused: the image is not the release's, or Docker does not take the container."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ansible_collections.gb10.serving.plugins.module_utils import _image_docker
from ansible_collections.gb10.serving.plugins.module_utils._engine_log import classify
from ansible_collections.gb10.serving.plugins.module_utils._job import JobError

#: As docs/causes.md has it.
CAUSE = "ranks_disagree"


def other_image(spec: Mapping[str, Any], found: Mapping[str, Any]) -> dict[str, str] | None:
    """``seen``, ``expected`` and ``remedy`` when the image that was found is not the spec's; else None.

    A tag may have moved since the release was made; ranks that run different images hang or answer nonsense.
    """
    image = (spec.get("engine") or {}).get("image") or {}
    if not image.get("content") or found.get("content") == image["content"]:
        return None
    return {
        "seen": f"the image {image['ref']} on this node is {found.get('content') or 'gone'}.",
        "expected": f"{image['content']}, with which release {spec.get('id')} was made.",
        "remedy": "deploy again, which copies the image that the other ranks have, or bring that image back under its "
        "name.",
    }


def by_image(
    spec: Mapping[str, Any], inspect: Callable[[str], dict[str, Any]] = _image_docker.inspect
) -> dict[str, Any] | None:
    """``msg``, ``cause`` and ``remedy`` when this node has not the image of the spec; None when it has."""
    image = (spec.get("engine") or {}).get("image") or {}
    if not image:
        return None
    try:
        wrong = other_image(spec, inspect(image["ref"]))
    except JobError as error:
        return {"msg": str(error)}
    if wrong is None:
        return None
    seen = wrong["seen"].removesuffix(".")
    text = f"{seen} ({CAUSE}). Expected: {wrong['expected']} Next step: {wrong['remedy']}"
    return {"msg": text, "cause": CAUSE, "remedy": wrong["remedy"]}


def by_docker(argv: Sequence[str], code: int, err: str, hint: str) -> dict[str, Any]:
    """The same for a command that failed; the cause only where Docker's words name one."""
    text = f"'{' '.join(argv)}' ended with {code}: {err.strip()[-1500:]}"
    found = classify(err, 0.0)
    if found["cause"] in (None, "unknown"):
        return {"msg": f"{text} {hint}"}
    return {
        "msg": f"{text} ({found['cause']}) {hint} {found['remedy']}",
        "cause": found["cause"],
        "remedy": found["remedy"],
    }
