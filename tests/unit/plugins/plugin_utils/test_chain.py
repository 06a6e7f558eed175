# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gb10.serving.plugins.plugin_utils import _chain

PAIR = {"a": ["10.0.0.1/24", "10.0.1.1/24"], "b": ["10.0.0.2/24", "10.0.1.2/24"]}
SWITCH = {host: [f"10.0.0.{last}/24", f"10.0.1.{last}/24"] for last, host in enumerate("abcd", start=1)}
#: a-b-c-d, two rails in each cable
LINE = {
    "a": ["10.1.0.1/30", "10.1.1.1/30"],
    "b": ["10.1.0.2/30", "10.1.1.2/30", "10.2.0.1/30", "10.2.1.1/30"],
    "c": ["10.2.0.2/30", "10.2.1.2/30", "10.3.0.1/30", "10.3.1.1/30"],
    "d": ["10.3.0.2/30", "10.3.1.2/30"],
}
RING = {**LINE, "a": [*LINE["a"], "10.4.0.1/30"], "d": [*LINE["d"], "10.4.0.2/30"]}


@pytest.mark.parametrize(
    ("cabling", "holders", "receivers", "order"),
    [
        (PAIR, "a", "b", "b"),
        (PAIR, "b", "a", "a"),
        (SWITCH, "a", "bcd", "bcd"),
        (SWITCH, "c", "abd", "abd"),
        (SWITCH, "ac", "bd", "bd"),
        (LINE, "a", "bcd", "bcd"),
        (LINE, "a", "dcb", "bcd"),
        (LINE, "d", "abc", "cba"),
        (LINE, "b", "acd", "acd"),
        (LINE, "ac", "bd", "bd"),
        (RING, "a", "bcd", "bcd"),
        (RING, "b", "acd", "adc"),
    ],
)
def test_every_receiver_has_its_place(cabling: dict[str, list[str]], holders: str, receivers: str, order: str) -> None:
    answer, problems = _chain.plan(cabling, list(holders), list(receivers), "model")
    assert (problems, answer["receivers"]) == ([], list(order))
    placed = list(holders)
    for host in order:
        names = [source["host"] for source in answer["plan"][host]["sources"]]
        # nobody waits for a node further down, and at least one of those before it can be reached
        assert names and set(names) <= set(placed) and len(names) == len(set(names))
        assert all(source["addresses"] for source in answer["plan"][host]["sources"])
        placed.append(host)


def test_a_switch_makes_one_row() -> None:
    answer, _problems = _chain.plan(SWITCH, ["a"], ["b", "c", "d"], "model")
    sources = {host: [item["host"] for item in part["sources"]] for host, part in answer["plan"].items()}
    assert sources == {"a": [], "b": ["a"], "c": ["b", "a"], "d": ["c", "b", "a"]}
    assert answer["plan"]["c"] == {
        "addresses": ["10.0.0.3", "10.0.1.3"],
        "allowed": ["10.0.0.4", "10.0.1.4"],
        "following": True,
        "sources": [
            {"host": "b", "addresses": ["10.0.0.2", "10.0.1.2"]},
            {"host": "a", "addresses": ["10.0.0.1", "10.0.1.1"]},
        ],
    }
    assert answer["plan"]["a"]["following"] is False
    assert answer["plan"]["a"]["allowed"] == [f"10.0.{rail}.{last}" for last in (2, 3, 4) for rail in (0, 1)]
    # the last one hands nothing on, so that it opens nothing
    assert (answer["plan"]["d"]["addresses"], answer["plan"]["d"]["allowed"]) == ([], [])


def test_neighbours_only_use_the_link_between_them() -> None:
    parts = _chain.plan(LINE, ["a"], ["b", "c", "d"], "model")[0]["plan"]
    assert parts["c"]["sources"] == [{"host": "b", "addresses": ["10.2.0.1", "10.2.1.1"]}]
    assert (parts["b"]["addresses"], parts["b"]["allowed"]) == (
        ["10.2.0.1", "10.2.1.1"],
        ["10.2.0.2", "10.2.1.2"],
    )
    assert parts["a"]["allowed"] == ["10.1.0.2", "10.1.1.2"]


def test_a_neighbour_on_more_links_comes_first() -> None:
    cabling = {"a": ["10.0.0.1/24", "10.0.1.1/24"], "b": ["10.0.0.2/24"], "c": ["10.0.0.3/24", "10.0.1.3/24"]}
    assert _chain.plan(cabling, ["a"], ["b", "c"], "image")[0]["receivers"] == ["c", "b"]


def test_a_node_without_a_way_is_named_with_what_to_do() -> None:
    cabling = {**SWITCH, "d": ["192.0.2.9/24"]}
    answer, problems = _chain.plan(cabling, ["a"], ["b", "c", "d"], "model")
    assert answer["receivers"] == ["b", "c"] and "d" not in answer["plan"]
    assert [problem.where for problem in problems] == ["d"]
    said = str(problems[0])
    assert "192.0.2.9/24" in said and "10.0.0.1/24" in said and "Next step: give the cabled ports of d" in said


def test_nothing_to_do() -> None:
    assert _chain.plan(PAIR, ["a", "b"], [], "model") == ({"receivers": [], "plan": {}}, [])


def test_offers_fill_in_port_and_token() -> None:
    parts = _chain.plan(SWITCH, ["a"], ["b", "c"], "model")[0]["plan"]
    opened: dict[str, dict[str, Any]] = {
        "a": {"addresses": ["10.0.0.1"], "port": 7, "token": "x"},  # rail 1 of a has lost its address
        "b": {"skipped": True},
    }
    here = [{"host": "a", "addresses": ["10.0.0.1"], "port": 7, "token": "x"}]
    assert _chain.offers(parts, opened) == {"a": [], "b": here, "c": here}
    assert _chain.offers(parts, {}) == {"a": [], "b": [], "c": []}


@pytest.mark.parametrize(
    ("target", "rate"),
    [("b", 3_000_000_000), ("c", None), ("d", None)],
)
def test_measured_takes_all_rails_together(target: str, rate: int | None) -> None:
    entries: list[dict[str, Any]] = [
        {"source": "a", "target": "b", "rails": [0], "bits_per_second": 13e9},
        {"source": "a", "target": "b", "rails": [0, 1], "bits_per_second": 24e9},
        {"source": "b", "target": "a", "rails": [0, 1], "bits_per_second": 99e9},
        {"source": "a", "target": "c", "rails": [0, 1], "bits_per_second": None},
    ]
    assert _chain.measured(entries, "a", target) == rate
