# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 gb10.serving contributors
"""Private: the container engine and the containers of the live machine.

The daemon is asked through its socket; the docker command, which takes longer to start than the daemon to answer, is
asked when there is no socket at the usual place.
"""

from __future__ import annotations

import grp
import json
import os
import pwd
import re
import socket
from typing import Any

from ._facts_source import COMMAND_SECONDS, Output, run

LABEL_PREFIX = "gb10.serving/"
SOCKET = "/var/run/docker.sock"
MOST_BYTES = 64 * 1024 * 1024


def login_user() -> str:
    """The user who logged in: the one who called sudo, else the current one."""
    user = os.environ.get("SUDO_USER")
    if user:
        return user
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


def in_group(user: str, group: str) -> bool:
    """Is the user a member of the group."""
    try:
        entry = grp.getgrnam(group)
        return user in entry.gr_mem or pwd.getpwnam(user).pw_gid == entry.gr_gid
    except KeyError:
        return False


def ask(path: str, place: str = SOCKET) -> Output | None:
    """What the daemon answers to GET path; None when it is not to be asked in this way."""
    if os.environ.get("DOCKER_HOST") or os.environ.get("DOCKER_CONTEXT") or not os.path.exists(place):
        return None
    answer = b""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as stream:
            stream.settimeout(COMMAND_SECONDS)
            stream.connect(place)
            # with HTTP/1.0 the end of the answer is the end of the connection
            stream.sendall(f"GET {path} HTTP/1.0\r\nHost: docker\r\n\r\n".encode())
            while len(answer) < MOST_BYTES:
                piece = stream.recv(262144)
                if not piece:
                    break
                answer += piece
    except TimeoutError:
        return Output("", 124, f"{place} did not answer within {COMMAND_SECONDS:g} s")
    except OSError as error:
        return Output("", 1, f"cannot connect to {place}: {error.strerror or error}")
    head, _blank, body = answer.partition(b"\r\n\r\n")
    text = body.decode("utf-8", "replace")
    ok = re.match(rb"^HTTP/1\.[01] 200\b", head)
    status = head.splitlines()[0].decode("ascii", "replace") if head else "nothing"
    return Output(text, 0) if ok else Output(text, 1, f"the Docker daemon answered {status}: {text.strip()[-300:]}")


def explain(text: str, rc: int, user: str) -> str:
    """Why docker is not available, and what to do."""
    lower = text.lower()
    last = (text.strip().splitlines() or ["no output"])[-1][-300:].strip().rstrip(".?")
    if rc == 127:
        return "Docker is not installed: there is no docker command. Install it: sudo apt install docker.io"
    if "permission denied" in lower:
        return (
            f"Permission denied on the Docker socket for user {user}. "
            f"Run with become: true, or: sudo usermod -aG docker {user}, "
            "then log in again."
        )
    if rc == 124:
        return (
            "The Docker daemon did not answer in time. Look at: sudo journalctl -u docker -n 50; "
            "then: sudo systemctl restart docker"
        )
    if any(
        words in lower
        for words in (
            "cannot connect",
            "is the docker daemon running",
            "connection refused",
            "no such file",
            "failed to connect",
        )
    ):
        return f"The Docker daemon is not running ({last}). Start it: sudo systemctl enable --now docker"
    return f"docker info failed: {last}. Look at: sudo journalctl -u docker -n 50"


def parse_info(text: str) -> dict[str, Any] | None:
    """The JSON of docker info; None when it is not JSON."""
    try:
        info = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return info if isinstance(info, dict) else None


def image_store(info: dict[str, Any]) -> bool:
    """Does this daemon keep its images in containerd's store."""
    status = info.get("DriverStatus") or []
    return any(
        "io.containerd.snapshotter" in str(part) for row in status for part in (row if isinstance(row, list) else [row])
    )


def parse_labels(text: str) -> dict[str, str]:
    """This collection's labels out of `docker ps`' comma-separated list."""
    pairs = (part.partition("=") for part in text.split(",") if part.startswith(LABEL_PREFIX))
    return {key: value for key, _equals, value in pairs}


def parse_containers(text: str) -> list[dict[str, Any]]:
    """One JSON object a line, as `docker ps -a --format '{{json .}}'` prints."""
    found = []
    for line in text.splitlines():
        item = parse_info(line) if line.startswith("{") else None
        if item and item.get("Names"):
            found.append(
                {
                    "name": str(item["Names"]).split(",", maxsplit=1)[0],
                    "id": str(item.get("ID", "")),
                    "labels": parse_labels(str(item.get("Labels") or "")),
                    "state": str(item.get("State") or "unknown").lower(),
                    "status": str(item.get("Status") or ""),
                    "image": str(item.get("Image") or ""),
                    "ports": sorted({int(port) for port in re.findall(r":(\d{1,5})->", str(item.get("Ports") or ""))}),
                }
            )
    return sorted(found, key=lambda item: item["name"])


def parse_api_containers(text: str) -> list[dict[str, Any]] | None:
    """What the daemon says about all containers, in the words of parse_containers; None when it is not that."""
    try:
        items = json.loads(text)
    except (ValueError, RecursionError):
        return None
    found = []
    for item in items if isinstance(items, list) else []:
        ports = {int(port["PublicPort"]) for port in item.get("Ports") or [] if port.get("PublicPort")}
        labels = {key: str(value) for key, value in (item.get("Labels") or {}).items() if key.startswith(LABEL_PREFIX)}
        # a container may have further names, NEIGHBOUR/ALIAS, from old links
        names = [str(name).lstrip("/") for name in item.get("Names") or []]
        found.append(
            {
                "name": next((name for name in names if "/" not in name), str(item.get("Id", ""))[:12]),
                "id": str(item.get("Id", "")),
                "labels": labels,
                "state": str(item.get("State") or "unknown").lower(),
                "status": str(item.get("Status") or ""),
                "image": str(item.get("Image") or ""),
                "ports": sorted(ports),
            }
        )
    return sorted(found, key=lambda entry: entry["name"])


def free_bytes(path: str | None) -> int | None:
    try:
        stats = os.statvfs(path or "")
    except OSError:
        return None
    return stats.f_bavail * stats.f_frsize


def summarise(output: Output, user: str, group_member: bool) -> dict[str, Any]:
    """The docker facts from what docker info printed."""
    info = parse_info(output.text) or {}
    errors = " ".join(str(item) for item in info.get("ServerErrors") or [])
    available = output.reason is None and not errors and bool(info.get("ServerVersion"))
    root = info.get("DockerRootDir") or None
    devices = info.get("DiscoveredDevices")
    cdi = sorted(str(item.get("ID")) for item in devices or [] if isinstance(item, dict)) if available else None
    runtimes = sorted(info.get("Runtimes") or {})
    return {
        "available": available,
        "error": None if available else explain(errors or output.reason or output.text, output.rc, user),
        "version": info.get("ServerVersion") or None,
        "storage_driver": info.get("Driver") or None,
        "containerd_store": image_store(info) if available else None,
        "architecture": info.get("Architecture") or None,
        "root_dir": root,
        "root_free_bytes": None,
        "runtimes": runtimes,
        "cdi_devices": cdi,
        "nvidia": ("nvidia" in runtimes or any("nvidia.com/gpu" in item for item in cdi or [])) if available else None,
        "user": user,
        "user_in_group": group_member,
    }


def read_docker(missing: dict[str, str]) -> dict[str, Any]:
    """The docker facts of the live machine."""
    user = login_user()
    output = ask("/info") or run(["docker", "info", "--format", "{{json .}}"])
    facts = summarise(output, user, in_group(user, "docker"))
    facts["root_free_bytes"] = free_bytes(facts["root_dir"])
    for key in (
        "version",
        "storage_driver",
        "containerd_store",
        "architecture",
        "root_dir",
        "root_free_bytes",
        "cdi_devices",
        "nvidia",
    ):
        if facts[key] is None:
            missing["docker." + key] = "docker info does not say" if facts["available"] else "see docker.error"
    return facts


def read_containers(missing: dict[str, str]) -> list[dict[str, Any]] | None:
    """All containers of the live machine, also stopped ones; None when docker does not answer."""
    answer = ask("/containers/json?all=1")
    found = parse_api_containers(answer.text) if answer and answer.reason is None else None
    if found is not None:
        return found
    output = answer or run(["docker", "ps", "--all", "--no-trunc", "--format", "{{json .}}"])
    if output.reason is not None:
        missing["containers"] = explain(output.reason, output.rc, login_user())
        return None
    return parse_containers(output.text)
