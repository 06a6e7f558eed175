# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.gb10.serving.plugins.module_utils._model import inspect
from ansible_collections.gb10.serving.plugins.modules import model_info

ROOT = Path(__file__).resolve().parents[4]


def run(args: dict[str, Any]) -> dict[str, Any]:
    """The module as a process, as on a node."""
    done = subprocess.run(
        [sys.executable, model_info.__file__, json.dumps({"ANSIBLE_MODULE_ARGS": args})],
        capture_output=True, text=True, check=False, env={"PYTHONPATH": str(ROOT / "collections"), "HOME": "/root"},
    )  # fmt: skip
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def test_a_model_that_is_not_there_is_an_answer_and_not_a_failure(tmp_path: Path) -> None:
    answer = run({"path": str(tmp_path / "absent"), "_ansible_check_mode": True})
    assert (answer.get("failed", False), answer["changed"]) == (False, False)
    assert answer["model"]["exists"] is False
    assert str(tmp_path / "absent") in answer["model"]["problems"][0]


@pytest.mark.parametrize("where", ["file", "config"])
def test_every_answer_is_unicode(tmp_path: Path, where: str) -> None:
    """Also of names that are none."""
    name = os.fsdecode(b"\xff\xfe")
    folder = tmp_path / "m"
    folder.mkdir()
    (folder / (name if where == "file" else "x")).write_text("")
    (folder / "config.json").write_text(json.dumps({"model_type": "\ud800" if where == "config" else "m"}))
    model = run({"path": str(folder)})["model"]
    json.dumps(model, ensure_ascii=False).encode()
    assert model["free_bytes"] > 0
    seen = model["files"][-1]["name"] if where == "file" else model["model_type"]
    assert seen == ("\\udcff\\udcfe" if where == "file" else "\\ud800")
    assert any("not UTF-8" in problem for problem in model["problems"]) is (where == "file")


def test_the_path_is_required() -> None:
    assert "path" in run({})["msg"]


def test_each_result_is_documented(tmp_path: Path) -> None:
    returned = yaml.safe_load(model_info.RETURN)["model"]["contains"]
    found = inspect(str(tmp_path))
    assert set(returned) == {*found, "free_bytes", "writable", "mounts", "copied_digest"}
    assert set(returned["tensors"]["contains"]) == set(found["tensors"])
