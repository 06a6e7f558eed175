# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
from __future__ import annotations

from pathlib import Path

import pytest
from rehearsal._settings import Places, digest, find_node, make_nodes


def test_nodes_have_fixed_names_and_addresses() -> None:
    second = make_nodes(4)[1].describe()
    assert second["name"] == "rehearsal-b"
    assert second["management"] == "172.30.77.12"
    assert [(r["netdev"], r["address"], r["mtu"]) for r in second["rails"]] == [
        ("enp1s0f0np0", "192.168.200.12/24", 9000),
        ("enP2p1s0f0np0", "192.168.201.12/24", 9000),
    ]


def test_gid_index_differs_between_neighbours() -> None:
    assert [node.gid_index for node in make_nodes(4)] == [3, 4, 3, 4]


@pytest.mark.parametrize("count", [0, 9, -1])
def test_impossible_number_of_nodes_is_refused(count: int) -> None:
    with pytest.raises(ValueError, match="1 to 8 are possible"):
        make_nodes(count)


@pytest.mark.parametrize("wanted", ["rehearsal-b", "gb10-rehearsal-b", "b", "1"])
def test_a_node_is_found_by_name_letter_or_number(wanted: str) -> None:
    assert find_node(make_nodes(2), wanted).index == 1


def test_unknown_node_names_the_running_ones() -> None:
    with pytest.raises(ValueError, match="rehearsal-a, rehearsal-b"):
        find_node(make_nodes(2), "c")


def test_digest_does_not_depend_on_key_order() -> None:
    assert digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1})
    assert digest({"a": 1}) != digest({"a": 2})


def test_socket_path_is_short_even_for_a_deep_checkout() -> None:
    deep = Places(Path("/home/somebody") / ("x" * 200))
    assert len(str(deep.socket)) < 60
    assert deep.socket != Places(Path("/elsewhere")).socket
