# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
# Private to this collection: no stability promised.
"""The questions that must have an answer before anything is changed. Pure: what was observed in, problems out."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.gb10.serving.plugins.module_utils._disk import lack_of_space

from ._problems import Problem

#: docker load needs the image twice for a while: what it unpacks from, and what it unpacks.
IMAGE_COPIES = 2

#: A machine's name of itself, as docker repeats it, to the name that images carry.
ARCHITECTURES = {"aarch64": "arm64", "x86_64": "amd64"}


@dataclass(frozen=True)
class Member:
    """A host of the group as the inventory knows it. ``rank`` is its ``gb10_rank``, if it has one."""

    name: str
    address: str
    rank: int | None


def check_inventory(group: str, members: Sequence[Member], reached: Sequence[str]) -> list[Problem]:
    """Whether the group can be a deployment at all. ``reached`` are the hosts that this run is allowed to touch."""
    if not members:
        return [
            Problem(
                "inventory",
                f"group '{group}' is missing or has no host.",
                "two or more hosts in it, each with ansible_host set to its management address.",
                "pass your inventory with '-i'; inventories/sparks/hosts.yml shows its shape.",
            )
        ]
    if len(members) == 1:
        return [
            Problem(
                members[0].name,
                f"it is the only host in group '{group}'.",
                "two or more hosts: each of them runs one rank.",
                f"add the other machines to group '{group}'.",
            )
        ]
    problems = [
        Problem(
            member.name,
            "this run leaves it out (--limit).",
            f"all {len(members)} hosts of group '{group}', because every one runs a rank.",
            "run again without --limit.",
        )
        for member in members
        if member.name not in reached
    ]
    for address, names in _shared({member.name: member.address for member in members}).items():
        problems.append(
            Problem(
                " and ".join(names),
                f"they have the same ansible_host {address}.",
                "one management address for each machine.",
                "correct ansible_host in the inventory.",
            )
        )
    given = {member.name: member.rank for member in members if member.rank is not None}
    if given and (len(given) < len(members) or sorted(given.values()) != list(range(len(members)))):
        ranks = ", ".join(f"{name}={rank}" for name, rank in given.items())
        problems.append(
            Problem(
                "gb10_rank",
                f"the hosts have {ranks}.",
                f"every number from 0 to {len(members) - 1} once, or no gb10_rank at all (inventory order).",
                "correct gb10_rank in the inventory.",
            )
        )
    return problems


def check_nodes(
    facts: Mapping[str, Mapping[str, Any]], gpus: str, ports: Mapping[str, int], own: Collection[int]
) -> list[Problem]:
    """Whether each node can run a container of this deployment.

    Args:
        facts: ``gb10`` facts by host, in rank order; the first is the head.
        gpus: what the containers ask docker for; empty for none.
        ports: TCP ports that the head needs, by what they are for.
        own: ports that the running rank of this deployment holds on the head itself.
    """
    problems: list[Problem] = []
    for host, fact in facts.items():
        docker = fact["docker"]
        if not docker["available"]:
            problems.append(
                Problem(
                    host,
                    f"docker does not answer ({docker['error']}).",
                    "a running Docker engine.",
                    f"'sudo systemctl start docker' on {host}, or install it; 'sudo docker info' must work there.",
                )
            )
        elif gpus and not docker["nvidia"]:
            problems.append(
                Problem(
                    host,
                    "docker has neither the nvidia runtime nor a CDI device for the GPU.",
                    "the NVIDIA container toolkit, which DGX OS ships.",
                    f"'sudo apt install nvidia-container-toolkit', then 'sudo nvidia-ctk runtime configure "
                    f"--runtime=docker' and 'sudo systemctl restart docker' on {host}.",
                )
            )
    kinds = {host: fact["platform"]["arch"] for host, fact in facts.items()}
    if len(set(kinds.values())) > 1:
        seen = ", ".join(f"{host} is {kind}" for host, kind in kinds.items())
        problems.append(
            Problem("nodes", f"{seen}.", "one architecture.", "take the odd machine out of the inventory group.")
        )
    head = next(iter(facts))
    return problems + check_ports(facts, {head: ports}, {head: set(own)})


def check_ports(
    facts: Mapping[str, Mapping[str, Any]],
    wanted: Mapping[str, Mapping[str, int]],
    own: Mapping[str, Collection[int]],
) -> list[Problem]:
    """Whether the ports that ranks listen on are free. An engine may find a taken one only after it has loaded.

    Args:
        facts: ``gb10`` facts by host.
        wanted: by host, the ports by what they are for.
        own: by host, the ports that the running rank of this deployment holds itself.
    """
    problems = []
    for host, ports in wanted.items():
        taken = set(facts[host]["network"]["listening_tcp_ports"] or [])
        for purpose, port in ports.items():
            if port in taken - set(own.get(host, ())):
                who, box = holder(facts[host], port)
                look = f"'sudo ss -ltnp sport = :{port}' on {host} shows the process; stop it"
                stop = f"'sudo docker stop {box}' on {host}," if box else look
                problems.append(
                    Problem(
                        host,
                        f"TCP port {port} ({purpose}) is in use{' by ' + who if who else ''}.",
                        "a free port.",
                        f"{stop} or choose another port ({_PORT_VARIABLES.get(purpose, 'see docs/variables.md')}).",
                        "port_in_use",
                    )
                )
    return problems


def holder(fact: Mapping[str, Any], port: int) -> tuple[str, str]:
    """Who listens on a port of a node, in words, and the name of its container; empty for what was not seen."""
    seen = next((entry for entry in fact["network"].get("listeners") or [] if entry["port"] == port), None)
    if seen is None:
        return "", ""
    inside = seen.get("container_id")
    box = next((item for item in fact.get("containers") or [] if inside and _same(item.get("id"), inside)), None)
    words = f"{seen['name']} (process {seen['pid']})"
    if box:
        return f"{words} of container {box['name']}", str(box["name"])
    return words, ""


def _same(one: str | None, other: str) -> bool:
    """Whether two ids of a container, either of them shortened, are one."""
    return bool(one) and (str(one).startswith(other) or other.startswith(str(one)))


def own_ports(spec: Mapping[str, Any]) -> set[int]:
    """TCP ports that a deployment with this spec listens on."""
    return {int(part["port"]) for part in (spec.get("endpoint"), spec.get("rendezvous")) if part}


_PORT_VARIABLES = {"endpoint": "gb10_server_port", "rendezvous": "gb10_server_rendezvous_port"}


def check_image(
    ref: str, images: Mapping[str, Mapping[str, Any]], facts: Mapping[str, Mapping[str, Any]]
) -> tuple[str | None, list[Problem | str]]:
    """The host that the image is taken from (the first in rank order that has it), and what is wrong with it."""
    source = next((host for host, image in images.items() if image["present"]), None)
    if source is None:
        head = next(iter(images))
        return None, [
            Problem(
                head,
                f"no node has the image '{ref}'.",
                f"the image on one of {', '.join(images)}.",
                f"'sudo docker pull {ref}' on {head} (or build it there), then run again; or correct gb10_image_ref.",
            )
        ]
    image = images[source]
    machine = facts[source]["docker"]["architecture"]
    if ARCHITECTURES.get(machine, machine) != image["architecture"]:
        return source, [
            Problem(
                source,
                f"image '{ref}' is for {image['architecture']}.",
                f"an image for {ARCHITECTURES.get(machine, machine)}, which this machine is.",
                f"'sudo docker pull --platform linux/{ARCHITECTURES.get(machine, machine)} {ref}' on {source}, "
                "or name another image in gb10_image_ref.",
            )
        ]
    problems = [
        lack_of_space(docker["root_dir"], image["size_bytes"] * IMAGE_COPIES, docker["root_free_bytes"], host)
        for host in lacking_image(images, source)
        if (docker := facts[host]["docker"])
    ]
    return source, [problem for problem in problems if problem]


def lacking_image(images: Mapping[str, Mapping[str, Any]], source: str) -> list[str]:
    """The hosts whose image of this reference is not the source's."""
    return [host for host, image in images.items() if image.get("content") != images[source]["content"]]


def _differing(model: Mapping[str, Any], wanted: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The wanted files of which is known on both sides that they hold something else."""
    there = {file["name"]: file.get("sha256") for file in model["files"]}
    pairs = [(file, there.get(file["name"]), file.get("sha256")) for file in wanted["files"]]
    return [file for file, here, expected in pairs if here and expected and here != expected]


def lacking_model(models: Mapping[str, Mapping[str, Any]], source: str) -> list[str]:
    """The hosts that do not have the source's model.

    A copy that was verified says so by its marker; further files that a user put beside it change its own digest and
    are nobody's business, as long as the model's files are all there in their sizes. Where both know the SHA-256 of a
    file it decides: two revisions of a model can have the same names, sizes and headers.
    """
    wanted = models[source]

    def has(model: Mapping[str, Any]) -> bool:
        if _differing(model, wanted):
            return False
        if model["digest"] == wanted["digest"]:
            return True
        sizes = {file["name"]: file["size"] for file in model["files"]}
        whole = all(sizes.get(file["name"]) == file["size"] for file in wanted["files"])
        return bool(model["complete"] and whole and model["copied_digest"] == wanted["digest"])

    return [host for host, model in models.items() if not has(model)]


def check_model(models: Mapping[str, Mapping[str, Any]]) -> tuple[str | None, list[Problem | str]]:
    """The host that the model is taken from (the first in rank order where it is complete), and what is wrong."""
    source = next((host for host, model in models.items() if model["complete"]), None)
    if source is None:
        host = next((name for name, model in models.items() if model["exists"]), next(iter(models)))
        model = models[host]
        return None, [
            Problem(
                host,
                f"no node has a complete model; {model['path']}: {' '.join(model['problems'])}",
                "config.json and every safetensors shard on one node.",
                f"download it there again ('hf download <model id> --local-dir {model['path']}' goes on where it "
                "stopped), or point gb10_model_dir at the right directory.",
            )
        ]
    problems: list[Problem | str | None] = []
    for host in lacking_model(models, source):
        model = models[host]
        other = sum(entry["size"] for entry in _differing(model, models[source]))
        to_come = max(models[source]["total_bytes"] - sum(entry["size"] for entry in model["files"]), other)
        problems.append(lack_of_space(model["path"], to_come, model["free_bytes"], host))
        if not model["writable"]:
            problems.append(
                Problem(
                    host,
                    f"the user may not write {model['path']}.",
                    "a directory of the user that Ansible logs in as.",
                    f"'sudo chown -R' it (or the directory above it) on {host} to that user, "
                    "or set gb10_model_root to another place.",
                )
            )
    return source, [problem for problem in problems if problem]


def _shared(values: Mapping[str, str]) -> dict[str, list[str]]:
    groups: dict[str, list[str]] = {}
    for name, value in values.items():
        groups.setdefault(value, []).append(name)
    return {value: names for value, names in groups.items() if len(names) > 1}
