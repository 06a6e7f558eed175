# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""The table of options, what is said under it, and how many requests run."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gb10.serving.plugins.plugin_utils import _plan_text
from ansible_collections.gb10.serving.tests.unit.plugins.plugin_utils.plan_examples import plan, rank, refused, shown


def text(found: dict[str, Any] | None = None, options: int = 0) -> str:
    return "\n".join(_plan_text.lines(shown(found, options)))


@pytest.mark.parametrize(
    ("room", "run", "ranks", "words"),
    [
        (
            80.96,
            16,
            1,
            "room for 80.96 requests of 8 tokens (2.00 GiB each), of which --max-num-seqs lets 16 run at once.",
        ),
        (11.92, 11.92, 2, "11.92 requests of 8 tokens at once (2.00 GiB each on every rank)."),
        (1.0, 1.0, 1, ": 1 request of 8 tokens at once (2.00 GiB each)."),
    ],
)
def test_how_many_requests_run(room: float, run: float, ranks: int, words: str) -> None:
    found = plan(context_length=8, max_concurrency_estimate=room, max_num_seqs=int(run) or 1, ranks=[rank()] * ranks)
    document = shown({**found, "kv": {"requests_at_once": run}}, options=2)
    assert words in _plan_text.sentence(document)
    row = next(line for line in "\n".join(_plan_text.lines(document)).splitlines() if "variant 1" in line).split()
    assert row[-3:-1] == [f"{room:.2f}", "16" if run == 16 else f"{run:.2f}"]


def test_levers_say_how_many_run() -> None:
    lever = {"change": "Set x.", "cache_bytes": 0, "max_concurrency": 93.33, "requests_at_once": 93.0, "settings": {}}
    found = " ".join(text(plan(levers=[lever], kv={"requests_at_once": 16})).split())
    assert "(now 16 requests at once)" in found
    assert "Set x. [+0.0 GiB of cache, 93 at once, room for 93.33]" in found


def test_the_table_says_which_type_auto_is() -> None:
    assert "auto: fp8" in text(plan(kv={"dtype": "fp8"}), options=2)


def test_a_refused_option_says_why_once() -> None:
    document = shown(options=2)
    document["options"][1].update(verdict="refused", reasons=["Its heads do not divide."])
    document["options"].append({**document["options"][1], "name": "variant 2"})
    found = "\n".join(_plan_text.lines(document))
    assert found.count("Its heads do not divide.") == 1
    assert "  variant 1, variant 2: Its heads do not divide." in found


def test_notes_of_options_stand_under_the_table_unless_they_were_said() -> None:
    document = shown(plan(notes=["Memory was not measured: x. At 5."]), options=3)
    assert [row["notes"] for row in document["options"]] == [["Memory was not measured: x. At 5."]] * 3
    document["options"][1]["notes"] = ["Memory was not measured: x. At 7."]
    document["options"][2]["notes"] = ["The name m-NVFP4 says NVFP4. Planned as 16-bit."]
    found = "\n".join(_plan_text.lines(document))
    assert "  variant 2: The name m-NVFP4 says NVFP4. Planned as 16-bit." in found
    assert found.count("Memory was not measured") == 1


@pytest.mark.parametrize(
    ("others", "words"),
    [
        (["refused", "fits"], "Of the options 'variant 1' fits."),
        (["refused", "fits", "fits", "borderline"], "'variant 1', 'variant 2' fit; 'variant 3' fits only just."),
        (["refused", "refused"], "None of the options fits."),
    ],
)
def test_where_the_first_option_does_not_fit_those_that_do_are_named(others: list[str], words: str) -> None:
    document = shown(refused(), options=len(others))
    for row, verdict in zip(document["options"], others, strict=True):
        row["verdict"] = verdict
    document["option"] = "variant 0"
    found = "\n".join(_plan_text.lines(document))
    assert words in " ".join(found.split()) and found.startswith("plan of option 'variant 0': ")
