# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""The collection's own files agree with each other."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
MODULES = sorted(path.stem for path in (ROOT / "plugins" / "modules").glob("[a-z]*.py"))
ACTIONS = sorted(path.stem for path in (ROOT / "plugins" / "action").glob("[a-z]*.py"))


def load(name: str) -> Any:
    return yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))


def test_the_action_group_holds_every_module() -> None:
    assert load("meta/runtime.yml")["action_groups"]["gb10"] == MODULES


@pytest.mark.parametrize("name", ACTIONS)
def test_every_action_is_documented_by_a_module_of_its_name(name: str) -> None:
    assert name in MODULES


def test_one_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert load("galaxy.yml")["version"] == project["version"]


def test_the_checkout_is_the_collection() -> None:
    link = ROOT / "collections" / "ansible_collections" / "gb10" / "serving"
    assert link.is_symlink() and not link.readlink().is_absolute()
    assert link.resolve() == ROOT
    import ansible_collections.gb10.serving.plugins.doc_fragments.attributes as module

    assert Path(module.__file__).resolve() == ROOT / "plugins" / "doc_fragments" / "attributes.py"
    assert sys.modules[module.__name__] is module


@pytest.mark.parametrize("path", sorted((ROOT / "plugins").rglob("*.py")), ids=lambda path: str(path.relative_to(ROOT)))
def test_no_plugin_is_too_long_to_read(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 300
