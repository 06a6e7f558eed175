# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""Whatever a tree holds, the probe does not raise, and it says nothing that the tree does not hold."""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ansible_collections.gb10.serving.plugins.module_utils._facts import QUIET, gather
from ansible_collections.gb10.serving.plugins.module_utils._facts_fabric import PORT_ORDER
from ansible_collections.gb10.serving.plugins.module_utils._facts_memory import VERDICTS
from ansible_collections.gb10.serving.tests.unit.plugins.module_utils.machine_trees import cases, function_files

SUBSETS = ["platform", "memory", "gpu", "fabric"]
NODES = [
    {**{k: v for item in node.get("functions", []) for k, v in function_files(**item).items()}, **node.get("files", {})}
    for node in cases().values()
]
KIB, MIB, GIB, TIB = 1024, 1024**2, 1024**3, 1024**4

# What the probe says itself: judgements and explanations.
WORDS = frozenset(
    {
        "verdict",
        "findings",
        "remedy",
        "note",
        "notes",
        "reason",
        "gid_reason",
        "evidence",
        "source",
        "formula",
        "netdev_by",
        "port_by",
        "rdma_mtu_by",
        "ipv4_by",
        "pressure",
        "python",
        "python_executable",
        "file",
        "mode",
        "state",
        "phys_state",
        "live",
    }
)
# Figures that are worked out of several others; test_sums looks at them.
SUMS = frozenset(
    {
        "driver_held_bytes",
        "driver_pools_bytes",
        "cuda_upper_bound_bytes",
        "vendor_estimate_bytes",
        "gpu_used_bytes",
        "swap_used_bytes",
        "swap_free_bytes",
        "hugepages_bytes",
        "hugepages_free_bytes",
        "count",
        "cpus",
        "gid_entries",
        "cables",
        "generation",
        "gbps",
        "port",
        "rdma_mtu",
        "plugged_ports",
    }
)
# A function's address may be read from a name, and an address or a GUID from its hexadecimal form.
FROM_HEX = frozenset(
    {
        "pci",
        "address",
        "chip",
        "chip_guid",
        "gid_ipv4",
    }
)
STATES = {"ACTIVE": r"active|\(up\)", "DOWN": r"down", None: ""}


@st.composite
def damaged(draw: st.DrawFn, text: str) -> bytes:
    """A text as it may arrive: whole, cut off, in disorder, in another encoding, or with other bytes in it."""
    way = draw(st.integers(0, 7))
    data = text.encode()
    if way == 1:
        return data[: draw(st.integers(0, len(data)))]
    if way == 2:
        lines = text.splitlines()
        return "\n".join(draw(st.permutations(lines)) if len(lines) < 40 else lines[::-1]).encode()
    if way == 3:
        at = draw(st.integers(0, len(data)))
        return data[:at] + draw(st.binary(max_size=8)) + data[at:]
    if way == 4:
        return text.encode("utf-16" if draw(st.booleans()) else "latin-1")
    if way == 5:
        other = draw(st.sampled_from(["9" * 30, "-1", "", "x", "0", "[N/A]"]))
        return re.sub(r"\d+", other, text, count=draw(st.integers(1, 3))).encode()
    if way == 6:
        return text.replace("\n", "\r\n").encode()
    return data


@st.composite
def trees(draw: st.DrawFn) -> dict[str, bytes]:
    """Files of one to three machines mixed, each of them damaged or not."""
    mixed: dict[str, str] = {}
    for node in draw(st.lists(st.sampled_from(NODES), min_size=1, max_size=3)):
        mixed.update(node)
    kept = {name: text for name, text in mixed.items() if draw(st.integers(0, 9))}
    if draw(st.booleans()):
        return {name: text.encode() for name, text in kept.items()}
    return {name: draw(damaged(text)) for name, text in kept.items()}


def read(files: dict[str, bytes]) -> dict[str, Any]:
    memory = "/dev/shm"  # a disk makes hundreds of small trees slow
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as folder:
        for name, data in files.items():
            path = Path(folder) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        facts = gather(SUBSETS, folder, [])
    for live in ("listening_tcp_ports", "listeners"):  # of the machine that runs this, never of the tree
        facts["network"].pop(live)
    return facts


def leaves(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from leaves(item, (*path, str(key)))
    elif isinstance(value, list):
        for item in value:
            yield from leaves(item, path)
    else:
        yield path, value


def scales(number: float) -> list[float]:
    """What a number may become: itself, a size, four bytes each, thousandths."""
    return [number * by for by in (1, KIB, MIB, GIB, TIB, 4, 0.001)] + [number // 1000]


def inputs(files: dict[str, bytes]) -> tuple[str, set[int]]:
    text = "\n".join([*files, *(data.decode("utf-8", "replace") for data in files.values())]).replace("\x00", "")
    figures = {float(word) for word in re.findall(r"\d{1,20}(?:\.\d+)?", text)}
    # a width, index or count may stand right behind a longer run of digits that is no number by itself
    return text, {int(value) for figure in figures for value in scales(figure) if value < 10**30}


def check_leaf(path: tuple[str, ...], value: Any, text: str, figures: set[int]) -> None:
    key = path[-1]
    # the name of a port is made of its number, and of its chip where there are several
    if path[-2:] == ("ports", "name"):
        return
    if value is None or isinstance(value, bool) or key in WORDS or key in SUMS or key.endswith("formula"):
        return
    if isinstance(value, (int, float)):
        assert int(value) in figures, (path, value)
    elif key in FROM_HEX:
        digits = [f"{int(part):02x}" for part in value.split(".")] if re.match(r"^[\d.]+$", value) else []
        packed = "".join(digits)
        forms = [value, value.removeprefix("guid-"), packed[:4].lstrip("0") + ":" + packed[4:] if digits else value]
        bare = re.sub(r"[^0-9a-f]", "", text.lower())
        # a PCI function may be worked out of a device's name: roceP2p1s0f1 is 0002:01:00.1
        by_name = re.search(r"p\d+s\d+", text) and re.match(r"^[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.\d$", value)
        assert by_name or any(re.sub(r"[^0-9a-f]", "", form.lower()) in bare for form in forms), (path, value)
    elif path[-1] in ("ipv4",) and "/" in value:
        address, _slash, prefix = value.partition("/")
        assert address in text and prefix in text, (path, value)
    else:
        value = value.removeprefix("/")  # a file of the tree is named from the root
        assert value in text or value.lower() in re.sub(r"\s+", " ", text).lower(), (path, value)


def check_nulls(facts: dict[str, Any]) -> None:
    missing = facts["missing"]

    def walk(value: Any, key: str) -> None:
        parts = key.split(".")
        told = any(".".join(parts[:count]) in missing for count in range(1, len(parts) + 1))
        if value is None:
            assert told or parts[-1] in QUIET, key
        elif isinstance(value, dict):
            for name, item in value.items():
                walk(item, f"{key}.{name}" if key else name)

    walk({part: value for part, value in facts.items() if part != "missing"}, "")
    assert all(isinstance(reason, str) and reason for reason in missing.values())


def check_sums(memory: dict[str, Any]) -> None:
    total, free = memory["swap_total_bytes"], memory["swap_free_bytes"]
    assert memory["swap_used_bytes"] == (None if None in (total, free) else max(0, total - free))
    assert (memory["driver_pools_bytes"] is None) == (memory["driver_held_bytes"] is None)
    if memory["driver_held_bytes"] is not None:
        assert 0 <= memory["driver_held_bytes"] <= memory["total_bytes"]
    bound = memory["cuda_upper_bound_bytes"]
    if bound is not None:
        assert bound == memory["available_bytes"] + memory["driver_pools_bytes"]
    assert memory["verdict"] is None or memory["verdict"] in VERDICTS


@settings(max_examples=120, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
@given(files=trees())
def test_nothing_raises_and_nothing_is_invented(files: dict[str, bytes]) -> None:
    facts = read(files)
    json.dumps(facts)
    text, figures = inputs(files)
    for path, value in leaves({key: item for key, item in facts.items() if key != "missing"}):
        check_leaf(path, value, text, figures)
    check_nulls(facts)
    check_sums(facts["memory"])
    for hca in facts["fabric"]["hcas"]:
        assert hca["rate_gbps"] is None or hca["state"] == "ACTIVE"
        assert hca["state"] is None or re.search(STATES.get(hca["state"], "."), text, re.IGNORECASE)
        assert hca["gid_index"] is None or hca["gid_ipv4"]
    for port in facts["fabric"]["ports"]:
        assert set(port["findings"]) <= set(PORT_ORDER) and port["remedy"]


@settings(max_examples=60, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_any_bytes_in_any_place(data: st.DataObject) -> None:
    names = sorted({name for node in NODES for name in node})
    chosen = data.draw(st.lists(st.sampled_from(names), max_size=12, unique=True))
    read({name: data.draw(st.binary(max_size=200)) for name in chosen})


def test_an_empty_tree_is_null_with_reasons() -> None:
    facts = read({})
    check_nulls(facts)
    said = [
        path
        for path, value in leaves({key: item for key, item in facts.items() if key != "missing"})
        if value not in (None, False) and path[-1] not in WORDS and not path[-1].endswith("formula")
    ]
    assert said == []
    assert facts["fabric"]["hcas"] == [] and facts["fabric"]["reason"]


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("memory", "total_bytes"), 128 * GIB),
        (("fabric", "hcas", "rate_gbps"), 200),
        (("fabric", "hcas", "gid_index"), 3),
        (("fabric", "hcas", "ipv4"), "10.9.9.9/24"),
        (("platform", "vendor"), "NVIDIA"),
        (("fabric", "hcas", "gid_ipv4"), "10.9.9.9"),
    ],
)
def test_the_check_notices_an_invention(path: tuple[str, ...], value: Any) -> None:
    text, figures = inputs({"proc/meminfo": b"MemTotal: 127600816 kB\n", "commands/x.txt": b"0000:ffff:0a07:0105"})
    with pytest.raises(AssertionError):
        check_leaf(path, value, text, figures)
