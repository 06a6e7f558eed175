# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 gb10.serving contributors
# Private to gb10.serving: the lines in which engines repeat what clients sent. Data.
"""What stands in such a line, clients chose: it says nothing of the engine, whatever words are in it."""

from __future__ import annotations

import re
from typing import NamedTuple


class Form(NamedTuple):
    """How a line of a request begins. ``end``: where it goes over several lines, what is in the last one."""

    begin: re.Pattern[str]
    end: str = ""


_ACCESS = Form(re.compile(r'\S{1,64}:\d+ - "[A-Z]+ .*'))

REQUESTS: dict[str, tuple[Form, ...]] = {
    "vllm": (
        Form(re.compile(r"Received request \S+: "), ", params: "),
        Form(re.compile(r"Request \S+ details: "), "prompt_embeds shape: "),
        Form(re.compile(r"Generated response \S+")),
        _ACCESS,
    ),
    "sglang": (
        Form(re.compile(r"(?:Receive|Receive OpenAI|Finish): obj=")),
        Form(re.compile(r'\{"timestamp": ?"[^"]*", "event": ?"request\.')),
        _ACCESS,
    ),
}

_ALL: tuple[Form, ...] = tuple(dict.fromkeys(form for forms in REQUESTS.values() for form in forms))
_ANY = re.compile("|".join(form.begin.pattern for form in _ALL))

#: A request that was answered: the engine is at work.
SERVED = re.compile(r'- "POST /\S* HTTP/[\d.]+" 200|Avg prompt throughput: (?!0\.0)|(?:Prefill|Decode) batch\b')

#: Lines of one request at most, should its end never come.
_LONGEST = 500


class Requests:
    """Tells the lines of requests from others; asked for one line after the other."""

    def __init__(self) -> None:
        self._end, self._left = "", 0

    def holds(self, text: str, whole: str, said_by: str) -> bool:
        """Whether a line is of a request. ``text``: without prefixes; ``whole``: uncut; ``said_by``: role and level."""
        if self._left and not said_by:
            self._left = 0 if self._end in whole else self._left - 1
            return True
        self._left = 0
        if not _ANY.match(text):
            return False
        found = next(form for form in _ALL if form.begin.match(text))
        if found.end and found.end not in whole:
            self._end, self._left = found.end, _LONGEST
        return True
