# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""Help texts as images print them: complete ones of real releases, and excerpts with what is hard about them."""

from __future__ import annotations

import os
from typing import Any
from unittest import mock

import pytest

from ansible_collections.gb10.serving.plugins.module_utils import _engine_help as engine_help
from ansible_collections.gb10.serving.tests.unit.plugins.module_utils import flag_lists

BANNER = """
==========
== vLLM ==
==========
NVIDIA Release 26.05
  --this-is-no-flag of the banner
INFO 11-30 08:33:14 [importing.py:44] Triton is installed but 0 active driver(s) found.
/usr/lib/python3/x.py:71: UserWarning: 'python -m x' is still supported
  warnings.warn(text)
"""
AFTER = """
[rank0]:[W1130 08:00:00] Warning: destroy_process_group() was not called
Exception ignored in: <function A.__del__>
Traceback (most recent call last):
  File "/usr/lib/python3/multiprocessing/util.py", line 10, in x
    call()
KeyError: 'x'
"""


@pytest.mark.parametrize("columns", [24, 80, 200])
@pytest.mark.parametrize("release", flag_lists.RELEASES)
def test_a_whole_help_gives_every_flag(release: str, columns: int) -> None:
    with mock.patch.dict(os.environ, {"COLUMNS": str(columns)}):
        text = flag_lists.parser(release).format_help()
    parsed = engine_help.parse(BANNER + text + AFTER)
    wanted = flag_lists.flags(release)
    assert len(parsed) == len(wanted)
    listed = {flag["name"]: flag for flag in parsed}
    for flag in wanted:
        found = listed[flag["name"]]
        deprecated = {"deprecated": bool(flag["deprecated"])}
        if flag["positional"]:
            assert found["positional"] and found["takes_value"] == "optional"
        else:
            assert {**found, "deprecated": bool(found["deprecated"])} == {**flag, **deprecated}


@pytest.mark.parametrize(
    ("release", "count"),
    [("vllm-0.25.1", 272), ("vllm-0.32.0", 318), ("sglang-0.5.17", 472), ("sglang-0.5.20", 493)],
)
def test_lists_have_the_flags_of_their_release(release: str, count: int) -> None:
    assert len({flag["name"] for flag in flag_lists.flags(release)}) == count


def one(invocation: str, usage: str = "usage: x [options]") -> dict[str, Any]:
    parsed = engine_help.parse(f"{usage}\n\noptions:\n{invocation}\n")
    assert len(parsed) == 1, parsed
    return parsed[0]


@pytest.mark.parametrize(
    ("invocation", "expected"),
    [
        ("  --a", {"name": "--a", "takes_value": "no", "metavar": None}),
        ("  --a           Text, with --b in it.", {"name": "--a", "takes_value": "no", "aliases": []}),
        ("  -t N, --tp N", {"name": "--tp", "aliases": ["-t"], "takes_value": "one", "metavar": "N"}),
        # Python 3.13 names the value once.
        ("  -t, --tp N", {"name": "--tp", "aliases": ["-t"], "takes_value": "one"}),
        ("  --tp-size N, --tensor-parallel-size N", {"name": "--tp-size", "aliases": ["--tensor-parallel-size"]}),
        ("  --a, --no-a", {"negatives": ["--no-a"], "hidden": [], "aliases": []}),
        ("  --enable-a, --no-enable-a", {"negatives": ["--no-enable-a"], "hidden": []}),
        ("  --enable-a, --disable-a", {"negatives": ["--disable-a"], "hidden": ["--no-enable-a"]}),
        ("  --disable-a, --enable-a", {"negatives": ["--enable-a"], "hidden": ["--no-disable-a"]}),
        ("  --enable-a, --disable-a, -ea", {"aliases": ["-ea"], "negatives": ["--disable-a"]}),
        ("  --a {x,y}", {"takes_value": "one", "choices": ["x", "y"], "known": []}),
        ("  --a {x,y} [{x,y} ...]", {"takes_value": "many", "choices": ["x", "y"]}),
        ("  --a [{x,y} ...]", {"takes_value": "many", "choices": ["x", "y"]}),
        ("  --a [A]", {"takes_value": "optional"}),
        ("  --a A [A ...]", {"takes_value": "many"}),
        ("  --a A A", {"takes_value": "many"}),
        ("  --a ['x', 'y']", {"takes_value": "one", "choices": [], "known": ["x", "y"]}),
        ("  --a {x,y} or name registered by --plugin", {"takes_value": "one", "choices": [], "known": ["x", "y"]}),
        # A terminal may break a long list.
        ("  --a {x,\ny,z}\n                Text.", {"choices": ["x", "y", "z"]}),
        ("  --a {x,y", {"name": "--a", "takes_value": "one"}),
        ("  --a A       Text.\n              (default: 2048)", {"default": "2048"}),
        ("  --a A       Text (default: 2048) and more.", {"default": None}),
        ("  --a         [DEPRECATED] Use --b.", {"deprecated": "[DEPRECATED] Use --b."}),
        ("  --a         (Deprecated, use --b) Old.", {"deprecated": "(Deprecated, use --b) Old."}),
        ("  --a         Deprecated alias for --b.", {"deprecated": "Deprecated alias for --b."}),
        ("  --a         Note: --a is deprecated now.", {"deprecated": "Note: --a is deprecated now."}),
        ("  --a         Instead of the deprecated b.", {"deprecated": None}),
        ("\x1b[1m  \x1b[36m--a\x1b[0m \x1b[33mA\x1b[0m\x1b[0m\r", {"name": "--a", "takes_value": "one"}),
    ],
)
def test_invocation(invocation: str, expected: dict[str, Any]) -> None:
    found = one(invocation)
    assert {key: found[key] for key in expected} == expected


@pytest.mark.parametrize(
    "text",
    ["", "no help at all\n  --a\n", "Traceback (most recent call last):\n  --a\n", "  --a\n  --b\n"],
)
def test_what_is_no_help_has_no_flags(text: str) -> None:
    assert engine_help.parse(text) == []


@pytest.mark.parametrize(
    "text",
    [
        "usage: x [--a A]\n         [--b]\n\noptions:\n  --a A\n  --b\n",
        "Usage: x\noptions:\n  --a A\n   --json.key value\n  --b\n",
        "usage: x\noptions:\n  --a A\n  --b\nusage: x\noptions:\n  --a A\n  --b\n",
        "usage: x\n  words about it\noptions:\n  --a A\n                        - INFO: text\n\n  --b\n",
        "\x1b[1musage: \x1b[0mx\n\nGroup:\n  Words.\n\n  --a A\r\n  --b\r\n",
    ],
)
def test_only_invocations_count(text: str) -> None:
    assert [(flag["name"], flag["takes_value"]) for flag in engine_help.parse(text)] == [("--a", "one"), ("--b", "no")]


MANY = "usage: x\noptions:\n" + "".join(f"  --flag-{number}\n" for number in range(101))


@pytest.mark.parametrize(
    ("out", "err", "count", "word"),
    [
        (MANY, "warnings", 101, None),
        ("", MANY, 101, None),
        ("usage: x\noptions:\n  --a\n", "", None, "1 flags"),
        ("", "RuntimeError: Failed to infer device type, please set", None, "no GPU"),
        ("", "first\nImportError: libcuda.so.1\n", None, "ImportError: libcuda.so.1"),
        ("", "", None, "nothing"),
    ],
)
def test_read_says_why_there_are_none(out: str, err: str, count: int | None, word: str | None) -> None:
    found, reason = engine_help.read(out, err)
    assert (len(found) if found else None) == count
    assert reason is None if word is None else word in str(reason)
