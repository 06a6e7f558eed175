# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ansible_collections.gb10.serving.plugins.action import deployment_check

HOSTS = ["spark-a", "spark-b", "spark-c"]
FILES = [{"name": "model.safetensors", "size": 7}]


def variables(**have: str) -> dict[str, Any]:
    """What earlier tasks registered. have says by host what it has: image, model, both or none."""
    hostvars: dict[str, dict[str, Any]] = {}
    rails = [
        {
            "subnet": f"10.0.{rail}.0/24",
            "members": {host: {"address": f"10.0.{rail}.{n}"} for n, host in enumerate(HOSTS, start=1)},
        }
        for rail in (0, 1)
    ]
    for host in HOSTS:
        has = have[host[-1]]
        image, model = has in ("image", "both"), has in ("model", "both")
        hostvars[host] = {
            "ansible_facts": {
                "gb10": {
                    "memory": {"available_bytes": 8, "total_bytes": 9},
                    "docker": {"architecture": "arm64", "root_dir": "/d", "root_free_bytes": 1 << 50},
                }
            },
            "__gb10_fabric": {"rails": rails},
            "__gb10_fabric_measured": {
                "fabric": {"entries": [
                    {"source": "spark-a", "target": "spark-b", "rails": [0, 1], "bits_per_second": 8e9},
                ]}
            },
            "__gb10_image": {"engine": {"image": {
                "present": image, "content": "sha256:i" if image else None, "architecture": "arm64", "size_bytes": 5,
            }}},
            "__gb10_model": {"model": {
                "path": "/m", "mounts": [], "exists": model, "complete": model, "digest": "sha256:m" if model else None,
                "copied_digest": None, "total_bytes": 7, "files": FILES if model else [], "free_bytes": 1 << 50,
                "writable": True, "problems": [],
            }},
        }  # fmt: skip
    return {"groups": {"sparks": HOSTS}, "hostvars": hostvars}


def sources(task_vars: dict[str, Any], **args: Any) -> dict[str, Any]:
    action = deployment_check.ActionModule.__new__(deployment_check.ActionModule)
    problems, answer = action._sources({"image": "x:1", "verify_model": False, **args}, task_vars)
    assert not problems
    return answer


def test_image_and_model_have_chains_of_their_own() -> None:
    answer = sources(variables(a="both", b="none", c="image"))
    image, model = answer["image_copy"], answer["model_copy"]
    assert (image["source"], image["receivers"], image["content"], image["size_bytes"]) == (
        "spark-a", ["spark-b"], "sha256:i", 5,
    )  # fmt: skip
    assert [source["host"] for source in image["plan"]["spark-b"]["sources"]] == ["spark-a", "spark-c"]
    assert (model["source"], model["receivers"]) == ("spark-a", ["spark-b", "spark-c"])
    assert [source["host"] for source in model["plan"]["spark-c"]["sources"]] == ["spark-b", "spark-a"]
    assert model["plan"]["spark-b"]["measured_rate"] == 1_000_000_000
    assert model["plan"]["spark-c"]["measured_rate"] is None


@pytest.mark.parametrize(("content", "cause"), [("sha256:i", None), ("sha256:j", "ranks_disagree")])
def test_ranks_are_compared_before_the_start(content: str, cause: str | None) -> None:
    task_vars = variables(a="both", b="both", c="both")
    spec = {"id": "main-1", "engine": {"image": {"ref": "x:1", "content": "sha256:i"}}, "model": {"digest": "sha256:m"}}
    for host, own in task_vars["hostvars"].items():
        own["__gb10_spec"], own["__gb10_parity_model"] = {"spec": spec}, own["__gb10_model"]
        own["__gb10_parity_image"] = {"image": {"content": content if host == "spark-b" else "sha256:i"}}
    action = deployment_check.ActionModule.__new__(deployment_check.ActionModule)
    answer = action.answer({"about": "parity"}, task_vars)
    assert (answer.get("failed", False), answer.get("cause")) == (cause is not None, cause)
    if cause:
        assert "spark-b: the image x:1 on this node is sha256:j (ranks_disagree)." in answer["msg"]
        assert "nothing has been changed" not in answer["msg"] and answer["first"] == {"host": "spark-b"}


def test_nothing_is_planned_when_all_have_it() -> None:
    answer = sources(variables(a="both", b="both", c="both"))
    for copy in (answer["image_copy"], answer["model_copy"]):
        assert (copy["source"], copy["receivers"], copy["plan"]) == ("spark-a", [], {})


def test_verifying_makes_every_other_node_a_receiver() -> None:
    answer = sources(variables(a="both", b="both", c="both"), verify_model=True)
    assert answer["model_copy"]["receivers"] == ["spark-b", "spark-c"] and not answer["image_copy"]["receivers"]
    # a copy that may be damaged is no authority from the start
    assert [part["following"] for part in answer["model_copy"]["plan"].values()] == [False, True, True]


@pytest.mark.parametrize("what", ["image", "model"])
def test_offers_are_those_of_this_copy(what: str) -> None:
    task_vars = variables(a="both", b="none", c="none")
    task_vars["hostvars"]["spark-a"].update({
        "__gb10_sources": sources(task_vars),
        f"__gb10_{what}_offer": {"addresses": ["10.0.0.1", "10.0.1.1"], "port": 9, "token": "t"},
    })  # fmt: skip
    action = deployment_check.ActionModule.__new__(deployment_check.ActionModule)
    _problems, answer = action._offers({"copy": what}, task_vars)
    assert answer["sources"]["spark-a"] == []
    for host in ("spark-b", "spark-c"):
        assert answer["sources"][host] == [
            {"host": "spark-a", "addresses": ["10.0.0.1", "10.0.1.1"], "port": 9, "token": "t"}
        ]


def test_a_key_that_no_client_can_send_is_refused_with_the_inventory() -> None:
    action = deployment_check.ActionModule.__new__(deployment_check.ActionModule)
    action._templar = SimpleNamespace(template=lambda text: text.replace("{{ vaulted }}", "hush-hush\n"))
    known: dict[str, Any] = {"groups": {"sparks": HOSTS}, "hostvars": {host: {} for host in HOSTS}}
    for given, expected in (("{{ vaulted }}", 1), ("hush-hush", 0), ("", 0)):
        problems, _answer = action._inventory({}, {**known, "gb10_server_api_key": given})
        told = [str(problem) for problem in problems if "gb10_server_api_key" in str(problem)]
        assert len(told) == expected and "hush" not in str(told)
