# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 gb10.serving contributors
# Private to gb10.serving: the lines of an engine's log without what carriers put around them. Pure.
"""Colours, time stamps, container and journal prefixes, process names and progress bars taken off log lines."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from ansible_collections.gb10.serving.plugins.module_utils._engine_log_requests import Requests

#: Of a longer line so much is looked at from its begin and from its end: the dumps of configurations are longer.
LONGEST, LONGEST_END = 4000, 400

#: A traceback's frame, the source line below it, and the carets below that.
FRAME, TEXT = "frame", "text"
#: What clients sent: no rule and no step is looked for in it.
REQUEST = "request"

_COLOUR = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])|\[(?:\d{1,2};)*\d{1,2}m")

#: What stands before the text, each taken off as often as it comes, in any order.
_PREFIXES = (
    re.compile(r"\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?\]?(?: |\t|$)"),
    re.compile(r"[A-Z][a-z]{2} +\d{1,2} \d\d:\d\d:\d\d \S+ (?!kernel)[\w.@/-]+(?:\[\d+\])?: ?"),
    re.compile(r"std(?:out|err) [FP] "),
    re.compile(r"[A-Z]+ \d{4}-\d\d-\d\dT[\d:.]+Z \[resource[^\]]*\] "),
    # Compose and Swarm, also before an empty line; kubectl.
    re.compile(r"[\w.-]+(?:@[\w.-]+)? *\| (?= *\S)|[\w.-]+(?:@[\w.-]+)? *\|\s*$"),
    re.compile(r"\[pod/[\w.-]+/[\w.-]+\] ?"),
    re.compile(r"\| +(?=\S)"),
    re.compile(r"\[(?:rank|default)?\d+\]: ?"),
    re.compile(r"\[1,\d+\]<std(?:out|err)>: ?"),
)
#: `(Worker_TP1 pid=20)`, `(RayWorkerWrapper pid=9, ip=10.0.0.2)`.
_ROLE = re.compile(r"\((?P<role>[A-Za-z][\w .-]*?)(?: rank=\d+)? pid=\d+(?:, ip=[\w.:]+)?\) ?")
#: SGLang: `[2026-01-01 10:00:00 TP0]`, in short `[10:00:00 TP0 EP0]`.
_SGLANG = re.compile(
    r"\[(?:\d{4}-)?(?:\d\d-\d\d )?\d\d:\d\d:\d\d(?:\.\d+)?(?P<role>(?: (?:TP|DP|PP|EP|CP|ATTN\w*)\d+)+)\] ?"
)
#: The same in its main process, where no role is told.
_SGLANG_MAIN = re.compile(
    r"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\] "
    r"(?![\w.-]+:\d+(?::\d+)? \[\d+\]|(?:ERROR|CRITICAL)\b)"
)
#: vLLM: `ERROR 01-31 10:00:00 [core.py:10]`.
_LEVEL = re.compile(
    r"(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL) (?P<at>\d\d-\d\d \d\d:\d\d:\d\d)(?:\.\d+)?"
    r"(?: \[?[\w./<>-]+:\d+\])? ?"
)
_WORD_LEVEL = re.compile(
    r"(?:\[[\w-]+\])?\[(?P<boxed>DEBUG|INFO|WARN(?:ING)?)\s*\](?=\s)|(?P<word>DEBUG|INFO|WARN(?:ING)?)\s*:(?=\s)"
    r"|- (?:[\w.]+ - )?(?P<dashed>DEBUG|INFO|WARN(?:ING)?) - "
)
_GLOG = re.compile(r"\[(?P<letter>[DIWEF])\d{3,4} \d\d:\d\d:\d\d[^\]]*\] ?")
_QUIET_TEXT = re.compile(
    r"NCCL INFO|NCCL WARN RAS |\bras/\w+\.cc:|(?:User|Future|Deprecation|Runtime|Syntax|Resource)Warning\b"
    r"|\bserver_args=|\bargs: Namespace\(|non-default args|Dumping (?:input data|scheduler)"
    r"|Ignore(?:d)? (?:import )?error|Ignoring|\"(?:GET|POST|HEAD) /\S* HTTP/"
    r"|with config: model=|CUTE_DSL - WARNING"
)
#: Called an error by who wrote it, and none.
_HARMLESS = re.compile(
    r"Error retrieving (?:safetensors|file list)|retrying \d+ of \d+|cannot be preloaded .*ignored"
    r"|fatal: not a git repository|pip's dependency resolver"
)
#: Before a traceback that Python prints and goes on.
_IGNORED = re.compile(r"Exception ignored in\b")
#: SGLang's log has no levels: what does not speak of a failure is information.
_SGLANG_TROUBLE = re.compile(
    r"Error|[Ee]xception|ERROR|[Ff]ail|died|dead|sigquit|[Kk]ill|[Tt]imeout|[Tt]imed out|NCCL WARN"
)
#: What is said of something that goes on in another way.
_EASED = re.compile(
    r"\b[Ff]all(?:s|ing|en)? ?back|\bfallback\b|\b[Dd]efaulting|\btrying (?:port|again|the next)|\b[Rr]etry|\b[Ss]kip"
    r"|\b[Ii]gnor|\b(?:is|are|be|been) (?:not (?:loaded|used)|unused|disabled)|; disabled|, disabled|\bdisabled\.?$"
    r"|\b(?:serving|[Uu]sing|[Uu]se|keeping|kept)\b.*(?:instead|by default|slow)"
    r"|; kept\b|\bkeeping\b|is used$|continuing"
)
_COMMENT = re.compile(r"#{1,3}(?:\s|$)")
_REMARK = re.compile(r"### .* ###\s*$")
_LETTERS = {"D": "debug", "I": "info", "W": "warning", "E": "error", "F": "error"}


@dataclass(frozen=True)
class Line:
    """One line of output. ``level`` is "info", "warning", "error" or "" where the line does not say."""

    number: int
    text: str
    role: str = ""
    level: str = ""
    kind: str = TEXT
    #: Written by the logger of an engine, not by a library below it or by Python itself.
    logged: bool = False
    #: When, in seconds of the year, where vLLM's logger tells it.
    at: float | None = None

    @property
    def quiet(self) -> bool:
        """Whether the writer itself took the line for no error."""
        return self.level in ("debug", "info", "warning")


def _seconds(stamp: str) -> float:
    """`01-31 10:00:00` as seconds, with months of 31 days."""
    month, day, hour, minute, second = (int(part) for part in re.split("[- :]", stamp))
    return (((month * 31 + day) * 24 + hour) * 60 + minute) * 60.0 + second


def _cut(raw: str) -> str:
    return raw if len(raw) <= LONGEST + LONGEST_END else f"{raw[:LONGEST]} ... {raw[-LONGEST_END:]}"


def _unwrap(raw: str) -> str:
    """The text inside a line of Docker's json-file."""
    if raw.startswith('{"log":'):
        try:
            return str(json.loads(raw)["log"]).rstrip("\r\n")
        except (ValueError, KeyError, TypeError):
            return raw
    return raw


def _peel(text: str) -> tuple[str, str, str, bool, float | None]:
    """(text, role, level, whether a logger wrote it, when); the innermost role and level count."""
    role = level = ""
    logged, at = False, None
    for _round in range(12):
        if found := _ROLE.match(text) or _SGLANG.match(text):
            role = found["role"].strip()
            logged = logged or found.re is _SGLANG
        elif found := _SGLANG_MAIN.match(text):
            logged = True
        elif found := _LEVEL.match(text):
            logged, at = True, _seconds(found["at"])
            level = found["level"].lower().replace("critical", "error")
        elif found := _GLOG.match(text):
            level = _LETTERS[found["letter"]]
        elif found := _WORD_LEVEL.match(text):
            word = (found["boxed"] or found["word"] or found["dashed"]).lower()
            level = "warning" if word.startswith("warn") else word
        else:
            found = next((hit for prefix in _PREFIXES if (hit := prefix.match(text))), None)
        if found is None:
            return text, role, level, logged, at
        text = text[found.end() :]
    return text, role, level, logged, at


def split(text: str) -> list[Line]:
    """All lines that carry text. Comments, as annotated excerpts have them, are no output."""
    lines: list[Line] = []
    after_frame = ignored = False
    requests = Requests()
    for number, whole in enumerate(text.split("\n"), 1):
        for raw in _unwrap(whole).split("\r"):
            if _COMMENT.match(raw) or _REMARK.match(raw):
                continue
            plain, role, level, logged, at = _peel(_COLOUR.sub("", _cut(raw)).strip("\x00\ufeff"))
            bare = plain.strip()
            if not bare:
                continue
            if requests.holds(bare, raw, role + level):
                lines.append(Line(number, bare, role, "info", REQUEST))
                continue
            kind = TEXT
            if bare.startswith('File "') or set(bare) <= set("^~- "):
                kind, after_frame = FRAME, bare.startswith("F")
            elif after_frame:
                # The source line is indented; where it is not known, the next line is the error itself.
                kind, after_frame = FRAME if plain.startswith("    ") else TEXT, False
            if ignored or _IGNORED.match(bare):
                # Up to the last line of the traceback, which is the first one that is neither frame nor head of it.
                ignored = not ignored or kind == FRAME or bare.startswith("Traceback (")
                level = "info"
            if _HARMLESS.search(bare):
                level = "info"
            if logged and not level:
                level = "info" if not _SGLANG_TROUBLE.search(bare) else "warning" if _EASED.search(bare) else ""
            if not level and _QUIET_TEXT.search(bare):
                level = "info"
            elif level == "info" and "NCCL WARN" in bare:
                level = ""
            lines.append(Line(number, bare, role, level, kind, logged, at))
    return lines
