# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""Rates that machines have shown, and what the class of each has to be."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gb10.serving.plugins.plugin_utils import _fabric_class as fabric

G = 1_000_000_000
X4 = {"rate_gbps": 200, "pcie": {"speed": "32.0 GT/s PCIe", "width": "4"}}
RAIL = fabric.expected_bits(X4)


@pytest.mark.parametrize(
    ("hca", "expected"),
    [
        (X4, 98.3),
        # a PCIe link that came up slow is a fault and lowers nothing
        ({"rate_gbps": 200, "pcie": {"speed": "32.0 GT/s PCIe", "width": 2}}, 98.3),
        ({"rate_gbps": 200, "pcie": {"speed": "2.5 GT/s PCIe", "width": 4}}, 98.3),
        # another NIC with a wider link
        ({"rate_gbps": 200, "pcie": {"speed": "16.0 GT/s PCIe", "width": 16}}, 196.0),
        # nothing is known of the PCIe link: that of a GB10 is taken
        ({"rate_gbps": 200, "pcie": None}, 98.3),
        ({"rate_gbps": 100, "pcie": {"speed": "32.0 GT/s PCIe", "width": "4"}}, 98.0),
        ({"rate_gbps": 40, "pcie": {}}, 39.2),
        ({"rate_gbps": None, "pcie": {"speed": "32.0 GT/s PCIe", "width": "4"}}, 98.3),
        ({"rate_gbps": None, "pcie": None}, None),
        ({}, None),
        ({"rate_gbps": None, "pcie": {"speed": "Unknown", "width": "255"}}, None),
    ],
)
def test_expected(hca: dict[str, Any], expected: float | None) -> None:
    found = fabric.expected_bits(hca)
    assert (None if found is None else round(found / G, 1)) == expected


# Each line: what was measured in Gb/s over how many rails, and the class.
@pytest.mark.parametrize(
    ("gbps", "rails", "method", "code"),
    [
        *[(value, 1, "rdma", "good") for value in (92.57, 97.28, 98.04, 105, 108.91, 109, 111.61, 111.9, 80)],
        *[(value, 2, "rdma", "good") for value in (189.85, 196.08, 196.06, 196, 190)],
        *[(value, 1, "rdma", "degraded") for value in (8, 11, 12, 13.3, 15, 22.6, 25)],
        *[(value, 2, "rdma", "degraded") for value in (13.3, 22.6, 26)],
        (98.0, 2, "rdma", "half"),
        (112.0, 2, "rdma", "half"),
        (161, 2, "rdma", "below"),
        (49, 1, "rdma", "below"),
        (106, 1, "iperf3", "TCP only"),
        (57.2, 1, "sockets", "TCP only"),
        (160, 2, "iperf3", "TCP only"),
        (13.3, 1, "sockets", "degraded"),
        (None, 1, None, "unmeasured"),
        (0, 2, "rdma", "unmeasured"),
    ],
)
def test_classes_on_a_spark(gbps: float | None, rails: int, method: str | None, code: str) -> None:
    bits = None if gbps is None else round(gbps * G)
    rating = fabric.rate_one(bits, fabric.together([RAIL] * rails), rails, method)
    assert rating.code == code
    assert (rating.level == "good") == (code == "good")
    assert bool(rating.cause) != (code == "good")
    if bits:
        assert rating.ratio == pytest.approx(bits / G / rails / 98.28, abs=0.01)


@pytest.mark.parametrize(
    ("bits", "others", "reverse", "code"),
    [
        (15 * G, [16 * G], 14 * G, "unrated"),
        (4 * G, [15 * G], 4 * G, "unrated"),  # more than a quarter
        (1.5 * G, [15 * G], 1.5 * G, "uneven"),  # a tenth of the other rail
        (1.5 * G, [], 15 * G, "uneven"),  # a tenth of the other direction
        (15 * G, [None], None, "unrated"),
    ],
)
def test_without_an_expectation_rails_and_directions_are_compared(
    bits: int, others: list[int | None], reverse: int | None, code: str
) -> None:
    rating = fabric.rate_one(bits, None, 1, "sockets", False, others, reverse)
    assert (rating.code, rating.ratio) == (code, None)
    assert rating.level == ("error" if code == "uneven" else "note")


def test_one_slow_direction_is_the_iommu_of_the_sender() -> None:
    one_way = fabric.rate_one(14 * G, RAIL, reverse=98 * G)
    both_ways = fabric.rate_one(14 * G, RAIL, reverse=13 * G)
    assert "iommu.passthrough" in one_way.remedy
    assert "reboot BOTH" in both_ways.remedy


@pytest.mark.parametrize(
    ("error", "code", "level"),
    [
        ("", "unmeasured", "warning"),
        ("no time was left of the 10 s for this pair", "unmeasured", "warning"),
        ("10.7.1.2 port 4 from 10.7.1.1 on enp1s0f0np0: no answer", "no path", "error"),
    ],
)
def test_nothing_measured_is_never_good(error: str, code: str, level: str) -> None:
    rating = fabric.rate_one(None, RAIL, error=error)
    assert (rating.code, rating.level, rating.ratio) == (code, level, None)


def figure(source: str, target: str, rails: list[int], bits: float | None, **more: Any) -> dict[str, Any]:
    return {
        "source": source,
        "target": target,
        "rails": rails,
        "bits_per_second": None if bits is None else round(bits),
        "method": "rdma",
        "errors": {},
        **more,
    }


def full(**changed: float) -> list[dict[str, Any]]:
    """A healthy pair; changed names figures like a0 (from a over rail 0) or b01 in Gb/s."""
    rates = {"a0": 98.0, "b0": 98.0, "a1": 98.0, "b1": 98.0, "a01": 196.0, "b01": 196.0, **changed}
    return [
        figure(key[0], "ba"["ab".index(key[0])], [int(rail) for rail in key[1:]], rate * G)
        for key, rate in rates.items()
    ]


EXPECTED = {(host, rail): RAIL for host in "ab" for rail in (0, 1)}


def test_a_healthy_pair_has_nothing_to_say() -> None:
    entries = fabric.judge(full(), EXPECTED, True)
    assert {item["class"] for item in entries} == {"good"}
    assert fabric.findings(entries) == []


def test_a_degraded_rail_is_named_once_with_rate_expectation_and_remedy() -> None:
    found = fabric.findings(fabric.judge(full(a1=13.3, b1=13.1), EXPECTED, True))
    assert [(item.code, item.level, item.rail) for item in found] == [("degraded", "error", 1)]
    for words in ("a and b", "rail 1", "13.1 Gb/s and 13.3 Gb/s", "98.3 Gb/s", "reboot BOTH"):
        assert words in str(found[0])


def test_the_slower_end_sets_what_is_expected() -> None:
    slow = fabric.expected_bits({**X4, "rate_gbps": 40})
    entries = fabric.judge(full(a1=39.0, b1=39.0, a01=137, b01=137), {**EXPECTED, ("b", 1): slow}, True)
    assert [item["class"] for item in entries] == ["good"] * 6


def hca(rail: int, **more: Any) -> dict[str, Any]:
    """The device of a rail: rails 0 and 1 are one port's, 2 and 3 the other's; even ones are in PCI domain 0."""
    pci = f"{rail % 2 * 2:04x}:01:00.{rail // 2}"
    return {"rate_gbps": 200, "pci": pci, "chip": "c", "port": rail // 2, "pcie": X4["pcie"], **more}


def classes(rates: dict[tuple[int, ...], float], **more: Any) -> dict[tuple[int, ...], str]:
    """The classes of rates between two equal nodes, by their rails."""
    keys = [(host, rail) for host in "ab" for rail in {rail for rails in rates for rail in rails}]
    expected = {key: fabric.expected_bits(hca(key[1], **more)) for key in keys}
    places = {key: fabric.place(hca(key[1], **more)) for key in keys}
    ways = (("a", "b"), ("b", "a"))
    figures = [figure(one, two, list(rails), rate * G) for one, two in ways for rails, rate in rates.items()]
    entries = fabric.judge(figures, expected, True, (), places)
    found = {tuple(item["rails"]): item["class"] for item in entries}
    assert all(item["class"] == found[tuple(item["rails"])] for item in entries)
    return found


@pytest.mark.parametrize(
    ("rates", "more"),
    [
        ({(0,): 92.57, (1,): 97.28, (0, 1): 189.85}, {}),
        # both functions of a port share its 100 Gb/s
        ({(0,): 98, (1,): 98, (0, 1): 98}, {"rate_gbps": 100}),
        # a second cable adds nothing: two functions share each PCIe link
        ({(0,): 98, (1,): 98, (2,): 98, (3,): 98, (0, 1, 2, 3): 196}, {}),
        ({(0,): 98, (2,): 98, (0, 2): 98}, {}),
        ({(0,): 98, (1,): 98, (0, 1): 196}, {"pcie": None}),
        ({(0, 1): 196}, {"pci": None, "port": None}),
    ],
)
def test_what_rails_share_limits_them_together(rates: dict[tuple[int, ...], float], more: dict[str, Any]) -> None:
    assert set(classes(rates, **more).values()) == {"good"}


@pytest.mark.parametrize(
    ("rates", "more", "wanted"),
    [
        ({(0,): 98, (0, 1): 98}, {}, {(0,): "good", (0, 1): "half"}),
        ({(0, 1, 2, 3): 98}, {}, {(0, 1, 2, 3): "half"}),
        ({(0, 1): 49}, {"rate_gbps": 100}, {(0, 1): "half"}),
        ({(0,): 49, (0, 1): 147}, {"pcie": {"speed": "32.0 GT/s PCIe", "width": 2}}, {(0,): "below", (0, 1): "below"}),
    ],
)
def test_less_than_what_they_share_is_still_found(
    rates: dict[tuple[int, ...], float], more: dict[str, Any], wanted: dict[tuple[int, ...], str]
) -> None:
    assert classes(rates, **more) == wanted


@pytest.mark.parametrize(
    ("alone", "joint"),
    [
        ([98.304], 98.304),
        ([98.304] * 2, 196.608),
        ([98.304] * 4, 196.608),
        ([98] * 2, 98),
        ([98] * 4, 196),
        ([98, None], None),
    ],
)
def test_where_nobody_says_what_is_shared_rails_are_those_of_a_spark(
    alone: list[float | None], joint: float | None
) -> None:
    expected = {
        (host, rail): None if bits is None else round(bits * G) for host in "ab" for rail, bits in enumerate(alone)
    }
    (entry,) = fabric.judge([figure("a", "b", list(range(len(alone))), 98 * G)], expected, True)
    assert entry["expected_bits_per_second"] == (None if joint is None else round(joint * G))
    # where rails share nothing they carry together what they carry alone
    (entry,) = fabric.judge([figure("a", "b", list(range(len(alone))), 98 * G)], expected, True, (), {})
    assert joint is None or entry["expected_bits_per_second"] == round(sum(bits or 0 for bits in alone) * G)


def test_half_of_the_pair_is_found_though_each_rail_is_good() -> None:
    found = fabric.findings(fabric.judge(full(a01=98, b01=97), EXPECTED, True))
    assert [(item.code, item.rail) for item in found] == [("half", None)]
    assert "both HCAs" in str(found[0])


def test_rdma_that_failed_is_told_with_the_words_of_the_tool() -> None:
    errors = {"rdma": "ib_write_bw printed its header and no row"}
    figures = [figure("a", "b", [0], 90 * G, method="sockets", errors=errors)]
    (found,) = fabric.findings(fabric.judge(figures, EXPECTED, True))
    assert (found.code, found.level) == ("TCP only", "warning")
    assert errors["rdma"] in str(found)


def test_a_rate_that_fell_since_the_last_time_is_a_warning() -> None:
    before = [figure("a", "b", [0], 20 * G, method="sockets")]
    now = [figure("a", "b", [0], 9 * G, method="sockets")]
    (found,) = fabric.findings(fabric.judge(now, {}, False, before))
    assert (found.code, found.level) == ("changed", "warning")
    assert "9.0 Gb/s, before 20.0 Gb/s" in str(found)
    assert fabric.findings(fabric.judge(now, {}, False, now)) == []


def test_a_slow_link_that_only_tcp_has_measured_has_possible_causes_only() -> None:
    by_tcp = fabric.rate_one(13 * G, RAIL, method="sockets", reverse=13 * G)
    assert (by_tcp.code, by_tcp.level) == ("degraded", "error")
    assert "Possible: other load" in by_tcp.cause and by_tcp.remedy.startswith("install perftest on both nodes")
    by_rdma = fabric.rate_one(13 * G, RAIL, method="rdma", reverse=13 * G)
    assert "Possible" not in by_rdma.cause and "perftest" not in by_rdma.remedy


def test_what_was_not_measured_is_said_once_and_sentences_end() -> None:
    errors = {"sockets": "no time was left of the 10 s for this pair"}
    entries = fabric.judge(
        [figure(way[0], way[1], [0], None, method=None, errors=errors) for way in ("ab", "ba")], {}, True
    )
    (found,) = fabric.findings(entries)
    assert "rail 0, both ways: unmeasured. Cause: no time was left of the 10 s for this pair. Expected: " in str(found)
    assert fabric.worded("unmeasured / unmeasured", "unmeasured") == "unmeasured"
    assert fabric.worded("1.0 Gb/s / unmeasured", "unmeasured") == "1.0 Gb/s / unmeasured, unmeasured"
    assert fabric.worded("unmeasured", "no path") == "unmeasured, no path"
