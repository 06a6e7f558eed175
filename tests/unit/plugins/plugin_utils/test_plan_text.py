# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.gb10.serving.plugins.plugin_utils import _plan_text
from ansible_collections.gb10.serving.plugins.plugin_utils._plan_document import PARTS
from ansible_collections.gb10.serving.tests.unit.plugins.plugin_utils.plan_examples import (
    GIB,
    plan,
    rank,
    refused,
    shown,
)

LETTERS = {key: letter for key, letter, _words, _colour in PARTS}


def text(found: dict[str, Any] | None = None, options: int = 0, brief: bool = False) -> str:
    return "\n".join(_plan_text.lines(shown(found, options), brief=brief))


def test_a_bar_is_to_scale() -> None:
    # 120 GiB in 60 columns: two GiB a column; a part that is there is seen, at the cost of the largest.
    (first, _second) = shown()["ranks"]
    assert _plan_text.bar(first) == "W" * 29 + "S" + "K" * 17 + "A" + "G" + "N" * 2 + "R" * 4 + "x" * 5


@given(st.lists(st.integers(min_value=0, max_value=200 * GIB), min_size=len(PARTS), max_size=len(PARTS)))
def test_every_bar_is_sixty_columns_and_shows_every_part(sizes: list[int]) -> None:
    parts = dict(zip(LETTERS, sizes, strict=True))
    drawn = _plan_text.bar(parts)
    assert len(drawn) == 60
    assert set(drawn) == ({letter for key, letter in LETTERS.items() if parts[key]} or {" "})


@given(st.lists(st.integers(min_value=4 * GIB, max_value=200 * GIB), min_size=len(PARTS), max_size=len(PARTS)))
def test_no_part_is_more_than_a_column_off(sizes: list[int]) -> None:
    parts = dict(zip(LETTERS, sizes, strict=True))
    drawn, whole = _plan_text.bar(parts), sum(sizes)
    for key, letter in LETTERS.items():
        assert abs(drawn.count(letter) - 60 * parts[key] / whole) < 2


def test_a_plan_that_fits() -> None:
    found = text(options=2)
    assert found.isascii()
    assert found.count("[" + "W" * 29) == 2  # a bar for each rank
    assert "rank 1, spark-b" in found
    assert "W  weights" in found and "    60.00 GiB" in found
    assert "It fits: 60.0 GiB of weights on each of 2 ranks leave 36.0 GiB for the cache" in found
    assert "2,359,296 tokens" in " ".join(found.split())
    assert "--kv-cache-memory-bytes 38654705664 and --gpu-memory-utilization 0.850" in " ".join(found.split())
    assert "  variant 1  fits" in found
    assert "GPU KV cache size: 2,359,296 tokens" in found
    assert max(map(len, found.splitlines())) <= 130


def test_a_plan_that_does_not_fit() -> None:
    found = text(refused())
    assert "34.0 GiB too much" in found
    assert "It does not fit. One request needs more." in found
    assert found.index("1. Set the context length to 4096.") < found.index("2. Use 4 nodes.")
    assert "engine's log" not in found


def test_a_share_that_takes_of_the_reserve_is_not_too_much() -> None:
    tight = rank(kv=38, short=4)
    found = text(plan(verdict="borderline", ranks=[tight], reasons=["It leaves little."]))
    assert "4.0 GiB of the reserve missing" in found and "too much" not in found
    assert "4.0 GiB stay with the system" in " ".join(found.split())
    assert "R reserve for the system 4.00 GiB" in " ".join(found.split())


def test_notes_layouts_and_the_peak_of_loading() -> None:
    candidates = [
        {"tp": 2, "pp": 1, "ep": 1, "verdict": "fits", "reason": "taken"},
        {"tp": 1, "pp": 2, "ep": 1, "verdict": "fits", "reason": "it is slower."},
    ]
    peak = {"bytes": 70 * GIB, "uncertainty_bytes": 2 * GIB}
    found = text(plan(notes=["A note."], candidates=candidates, load_peak=peak))
    assert "A note." in found and "70.00 GiB   (not part of the sum, +- 2)" in found
    assert "  tensor parallel 1, pipeline parallel 2: fits; it is slower." in found


def test_levers_with_their_effect() -> None:
    change = {"change": "Set x to 1.", "effect_bytes": 3 * GIB, "verdict": "borderline", "settings": {}}
    assert "  1. Set x to 1.  [+3.0 GiB, then: borderline]" in text(refused(changes=[change]))
    assert "1. Set x to 1. (+3.0 GiB, then borderline)" in _plan_text.refusal(shown(refused(changes=[change])))


def test_ranks_that_differ_have_a_column_each() -> None:
    found = text(plan(ranks=[rank(0, kv=34), rank(1, kv=30, free=4)]))
    assert "KV cache                                      34.00    30.00 GiB" in found


def test_without_any_sum_there_are_no_bars() -> None:
    found = text(plan(verdict="refused", ranks=[], reasons=["Heads (32) must be divisible by 3."], remedies=["Set 2."]))
    assert "[" not in found.split("\n\n")[0]
    assert "Heads (32) must be divisible by 3." in found and "1. Set 2." in found


def test_a_deploy_shows_bars_and_sentence_only() -> None:
    assert "GPU KV cache size" not in text(brief=True) and "It fits" in text(brief=True)


@pytest.mark.parametrize(("count", "words"), [(1, "1 node with"), (2, "2 nodes with")])
def test_refusal(count: int, words: str) -> None:
    document = {**shown(refused()), "nodes": {"count": count}}
    message = _plan_text.refusal(document)
    assert words in message and "nothing has been changed" in message
    assert message.index("One request needs more.") < message.index("1. Set the context length")


@pytest.mark.parametrize(
    ("size", "words"), [(0, "0.0 GiB"), (3 << 20, "3.0 MiB"), (GIB, "1.0 GiB"), (-GIB, "-1.0 GiB")]
)
def test_sizes(size: int, words: str) -> None:
    assert _plan_text.gib(size) == words


def test_sglang_has_its_own_knob() -> None:
    assert "Start SGLang with --mem-fraction-static 0.875" in _plan_text.sentence(
        {**shown(), "engine": {"name": "sglang"}}
    )
