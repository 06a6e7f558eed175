# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gb10.serving.plugins.module_utils import _image_docker, _rank, _rank_failed
from ansible_collections.gb10.serving.plugins.module_utils._rank_releases import set_links
from ansible_collections.gb10.serving.plugins.modules import rank, rank_info

GIB = 1 << 30


def failure(key: str, **more: Any) -> dict[str, Any]:
    return {"key": key, "engine": "sglang", "cause": "unknown", "release": f"main-{key}", **more}


def test_failures_are_kept_and_forgotten(tmp_path: Path) -> None:
    place = str(tmp_path)
    assert _rank_failed.read(place) == []
    _rank_failed.remember(place, failure("a"))
    _rank_failed.remember(place, failure("b"))
    _rank_failed.remember(place, failure("a", cause="worker_died"))
    assert [(entry["key"], entry["cause"]) for entry in _rank_failed.read(place)] == [
        ("b", "unknown"),
        ("a", "worker_died"),
    ]
    assert _rank_failed.read(place)[0]["at"].endswith("UTC")
    _rank_failed.forget(place, "b")
    _rank_failed.forget(place, "c")
    assert [entry["key"] for entry in _rank_failed.read(place)] == ["a"]
    _rank_failed.forget(place, "a")
    assert list(tmp_path.iterdir()) == []


def test_only_the_latest_are_kept(tmp_path: Path) -> None:
    for number in range(_rank_failed.KEPT + 3):
        _rank_failed.remember(str(tmp_path), failure(str(number)))
    kept = _rank_failed.read(str(tmp_path))
    assert (kept[0]["key"], len(kept)) == ("3", _rank_failed.KEPT)


@pytest.mark.parametrize("text", ["", "{", "{}", "[1]", '[{"engine": "x"}]'])
def test_a_broken_file_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / _rank_failed.FILE).write_text(text)
    assert _rank_failed.read(str(tmp_path)) == []


@pytest.mark.parametrize(
    ("seen", "timeout", "back", "seconds"),
    [([100], 60, True, 0), ([50, 60, 98], 60, True, 1.0), ([50] * 9, 2, False, 2.0), ([50], 0, False, 0)],
)
def test_waiting_for_memory(seen: list[int], timeout: int, back: bool, seconds: float) -> None:
    now = [0.0]
    left = iter(seen)

    def sleep(step: float) -> None:
        now[0] += step

    found = _rank_failed.wait_for_memory(100 * GIB, timeout, lambda: next(left) * GIB, sleep, lambda: now[0])
    assert (found["back"], found["seconds"], found["wanted_bytes"]) == (back, seconds, 100 * GIB)


def test_available_memory_is_read(tmp_path: Path) -> None:
    (tmp_path / "meminfo").write_text("MemTotal:       100 kB\nMemAvailable:    7 kB\n")
    assert _rank_failed.available_bytes(str(tmp_path / "meminfo")) == 7 * 1024


@pytest.fixture
def deployment(tmp_path: Path) -> Path:
    for release in ("main-old", "main-a", "main-b", "main-c"):
        (tmp_path / "releases" / release).mkdir(parents=True)
    _rank.set_link(str(tmp_path), "previous", "main-old")
    _rank.set_link(str(tmp_path), "current", "main-a")
    return tmp_path


def rank_in(directory: Path) -> rank.Rank:
    one = rank.Rank.__new__(rank.Rank)
    one.directory = str(directory)
    one.current = _rank.linked_release(one.directory, "current")
    return one


def test_a_release_that_failed_is_nothing_to_return_to(deployment: Path) -> None:
    rank_in(deployment).remember(failure("a"))
    assert _rank.linked_release(str(deployment), "current") == "main-old"
    rank_in(deployment).remember(failure("b"))  # it was not the current one
    assert _rank.linked_release(str(deployment), "current") == "main-old"


def test_a_start_that_is_taken_back_leaves_the_links_as_they_were(deployment: Path) -> None:
    def links() -> tuple[str | None, ...]:
        return tuple(_rank.linked_release(str(deployment), link) for link in ("current", "previous"))

    there = deployment / "releases"
    set_links(str(deployment), "main-b", "main-a", None, ["main-old"])
    assert links() == ("main-b", "main-a") and (there / "main-old").is_dir() and not (there / "main-c").exists()
    set_links(str(deployment), "main-a", "main-b", "main-old", [])
    assert links() == ("main-a", "main-old")
    assert (there / "main-b").is_dir()  # for its log


@pytest.mark.parametrize("previous", ["", "main-gone", "main-a"])
def test_the_link_goes_where_there_was_none_before(deployment: Path, previous: str) -> None:
    set_links(str(deployment), "main-a", "main-a", previous, [])
    assert _rank.linked_release(str(deployment), "previous") is None


def test_its_log_stays_and_other_releases_go(deployment: Path) -> None:
    rank_in(deployment).remember(failure("b"))
    set_links(str(deployment), "main-a", "main-a", None, [])
    assert sorted(path.name for path in (deployment / "releases").iterdir()) == ["main-a", "main-b", "main-old"]


@pytest.mark.parametrize(
    ("content", "kept"), [("sha256:same", True), ("sha256:other", False), (None, True)]
)  # fmt: skip
def test_a_failure_ends_with_its_image(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str | None, kept: bool
) -> None:
    monkeypatch.setattr(_image_docker, "inspect", lambda _ref: {"content": content})
    _rank_failed.remember(str(tmp_path), failure("a", image={"ref": "x:1", "content": "sha256:same"}))
    assert bool(rank_info.failures(str(tmp_path))) is kept
