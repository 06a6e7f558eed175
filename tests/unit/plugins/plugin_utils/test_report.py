# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from typing import Any

import pytest

from ansible_collections.gb10.serving.plugins.plugin_utils import _report, _report_words

GIB = 1 << 30
SPEC = {
    "id": "main-1",
    "engine": {"name": "vllm", "version": "0.25.1", "entrypoint": "vllm", "image": {"ref": "x:1"}},
    "model": {"served_name": "m"},
    "endpoint": {"bind": "127.0.0.1", "port": 8000},
    "ranks": [{"host": "a", "rank": 0, "env": {"B": "2", "A": "1"}, "argv": ["serve", "/model"]}],
}
RANK = {key: number * GIB for number, (key, _words) in enumerate(_report.TERMS, start=1)}


def phase(name: str, seconds: float) -> dict[str, Any]:
    return {"name": name, "seconds": seconds}


FULL: dict[str, Any] = {
    "name": "main",
    "outcome": "running",
    "failure": "",
    "written_at": "2026-11-30 10:00:00 UTC",
    "nodes": [
        {
            "host": "a",
            "product": "NVIDIA_DGX_Spark",
            "driver": "580.159.03",
            "docker": "28.3",
            "memory_total_bytes": 130 * GIB,
            "memory_available_bytes": None,
        }
    ],
    "rails": [
        {
            "subnet": "192.168.200.0/24",
            "members": {
                "a": {"netdev": "enp1s0f0np0", "hca": "rocep1s0f0", "address": "192.168.200.12", "gid_index": 3}
            },
        }
    ],
    "plan": {
        "verdict": "fits",
        "tp": 2,
        "world_size": 2,
        "context_length": 4096,
        "max_num_seqs": 4,
        "kv_cache_bytes": 3 * GIB,
        "basis": "measured on a",
        "kv_tokens_estimate": 1000,
        "max_concurrency_estimate": 2.5,
        "ranks": [{"host": "a", "rank": 0, **RANK}],
    },
    "spec": SPEC,
    "engine_told": {"kv_cache_tokens": 1010.0},
    "completion": {"prompt": "Hi", "text": "Ho", "seconds": 0.5, "completion_tokens": 2, "tokens_per_second": 4.0},
    "copies": [{"what": "image", "source": "a", "host": "b", "moved_bytes": 2_000_000_000, "seconds": 4.0}],
    "start": {
        "ranks": [
            {"host": "a", "rank": 0, "phases": [phase("starting", 9.5), phase("weights", 3)]},
            {"host": "b", "rank": 1, "phases": [phase("starting", 8)]},
        ],
        "cause": None,
    },
    "stages": [{"stage": "whole run", "seconds": 61.24}],
}


@pytest.mark.parametrize(
    "line",
    [
        "# Deployment main: running",
        "| a | NVIDIA_DGX_Spark | 580.159.03 | 28.3 | 130.00 GiB | - |",
        "| 0 | 192.168.200.0/24 | a | enp1s0f0np0 | rocep1s0f0 | 192.168.200.12 | 3 |",
        "| weights | 1.00 GiB |",
        "| KV cache | 3.00 GiB |",
        "| KV cache size, tokens | 1,000 | 1,010 | -0.99 % |",
        "![Memory of each rank](plan.svg)",
        "| image | a | b | 2.00 GB | 4.0 s | 500 MB/s |",
        "| phase | rank 0 (a) | rank 1 (b) |",
        "| starting | 9.5 s | 8.0 s |",
        "| weights | 3.0 s | - |",
        "| whole run | 61.2 s |",
        "- answer: 'Ho'",
        "vllm serve /model",
    ],
)
def test_full_report(line: str) -> None:
    assert line in _report.markdown(FULL).splitlines()


def test_failure_comes_first_and_the_rest_may_be_missing() -> None:
    bare = {key: FULL[key] for key in ("name", "written_at")} | {"outcome": "failed", "failure": "a: it is red.\n"}
    text = _report.markdown(bare)
    assert "a: it is red." in text.split("## ")[1]
    assert text.count("## ") == 1


def test_cause_of_a_failed_start() -> None:
    cause = {"cause": "port_in_use", "confidence": "high", "remedy": "Stop it.", "first": {"host": "b", "rank": 1}}
    lines = _report.markdown({**FULL, "start": {**FULL["start"], **cause}}).splitlines()
    assert "Cause: `port_in_use` on rank 1 (b), high confidence." in lines and "Remedy: Stop it." in lines
    assert "Cause:" not in _report.markdown(FULL)
    assert "## Start" not in _report.markdown({**FULL, "start": {"ranks": [], "cause": None}})
    refused = {"ranks": [], **cause, "cause": "ranks_disagree"}
    assert "Cause: `ranks_disagree` on rank 1 (b), high confidence." in _report.markdown({**FULL, "start": refused})
    unranked = {**refused, "first": {"host": "b", "rank": None}}
    assert "Cause: `ranks_disagree` on b, high confidence." in _report.markdown({**FULL, "start": unranked})


def test_the_plan_is_drawn() -> None:
    assert ElementTree.fromstring(_report.picture(FULL)).tag == "{http://www.w3.org/2000/svg}svg"
    assert _report.picture({**FULL, "plan": None}) == _report.picture({"name": "main"}) == ""


def test_plan_against_engine() -> None:
    told = {"kv_cache_tokens": 1010.0, "max_concurrency": 2.5, "weights_gib": 0.0}
    rows = {entry["what"]: entry["difference_percent"] for entry in _report.against(FULL["plan"], told)}
    assert rows == {
        "KV cache size, tokens": -0.99,
        "requests of full context at once": 0,
        "weights of a rank, GiB": None,
    }
    assert _report.against({}, told)[0]["plan"] is None


def test_what_the_engine_did_not_tell_is_left_out() -> None:
    assert "Plan against engine" not in _report.markdown({**FULL, "engine_told": {}})


@pytest.mark.parametrize(("size", "words"), [(127_000_000_000, "127.00 GB"), (43_100_000, "43.1 MB"), (0, "0.0 MB")])
def test_gigabytes(size: int, words: str) -> None:
    assert _report_words.gigabytes(size) == words


ENTRY = {
    "source": "a",
    "target": "b",
    "rails": [0],
    "bits_per_second": 98_040_000_000,
    "expected_bits_per_second": 98_280_000_000,
    "ratio": 0.998,
    "method": "rdma",
    "class": "good",
    "level": "good",
    "cause": "",
    "remedy": "",
}


def test_measured_rails() -> None:
    slow = {**ENTRY, "rails": [0, 1], "bits_per_second": None, "ratio": None, "class": "unmeasured", "level": "warning"}
    fabric = {"measured_at": "2026-11-30 10:00:00 UTC", "kept": True, "entries": [ENTRY, {**slow, "cause": "No time."}]}
    lines = _report.markdown({**FULL, "fabric": fabric}).splitlines()
    assert "| 0 | a | b | 98.0 Gb/s | 98.3 Gb/s | 100% | rdma | good |" in lines
    assert "| 0, 1 | a | b | unmeasured | 98.3 Gb/s | - | rdma | unmeasured |" in lines
    assert "- unmeasured: No time." in lines
    assert any("earlier run" in line for line in lines)


def test_unmeasured_rails_are_called_so() -> None:
    assert "Bandwidth is unmeasured" in _report.markdown({**FULL, "fabric": {"entries": []}})


def test_summary_says_what_a_run_would_do() -> None:
    lines = _report.summary({**FULL, "was_running": False})
    assert lines[0].startswith(
        "plan: fits; tensor parallel 2, context 4096 tokens, 4 sequences; on a: weights 1.00 GiB"
    )
    assert lines[1:] == ["image: 2.00 GB from a to b", "ranks: start anew (main-1)"]


def test_summary_of_a_run_that_changes_nothing() -> None:
    lines = _report.summary({**FULL, "copies": [], "was_running": True})
    assert lines[1:] == [
        "image and model: every node has them, nothing to copy",
        "ranks: run this release already (main-1)",
    ]


def test_summary_of_a_run_that_got_nowhere() -> None:
    assert _report.summary({"name": "main"}) == []


def test_the_engines_that_were_tried() -> None:
    failed = {"engine": "sglang", "release": "main-1", "stage": "start", "cause": "nccl_init_hang", "seconds": 130.0}
    served = {"engine": "vllm", "release": "main-2", "stage": "served", "cause": None, "seconds": 60.0}
    lines = ["sglang failed (nccl_init_hang); vllm is next: it is another."]
    report = {**FULL, "engines": ["sglang", "vllm"], "attempts": [failed, served], "engine_choice": lines}
    text = _report.markdown(report)
    assert "| sglang | `main-1` | start | `nccl_init_hang` | 130.0 s |" in text
    assert "| vllm | `main-2` | served | - | 60.0 s |" in text and f"- {lines[0]}" in text
    assert "engines: sglang failed (nccl_init_hang), vllm served" in _report.summary(report)
    assert "engines: sglang, then vllm" in _report.summary({**report, "attempts": []})
    assert "## Engines" not in _report.markdown({**report, "engines": ["vllm"]})


def test_the_stream_is_part_of_the_proof() -> None:
    streamed = {"time_to_first_token": 0.21, "prefill_tokens_per_second": 71.4, "decode_tokens_per_second": None}
    completion = {**FULL["completion"], "streamed": {**streamed, "prompt_tokens": 15, "completion_tokens": 1}}
    text = _report.markdown({**FULL, "completion": completion})
    assert "| time to the first token | 0.21 s |" in text and "| answer after it | - |" in text
