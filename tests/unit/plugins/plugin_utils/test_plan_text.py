# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors

from __future__ import annotations

import shlex
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.gb10.serving.plugins.plugin_utils import _plan_document, _plan_text
from ansible_collections.gb10.serving.plugins.plugin_utils._plan_document import PARTS
from ansible_collections.gb10.serving.tests.unit.plugins.plugin_utils.plan_examples import (
    ABOUT,
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
    assert _plan_text.drawn_bar(first) == "W" * 29 + "S" + "K" * 17 + "A" + "G" + "N" * 2 + "R" * 4 + "x" * 5


@given(st.lists(st.integers(min_value=0, max_value=200 * GIB), min_size=len(PARTS), max_size=len(PARTS)))
def test_every_bar_is_sixty_columns_and_shows_every_part(sizes: list[int]) -> None:
    parts = dict(zip(LETTERS, sizes, strict=True))
    drawn = _plan_text.drawn_bar(parts)
    assert len(drawn) == 60
    assert set(drawn) == ({letter for key, letter in LETTERS.items() if parts[key]} or {" "})


@given(st.lists(st.integers(min_value=4 * GIB, max_value=200 * GIB), min_size=len(PARTS), max_size=len(PARTS)))
def test_no_part_is_more_than_a_column_off(sizes: list[int]) -> None:
    parts = dict(zip(LETTERS, sizes, strict=True))
    drawn, whole = _plan_text.drawn_bar(parts), sum(sizes)
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
    assert (
        "which is 2,359,296 tokens: room for 18.00 requests of 131,072 tokens (2.00 GiB each on every rank), of "
        in (" ".join(found.split()))
    )
    assert "of which --max-num-seqs lets 16 run at once. 8.0 GiB stay" in " ".join(found.split())
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
    assert "R reserve for system and engine processes 4.00 GiB" in " ".join(found.split())


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
    assert "The plan cannot be made: Heads (32) must be divisible by 3." in found and "1. Set 2." in found
    assert "context" not in found and "tensor parallel" not in found
    assert _plan_text.headline(shown(plan(verdict="refused", ranks=[]))).startswith("The plan cannot be made;")


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


@pytest.mark.parametrize(
    ("engine", "flags"),
    [
        (
            "vllm",
            (
                "--tensor-parallel-size 2 --max-model-len 131072 --max-num-seqs 16 --max-num-batched-tokens 2048 "
                "--kv-cache-memory-bytes 38654705664 --gpu-memory-utilization 0.850 --enforce-eager"
            ),
        ),
        (
            "sglang",
            (
                "--tp-size 2 --context-length 131072 --max-running-requests 16 --chunked-prefill-size 2048 "
                "--mem-fraction-static 0.875 --enforce-eager"
            ),
        ),
    ],
)
def test_all_flags_that_a_plan_rests_on_are_those_of_the_engines_own_file(engine: str, flags: str) -> None:
    about = {**ABOUT, "engine": {"name": engine}, "args": ["--enforce-eager"]}
    document = _plan_document.document(plan(), about)
    assert document["flags"] == flags.split()
    printed = "\n".join(_plan_text.lines(document))
    assert flags in " ".join(printed.replace("\\\n", " ").split())
    assert _plan_document.document(refused(), about)["flags"] == []


def test_a_flag_stays_with_its_value() -> None:
    flags = ["--a", "1", "--config", '{"x": 1}', "--b"] * 4
    lines = list(_plan_text.command(flags))
    assert len(lines) > 1 and all(line.endswith(" \\") for line in lines[:-1])
    assert shlex.split(" ".join(line.removesuffix("\\") for line in lines)) == flags
    assert all("--config '{\"x\": 1}'" in line for line in lines if "--config" in line)


def test_what_is_taken_beyond_memory_is_no_negative_amount() -> None:
    tight = rank(kv=46, reserve=8, short=11)
    found = " ".join(text(plan(verdict="borderline", ranks=[tight], reasons=["It usually stops."])).split())
    assert "It fits only where more memory is free than usual" in found
    assert "That takes 113.0 GiB of free memory on a node, of which 110.0 GiB are assumed" in found
    assert "-3.0 GiB" not in found and "stay with the system" not in found


def test_a_small_gpu_is_not_told_that_a_gb10_freezes() -> None:
    small = {**rank(weights=20, kv=30), "total_bytes": 80 * GIB}
    found = " ".join(text(plan(ranks=[small])).split())
    assert "8.0 GiB stay in reserve" in found and "GB10" not in found
    assert "Nothing is kept in reserve" in " ".join(text(plan(ranks=[{**small, "reserve_bytes": 0}])).split())


def test_expert_parallel_is_said_wherever_the_layout_is() -> None:
    settings = {"tp": 2, "pp": 1, "ep": 2, "context_length": 8}
    found = text(plan(settings=settings), options=2)
    assert "tensor parallel 2, expert parallel, context 8" in found
    assert "--tensor-parallel-size 2 --enable-expert-parallel --max-model-len 8" in found
    assert [line.split()[2:6] for line in found.splitlines() if line.startswith("  option ")] == [
        ["tp", "pp", "ep", "context"]
    ]
    assert "  variant 1  fits      2   1   2 " in found
    sglang = _plan_document.document(plan(settings=settings), {"engine": {"name": "sglang"}})
    assert "--tp-size 2 --ep-size 2 --context-length 8" in "\n".join(_plan_text.lines(sglang))


@pytest.mark.parametrize(
    ("engine", "words"),
    [
        ({"name": "vllm", "version": "0.32.1"}, "(vLLM 0.32.1)"),
        ({"name": "vllm", "version": None}, "(vLLM, newest known: 0.33)"),
        ({"name": "sglang"}, "(SGLang, newest known: 0.5.23)"),
    ],
)
def test_the_version_that_was_planned_for_is_said(engine: dict[str, Any], words: str) -> None:
    used = _plan_document.engine_of(engine)
    assert next(_plan_text.lines({**shown(), "engine": used})).endswith(words)
    assert used["version_assumed"] == (not engine.get("version"))
    assert used["version"] == (engine.get("version") or _plan_document.NEWEST.get(engine["name"]))


def test_a_fixed_cache_leaves_nothing_by_itself() -> None:
    assert "and a cache fixed at 36.0 GiB, which is" in " ".join(text(plan(kv={"fixed": True})).split())


def test_equal_bars_of_many_ranks_are_one() -> None:
    ranks = [{**rank(), "rank": n, "host": f"spark-{n}"} for n in range(8)]
    found = text(plan(ranks=ranks))
    assert found.count("[WW") == 1 and "ranks 0-7, spark-0 to spark-7  [" in found
    ranks[3] = {**ranks[3], "kv_bytes": 30 * GIB, "free_bytes": 4 * GIB}
    found = text(plan(ranks=ranks))
    assert found.count("[WW") == 3 and "ranks 0-2, spark-0 to spark-2" in found and "rank 3, spark-3 " in found


def test_layouts_with_one_reason_are_said_together() -> None:
    def tried(tp: int, verdict: str, reason: str) -> dict[str, Any]:
        return {"tp": tp, "pp": 1, "ep": 1, "verdict": verdict, "reason": reason}

    parts = [tried(n, "refused", f"Heads (32) must be divisible by {n}.") for n in (7, 6, 5)]
    found = text(plan(candidates=[*parts, tried(4, "fits", "taken"), tried(2, "refused", "It is small.")]))
    assert found.count("Heads (32)") == 1
    said = " ".join(found.split())
    assert (
        "tensor parallel 7; tensor parallel 6; tensor parallel 5: refused; Heads (32) must be divisible by 7." in said
    )
    assert "The others alike, with their own figures. tensor parallel 4: fits; taken" in said


@pytest.mark.parametrize(("given", "words"), [(True, "(as given; what is free of it is a prior)"), (False, "(prior)")])
def test_memory_that_was_given_is_no_prior(given: bool, words: str) -> None:
    document = {**shown(), "nodes": {"count": 2, "memory_given": given}}
    assert f"120.00 GiB   {words}" in "\n".join(_plan_text.lines(document))


def test_a_deploy_that_is_refused_says_why_in_its_failure_alone() -> None:
    assert "One request needs more." not in text(refused(), brief=True)
    assert "One request needs more." in _plan_text.refusal(shown(refused()))
