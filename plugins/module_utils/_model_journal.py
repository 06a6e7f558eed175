# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 gb10.serving contributors
# Private to gb10.serving: what has come into a staging folder, so that a killed receiver goes on and others can follow.
"""One JSON line for each event, appended at once. A line that was cut by a kill is passed over.

["name", start, end]: this range is there. ["name", "new"]: thrown away. ["name", "in", sha256]: verified and at its
final name in the staging folder, so that it can be handed on. ["name", "ok"]: on the disk for good.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.gb10.serving.plugins.module_utils import _model_inside
from ansible_collections.gb10.serving.plugins.module_utils._model_ranges import Span, merge

JOURNAL = ".gb10-ranges"
PARTS = ".gb10-parts"
NOTE = ".gb10-staging.json"
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass
class Came:
    """What the journal says."""

    spans: dict[str, list[Span]] = field(default_factory=dict)
    sums: dict[str, str] = field(default_factory=dict)  # verified, in their place
    safe: set[str] = field(default_factory=set)  # of these, those that survive a power failure

    def have(self, name: str) -> int:
        return sum(end - start for start, end in self.spans.get(name, []))


def staged_for(staging: str) -> str | None:
    """The digest of the model for which this folder was made."""
    with contextlib.suppress(OSError, ValueError, AttributeError, RecursionError):
        digest = json.loads(_model_inside.content(staging, NOTE)).get("digest")
        return digest if isinstance(digest, str) else None
    return None


def read(staging: str) -> Came:
    came = Came()
    lines: list[bytes] = []
    with contextlib.suppress(OSError):
        lines = _model_inside.content(staging, JOURNAL).split(b"\n")
    for line in lines:
        try:
            name, first, *rest = json.loads(line)
            if not isinstance(name, str):
                continue
            if first == "new":
                came.spans.pop(name, None)
                came.sums.pop(name, None)
            elif first == "in":
                if _SHA256.fullmatch(rest[0]):
                    came.sums[name] = rest[0]
            elif first == "ok":
                came.safe.add(name)
            elif type(first) is type(rest[0]) is int and 0 <= first < rest[0]:
                came.spans.setdefault(name, []).append((first, rest[0]))
        except (ValueError, TypeError, IndexError, RecursionError):
            continue
    came.spans = {name: merge(spans) for name, spans in came.spans.items()}
    came.safe &= came.sums.keys()
    return came


def resumable(staging: str, digest: str, sizes: Mapping[str, int]) -> Came:
    """What of these files need not come again. Files are looked at, nothing is changed."""
    if staged_for(staging) != digest:
        return Came()
    found, usable = read(staging), Came()
    for name, size in sizes.items():
        if name in found.sums and _model_inside.size(staging, name) == size:
            usable.spans[name] = [(0, size)]
            usable.sums[name] = found.sums[name]
            if name in found.safe:
                usable.safe.add(name)
        elif name in found.spans and _model_inside.size(staging, f"{PARTS}/{name}") == size:
            usable.spans[name] = [(start, min(end, size)) for start, end in found.spans[name] if start < size]
    return usable


def rewrite(staging: str, came: Came) -> None:
    """Makes the journal say this and no more."""
    events: list[tuple[Any, ...]] = [
        (name, *span) for name, spans in came.spans.items() if name not in came.sums for span in spans
    ]
    events += [(name, "in", digest) for name, digest in came.sums.items()]
    events += [(name, "ok") for name in sorted(came.safe)]
    with open(_model_inside.created(staging, JOURNAL + ".new"), "w", encoding="utf-8") as stream:
        stream.writelines(json.dumps(event, separators=(",", ":")) + "\n" for event in events)
    _model_inside.move(staging, JOURNAL + ".new", JOURNAL)


class Journal:
    """Appends; safe for threads."""

    def __init__(self, staging: str) -> None:
        self._number = _model_inside.opened(staging, JOURNAL, os.O_WRONLY | os.O_APPEND)
        self._lock = threading.Lock()
        os.write(self._number, b"\n")  # ends a line that was cut

    def add(self, *event: Any) -> None:
        with self._lock:
            os.write(self._number, json.dumps(event, separators=(",", ":")).encode() + b"\n")

    def beat(self) -> None:
        """Shows those who follow that this copy waits for good reason."""
        os.utime(self._number)

    def close(self) -> None:
        os.close(self._number)
