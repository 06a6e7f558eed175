# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
# Private to this collection: no stability promised.
"""What the doctor says about one machine: what it is, its memory, Docker, disk, ports. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ._checks import holder
from ._doctor_types import ERROR, GB, GIB, INFO, OK, UNMEASURED, WARNING, Node, Row, Settings, gib, gigabytes, halves

#: The driver branch that NVIDIA supports on these machines.
DRIVER_BRANCH = "580"
#: Kernels that fail to register memory for RDMA, by the beginning of their release.
BAD_KERNELS = ("7.0.0-1019-",)
KERNEL_REMEDY = "Start kernel 6.17, or start with kho=off on the kernel's command line."
SWAP_USED = 4 * GIB
#: An engine's image takes up to 35 GB, and twice that while it is loaded; below the second number nothing works.
DOCKER_ROOM, NO_ROOM = 70 * GB, 5 * GB
HOLDER = GIB
PORT_VARIABLES = {"endpoint": "gb10_server_port", "rendezvous": "gb10_server_rendezvous_port"}


def node_rows(node: Node, settings: Settings, head: bool) -> list[Row]:
    """All rows about one machine but its links."""
    return [
        *_machine(node),
        *_memory(node),
        *_docker(node, settings),
        *_disk(node),
        *(_ports(node, settings) if head else []),
        *_holders(node),
    ]


def _machine(node: Node) -> Iterator[Row]:
    facts = node.part("platform")
    name = " ".join(str(facts[key]) for key in ("vendor", "product") if facts.get(key)) or "a machine without a name"
    by = f" (by {facts['evidence']})" if facts.get("evidence") else ""
    expected = "a GB10 machine"
    if facts.get("is_gb10"):
        yield Row(node.host, "platform", f"{name}{by}", expected)
    elif facts.get("is_gb10") is False:
        yield Row(
            node.host,
            "platform",
            f"{name} is not a GB10{by}",
            expected,
            WARNING,
            "Plans and limits are made for GB10. Take the machine out of the inventory, or go on at your own risk.",
        )
    else:
        yield Row(
            node.host,
            "platform",
            node.why("platform.is_gb10"),
            expected,
            UNMEASURED,
            "Run the check on the machine itself, with sudo.",
        )
    yield _kernel(node, facts)
    yield _driver(node, facts)


def _kernel(node: Node, facts: Mapping[str, Any]) -> Row:
    memory = node.part("memory")
    kernel = facts.get("kernel")
    total, free = memory.get("cma_total_bytes"), memory.get("cma_free_bytes")
    expected = "a kernel without known faults"
    if total == 0 and free:
        seen = f"{kernel or 'unknown kernel'}, CmaTotal 0 with CmaFree {free // 1024} kB: the sign of a faulty one"
        return Row(node.host, "kernel", seen, expected, ERROR, f"RDMA memory cannot be registered. {KERNEL_REMEDY}")
    if kernel is None:
        return Row(node.host, "kernel", node.why("platform.kernel"), expected, UNMEASURED)
    if str(kernel).startswith(BAD_KERNELS):
        seen = f"{kernel}, known for failing RDMA memory registration"
        return Row(node.host, "kernel", seen, expected, WARNING, KERNEL_REMEDY)
    return Row(node.host, "kernel", str(kernel), expected)


def _driver(node: Node, facts: Mapping[str, Any]) -> Row:
    driver, expected = facts.get("driver"), f"NVIDIA driver branch {DRIVER_BRANCH}"
    if driver is None:
        remedy = "'nvidia-smi' on the node shows the cause; reinstall the driver of DGX OS and reboot."
        verdict = ERROR if facts.get("is_gb10") else UNMEASURED
        return Row(node.host, "driver", node.why("platform.driver"), expected, verdict, remedy)
    if str(driver).partition(".")[0] != DRIVER_BRANCH:
        remedy = "Update DGX OS to the driver that it ships, on every node."
        return Row(node.host, "driver", str(driver), expected, WARNING, remedy)
    return Row(node.host, "driver", str(driver), expected)


def _memory(node: Node) -> Iterator[Row]:
    facts = node.part("memory")
    word = facts.get("verdict")
    expected = "enough free memory for a rank"
    if word is None:
        yield Row(node.host, "memory", node.why("memory.total_bytes"), expected, UNMEASURED)
        return
    seen = f"{word}: {gib(facts.get('available_bytes'))} of {gib(facts.get('total_bytes'))} available"
    seen += f", {gib(facts.get('free_bytes'))} free"
    if word == "driver-keeps-freed-pools":
        seen += f", the driver keeps {gib(facts.get('driver_pools_bytes'))}"
    if node.serving:
        yield Row(node.host, "memory", f"{seen}; a rank of this deployment runs", expected, INFO)
    elif word == "roomy":
        yield Row(node.host, "memory", seen, expected)
    else:
        verdict = ERROR if word == "too-little-to-start" else WARNING
        yield Row(node.host, "memory", seen, expected, verdict, str(facts.get("remedy") or ""))
    yield _swap(node, facts)


def _swap(node: Node, facts: Mapping[str, Any]) -> Row:
    total, free = facts.get("swap_total_bytes"), facts.get("swap_free_bytes")
    expected = f"less than {gib(SWAP_USED)} of swap in use"
    if total is None or free is None:
        return Row(node.host, "swap", node.why("memory.swap_free_bytes"), expected, UNMEASURED)
    if total == 0:
        return Row(node.host, "swap", "no swap", expected, INFO)
    seen = f"{gib(total - free)} of {gib(total)} in use"
    if total - free < SWAP_USED:
        return Row(node.host, "swap", seen, expected)
    remedy = "The node has been short of memory. Stop what is not needed; a reboot empties the swap."
    return Row(node.host, "swap", seen, expected, WARNING, remedy)


def _docker(node: Node, settings: Settings) -> Iterator[Row]:
    facts = node.part("docker")
    if not facts.get("available"):
        seen, remedy = halves(
            str(facts.get("error") or "docker does not answer"),
            "'sudo systemctl start docker', or install it; 'sudo docker info' must work on the node.",
        )
        yield Row(node.host, "docker", seen, "a running Docker engine", ERROR, remedy)
        return
    store = "containerd store" if facts.get("containerd_store") else facts.get("storage_driver")
    yield Row(node.host, "docker", f"{facts.get('version')} ({store})", "a running Docker engine")
    way = "the nvidia runtime or a CDI device"
    found = [item for item in facts.get("runtimes") or [] if item == "nvidia"]
    found += [item for item in facts.get("cdi_devices") or [] if "nvidia.com/gpu" in item]
    if facts.get("nvidia"):
        yield Row(node.host, "GPU in containers", ", ".join(found) or "there", way)
    elif not settings.gpus:
        yield Row(node.host, "GPU in containers", "none", "none: gb10_server_gpus is empty", INFO)
    else:
        yield Row(
            node.host,
            "GPU in containers",
            f"runtimes {', '.join(facts.get('runtimes') or []) or 'none'}, no CDI device of the GPU",
            way,
            ERROR,
            "'sudo apt install nvidia-container-toolkit', 'sudo nvidia-ctk runtime configure --runtime=docker', "
            "'sudo systemctl restart docker'.",
        )
    inside = "is" if facts.get("user_in_group") else "is not"
    seen = f"{facts.get('user')} {inside} in group docker"
    yield Row(node.host, "docker group", seen, "either: the roles use sudo", INFO)


def _disk(node: Node) -> Iterator[Row]:
    docker = node.part("docker")
    if docker.get("available"):
        yield _room(
            node, "disk for images", docker.get("root_dir"), docker.get("root_free_bytes"), "docker.root_free_bytes"
        )
    for entry in node.facts.get("storage") or []:
        yield _models(node, entry)


def _models(node: Node, entry: Mapping[str, Any]) -> Row:
    """The place for models. How much it must hold depends on the model, so room alone is not judged unless none is."""
    what, path, expected = "disk for models", entry["path"], "room for the model, writable by the login user"
    free = entry.get("free_bytes")
    if free is None:
        return Row(node.host, what, node.why(f"storage.{path}.free_bytes"), expected, UNMEASURED)
    seen = f"{gigabytes(free)} free in {path}"
    if not entry.get("writable"):
        remedy = f"'sudo chown' {entry.get('exists_path')} to the user, or set gb10_model_root to another place."
        return Row(node.host, what, f"{seen}, not writable", expected, WARNING, remedy)
    if free < NO_ROOM:
        return Row(node.host, what, seen, expected, ERROR, f"Free space in {path}, or set gb10_model_root.")
    return Row(node.host, what, seen, expected, INFO)


def _room(node: Node, what: str, path: str | None, free: int | None, key: str) -> Row:
    expected = f"{gigabytes(DOCKER_ROOM)} free, twice an image"
    if free is None:
        return Row(node.host, what, f"{path}: {node.why(key)}", expected, UNMEASURED)
    seen = f"{gigabytes(free)} free in {path}"
    if free >= DOCKER_ROOM:
        return Row(node.host, what, seen, expected)
    remedy = f"Free space in {path}; 'sudo docker system df' and 'sudo du -xsh' show what takes it."
    return Row(node.host, what, seen, expected, ERROR if free < NO_ROOM else WARNING, remedy)


def _ports(node: Node, settings: Settings) -> Iterator[Row]:
    taken = node.part("network").get("listening_tcp_ports")
    for purpose, port in settings.ports.items():
        what, expected = f"TCP port {port}", f"free for the {purpose}"
        if taken is None:
            yield Row(node.host, what, node.why("network.listening_tcp_ports"), expected, UNMEASURED)
        elif port not in taken:
            yield Row(node.host, what, "free", expected)
        elif node.serving:
            yield Row(node.host, what, "held by the rank of this deployment", expected, INFO)
        else:
            who, box = holder(node.facts, port)
            if owner := next((item for item in _containers(node) if port in (item.get("ports") or [])), None):
                who, box = f"container {owner['name']} ({owner['image']})", owner["name"]
            seen = f"in use by {who}" if who else "in use"
            stop = f"'sudo docker stop {box}'" if box else f"'sudo ss -ltnp sport = :{port}' shows by whom"
            remedy = f"{stop}; or choose another port ({PORT_VARIABLES.get(purpose, 'see docs/variables.md')})."
            yield Row(node.host, what, seen, expected, ERROR, remedy)


def _containers(node: Node) -> list[Mapping[str, Any]]:
    return list(node.facts.get("containers") or [])


def _holders(node: Node) -> Iterator[Row]:
    """Who holds memory of the GPU beside a rank of this deployment."""
    what, expected = "GPU memory", "no process holds it"
    processes = node.part("gpu").get("processes")
    if processes is None:
        if node.part("platform").get("is_gb10"):
            yield Row(node.host, what, node.why("gpu.processes"), expected, UNMEASURED)
        return
    names = {item.get("id"): str(item["name"]) for item in _containers(node) if item.get("id")}
    held = []
    for item in sorted(processes, key=lambda entry: -(entry.get("used_bytes") or 0)):
        if (item.get("used_bytes") or 0) >= HOLDER:
            inside = names.get(item.get("container_id"))
            where = f" in container {inside}" if inside else ""
            held.append((f"{item['name']} (pid {item['pid']}){where} holds {gib(item['used_bytes'])}", inside))
    if not held:
        yield Row(node.host, what, f"{len(processes)} processes hold less than {gib(HOLDER)} each", expected, OK)
    elif node.serving:
        yield Row(node.host, what, "; ".join(text for text, _inside in held), "the rank of this deployment", INFO)
    else:
        inside = next((name for _text, name in held if name), None)
        stop = f"'sudo docker stop {inside}'" if inside else "stop the process"
        seen = "; ".join(text for text, _inside in held)
        yield Row(node.host, what, seen, expected, WARNING, f"If it is not needed: {stop}.")
