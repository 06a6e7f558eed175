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
        ({"rate_gbps": 200, "pcie": {"speed": "32.0 GT/s PCIe", "width": 2}}, 49.2),
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
    x2 = fabric.expected_bits({"rate_gbps": 200, "pcie": {"speed": "32.0 GT/s PCIe", "width": "2"}})
    entries = fabric.judge(full(a1=49.0, b1=49.0, a01=147, b01=147), {**EXPECTED, ("b", 1): x2}, True)
    assert [item["class"] for item in entries] == ["good"] * 6


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
