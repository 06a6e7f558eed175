# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gb10.serving.plugins.module_utils._engine_log_causes import CAUSES
from ansible_collections.gb10.serving.plugins.plugin_utils import _fallback

ENGINES = [{"name": "sglang", "key": "s"}, {"name": "vllm", "key": "v"}, {"name": "third", "key": "t"}]
NOTHING: dict[str, Any] = {"wait": {}, "collective": {}, "endpoint": {}}
PAGE = Path(__file__).parents[4] / "docs" / "engines.md"


def said(cause: str) -> dict[str, Any]:
    return {"cause": cause, "at": "2026-11-30 17:00:00 UTC"}


def test_every_cause_that_moves_on_is_one_and_is_documented() -> None:
    assert set(_fallback.CURABLE) <= set(CAUSES)
    page = PAGE.read_text(encoding="utf-8")
    assert [cause for cause, why in _fallback.CURABLE.items() if f"| `{cause}` | {why} |" not in page] == []


@pytest.mark.parametrize(
    "cause",
    [
        *("bad_flag", "port_in_use", "out_of_memory", "host_oom_killed", "kv_cache_too_small", "memory_free_at_start"),
        *("model_not_found", "model_incomplete", "model_corrupt", "model_access_denied", "context_too_long"),
        *("rendezvous_unreachable", "rank_missing", "interface_not_found", "rdma_failure", "docker_permission"),
        *("disk_full", "image_entrypoint"),
    ],
)
def test_what_would_come_again_stays(cause: str) -> None:
    assert cause in CAUSES
    ended = {"stage": "start", "cause": cause, "why": ""}
    assert not _fallback.moves_on(ended)
    assert "would come again" in _fallback.line("sglang", ended, None)


@pytest.mark.parametrize(
    ("known", "turn", "words"),
    [
        ({}, 0, []),
        ({"x": said("unknown")}, 0, []),
        ({"s": said("nccl_init_hang")}, 1, ["sglang is left out", "nccl_init_hang", "gb10_server_retry=true"]),
        ({"v": said("unknown")}, 0, []),
        ({"s": said("unknown"), "v": said("unknown")}, 2, ["sglang is left out", "vllm is left out"]),
        ({key: said("unknown") for key in "svt"}, 0, ["every engine has failed with this before"]),
    ],
)
def test_the_engine_to_begin_with(known: dict[str, Any], turn: int, words: list[str]) -> None:
    found, lines = _fallback.first(ENGINES, known)
    assert found == turn
    assert bool(lines) == bool(words) and all(word in " ".join(lines) for word in words)


def test_an_engine_that_was_left_out_is_not_tried_later() -> None:
    assert _fallback.following(ENGINES, 0, []) == 1
    assert _fallback.following(ENGINES, 0, ["vllm"]) == 2
    assert _fallback.following(ENGINES, 2, []) is None


WAIT = {"failed": True, "ready": False, "cause": "nccl_init_hang", "reason": "silence"}
FOLLOWED = {"ready": False, "cause": None, "reason": "stopped waiting"}
COLLECTIVE = {"failed": True, "collective": {"cause": "rank_missing", "summary": "rank 1 did not come"}}
PROOF = {"endpoint": {"ok": False, "cause": "collective_timeout", "problem": "no answer"}}


@pytest.mark.parametrize(
    ("hosts", "lost", "stage", "cause"),
    [
        ([NOTHING, NOTHING], [], "before the start", None),
        ([{**NOTHING, "wait": FOLLOWED}, {**NOTHING, "wait": WAIT}], [], "start", "nccl_init_hang"),
        ([{**NOTHING, "wait": {"ready": True}, "endpoint": PROOF}, NOTHING], [], "proof", "collective_timeout"),
        ([{**NOTHING, "collective": COLLECTIVE}] * 2, [], "collective", "rank_missing"),
        ([{**NOTHING, "wait": {"skipped": True}, "collective": {"skipped": True}}] * 2, [], "before the start", None),
        ([{**NOTHING, "wait": WAIT}, NOTHING], ["b"], "nodes", None),
    ],
)
def test_what_ended_an_attempt(hosts: list[Any], lost: list[str], stage: str, cause: str | None) -> None:
    ended = _fallback.failure(dict(zip("ab", hosts, strict=True)), lost)
    assert (ended["stage"], ended["cause"]) == (stage, cause)


def test_a_refused_start_has_a_cause_that_stays() -> None:
    refused = {"cause": "ranks_disagree", "why": "b: the image differs."}
    ended = _fallback.failure({"a": NOTHING, "b": NOTHING}, [], refused)
    assert (ended["stage"], ended["cause"]) == ("before the start", "ranks_disagree")
    assert not _fallback.moves_on(ended)
    # What a log says comes first, and a node that is gone explains all.
    assert _fallback.failure({"a": {**NOTHING, "wait": WAIT}}, [], refused)["cause"] == "nccl_init_hang"
    assert _fallback.failure({"a": NOTHING}, ["a"], refused)["cause"] is None


def test_it_says_why_it_goes_on() -> None:
    ended = {"stage": "start", "cause": "kernel_unsupported", "why": ""}
    assert _fallback.line("sglang", ended, "vllm") == (
        "sglang failed (kernel_unsupported); vllm is next: another image may have kernels for this GPU."
    )
    assert "no engine is left" in _fallback.line("vllm", ended, None)
    assert "before its log said why" in _fallback.line("vllm", {**ended, "cause": None}, None)


def test_a_key_follows_what_is_asked() -> None:
    one = {"engine": "vllm", "asked": {"gb10_server_args": ["--x"]}}
    assert _fallback.key(one) == _fallback.key(dict(reversed(one.items())))
    assert _fallback.key(one) != _fallback.key({**one, "asked": {"gb10_server_args": ["--y"]}})
