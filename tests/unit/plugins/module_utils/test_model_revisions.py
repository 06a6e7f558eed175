# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""Models that look alike: same names, sizes and heads, other content."""

from __future__ import annotations

import json
import os
import pathlib
import time
import types
from collections.abc import Iterator
from typing import Any

import pytest

from ansible_collections.gb10.serving.plugins.module_utils import (
    _disk,
    _model,
    _model_copy,
    _model_fetch,
    _model_journal,
    _model_state,
    _model_sync,
)
from ansible_collections.gb10.serving.plugins.module_utils._job import JobError, Progress
from ansible_collections.gb10.serving.plugins.modules.model_info import on_disk
from ansible_collections.gb10.serving.plugins.plugin_utils import _checks
from ansible_collections.gb10.serving.tests.unit.plugins.module_utils.model_places import Place, make_model, tree

WEIGHTS = "m-1.safetensors"


def described(path: pathlib.Path) -> dict[str, Any]:
    model = _model.inspect(str(path))
    return {**model, **on_disk(model)}


def change(path: pathlib.Path, at: int = -7) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 4
    path.write_bytes(data)


def forget(path: pathlib.Path, *names: str) -> None:
    for name in names:
        (path / name).unlink(missing_ok=True)


class Revisions(Place):
    """A place whose manifest says what model_info says."""

    def know(self, source: pathlib.Path | None = None) -> None:
        model = described(source or self.source)
        self.manifest = {key: model[key] for key in ("digest", "files", "files_count")}
        self.wanted = self.destination("m")

    def run(self, sources: bool = True, check_mode: bool = False, **params: Any) -> dict[str, Any]:
        """state=present as the module does it."""
        given = {"path": str(self.path), "manifest": self.manifest, "sources": [self.node.spec] if sources else []}
        more = {"owner": None, "group": None, "verify": "none", "streams": 2, "idle_timeout": 30, "detach": False}
        module = types.SimpleNamespace(check_mode=check_mode, params={**more, **given, **params})
        result = _model_sync.present(module)
        if "error" in result:
            raise JobError(result["error"])
        return result


@pytest.fixture
def place(request: Any, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Revisions]:
    monkeypatch.setattr(_disk, "GIB", 0)
    monkeypatch.setattr(_disk, "head_room", lambda _size: 0)
    found = Revisions(tmp_path, getattr(request, "param", "cache"))
    found.know()
    yield found
    found.end()


def another_revision(place: Revisions) -> None:
    """The source gets other weights of the same shape; a new offer knows them."""
    files = tree(place.source)
    body = bytearray(files[WEIGHTS])
    body[-100:] = os.urandom(100)
    place.source = make_model(place.base / "second", {**files, WEIGHTS: bytes(body)}, "cache")
    place.node = place.serve(_model_copy.WholeModel(str(place.source), place.wanted.sizes))
    before = place.wanted.digest
    place.know()
    assert place.wanted.digest == before  # nothing but the content of the weights differs


def test_another_revision_of_the_same_shape_is_seen_and_only_what_differs_is_fetched(place: Revisions) -> None:
    place.fetch()
    assert place.run()["changed"] is False
    another_revision(place)
    models = {"a": described(place.source), "b": described(place.path)}
    assert _checks.lacking_model(models, "a") == ["b"]
    assert place.run(check_mode=True)["moved_bytes"] == place.wanted.sizes[WEIGHTS]
    result = place.run()
    assert (result["changed"], result["moved_bytes"]) == (True, place.wanted.sizes[WEIGHTS])
    assert tree(place.path) == tree(place.source)
    assert _checks.lacking_model({**models, "b": described(place.path)}, "a") == []
    assert place.run()["changed"] is False


@pytest.mark.parametrize("known", [True, False])
def test_a_full_verification_believes_the_source_before_its_own_notes(place: Revisions, known: bool) -> None:
    place.fetch()
    another_revision(place)
    if not known:
        place.manifest["files"] = [{"name": f["name"], "size": f["size"]} for f in place.manifest["files"]]
        assert place.run()["changed"] is False  # nothing says that they differ
    result = place.run(verify="full")
    assert known or result["damaged"] == [WEIGHTS]
    assert (result["moved_bytes"], tree(place.path)) == (place.wanted.sizes[WEIGHTS], tree(place.source))


def test_a_receiver_of_the_next_revision_does_not_hand_on_the_one_before(place: Revisions) -> None:
    place.fetch()
    assert _model_copy.FollowingModel(place.wanted).ready() == {"ready": "all"}
    another_revision(place)
    following = _model_copy.FollowingModel(place.wanted)
    assert following.ready()["ready"] == []
    place.fetch()
    assert following.ready() == {"ready": "all"}


def test_a_source_that_changed_after_it_was_looked_at_is_not_offered(place: Revisions) -> None:
    params = {"following": False, "path": str(place.source), "manifest": place.manifest}
    module = types.SimpleNamespace(check_mode=True, params=params)
    assert _model_sync.offered(module)["changed"] is True
    place.manifest["files"][0]["sha256"] = "0" * 64
    with pytest.raises(JobError, match=r"config\.json at .* holds something else than the manifest says"):
        _model_sync.offered(module)


def test_a_small_file_that_was_edited_is_seen_though_its_size_is_the_same(place: Revisions) -> None:
    place.fetch()
    change(place.path / "sub/notes.txt", 0)
    assert place.wanted.observe() == ("incomplete", ["sub/notes.txt"])
    assert _checks.lacking_model({"a": described(place.source), "b": described(place.path)}, "a") == ["b"]
    assert place.run()["moved_bytes"] == 5
    assert tree(place.path) == tree(place.source)


@pytest.mark.parametrize("damage", [False, True])
def test_a_folder_that_was_there_is_read_before_it_counts_as_verified(place: Revisions, damage: bool) -> None:
    make_model(place.path.parent, tree(place.source), "plain").rename(place.path)
    if damage:
        change(place.path / WEIGHTS)
        with pytest.raises(JobError, match=f"{WEIGHTS}: the content is not"):
            place.run(sources=False)
        assert place.run(sources=False, check_mode=True)["verified"] is False
    result = place.run(sources=damage)
    assert (result["changed"], result["verified"]) == (True, True)
    assert result["moved_bytes"] == (place.wanted.sizes[WEIGHTS] if damage else 0)
    assert tree(place.path) == tree(place.source)
    again = place.run(sources=False)
    assert (again["changed"], again["verified"]) == (False, True)
    assert all("sha256" in file for file in described(place.path)["files"])


@pytest.mark.parametrize("place", ["plain"], indirect=True)
def test_a_folder_of_which_nothing_is_known_does_not_claim_to_be_verified(place: Revisions) -> None:
    make_model(place.path.parent, tree(place.source), "plain").rename(place.path)
    forget(place.source, ".gb10-sha256.json")
    place.know()
    assert not place.wanted.provable()
    result = place.run(sources=False)
    assert (result["changed"], result["verified"]) == (True, False)
    assert json.loads((place.path / _model_state.MARKER).read_text())["verified"] is False
    again = place.run(sources=False)
    assert (again["changed"], again["verified"]) == (False, False)
    # A source that knows by now what they hold decides; nobody reads more than this folder.
    forget(place.path, _model_state.MARKER)
    change(place.path / WEIGHTS)
    while len(place.node.handler.sums.known()) < len(place.wanted.sizes):
        time.sleep(0.01)
    assert place.run()["damaged"] == [WEIGHTS]
    place.wanted.mark(str(place.path), verified=False)
    # Reading it all, with a source that says what the files should be, makes it one.
    assert place.run(verify="full")["verified"] is True
    assert place.run(sources=False)["verified"] is True


def test_files_that_are_kept_are_compared_with_what_the_source_knows(place: Revisions) -> None:
    """A download that made its files in full size before it filled them, and lacks another one."""
    make_model(place.path.parent, tree(place.source), "plain").rename(place.path)
    change(place.path / WEIGHTS)
    forget(place.path, "config.json")
    result = place.run()
    assert result["moved_bytes"] == place.wanted.sizes[WEIGHTS] + place.wanted.sizes["config.json"]
    assert (result["verified"], tree(place.path)) == (True, tree(place.source))


def test_what_came_of_the_revision_before_is_used_where_it_is_the_same(place: Revisions) -> None:
    """Interrupted with one file verified and another on its way; then a small file changes on the source."""
    staging = pathlib.Path(place.wanted.staging)
    (staging / ".gb10-parts").mkdir(parents=True)
    came = tree(place.source)
    for name in (WEIGHTS, "config.json"):
        (staging / name).write_bytes(came[name])
    (staging / ".gb10-parts" / "m-2.safetensors").write_bytes(came["m-2.safetensors"])
    (staging / _model_journal.NOTE).write_text(json.dumps({"digest": "sha256:before"}))
    sums = {**place.wanted.sums, "config.json": "0" * 64}
    lines = [[name, "in", sums[name]] for name in (WEIGHTS, "config.json")] + [[WEIGHTS, "ok"]]
    (staging / _model_journal.JOURNAL).write_text("".join(json.dumps(line) + "\n" for line in lines))
    place.node.asked.clear()
    result = place.fetch()
    assert result["resumed_bytes"] == place.wanted.sizes[WEIGHTS]
    assert result["moved_bytes"] == place.total - place.wanted.sizes[WEIGHTS]
    assert WEIGHTS not in {name for name, _offset, _length in place.node.gets()}
    assert tree(place.path) == tree(place.source)


def test_a_neighbour_that_is_a_receiver_does_not_overrule_what_is_noted_here(place: Revisions) -> None:
    place.fetch()
    other = Progress()
    place.wanted.sums.clear()
    neighbour = _model_copy.FollowingModel(place.wanted)
    neighbour.ready()
    neighbour.sums._known[WEIGHTS] = "0" * 64
    spec = place.serve(neighbour).spec
    assert _model_fetch.Fetch(place.wanted, [spec], other, lambda _path: None).verify([]) == []
