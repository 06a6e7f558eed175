# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""Measurements of known machines: what their outputs say, and the class of the figures."""

from __future__ import annotations

import pytest

from ansible_collections.gb10.serving.plugins.module_utils._fabric_tools import read_perftest
from ansible_collections.gb10.serving.plugins.plugin_utils._fabric_class import expected_bits, rate_one, together

HCA = {"rate_gbps": 200, "pcie": {"speed": "32.0 GT/s PCIe", "width": 4}}
RAIL = expected_bits(HCA)
PAIR = together([RAIL, RAIL], 196_000_000_000)
HEAD = " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]\n"

OUTPUTS = {
    # the peak is not measured with --run_infinitely or -D, and is no speed
    "one row an interval, no closing line": (
        HEAD + " 65536  882805  0.00  92.57  0.176554\n 65536  882821  0.00  92.57  0.1\n",
        92.57,
    ),
    "the other device of that port": (
        HEAD + " 65536  927804  0.00  97.29  0.185557\n 65536  927807  0.00  97.28  0.18\n",
        97.28,
    ),
    "with a column for the CPU": (HEAD.rstrip() + " CPU_Util[%]\n 65536  882805  0.00  92.57  0.176554  4.92\n", 92.57),
    "with a peak": (HEAD + " 65536      20000            111.62             111.61             0.212877\n", 111.61),
    "large messages": (
        HEAD + " 1048576    70121            0.00               98.04  \t\t   0.011687\n------\n",
        98.04,
    ),
}
# Gb/s, rails. NCCL's figures are GB/s: 2.82 GB/s are 22.6 Gb/s.
CLASSES = [
    (92.57, 1, "good"),
    (97.28, 1, "good"),
    (111.61, 1, "good"),
    (108.94, 1, "good"),
    (13.49, 1, "degraded"),
    (92.57 + 97.28, 2, "good"),
    (98.04 * 2, 2, "good"),
    (22.46 * 8, 2, "good"),
    (24.20 * 8, 2, "good"),
    (22.98 * 8, 2, "good"),
    (2.82151 * 8, 2, "degraded"),
    (2.82776 * 8, 2, "degraded"),
    (13.5 * 8, 2, "half"),
]


@pytest.mark.parametrize("name", OUTPUTS)
def test_output(name: str) -> None:
    text, wanted = OUTPUTS[name]
    assert read_perftest(text) == round(wanted * 1e9)


@pytest.mark.parametrize(("figure", "rails", "wanted"), CLASSES)
def test_class(figure: float, rails: int, wanted: str) -> None:
    rating = rate_one(round(figure * 1e9), RAIL if rails == 1 else PAIR, rails)
    assert rating.code == wanted
    assert bool(rating.remedy) == (wanted != "good")


def test_a_degraded_pair_is_told_to_reboot() -> None:
    remedy = rate_one(22_600_000_000, PAIR, 2).remedy
    assert "reboot BOTH" in remedy
