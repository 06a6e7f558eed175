# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
from __future__ import annotations

import random

import pytest

from ansible_collections.gb10.serving.plugins.module_utils._model_ranges import (
    FILE_RATE,
    LONGEST,
    MIB,
    PIECES,
    SHORTEST,
    File,
    Ranges,
    Span,
    gaps,
    merge,
    order,
)


@pytest.mark.parametrize(
    ("spans", "merged", "missing"),
    [
        ([], [], [(0, 10)]),
        ([(0, 10)], [(0, 10)], []),
        ([(4, 6), (0, 2)], [(0, 2), (4, 6)], [(2, 4), (6, 10)]),
        ([(0, 4), (4, 6), (5, 7), (3, 3)], [(0, 7)], [(7, 10)]),
    ],
)
def test_spans(spans: list[Span], merged: list[Span], missing: list[Span]) -> None:
    assert (merge(spans), gaps(spans, 10)) == (merged, missing)


def test_order() -> None:
    assert order({"b": 5, "a": 5, "large": 9, "none": 0}) == ["large", "a", "b", "none"]


@pytest.mark.parametrize("streams", [1, 4])
def test_everything_is_fetched_once_whatever_fails(streams: int) -> None:
    chance = random.Random(streams)
    sizes = {"a": 700 * MIB + 1, "b": 90 * MIB, "c": 0, "d": 3}
    ranges = Ranges([File(name, size) for name, size in sizes.items()], streams)
    got: dict[str, list[Span]] = {name: [] for name in sizes}
    while task := ranges.take(lambda _file: True, 0):
        file, start, end = task
        assert end - start <= LONGEST + SHORTEST
        came = end if chance.random() < 0.7 else start + (end - start) // 3
        got[file.name].append((start, came))
        ranges.give_back(file, start, came, end)
    for name, size in sizes.items():
        assert sum(end - start for start, end in got[name]) == size and gaps(got[name], size) == []
        assert ranges.files[name].hashable() == size


@pytest.mark.parametrize(("rate", "files"), [(0, 1), (FILE_RATE * 2.5, 3), (FILE_RATE * 99, 4)])
def test_few_files_at_a_time_and_more_on_a_fast_link(rate: float, files: int) -> None:
    ranges = Ranges([File(str(number), 10 * LONGEST) for number in range(20)], 4)
    taken = [ranges.take(lambda _file: True, rate) for _number in range(8)]
    assert len({task[0].name for task in taken if task}) == files


def test_ranges_get_short_towards_the_end() -> None:
    ranges = Ranges([File("a", 2000 * MIB)], 4)
    lengths = []
    while task := ranges.take(lambda _file: True, 0):
        lengths.append(task[2] - task[1])
    assert lengths[0] == LONGEST and lengths == sorted(lengths[:-1], reverse=True) + lengths[-1:]
    assert max(lengths[-4:]) <= 2 * SHORTEST


def test_a_file_is_hashed_in_order_and_by_one_at_a_time() -> None:
    ranges = Ranges([File("a", 300 * MIB), File("b", 0)], 2)
    first = ranges.take(lambda file: file.name == "a", 0)
    second = ranges.take(lambda file: file.name == "a", 0)
    assert first and second
    ranges.give_back(*second[:1], second[1], second[2], second[2])
    empty = ranges.next_hash()
    assert empty and empty[0].name == "b"
    assert ranges.next_hash() is None  # the beginning of a is not there
    ranges.give_back(*first[:1], first[1], first[2], first[2])
    job = ranges.next_hash()
    assert job and (job[1], job[2]) == (0, second[2])
    assert ranges.next_hash() is None


def test_all_streams_share_one_file_where_the_link_is_the_limit() -> None:
    """So the first file is whole, and handed on, as early as it can be: also one that a single range would hold."""
    ranges = Ranges([File(f"f{number}", 40 * MIB) for number in range(6)], streams=4)
    taken = [ranges.take(lambda _file: True, rate=100e6) for _stream in range(4)]
    assert [(task[0].name, task[2] - task[1]) for task in taken if task] == [("f0", 40 * MIB // (4 * PIECES))] * 4
