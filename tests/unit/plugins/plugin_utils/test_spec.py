# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""The spec of the reference job on two recorded Sparks: what the recipe promises for rank 0 and rank 1."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import jinja2
import pytest
import yaml

from ansible_collections.gb10.serving.plugins.plugin_utils import _recipe, _spec
from ansible_collections.gb10.serving.plugins.plugin_utils._rails import pair_rails
from ansible_collections.gb10.serving.tests.unit.plugins.module_utils import flag_lists

RECIPE = Path(__file__).parents[4] / "playbooks" / "recipes" / "qwen35_122b_fp8.yml"


def hca(name: str, netdev: str, address: str | None, gid: int | None) -> dict[str, Any]:
    up = address is not None
    return {
        "name": name,
        "netdev": netdev,
        "chip": "0000005e00000001",
        "port": netdev[-2:],
        "state": "ACTIVE" if up else "DOWN",
        "rate_gbps": 200 if up else None,
        "netdev_mtu": 9000 if up else 1500,
        "ipv4": f"{address}/24" if up else None,
        "gid_index": gid,
    }


#: One cable, in port 0 of the first and in port 1 of the second; the second keeps its IPv4 GID at another index.
SPARKS = {
    "spark-a": {
        "hcas": [
            hca("rocep1s0f0", "enp1s0f0np0", "192.168.200.12", 3),
            hca("roceP2p1s0f0", "enP2p1s0f0np0", "192.168.201.12", 3),
            hca("rocep1s0f1", "enp1s0f1np1", None, None),
            hca("roceP2p1s0f1", "enP2p1s0f1np1", None, None),
        ]
    },
    "spark-b": {
        "hcas": [
            hca("rocep1s0f1", "enp1s0f1np1", "192.168.200.13", 5),
            hca("roceP2p1s0f1", "enP2p1s0f1np1", "192.168.201.13", 5),
        ]
    },
}

USERS = ("ann", "bob")

PLAN: dict[str, Any] = {
    "tp": 2,
    "context_length": 131072,
    "max_num_seqs": 16,
    "max_num_batched_tokens": 2048,
    "kv_cache_dtype": "auto",
    "kv_cache_bytes": 34 << 30,
    "gpu_memory_utilization": 0.815,
}
ENGINE = {
    "name": "vllm",
    "version": "0.25.1",
    "image": {"ref": "vllm/vllm-openai:v0.25.1-aarch64", "content": "sha256:aa"},
}


def settings(**changes: Any) -> dict[str, Any]:
    recipe = _recipe.check(yaml.safe_load(RECIPE.read_text()), str(RECIPE))
    return {
        "name": "main",
        "engine": recipe["gb10_server_engine"],
        "image_ref": recipe["gb10_image_ref"],
        "model_id": recipe["gb10_model_id"],
        "served_name": "",
        "args": recipe["gb10_server_args"],
        "env": {},
        "secret_env": {},
        "bind": "127.0.0.1",
        "port": 8000,
        "api_key": "",
        "rendezvous_port": 29501,
        "gpus": "all",
        "rdma": True,
        "ulimits": {"memlock": "-1", "stack": "67108864"},
        **changes,
    }


def build(fabric: dict[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    rails = pair_rails(fabric or SPARKS).as_dict()["rails"]
    places = {host: {"path": f"/home/{user}/models/m", "mounts": []} for host, user in zip(SPARKS, USERS, strict=True)}
    return _spec.build(settings(**changes), list(SPARKS), rails, PLAN, {"digest": "sha256:bb"}, ENGINE, places)


EXPECTED_ARGV = (
    "serve /model --served-model-name Qwen/Qwen3.5-122B-A10B-FP8 --host 127.0.0.1 --port 8000 --tensor-parallel-size 2 "
    "--distributed-executor-backend mp --nnodes 2 --node-rank {rank} --master-addr 192.168.200.12 --master-port 29501 "
    "--max-model-len 131072 --max-num-seqs 16 --max-num-batched-tokens 2048 --kv-cache-memory-bytes 36507222016 "
    "--gpu-memory-utilization 0.815 --language-model-only --reasoning-parser qwen3 --enable-auto-tool-choice "
    "--tool-call-parser qwen3_coder --enable-prefix-caching{headless}"
)


def test_argv_of_both_ranks() -> None:
    ranks = build()["ranks"]
    assert " ".join(ranks[0]["argv"]) == EXPECTED_ARGV.format(rank=0, headless="")
    assert " ".join(ranks[1]["argv"]) == EXPECTED_ARGV.format(rank=1, headless=" --headless")


@pytest.mark.parametrize(
    ("rank", "address", "netdev", "hcas", "gid"),
    [
        (0, "192.168.200.12", "enp1s0f0np0", "rocep1s0f0,roceP2p1s0f0", "3"),
        (1, "192.168.200.13", "enp1s0f1np1", "rocep1s0f1,roceP2p1s0f1", "5"),
    ],
)
def test_env_is_each_ranks_own(rank: int, address: str, netdev: str, hcas: str, gid: str) -> None:
    assert build()["ranks"][rank]["env"] == {
        "NCCL_SOCKET_IFNAME": f"={netdev}",
        "GLOO_SOCKET_IFNAME": netdev,
        "TP_SOCKET_IFNAME": netdev,
        "NCCL_IB_HCA": f"={hcas}",
        "NCCL_IB_GID_INDEX": gid,
        "NCCL_IB_MERGE_NICS": "1",
        "VLLM_HOST_IP": address,
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
        "HF_HUB_OFFLINE": "1",
    }


def test_container_gets_gpu_and_rdma_devices() -> None:
    assert build()["container"] == {
        "gpus": "all",
        "devices": ["/dev/infiniband"],
        "ulimits": {"memlock": "-1", "stack": "67108864"},
    }


def test_without_rdma_there_are_neither_devices_nor_hcas() -> None:
    spec = build(rdma=False)
    env = spec["ranks"][0]["env"]
    assert spec["container"]["devices"] == []
    assert env["NCCL_IB_DISABLE"] == "1"
    assert "NCCL_IB_HCA" not in env


def test_gid_index_is_left_to_nccl_when_the_rails_of_a_node_differ() -> None:
    fabric = {host: {"hcas": [dict(entry) for entry in found["hcas"]]} for host, found in SPARKS.items()}
    fabric["spark-b"]["hcas"][1]["gid_index"] = 4
    ranks = build(fabric)["ranks"]
    assert "NCCL_IB_GID_INDEX" not in ranks[1]["env"]
    assert ranks[0]["env"]["NCCL_IB_GID_INDEX"] == "3"


def test_model_path_may_differ_and_container_path_may_not() -> None:
    spec = build()
    assert [rank["model_path"] for rank in spec["ranks"]] == ["/home/ann/models/m", "/home/bob/models/m"]
    assert spec["model"]["container_path"] == "/model"


def test_id_follows_content() -> None:
    assert build()["id"] == build()["id"]
    assert build()["id"] != build(port=8001)["id"]
    assert build()["id"].startswith("main-")


def test_a_plan_that_was_kept_makes_the_same_document(monkeypatch: pytest.MonkeyPatch) -> None:
    before = build()
    monkeypatch.setitem(PLAN, "kept", True)
    assert build() == before


def test_key_never_enters_the_spec() -> None:
    assert "s3cret" not in str(build(api_key="s3cret", bind="0.0.0.0"))


@pytest.mark.parametrize(
    ("key", "word"),
    [
        ("hush-hush\n", "ends in a newline"),
        ("hush-hush\r\n", "ends in a newline"),
        (" hush-hush", "blanks"),
        ("hush\nhush", "blanks or line breaks"),
        ("\n", "blanks or line breaks"),
        ("hush\u00e4", "not ASCII"),
        ("hush\u20ac", "not ASCII"),
        ("hush\x1b", "control characters"),
    ],
)
def test_a_key_that_no_client_can_send_is_refused_and_not_shown(key: str, word: str) -> None:
    found = {"name": "vllm", "version": "0.25.1", "reason": None}
    (problem,) = _spec.check_settings(settings(api_key=key), found, {**PLAN, "world_size": 2})
    assert problem.where == "gb10_server_api_key" and word in problem.seen and "printf" in problem.remedy
    assert "hush" not in str(problem)


def check(changes: dict[str, Any], version: str | None = "0.25.1", name: str = "vllm", hosts: int = 2) -> list[str]:
    found = {"name": name, "version": version, "reason": None}
    problems = _spec.check_settings(settings(**changes), found, {**PLAN, "world_size": hosts})
    return [problem.where for problem in problems]


@pytest.mark.parametrize(
    ("changes", "where"),
    [
        ({"args": ["--master-addr", "10.0.0.1"]}, "gb10_server_args"),
        ({"args": ["--max_model_len=4096"]}, "gb10_server_args"),
        ({"bind": "0.0.0.0"}, "gb10_server_bind"),
        ({"name": "../etc"}, "gb10_server_name"),
        ({"name": ""}, "gb10_server_name"),
        ({"engine": "vlm"}, "gb10_server_engine"),
        ({"env": {True: "yes"}}, "gb10_server_env"),
        ({"env": {"BAD NAME": "1"}}, "gb10_server_env"),
        ({"env": {"A": None}}, "gb10_server_env"),
        ({"env": {"A": "one\ntwo"}}, "gb10_server_env"),
        ({"env": {"HF_TOKEN": "hush-hush"}}, "gb10_server_env"),
        ({"env": {"A": "1"}, "secret_env": {"A": "hush-hush"}}, "gb10_server_secret_env"),
        ({"secret_env": {"HF_TOKEN": "hush\nhush"}}, "gb10_server_secret_env"),
        ({"secret_env": {"HF_TOKEN": None}}, "gb10_server_secret_env"),
        ({"secret_env": {"HF_TOKEN": "hush"}}, "gb10_server_secret_env"),
        ({"secret_env": {"HF TOKEN": "hush-hush"}}, "gb10_server_secret_env"),
        ({"secret_env": {"VLLM_API_KEY": "hush-hush"}}, "gb10_server_secret_env"),
        ({"port": 70000}, "gb10_server_port"),
        ({"rendezvous_port": 0}, "gb10_server_rendezvous_port"),
        ({"port": 29501}, "gb10_server_port"),
    ],
)
def test_wishes_that_are_refused(changes: dict[str, Any], where: str) -> None:
    assert check(changes) == [where]


def test_no_message_shows_a_secret() -> None:
    found = {"name": "vllm", "version": "0.25.1", "reason": None}
    env = {"HF_TOKEN": "hush-hush"}
    secret = {"HF_TOKEN": "hush\n-hush", "A B": "hush", "VLLM_API_KEY": "hush"}
    problems = _spec.check_settings(settings(env=env, secret_env=secret), found, {**PLAN, "world_size": 2})
    assert len(problems) == 6 and "hush" not in str(problems)


def test_secret_environment_makes_another_release_and_stays_out_of_the_spec() -> None:
    plain, one = build(), build(secret_env={"HF_TOKEN": "hush-hush"})
    assert one["engine"].pop("secret_env") == ["HF_TOKEN"] and "secret_env" not in plain["engine"]
    assert {**one, "id": ""} == {**plain, "id": ""} and "hush" not in str(one)
    ids = {
        plain["id"],
        one["id"],
        build(secret_env={"HF_TOKEN": "hush-other"})["id"],
        build(secret_env={"OTHER": "hush-hush"})["id"],
    }
    assert len(ids) == 4 and build(secret_env={"HF_TOKEN": "hush-hush"})["id"] == one["id"]


def test_another_api_key_makes_another_release_and_stays_out_of_the_spec() -> None:
    specs = [build(api_key=key) for key in ("", "hush-hush", "hush-other")]
    assert len({spec["id"] for spec in specs}) == 3 and "hush" not in str(specs)
    assert {**specs[1], "id": ""} == {**specs[2], "id": ""}


def test_secret_environment_stands_in_the_env_file_alone() -> None:
    templates = Path(__file__).parents[4] / "roles" / "gb10_server" / "templates"
    environment = jinja2.Environment(loader=jinja2.FileSystemLoader(templates), trim_blocks=True)
    environment.filters.update(quote=shlex.quote, to_json=json.dumps, to_nice_json=lambda value, **_more: str(value))
    spec = build(secret_env={"HF_TOKEN": "hush-hush"})
    names = {
        "gb10_server_api_key": "k",
        "gb10_server_secret_env": {"HF_TOKEN": "hush-hush=1", "B": "x y $z"},
        "__gb10_spec": {"spec": spec},
        "__gb10_server_rank": spec["ranks"][0],
    }
    texts = {path.name: environment.get_template(path.name).render(names) for path in templates.glob("*.j2")}
    assert texts.pop("env.j2").splitlines() == ["VLLM_API_KEY=k", "B=x y $z", "HF_TOKEN=hush-hush=1"]
    tasks = yaml.safe_load((templates.parent / "tasks" / "render.yml").read_text())
    (written,) = [task for task in tasks if "ansible.builtin.template" in task]
    assert "gb10_server_secret_env" in written["no_log"] and "gb10_server_api_key" in written["no_log"]
    assert "launch.sh.j2" in texts and "spec.json.j2" in texts and "hush" not in str(texts)


def test_image_with_an_old_or_another_engine_is_refused() -> None:
    assert check({}, version="0.11.0") == ["gb10_image_ref"]
    assert check({}, version="0.5.23", name="sglang") == ["gb10_image_ref"]


def test_arguments_are_held_against_the_flags_of_the_image() -> None:
    found = flag_lists.found("vllm-0.25.1")
    plan = {**PLAN, "world_size": 2}
    assert _spec.check_settings(settings(), found, plan) == []
    wrong = settings(args=["--enforce-eagr", "--swap-space", "4"])
    assert [problem.where for problem in _spec.check_settings(wrong, found, plan)] == ["gb10_server_args"] * 2
    # Of another engine than the recipe's, the flags say nothing.
    other = flag_lists.found("sglang-0.5.20")
    assert [problem.where for problem in _spec.check_settings(wrong, other, plan)] == ["gb10_image_ref"]


def test_a_host_without_a_rank_is_refused() -> None:
    assert check({}, hosts=4) == ["gb10_plan_tp"]


@pytest.mark.parametrize(
    ("changes", "version"),
    [({}, "0.25.1"), ({"bind": "::1"}, "0.11.1"), ({"bind": "10.0.0.5", "api_key": "k"}, "0.32.0+cpu"), ({}, None)],
)
def test_wishes_that_are_granted(changes: dict[str, Any], version: str | None) -> None:
    assert check(changes, version) == []
