# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""The module reads large files by their ends, needs one source, and answers as documented."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.gb10.serving.plugins.modules import engine_log_info

LOGS = Path(__file__).resolve().parents[3] / "unit" / "fixtures" / "engine_logs"


def run(*arguments: str) -> dict[str, Any]:
    """The module as `ansible localhost -m` runs it."""
    command = [str(Path(sys.executable).with_name("ansible")), "localhost", "-m", "gb10.serving.engine_log_info"]
    outcome = subprocess.run(
        [*command, "-a", " ".join(arguments)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "ANSIBLE_CALLBACK_RESULT_FORMAT": "json", "LANG": "C.UTF-8"},
    )
    _before, word, body = outcome.stdout.partition(" => ")
    assert word, outcome.stdout + outcome.stderr
    return dict(json.JSONDecoder().raw_decode(body)[0])


def test_small_file_is_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"a\xffb\nlast")
    assert engine_log_info.read_ends(str(path)) == "a\ufffdb\nlast"


def test_large_file_is_read_by_its_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_log_info, "HEAD", 20)
    monkeypatch.setattr(engine_log_info, "TAIL", 15)
    path = tmp_path / "log"
    path.write_text("first\nsecond\nthird line is long\n" + "middle\n" * 50 + "before last\nlast\n", encoding="utf-8")
    assert engine_log_info.read_ends(str(path)) == "first\nsecond\nlast\n"


def test_what_has_no_end_is_not_read(tmp_path: Path) -> None:
    """In a process of its own, which may be ended: it would be waited for without limit."""
    os.mkfifo(tmp_path / "pipe")
    code = (
        "import sys\n"
        "from ansible_collections.gb10.serving.plugins.modules import engine_log_info\n"
        "try:\n"
        "    print(len(engine_log_info.read_ends(sys.argv[1])))\n"
        "except OSError as error:\n"
        "    print(error.strerror)\n"
    )
    root = str(Path(__file__).parents[4] / "collections")
    seen = {}
    for path in (str(tmp_path / "pipe"), "/dev/zero", str(tmp_path)):
        done = subprocess.run(
            [sys.executable, "-c", code, path], capture_output=True, text=True, check=False, timeout=30,
            env={**os.environ, "PYTHONPATH": root},
        )  # fmt: skip
        seen[path] = done.stdout.strip()
    assert list(seen.values()) == [*2 * ["It is a pipe, a device or a socket"], "Is a directory"]


def test_a_file_with_nothing_to_read_yet_is_what_there_is() -> None:
    parts = [b"one ", b"two", None, b"never"]

    class Stream(io.FileIO):
        def __init__(self) -> None:
            super().__init__(os.devnull)

        def read(self, _size: int | None = -1, /) -> Any:
            return parts.pop(0)

    with Stream() as stream:
        assert engine_log_info.read_some(stream, 100) == b"one two"


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-8"])
@pytest.mark.parametrize("odd", [b"", b"x"])
def test_what_powershell_wrote(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, encoding: str, odd: bytes) -> None:
    path = tmp_path / "log"
    text = "first \u2713\r\n" + "middle\r\n" * 50 + "last\r\n"
    path.write_bytes((engine_log_info.BOM + text).encode(encoding) + odd)
    assert engine_log_info.read_ends(str(path)).startswith(text)
    monkeypatch.setattr(engine_log_info, "HEAD", 50)
    monkeypatch.setattr(engine_log_info, "TAIL", 50)
    ends = engine_log_info.read_ends(str(path)).splitlines()
    assert ends[0] == "first \u2713" and "last" in ends and len(ends) < 20 and set(ends[1:-2]) == {"middle"}


def test_command_line_answers_as_documented() -> None:
    rank0, rank1 = (LOGS / f"vllm-model-missing-on-rank1{end}.txt" for end in ("-rank0-view", ""))
    answer = run(f"path={rank0}", f"peers={rank1}")
    assert (answer["cause"], answer["verdict"], answer["changed"]) == ("peer_died", "failed", False)
    assert set(yaml.safe_load(engine_log_info.RETURN)) == set(answer) - {"changed"}


def test_missing_file_is_named() -> None:
    answer = run("path=/nowhere/rank0.log")
    assert "cause" not in answer
    assert "/nowhere/rank0.log cannot be read: No such file or directory" in answer["msg"]
    assert "Next step" in answer["msg"]
