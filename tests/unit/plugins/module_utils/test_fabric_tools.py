# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""How the bandwidth tools are called, and what is made of their output."""

from __future__ import annotations

import json

import pytest

from ansible_collections.gb10.serving.plugins.module_utils import _fabric_tools as tools

HEAD = """
---------------------------------------------------------------------------------------
                    RDMA_Write BW Test
 Dual-port       : OFF          Device         : rocep1s0f0
 Number of qps   : 4            Transport type : IB
 Link type       : Ethernet
 GID index       : 3
---------------------------------------------------------------------------------------
 #bytes     #iterations    BW peak[{unit}]    BW average[{unit}]   MsgRate[Mpps]
"""
ROW = " 1048576    11688           0.00               {rate}              0.011687\n" + "-" * 87 + "\n"


def test_both_sides_name_device_and_gid() -> None:
    argv = tools.perftest("roceP2p1s0f0", 4, 18600, 1)
    assert argv[:5] == ["ib_write_bw", "-d", "roceP2p1s0f0", "-x", "4"]
    assert argv[argv.index("-p") + 1] == "18600"
    assert tools.perftest("roceP2p1s0f0", 4, 18600, 1, "10.7.0.2") == [*argv, "10.7.0.2"]


@pytest.mark.parametrize(
    ("unit", "rate", "bits"),
    [
        ("Gb/sec", "98.04", 98_040_000_000),
        ("Gb/sec", "13.31", 13_310_000_000),
        ("MB/sec", "11687.32", 98_040_346_051),
        ("MiB/sec", "11687.32", 98_040_346_051),
    ],
)
def test_rows(unit: str, rate: str, bits: int) -> None:
    assert tools.read_perftest(HEAD.format(unit=unit) + ROW.format(rate=rate)) == bits


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        (HEAD.format(unit="Gb/sec"), 0, "header and no row: the GID index"),
        (HEAD.format(unit="Gb/sec") + ROW.format(rate="0.00"), 0, "header and no row"),
        ("Couldn't connect to 10.7.0.2:18600\nUnable to open file descriptor for socket connection\n", 1, "Couldn't"),
        ("Failed to modify QP to RTR\n Unable to Connect the HCA's through the link\n", 1, "modify QP"),
        ("", 1, "printed nothing"),
    ],
)
def test_no_row_is_no_figure(text: str, code: int, words: str) -> None:
    with pytest.raises(tools.ToolError, match=words):
        tools.read_perftest(text, code)


def test_iperf3() -> None:
    told = {"end": {"sum_sent": {"bits_per_second": 1.9e10}, "sum_received": {"bits_per_second": 1.85e10}}}
    assert tools.read_iperf3(json.dumps(told)) == 18_500_000_000
    argv = tools.iperf3_client("10.7.0.1", "10.7.0.2", 5201, 1, 4, outward=False)
    assert argv[-1] == "-R"
    assert argv[argv.index("-B") + 1] == "10.7.0.1"


@pytest.mark.parametrize("text", ["", "null", "{}", '{"error": "unable to connect"}', '{"end": {"sum_received": {}}}'])
def test_iperf3_without_a_result(text: str) -> None:
    with pytest.raises(tools.ToolError, match="iperf3"):
        tools.read_iperf3(text)


@pytest.mark.parametrize(
    ("text", "version"),
    [("iperf 3.16 (cJSON 1.7.15)\nLinux", (3, 16)), ("iperf 3.9\n", (3, 9)), ("iperf version 2.1", None), ("", None)],
)
def test_iperf3_version(text: str, version: tuple[int, int] | None) -> None:
    assert tools.iperf3_version(text) == version
