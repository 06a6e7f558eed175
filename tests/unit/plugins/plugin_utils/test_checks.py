# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gb10.serving.plugins.plugin_utils import _checks
from ansible_collections.gb10.serving.plugins.plugin_utils._checks import Member
from ansible_collections.gb10.serving.plugins.plugin_utils._problems import Problem, message

A, B = Member("a", "10.0.0.1", None), Member("b", "10.0.0.2", None)
GB = 10**9


def fact(**changes: Any) -> dict[str, Any]:
    found: dict[str, Any] = {
        "platform": {"arch": "aarch64"},
        "docker": {
            "available": True,
            "error": None,
            "architecture": "aarch64",
            "nvidia": True,
            "root_dir": "/var/lib/docker",
            "root_free_bytes": 500 * GB,
        },
        "network": {"listening_tcp_ports": [22]},
    }
    for path, value in changes.items():
        target = found
        *parents, last = path.split("__")
        for parent in parents:
            target = target[parent]
        target[last] = value
    return found


@pytest.mark.parametrize(
    ("members", "reached", "words"),
    [
        ([], [], ["group 'sparks' is missing or has no host"]),
        ([A], ["a"], ["only host"]),
        ([A, B], ["a"], ["b: this run leaves it out"]),
        ([A, Member("b", "10.0.0.1", None)], ["a", "b"], ["a and b: they have the same ansible_host 10.0.0.1"]),
        ([Member("a", "1", 0), Member("b", "2", 2)], ["a", "b"], ["gb10_rank: the hosts have a=0, b=2"]),
        ([Member("a", "1", 0), B], ["a", "b"], ["gb10_rank"]),
        ([Member("a", "1", 1), Member("b", "2", 0)], ["a", "b"], []),
        ([A, B], ["a", "b"], []),
    ],
)
def test_inventory(members: list[Member], reached: list[str], words: list[str]) -> None:
    problems = _checks.check_inventory("sparks", members, reached)
    assert len(problems) == len(words)
    for problem, word in zip(problems, words, strict=True):
        assert word in str(problem)


@pytest.mark.parametrize(
    ("second", "gpus", "words"),
    [
        (fact(), "all", None),
        (fact(docker__available=False, docker__error="no daemon"), "all", "b: docker does not answer (no daemon)"),
        (fact(docker__nvidia=False), "all", "b: docker has neither the nvidia runtime"),
        (fact(docker__nvidia=False), "", None),
        (fact(platform__arch="x86_64"), "all", "a is aarch64, b is x86_64"),
        (fact(network__listening_tcp_ports=[8000]), "all", None),
    ],
)
def test_nodes(second: dict[str, Any], gpus: str, words: str | None) -> None:
    problems = _checks.check_nodes({"a": fact(), "b": second}, gpus, {"endpoint": 8000}, [])
    assert [str(words) in str(problem) for problem in problems] == ([True] if words else [])


@pytest.mark.parametrize(("own", "count"), [(set(), 1), ({8000, 29501}, 0), ({9000}, 1)])
def test_port_of_the_head(own: set[int], count: int) -> None:
    facts = {"a": fact(network__listening_tcp_ports=[8000]), "b": fact()}
    problems = _checks.check_nodes(facts, "all", {"endpoint": 8000, "rendezvous": 29501}, own)
    assert len(problems) == count
    assert all("gb10_server_port" in problem.remedy for problem in problems)


HERE = {"present": True, "content": "sha256:1", "architecture": "arm64", "size_bytes": 20 * GB}
GONE = {"present": False, "content": None, "architecture": None, "size_bytes": None}


@pytest.mark.parametrize(
    ("images", "second", "source", "words"),
    [
        ({"a": HERE, "b": GONE}, fact(), "a", None),
        ({"a": GONE, "b": HERE}, fact(), "b", None),
        ({"a": GONE, "b": GONE}, fact(), None, "no node has the image 'x:1'"),
        ({"a": {**HERE, "architecture": "amd64"}, "b": GONE}, fact(), "a", "is for amd64"),
        (
            {"a": HERE, "b": GONE},
            fact(docker__root_free_bytes=43 * GB),
            "a",
            "on b at /var/lib/docker: 43.0 GB",
        ),
        ({"a": HERE, "b": HERE}, fact(docker__root_free_bytes=0), "a", None),
    ],
)
def test_image(images: dict[str, Any], second: dict[str, Any], source: str | None, words: str | None) -> None:
    found, problems = _checks.check_image("x:1", images, {"a": fact(), "b": second})
    assert found == source
    assert [str(words) in str(problem) for problem in problems] == ([True] if words else [])


WHOLE: dict[str, Any] = {
    "path": "/models/m",
    "exists": True,
    "complete": True,
    "writable": True,
    "copied_digest": None,
    "problems": [],
    "digest": "d",
    "total_bytes": 127 * GB,
    "files": [{"name": "w", "size": 127 * GB}],
}
EMPTY: dict[str, Any] = {
    **WHOLE,
    "exists": False,
    "complete": False,
    "problems": ["It does not exist."],
    "digest": None,
    "files": [],
}


@pytest.mark.parametrize(
    ("models", "free", "source", "words"),
    [
        ({"a": WHOLE, "b": EMPTY}, 500 * GB, "a", None),
        ({"a": WHOLE, "b": EMPTY}, 130 * GB, "a", "on b at /models/m: 130.0 GB are free, 139.7 GB are needed"),
        ({"a": WHOLE, "b": {**EMPTY, "files": [{"name": "w", "size": 100 * GB}]}}, 130 * GB, "a", None),
        ({"a": WHOLE, "b": {**EMPTY, "writable": False}}, 500 * GB, "a", "b: the user may not write /models/m"),
        ({"a": {**WHOLE, "writable": False}, "b": WHOLE}, 500 * GB, "a", None),
        ({"a": EMPTY, "b": EMPTY}, 500 * GB, None, "a: no node has a complete model; /models/m: It does not exist."),
        ({"a": EMPTY, "b": WHOLE}, 500 * GB, "b", None),
    ],
)
def test_model(models: dict[str, Any], free: int, source: str | None, words: str | None) -> None:
    found, problems = _checks.check_model({host: {**model, "free_bytes": free} for host, model in models.items()})
    assert found == source
    assert [str(words) in str(problem) for problem in problems] == ([True] if words else [])


def test_message_says_all_four_things_for_each_problem() -> None:
    text = message([Problem("a", "it is red.", "green.", "paint it."), "b: something else."])
    assert "2 problems" in text
    assert "nothing has been changed" in text
    assert "a: it is red. Expected: green. Next step: paint it." in text
    assert "b: something else." in text


def test_ports_of_a_running_deployment_are_its_own() -> None:
    assert _checks.own_ports({"endpoint": {"port": 8000}, "rendezvous": {"port": 29501}}) == {8000, 29501}
    assert _checks.own_ports({}) == set()


@pytest.mark.parametrize(
    ("changes", "lacking"),
    [
        ({}, []),
        ({"digest": "other"}, ["b"]),
        ({"digest": "other", "copied_digest": "d"}, []),
        ({"digest": "other", "copied_digest": "d", "files": [*WHOLE["files"], {"name": "notes", "size": 1}]}, []),
        ({"digest": "other", "copied_digest": "d", "files": [{"name": "w", "size": 1}]}, ["b"]),
        ({"digest": "other", "copied_digest": "d", "complete": False}, ["b"]),
    ],
)
def test_who_lacks_the_model(changes: dict[str, Any], lacking: list[str]) -> None:
    assert _checks.lacking_model({"a": WHOLE, "b": {**WHOLE, **changes}}, "a") == lacking


@pytest.mark.parametrize(
    ("here", "there", "lacking"),
    [
        ("1", "1", []),
        ("1", "2", ["b"]),
        (None, "2", []),
        ("1", None, []),
    ],
)
def test_known_content_decides_who_lacks_the_model(here: str | None, there: str | None, lacking: list[str]) -> None:
    def model(sha256: str | None) -> dict[str, Any]:
        known = {"sha256": sha256} if sha256 else {}
        return {**WHOLE, "copied_digest": "d", "files": [{"name": "w", "size": 127 * GB, **known}]}

    models = {"a": model(here), "b": model(there)}
    assert _checks.lacking_model(models, "a") == lacking
    _source, problems = _checks.check_model({host: {**one, "free_bytes": 1 << 30} for host, one in models.items()})
    assert len(problems) == len(lacking)  # what differs has to find room beside what is there


def test_ports_of_every_rank() -> None:
    listeners = [{"port": 8000, "pid": 7, "name": "python3", "container_id": "c0ffee" * 10}]
    containers = [{"name": "gb10-old-rank0", "id": "c0ffee" * 2}]
    other = fact(network={"listening_tcp_ports": [8000, 29501], "listeners": listeners}, containers=containers)
    wanted = {"a": {"endpoint": 8000, "rendezvous": 29501}, "b": {"endpoint": 8000}}
    (problem,) = _checks.check_ports({"a": fact(), "b": other}, wanted, {})
    assert (
        "b: TCP port 8000 (endpoint) is in use by python3 (process 7) of container gb10-old-rank0 (port_in_use)."
        in str(problem)
    )
    assert "'sudo docker stop gb10-old-rank0' on b, or choose another port (gb10_server_port)" in str(problem)
    assert _checks.check_ports({"a": fact(), "b": other}, wanted, {"b": {8000}}) == []
    (plain,) = _checks.check_ports({"b": {**other, "containers": None}}, {"b": {"endpoint": 8000}}, {})
    assert "in use by python3 (process 7) (port_in_use)." in str(plain) and "sudo ss -ltnp" in str(plain)
