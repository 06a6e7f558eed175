# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""What a role documents is what it does: argument specs, defaults and tasks name the same variables."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

ROLES = Path(__file__).resolve().parents[2] / "roles"
EXPECTED = frozenset(
    f"gb10_{name}" for name in ("defaults", "preflight", "fabric", "plan", "image", "model", "server", "report")
)
NAMES = sorted(EXPECTED)
# Where the defaults that several roles share stand; every other role depends on it.
SHARED = "gb10_defaults"
BEFORE_ROLES = (
    ROLES.parent / "playbooks" / "deploy.yml",
    ROLES.parent / "playbooks" / "tasks" / "begin.yml",
    ROLES.parent / "plugins" / "plugin_utils" / "_recipe.py",
)


def load(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8")) if path.exists() else None


def defaults(role: str) -> dict[str, Any]:
    return load(ROLES / role / "defaults" / "main.yml") or {}


def entries(role: str) -> dict[str, dict[str, Any]]:
    return (load(ROLES / role / "meta" / "argument_specs.yml") or {}).get("argument_specs", {})


def options(role: str) -> dict[str, dict[str, Any]]:
    """The options of all entry points of a role; one name means one thing in each of them."""
    merged: dict[str, dict[str, Any]] = {}
    for entry in entries(role).values():
        for name, option in (entry.get("options") or {}).items():
            merged.setdefault(name, option)
            assert merged[name] == option, f"{role}: {name} differs between entry points"
    return merged


def files(role: str) -> list[Path]:
    """Everything in a role that uses variables."""
    wanted = {".yml", ".yaml", ".j2"}
    folders = ("tasks", "handlers", "templates", "vars", "defaults")
    return [p for folder in folders for p in (ROLES / role / folder).rglob("*") if p.is_file() and p.suffix in wanted]


def test_the_roles_are_the_ones_of_the_design() -> None:
    assert {path.name for path in ROLES.glob("*") if path.is_dir()} == EXPECTED


@pytest.mark.parametrize("role", NAMES)
def test_every_entry_point_has_a_spec(role: str) -> None:
    found = {path.stem for path in (ROLES / role / "tasks").glob("*.yml")}
    assert "main" in entries(role), f"{role}: meta/argument_specs.yml lacks the entry point main"
    assert set(entries(role)) <= found | ({"main"} if role == SHARED else set()), f"{role}: a spec without tasks"
    for name, entry in entries(role).items():
        assert entry.get("short_description"), f"{role}: entry point {name} has no short_description"


@pytest.mark.parametrize("role", NAMES)
def test_defaults_equal_the_documented_ones(role: str) -> None:
    documented = {name: option["default"] for name, option in options(role).items() if "default" in option}
    actual = {name: value for name, value in defaults(role).items() if value is not None}
    shared = {} if role == SHARED else defaults(SHARED)
    # A role may document a shared variable that it uses; then with the shared default.
    for name in set(documented) & set(shared):
        assert documented.pop(name) == shared[name], f"{role}: {name} has another default in {SHARED}"
    assert documented == actual


@pytest.mark.parametrize("role", NAMES)
def test_every_default_is_documented(role: str) -> None:
    public = {name for name in defaults(role) if not name.startswith("__")}
    assert public <= set(options(role)), f"{role}: not in meta/argument_specs.yml"


@pytest.mark.parametrize("role", NAMES)
def test_every_documented_variable_is_used(role: str) -> None:
    # Shared variables are used by the roles that depend on the role that holds them.
    readers = NAMES if role == SHARED else [role]
    text = "\n".join(
        # In defaults, a variable's own line is no use of it; another default built from it is.
        re.sub(r"(?m)^\w+:", "", path.read_text(encoding="utf-8"))
        for reader in readers
        for path in files(reader)
    )
    if role == SHARED:  # what a recipe says of engines is read before any role is
        text += "".join(path.read_text(encoding="utf-8") for path in BEFORE_ROLES)
    unused = {name for name in options(role) if not re.search(rf"\b{re.escape(name)}\b", text)}
    assert unused == set(), f"{role}: documented but used by no task or template"


@pytest.mark.parametrize("role", NAMES)
def test_names_say_where_they_belong(role: str) -> None:
    wrong = {name for name in [*options(role), *defaults(role)] if not re.fullmatch(r"(__)?gb10_[a-z0-9_]+", name)}
    assert wrong == set(), f"{role}: public variables begin with gb10_, private ones with __gb10_"


@pytest.mark.parametrize("role", NAMES)
def test_every_option_is_described(role: str) -> None:
    def bare(tree: dict[str, Any], prefix: str) -> list[str]:
        found: list[str] = []
        for name, option in tree.items():
            if not option.get("description") or not option.get("type"):
                found.append(prefix + name)
            found += bare(option.get("options") or {}, f"{prefix}{name}.")
        return found

    assert bare(options(role), "") == [], f"{role}: options without description or type"


@pytest.mark.parametrize("role", sorted(EXPECTED - {SHARED}))
def test_shared_defaults_are_at_hand_when_a_role_runs_alone(role: str) -> None:
    meta = load(ROLES / role / "meta" / "main.yml") or {}
    named = [item if isinstance(item, str) else item.get("role") for item in meta.get("dependencies", [])]
    assert f"gb10.serving.{SHARED}" in named or SHARED in named
