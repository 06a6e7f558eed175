# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""Write docs/variables.md from the roles' argument specs, or check that it is current.

Usage: ``python tests/docs/variables.py --write | --check``
"""

from __future__ import annotations

import argparse
import difflib
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "variables.md"

Spec = dict[str, Any]


def argument_specs(roles: Path) -> Iterator[tuple[str, dict[str, Spec]]]:
    """The name and the entry points of each role, by name."""
    for path in sorted(roles.glob("*/meta/argument_specs.yml")):
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
        yield path.parents[1].name, document["argument_specs"]


def text_of(value: Any) -> str:
    """A description, which may be one paragraph or a list of them, as one line of Markdown."""
    paragraphs = value if isinstance(value, list) else [value or ""]
    line = " ".join(" ".join(str(paragraph).split()) for paragraph in paragraphs)
    # Ansible's markup, which Markdown shows as code.
    line = re.sub(r"\b(?:[OVE]|RV|C)\(((?:\\.|[^\\)])*)\)", r"`\1`", line)
    line = re.sub(r"\b[BI]\(([^)]*)\)", r"*\1*", line)
    line = re.sub(r"\bM\(([^)]*)\)", r"`\1`", line)
    line = re.sub(r"\bU\(([^)]*)\)", r"<\1>", line)
    line = re.sub(r"\bL\(([^,)]*),\s*([^)]*)\)", r"[\1](\2)", line)
    return line.replace("|", r"\|")


def type_of(option: Spec) -> str:
    name = str(option.get("type", "str"))
    if name == "list":
        name = f"list of {option.get('elements', 'str')}"
    if option.get("choices"):
        name += ": " + ", ".join(f"`{choice}`" for choice in option["choices"])
    return name


def default_of(option: Spec) -> str:
    if option.get("required"):
        return "**required**"
    if "default" not in option or option["default"] is None:
        return ""
    text = yaml.safe_dump(option["default"], default_flow_style=True, width=10_000).removesuffix("...\n").strip()
    return f"`{text}`".replace("|", r"\|")


def rows_of(options: dict[str, Spec], prefix: str = "") -> Iterator[str]:
    """A row for each option, followed by those of its parts."""
    for name, option in options.items():
        full = f"{prefix}{name}"
        yield f"| `{full}` | {type_of(option)} | {default_of(option)} | {text_of(option.get('description'))} |"
        dots = "[]." if option.get("type") == "list" else "."
        yield from rows_of(option.get("options") or {}, f"{full}{dots}")


def page(roles: Path) -> str:
    lines = [
        "# Variables of the roles",
        "",
        "<!-- Written from roles/*/meta/argument_specs.yml by `make docs`: do not edit. -->",
        "",
        "Any of these can stand in the inventory, in a recipe, or after `-e`. What has no default may be left out.",
    ]
    for role, entries in argument_specs(roles):
        for entry, spec in entries.items():
            title = role if entry == "main" else f"{role}, entry point `{entry}`"
            lines += ["", f"## {title}", "", text_of(spec.get("short_description"))]
            if spec.get("description"):
                lines += ["", text_of(spec["description"])]
            options = spec.get("options") or {}
            if options:
                lines += ["", "| variable | type | default | meaning |", "| --- | --- | --- | --- |", *rows_of(options)]
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    mode = parser.add_mutually_exclusive_group(required=True)
    mode.add_argument("--write", action="store_true", help="write docs/variables.md")
    mode.add_argument(
        "--check", action="store_true", help="fail when docs/variables.md is not what --write would write"
    )
    options = parser.parse_args()

    if next(argument_specs(ROOT / "roles"), None) is None:
        print("variables: no roles/*/meta/argument_specs.yml here; the page would be empty", file=sys.stderr)
        return 1
    wanted = page(ROOT / "roles")
    current = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
    if wanted == current:
        print(f"variables: {PAGE.relative_to(ROOT)} is current")
        return 0
    if options.write:
        PAGE.parent.mkdir(exist_ok=True)
        PAGE.write_text(wanted, encoding="utf-8")
        print(f"variables: wrote {PAGE.relative_to(ROOT)}")
        return 0
    sys.stdout.writelines(
        difflib.unified_diff(current.splitlines(True), wanted.splitlines(True), "docs/variables.md", "argument specs")
    )
    print("variables: docs/variables.md is not current. Next: make docs", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
