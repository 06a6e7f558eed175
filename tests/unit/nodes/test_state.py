# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest
from rehearsal import _state
from rehearsal._engine import Engine
from rehearsal._settings import Places, make_nodes
from rehearsal._shell import Problem

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def hosts() -> ModuleType:
    spec = importlib.util.spec_from_file_location("rehearsal_hosts", ROOT / "inventories/rehearsal/hosts.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def where(tmp_path: Path) -> Places:
    place = Places(tmp_path / "my checkout")
    place.root.mkdir()
    place.state_dir.mkdir()
    return place


def saved(where: Places, count: int) -> None:
    engine = Engine("unix:///x.sock", True, "20.10")
    nodes = make_nodes(count)
    _state.save(where, _state.describe(engine, where, nodes, "image:tag"), "")


def test_known_hosts_line_has_no_comment() -> None:
    nodes = make_nodes(1)
    text = _state.known_hosts_text({"rehearsal-a": "ssh-ed25519 AAAA root@somewhere"}, nodes)
    assert text == "172.30.77.11,rehearsal-a ssh-ed25519 AAAA\n"


def test_state_comes_back_as_the_same_nodes(where: Places) -> None:
    saved(where, 3)
    assert _state.nodes_of(_state.load(where)) == make_nodes(3)


def test_unchanged_state_is_not_written_again(where: Places) -> None:
    saved(where, 2)
    before = where.state.stat().st_mtime_ns
    saved(where, 2)
    assert where.state.stat().st_mtime_ns == before


def test_broken_state_says_what_to_do(where: Places) -> None:
    where.state.write_text("{")
    with pytest.raises(Problem, match=r"is not JSON .* rehearse\.py up"):
        _state.load(where)


def test_remove_leaves_no_folder_but_keeps_foreign_files(where: Places) -> None:
    saved(where, 2)
    (where.state_dir / "notes").write_text("mine")
    _state.remove(where)
    assert [p.name for p in where.state_dir.iterdir()] == ["notes"]
    (where.state_dir / "notes").unlink()
    _state.remove(where)
    assert not where.state_dir.exists()


def test_lock_works_again_after_its_file_was_removed(where: Places) -> None:
    with _state.locked(where):
        _state.remove(where)
    with _state.locked(where):
        assert where.lock.exists()


def test_inventory_of_running_nodes(where: Places, hosts: ModuleType) -> None:
    saved(where, 2)
    made = hosts.inventory(hosts.read_state(where.state))
    assert made["sparks"]["hosts"] == ["rehearsal-a", "rehearsal-b"]
    assert made["_meta"]["hostvars"]["rehearsal-b"] == {"ansible_host": "172.30.77.12"}
    common = made["sparks"]["vars"]["ansible_ssh_common_args"]
    assert "StrictHostKeyChecking=yes" in common
    assert f"""UserKnownHostsFile='"{where.known_hosts}"'""" in common


@pytest.mark.parametrize("content", [None, "", "[]", "{"])
def test_inventory_without_nodes_is_empty(
    where: Places,
    hosts: ModuleType,
    content: str | None,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if content is not None:
        where.state.write_text(content)
    monkeypatch.setattr(hosts, "STATE", where.state)
    assert hosts.main() == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["sparks"] == {"hosts": []}
    assert "rehearse.py up" in err
