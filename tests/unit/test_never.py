# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""What no code here may do on a node: it can hang the machine, break running ranks or leak a serial number.

A sentence for a person may name such a command; a program, a task and a template may not.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("plugins", "roles", "playbooks")
NEVER = {
    "PCI rescan": re.compile(r"\brescan\b"),
    "firmware tool": re.compile(
        r"\b(?:mst(?:flint|config|fwreset|dump|reg|mcra|fwmanager)|mlxfwreset|mlxconfig|flint)\b"
    ),
    "page cache": re.compile(r"drop_caches"),
    "netplan": re.compile(r"\bnetplan\b\W+(?:apply|try|generate|set)\b", re.IGNORECASE),
    "serial number": re.compile(
        r"(?:product|board|chassis)_(?:serial|uuid|asset_tag)|DGX_SERIAL|(?:system|baseboard|chassis)-(?:serial|uuid)"
        r"|\blshw\b|\bdmidecode\s+(?!-s\s+(?:system-(?:manufacturer|product-name|family|version)|bios-version)\b)\S"
        r"|\bnvidia-smi\b.*\b(?:serial|-q)\b|\bansible\.builtin\.(?:setup|gather_facts)\b"
    ),
}
# The one place that may apply netplan: off by default, refuses while ranks run, and takes itself back.
NETPLAN = frozenset(["plugins/modules/fabric_netplan.py", "plugins/module_utils/_netplan_apply.py"])
# Keys of YAML whose text is for people.
PROSE_KEYS = frozenset(["name", "msg", "fail_msg", "success_msg", "description", "short_description", "prompt"])
DOCUMENTS = frozenset(["DOCUMENTATION", "EXAMPLES", "RETURN"])
ACTING = frozenset(
    {
        "run",
        "run_command",
        "Popen",
        "call",
        "check_call",
        "check_output",
        "system",
        "popen",
        "execv",
        "execvp",
        "spawnv",
        "open",
        "write_text",
        "write_bytes",
        "command",
        "read",
        "value",
        "number",
        "Path",
        "get_bin_path",
    }
)


def is_prose(text: str) -> bool:
    """Sentences for a person: they are long enough to be some, and end like some."""
    return len(text.split()) >= 6 and bool(re.search(r"[\w'}]\.\)?$", text.strip()))


def uncommented(text: str) -> str:
    return "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))


def fold(node: ast.AST) -> str | None:
    """The text that an expression of constants stands for; names of variables stand for themselves."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(fold(part) or "" for part in node.values)
    if isinstance(node, ast.FormattedValue):
        return "{" + ast.unparse(node.value) + "}"
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Div, ast.Mod)):
        left, right = fold(node.left), fold(node.right)
        between = {ast.Add: "", ast.Div: "/", ast.Mod: " "}[type(node.op)]
        return None if left is None or right is None else left + between + right
    if isinstance(node, (ast.List, ast.Tuple)):
        return " ".join(fold(item) or "" for item in node.elts)
    if isinstance(node, ast.Starred):
        return fold(node.value)
    return ast.unparse(node) if isinstance(node, (ast.Name, ast.Attribute)) else None


def called(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def documents(tree: ast.Module) -> set[int]:
    """The constants that are documentation."""
    found = set()
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list) and body and isinstance(body[0], ast.Expr) and fold(body[0].value):
            found.add(id(body[0].value))
        if isinstance(node, ast.Assign) and {getattr(target, "id", "") for target in node.targets} & DOCUMENTS:
            found.add(id(node.value))
    return found


def python_texts(source: str) -> Iterator[str]:
    """Everything in a program that is not documentation and not a sentence for a person."""
    tree = ast.parse(source)
    skipped = documents(tree)
    acting = {
        id(part)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and called(node) in ACTING
        for argument in [*node.args, *(keyword.value for keyword in node.keywords)]
        for part in ast.walk(argument)
    }
    inner = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if id(node) in skipped or id(node) in inner:
            continue
        if isinstance(node, ast.Call):
            yield " ".join(fold(argument) or "" for argument in node.args if not is_prose(fold(argument) or ""))
        elif isinstance(node, (ast.Constant, ast.JoinedStr, ast.BinOp, ast.List, ast.Tuple)):
            text = fold(node)
            parts = node.elts if isinstance(node, (ast.List, ast.Tuple)) else []
            if text and (
                id(node) in acting or not (is_prose(text) or any(is_prose(fold(part) or "") for part in parts))
            ):
                yield uncommented(text)


class Loader(yaml.SafeLoader):
    """Takes any tag."""


Loader.add_multi_constructor("!", lambda loader, _suffix, node: loader.construct_scalar(node))


def yaml_texts(value: Any, key: str = "") -> Iterator[str]:
    """Everything in tasks, plays and variables that is not text for people."""
    if isinstance(value, dict):
        if "hosts" in value and value.get("gather_facts") is not False:
            yield "ansible.builtin.setup (a play that gathers facts)"
        for name, item in value.items():
            yield str(name)
            yield from yaml_texts(item, str(name))
    elif isinstance(value, list):
        if key not in PROSE_KEYS:
            yield " ".join(str(item) for item in value if not isinstance(item, (dict, list)))
        for item in value:
            yield from yaml_texts(item, key)
    elif isinstance(value, str) and key not in PROSE_KEYS:
        yield uncommented(value)


def texts(path: str, source: str) -> Iterator[str]:
    if path.endswith(".py"):
        yield from python_texts(source)
    elif path.endswith((".yml", ".yaml")):
        for document in yaml.load_all(source, Loader):
            yield from yaml_texts(document)
    else:
        yield uncommented(source)


def violations(path: str, source: str) -> list[str]:
    """What a file would do of that which must never be done."""
    found = {
        f"{path}: {what}: {match.group(0)}"
        for text in texts(path, source)
        for what, pattern in NEVER.items()
        for match in (pattern.search(text),)
        if match and not (what == "netplan" and path in NETPLAN)
    }
    return sorted(found)


def sources() -> list[Path]:
    skipped = {".pyc", ".md"}
    files = (path for folder in FOLDERS for path in (ROOT / folder).rglob("*"))
    return sorted(path for path in files if path.is_file() and path.suffix not in skipped)


def test_no_source_does_it() -> None:
    files = sources()
    assert len(files) > 100
    found = [line for path in files for line in violations(str(path.relative_to(ROOT)), path.read_text())]
    assert found == []


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("plugins/modules/x.py", "open('/sys/bus/pci/' + 'rescan', 'w').write('1')"),
        ("plugins/modules/x.py", "(Path('/sys/bus/pci') / 'rescan').write_text('1')"),
        ("plugins/modules/x.py", "name = 'x'\npath = f'/sys/bus/pci/devices/{name}/rescan'"),
        ("plugins/modules/x.py", "run(['mstflint', '-d', device, 'q'])"),
        ("plugins/modules/x.py", "TOOL = 'mstflint'"),
        ("plugins/modules/x.py", "run('Sync now and then echo 3 > /proc/sys/vm/drop_caches as root.')"),
        ("plugins/modules/x.py", "module.run_command(['sysctl', 'vm.drop_caches=3'])"),
        ("plugins/modules/x.py", "run([netplan, 'apply'])"),
        ("plugins/modules/x.py", "run('netplan', 'apply')"),
        ("plugins/module_utils/_x.py", "read('/sys/class/dmi/id/product_serial')"),
        ("plugins/module_utils/_x.py", "KEYS = {'DGX_SERIAL_NUMBER': 'serial'}"),
        ("plugins/module_utils/_x.py", "run(['dmidecode', '-t', 'system'])"),
        ("plugins/module_utils/_x.py", "run(['nvidia-smi', '--query-gpu=serial'])"),
        ("roles/x/tasks/main.yml", "- name: A\n  ansible.builtin.shell: echo 1 > /sys/bus/pci/rescan\n"),
        ("roles/x/tasks/main.yml", "- name: A\n  ansible.builtin.command:\n    argv: [netplan, apply]\n"),
        ("roles/x/tasks/main.yml", "- name: A\n  block:\n    - ansible.builtin.command: mstflint -d 01:00.0 q\n"),
        ("roles/x/tasks/main.yml", "- name: A\n  ansible.posix.sysctl:\n    name: x\n    key: vm.drop_caches\n"),
        ("roles/x/tasks/main.yml", "- name: A\n  ansible.builtin.setup:\n"),
        ("roles/x/tasks/main.yml", "- name: A\n  ansible.builtin.slurp:\n    src: /sys/class/dmi/id/board_serial\n"),
        ("playbooks/x.yml", "- name: A\n  hosts: sparks\n  roles: [gb10.serving.gb10_server]\n"),
        ("roles/x/templates/launch.sh.j2", "sync; echo 3 > /proc/sys/vm/drop_caches\n"),
    ],
)
def test_the_rule_notices_it(path: str, source: str) -> None:
    assert violations(path, source)


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("plugins/modules/x.py", '"""Never writes to /sys/bus/pci/rescan."""\n'),
        ("plugins/modules/x.py", "DOCUMENTATION = 'runs no mstflint'\n"),
        (
            "plugins/module_utils/_x.py",
            "REMEDY = 'Run sync; echo 3 | sudo tee /proc/sys/vm/drop_caches once before the start.'",
        ),
        ("plugins/module_utils/_x.py", "HEAD = '# To undo: netplan apply\\n'"),
        ("plugins/module_utils/_x.py", "TEXT = f'{host}: run netplan apply there when no rank runs.'"),
        ("plugins/modules/fabric_netplan.py", "run([netplan, 'apply'])"),
        ("roles/x/tasks/main.yml", "- name: Never use mstflint\n  ansible.builtin.debug:\n    msg: no rescan\n"),
        ("playbooks/x.yml", "- name: A\n  hosts: sparks\n  gather_facts: false\n"),
        ("roles/x/templates/launch.sh.j2", "# drop_caches is for people\n"),
    ],
)
def test_the_rule_lets_words_for_people_pass(path: str, source: str) -> None:
    assert violations(path, source) == []


def test_netplan_is_applied_only_when_asked_for() -> None:
    """Each task that uses the module is in check mode or behind the switch, which is off by default."""
    tasks: list[dict[str, Any]] = []

    def walk(value: Any) -> None:
        if isinstance(value, dict):
            if "gb10.serving.fabric_netplan" in value:
                tasks.append(value)
            for item in value.values():
                walk(item)
        elif isinstance(value, list):
            for item in value:
                walk(item)

    defaults: dict[str, Any] = {}
    for path in sources():
        if path.suffix == ".yml":
            document = yaml.load(path.read_text(), Loader)
            walk(document)
            if path.match("roles/*/defaults/main.yml"):
                defaults.update(document or {})
    assert tasks and defaults["gb10_fabric_configure"] is False
    for task in tasks:
        assert task.get("check_mode") is True or "gb10_fabric_configure | bool" in task["when"]
