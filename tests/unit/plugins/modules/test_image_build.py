# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
from __future__ import annotations

import pathlib
import platform
from types import SimpleNamespace
from typing import Any

import pytest

from ansible_collections.gb10.serving.plugins.module_utils import _image, _image_docker, _image_make
from ansible_collections.gb10.serving.plugins.module_utils._job import JobError
from ansible_collections.gb10.serving.plugins.modules import image_build

HERE = {"present": True, "architecture": "arm64", "content": "sha256:c", "id": "i", "size_bytes": 5}


def wanted(
    monkeypatch: pytest.MonkeyPatch, image: dict[str, Any], ref: str = "img:v", built: str | None = None, **params: Any
) -> str:
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    monkeypatch.setattr(_image_docker, "inspect", lambda _ref: image)
    monkeypatch.setattr(_image_make, "built_from", lambda _ref: built)
    module = SimpleNamespace(params={"image": ref, "pull": "missing", "build": None, **params})
    how, work, _image_facts = image_build.wanted(module)
    assert (work is None) is (how == "present")
    return how


def test_an_image_that_is_there_is_not_pulled(monkeypatch: pytest.MonkeyPatch) -> None:
    assert wanted(monkeypatch, HERE) == "present"
    assert wanted(monkeypatch, HERE, pull="never") == "present"
    assert wanted(monkeypatch, _image.absent("img:v")) == "pulled"


@pytest.mark.parametrize(
    ("image", "ref", "params", "text"),
    [
        (_image.absent("img:v"), "img:v", {"pull": "never"}, "gb10_image_pull is never"),
        (dict(HERE, architecture="amd64"), "img:v", {}, "built for amd64, this node is arm64"),
        (HERE, "img@sha256:00", {}, "digest does not survive"),
        (
            HERE,
            "img:v",
            {"build": {"context": "/nowhere", "dockerfile": "D", "args": {}}},
            "no Dockerfile at /nowhere/D",
        ),
    ],
)
def test_what_cannot_be_had_is_named(
    monkeypatch: pytest.MonkeyPatch, image: dict[str, Any], ref: str, params: dict[str, Any], text: str
) -> None:
    with pytest.raises(JobError, match=text):
        wanted(monkeypatch, image, ref, **params)


def test_an_image_is_built_again_only_when_its_sources_changed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    (tmp_path / "Dockerfile").write_text("FROM a\n")
    plan = {"context": str(tmp_path), "dockerfile": "Dockerfile", "args": {"N": 1}}
    digest = _image_make.build_digest(str(tmp_path), "Dockerfile", {"N": "1"})
    assert wanted(monkeypatch, _image.absent("img:v"), build=plan, pull="never") == "built"
    assert wanted(monkeypatch, HERE, build=plan) == "built"
    assert wanted(monkeypatch, HERE, build=plan, built=digest) == "present"
    (tmp_path / "Dockerfile").write_text("FROM b\n")
    assert wanted(monkeypatch, HERE, build=plan, built=digest) == "built"
