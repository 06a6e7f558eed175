# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
# Private to this collection: no stability promised.
"""The spec: the one document that every address, port, interface, path, flag and version of a deployment comes from."""

from __future__ import annotations

import hashlib
import ipaddress
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.gb10.serving.plugins.module_utils._endpoint import KEY_EXPECTED, key_problem
from ansible_collections.gb10.serving.plugins.module_utils._model_links import CONTAINER_PATH
from ansible_collections.gb10.serving.plugins.module_utils._rank import NAME

from . import _engines, _flags, _secret_env
from ._network_env import network_env, node_network
from ._problems import Problem

VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def is_loopback(address: str) -> bool:
    """Whether ``address`` (an IP address or ``localhost``) can only be reached from the node itself."""
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return address == "localhost"


def check_settings(settings: Mapping[str, Any], found: Mapping[str, Any], plan: Mapping[str, Any]) -> list[Problem]:
    """What is wrong with the wishes themselves, once image and plan are known.

    Args:
        settings: as for :func:`build`.
        found: the engine in the image, as ``engine_info`` found it.
        plan: result of ``memory_plan``.
    """
    problems: list[Problem] = []
    try:
        engine = _engines.get(settings["engine"])
    except ValueError as error:
        return [Problem("gb10_server_engine", f"{error}.", "the name of a known engine.", "correct the recipe.")]
    if found["name"] != settings["engine"]:
        problems.append(
            Problem(
                "gb10_image_ref",
                f"the image {settings['image_ref']} holds {found['name'] or 'no known engine'}"
                f"{' (' + found['reason'] + ')' if found.get('reason') else ''}.",
                f"{settings['engine']}, as gb10_server_engine says.",
                "name an image with that engine, or the engine of that image.",
            )
        )
    elif found["version"] and _version(found["version"]) < engine.MIN_VERSION:
        least = ".".join(map(str, engine.MIN_VERSION))
        problems.append(
            Problem(
                "gb10_image_ref",
                f"the image {settings['image_ref']} holds {settings['engine']} {found['version']}.",
                f"{least} or newer, the first release that starts ranks on several nodes by itself.",
                "name a newer image in the recipe.",
            )
        )
    if plan["tp"] != plan["world_size"]:
        problems.append(
            Problem(
                "gb10_plan_tp",
                f"it is {plan['tp']} and group 'sparks' has {plan['world_size']} hosts.",
                "one rank on every host.",
                f"take {plan['world_size'] - plan['tp']} hosts out of the group, or set gb10_plan_tp to "
                f"{plan['world_size']} if the model can be split that far.",
            )
        )
    if not NAME.fullmatch(settings["name"]):
        problems.append(
            Problem(
                "gb10_server_name",
                f"it is {settings['name']!r}.",
                "letters, digits, '.', '_' and '-', beginning with a letter or digit.",
                "choose such a name: containers and directories carry it.",
            )
        )
    problems += _check_env(settings["env"]) + _check_ports(settings)
    if found["name"] == settings["engine"]:
        problems += _flags.check(settings["args"], found).problems
    problems += check_key(settings["api_key"])
    problems += _secret_env.check(settings["env"], settings["secret_env"], engine.API_KEY_VARIABLE)
    if not is_loopback(settings["bind"]) and not settings["api_key"]:
        problems.append(
            Problem(
                "gb10_server_bind",
                f"{settings['bind']} can be reached from other machines and no API key is set.",
                "an API key, or a loopback address.",
                "set gb10_server_api_key (keep it in ansible-vault), or leave gb10_server_bind at 127.0.0.1 "
                "and reach the server through 'ssh -L'.",
            )
        )
    return problems


def check_key(key: Any) -> list[Problem]:
    """A key that a client can send. No message shows it."""
    wrong = key_problem(str(key or ""))
    if not wrong:
        return []
    return [
        Problem(
            "gb10_server_api_key",
            f"it {wrong}.",
            f"{KEY_EXPECTED}.",
            "encrypt it anew without a newline: printf %s KEY | ansible-vault encrypt_string "
            "--stdin-name gb10_server_api_key, or echo -n.",
        )
    ]


def _check_env(env: Mapping[Any, Any]) -> list[Problem]:
    """An environment that a shell, docker and the engine understand alike."""
    wrong = [
        repr(key)
        for key, value in env.items()
        if not isinstance(key, str) or not VARIABLE.fullmatch(key) or value is None or not str(value).isprintable()
    ]
    if not wrong:
        return []
    return [
        Problem(
            "gb10_server_env",
            f"{', '.join(wrong)} cannot be passed on.",
            "names of letters, digits and '_', and values of one line.",
            "correct it; put quotes around names and values that YAML reads as something else, like yes and null.",
        )
    ]


def _check_ports(settings: Mapping[str, Any]) -> list[Problem]:
    """Two ports that can be bound, and are two."""
    ports = {"gb10_server_port": settings["port"], "gb10_server_rendezvous_port": settings["rendezvous_port"]}
    problems = [
        Problem(name, f"it is {port}.", "a TCP port from 1 to 65535.", "choose another.")
        for name, port in ports.items()
        if port is not None and not 0 < port < 65536
    ]
    if len(set(ports.values())) < len(ports):
        problems.append(
            Problem(
                "gb10_server_port",
                f"it is {settings['port']}, and so is gb10_server_rendezvous_port.",
                "two ports.",
                "change one of them.",
            )
        )
    return problems


def build(
    settings: Mapping[str, Any],
    hosts: Sequence[str],
    rails: Sequence[Mapping[str, Any]],
    plan: Mapping[str, Any],
    model: Mapping[str, Any],
    engine: Mapping[str, Any],
    places: Mapping[str, Mapping[str, Any]],
) -> dict[str, Any]:
    """The spec of a deployment.

    Args:
        settings: wishes of recipe and inventory, named as the options of the action ``deployment_spec``.
        hosts: host names in rank order.
        rails: pairing of the fabric, rail 0 first; each with ``subnet`` and ``members`` by host.
        plan: result of ``memory_plan``.
        model: result of ``model_info`` on the node that holds the model.
        engine: result of ``engine_info`` on the node that holds the image.
        places: by host, the absolute model directory as ``path`` and what is mounted beside it as ``mounts``.

    Returns:
        A JSON-ready mapping with the keys of the architecture's section "spec"; ``id`` depends on all the rest but
        ``plan``, which explains ``memory`` and holds measurements that differ from run to run.
    """
    knowledge = _engines.get(settings["engine"])
    spec: dict[str, Any] = {
        "name": settings["name"],
        "engine": {
            "name": settings["engine"],
            "version": engine["version"],
            "entrypoint": knowledge.ENTRYPOINT,
            "args": [str(arg) for arg in settings["args"]],
            "api_key": {"variable": knowledge.API_KEY_VARIABLE, "file": knowledge.API_KEY_FILE},
            **({"secret_env": sorted(settings["secret_env"])} if settings["secret_env"] else {}),
            "image": {"ref": engine["image"]["ref"], "content": engine["image"]["content"]},
        },
        "model": {
            "id": settings["model_id"],
            "served_name": settings["served_name"] or settings["model_id"],
            "digest": model["digest"],
            "container_path": CONTAINER_PATH,
        },
        "world_size": len(hosts),
        "parallel": {"tp": plan["tp"], "pp": 1, "ep": False},
        "rendezvous": {
            "address": rails[0]["members"][hosts[0]]["address"],
            "port": settings["rendezvous_port"] or knowledge.RENDEZVOUS_PORT,
        },
        "endpoint": {"bind": settings["bind"], "port": settings["port"], "api_key": bool(settings["api_key"])},
        "memory": {
            "context_length": plan["context_length"],
            "max_num_seqs": plan["max_num_seqs"],
            "max_num_batched_tokens": plan.get("max_num_batched_tokens"),
            "kv_cache_dtype": plan.get("kv_cache_dtype", "auto"),
            "kv_cache_bytes": plan["kv_cache_bytes"],
            "gpu_memory_utilization": plan["gpu_memory_utilization"],
            "mem_fraction_static": plan.get("mem_fraction_static"),
        },
        "container": {
            "gpus": settings["gpus"],
            "devices": ["/dev/infiniband"] if settings["rdma"] else [],
            "ulimits": dict(settings["ulimits"]),
        },
    }
    spec["ranks"] = [_rank(spec, settings, number, host, rails, places[host]) for number, host in enumerate(hosts)]
    # Other secrets make another release; which ones they are cannot be told from its name.
    key = {knowledge.API_KEY_VARIABLE or "api_key": settings["api_key"]} if settings["api_key"] else {}
    hidden = _secret_env.digest(settings["name"], {**settings["secret_env"], **key})
    spec["id"] = f"{settings['name']}-{_digest([spec, hidden] if hidden else spec)[:12]}"
    # Whether it was kept says something of this run, not of the deployment.
    spec["plan"] = {key: value for key, value in plan.items() if key != "kept"}
    return spec


def _rank(
    spec: dict[str, Any],
    settings: Mapping[str, Any],
    number: int,
    host: str,
    rails: Sequence[Mapping[str, Any]],
    place: Mapping[str, Any],
) -> dict[str, Any]:
    rank: dict[str, Any] = {
        "host": host,
        "rank": number,
        **node_network(host, rails, settings["rdma"]),
        "model_path": place["path"],
        "mounts": list(place["mounts"]),
        "container_name": f"gb10-{settings['name']}-rank{number}",
    }
    knowledge = _engines.get(settings["engine"])
    rank["env"] = {
        **network_env(rank, settings["rdma"]),
        **knowledge.env(spec, rank),
        **{key: str(value) for key, value in settings["env"].items()},
    }
    rank["argv"] = knowledge.argv(spec, number)
    return rank


def _digest(document: Any) -> str:
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()


def _version(text: str) -> tuple[int, ...]:
    """The leading numbers of a version: ``0.32.0+cpu`` is (0, 32, 0)."""
    numbers = []
    for part in text.split("+", 1)[0].split("."):
        digits = part[: len(part) - len(part.lstrip("0123456789"))]
        if not digits:
            break
        numbers.append(int(digits))
    return tuple(numbers)
