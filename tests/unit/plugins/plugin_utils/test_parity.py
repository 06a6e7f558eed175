# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""What makes ranks unequal is refused with one cause, on the host that differs."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gb10.serving.plugins.plugin_utils import _parity
from ansible_collections.gb10.serving.plugins.plugin_utils._problems import refusal

SPEC = {
    "id": "main-1",
    "engine": {"image": {"ref": "x:1", "content": "sha256:i"}},
    "model": {"digest": "sha256:m"},
}
IMAGE = {"ref": "x:1", "present": True, "content": "sha256:i"}
MODEL = {"path": "/m", "complete": True, "digest": "sha256:m", "copied_digest": None, "problems": []}
USED: dict[str, Any] = {
    "args": ["--seed", "1"],
    "env": {"A": "1", "HF_TOKEN": "hush"},
    "image_ref": "x:1",
    "port": 8000,
    "rdma": True,
    "served_name": "",
    "rendezvous_port": None,
}


@pytest.mark.parametrize(
    ("image", "model", "cause", "words"),
    [
        (IMAGE, MODEL, None, ""),
        (IMAGE, {**MODEL, "digest": "sha256:n", "copied_digest": "sha256:m"}, None, ""),  # a file beside it
        ({**IMAGE, "content": "sha256:j"}, MODEL, "ranks_disagree", "the image x:1 on this node is sha256:j"),
        ({**IMAGE, "present": False, "content": None}, MODEL, "ranks_disagree", "the image x:1 on this node is gone"),
        (IMAGE, {**MODEL, "digest": "sha256:n"}, "ranks_disagree", "the model in /m is sha256:n"),
        (IMAGE, {**MODEL, "complete": False, "problems": ["no config."]}, None, ""),
        (
            IMAGE, {**MODEL, "digest": "sha256:n", "copied_digest": "sha256:m", "complete": False, "problems": ["b."]},
            "model_incomplete", "the model in /m is not complete: b",
        ),
    ],
)  # fmt: skip
def test_image_and_model(image: dict[str, Any], model: dict[str, Any], cause: str | None, words: str) -> None:
    problems = _parity.check_ranks(SPEC, {"a": IMAGE, "b": image}, {"a": MODEL, "b": model})
    assert refusal(problems)["cause"] == cause
    assert [str(problem).startswith("b: ") for problem in problems] == ([True] if cause else [])
    for word in (words, f"({cause})", "Expected: sha256:", "with which release main-1 was made.", "Next step: "):
        assert not cause or word in str(problems[0])


@pytest.mark.parametrize(
    ("variable", "value", "words"),
    [
        (
            "gb10_server_args",
            ["--seed", "2"],
            "gb10_server_args is ['--seed', '2'] (ranks_disagree). Expected: ['--seed'",
        ),
        ("gb10_image_ref", "x:2", "gb10_image_ref is 'x:2' (ranks_disagree). Expected: 'x:1', as on a"),
        ("gb10_server_port", 8001, "gb10_server_port is 8001"),
        ("gb10_server_env", {"A": "2", "HF_TOKEN": "hush"}, "gb10_server_env is another one, in A (ranks_disagree)"),
        ("gb10_server_env", {"A": 1, "HF_TOKEN": "hush"}, None),
        ("gb10_server_port", "8000", None),
        ("gb10_server_rdma", "yes", None),
        ("gb10_server_rdma", "no", "gb10_server_rdma is 'no'"),
        ("gb10_server_rendezvous_port", 5, None),
        ("gb10_model_dir", "/elsewhere", None),
        ("gb10_server_root", "/elsewhere", None),
    ],
)
def test_wishes_of_one_host(variable: str, value: Any, words: str | None) -> None:
    problems = _parity.check_wishes(USED, {"a": {}, "b": {variable: value}}, "a")
    assert len(problems) == (words is not None)
    for problem in problems:
        assert str(problem).startswith(f"b: {words}") and "Next step: give" in str(problem) and problem.cause


def test_the_same_text_on_all_hosts_is_the_same() -> None:
    text = {"gb10_server_args": "--seed,1"}
    assert _parity.check_wishes(USED, {"a": text, "b": text}, "a") == []
    assert len(_parity.check_wishes(USED, {"a": text, "b": {"gb10_server_args": "--seed,2"}}, "a")) == 1


def test_secrets_are_not_shown() -> None:
    (problem,) = _parity.check_wishes(USED, {"b": {"gb10_server_env": {"A": "1", "HF_TOKEN": "loud"}}}, "a")
    for value in ({"HF_TOKEN": "loud"}, "loud"):
        (other,) = _parity.check_wishes(
            {**USED, "secret_env": {"HF_TOKEN": "hush"}}, {"b": {"gb10_server_secret_env": value}}, "a"
        )
        assert "another one" in str(other) and "loud" not in str(other) and "hush" not in str(other)
    assert "in HF_TOKEN" in str(problem) and "loud" not in str(problem) and "hush" not in str(problem)


def test_the_message_says_what_runs() -> None:
    problems = _parity.check_ranks(SPEC, {"b": {**IMAGE, "content": None}}, {"b": MODEL})
    assert "none of them was stopped or started" in _parity.message(problems)
