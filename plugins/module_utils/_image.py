# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 gb10.serving contributors
# Private to gb10.serving: what an image is, whatever store keeps it. Pure.
"""Identity and properties of an image from ``docker image inspect``."""

from __future__ import annotations

import hashlib
import json
from typing import Any

#: uname -m -> the name of the same architecture in images
MACHINES = {"aarch64": "arm64", "arm64": "arm64", "x86_64": "amd64", "amd64": "amd64"}
PREVIOUS = "gb10-previous"
_RUNTIME_KEYS = ("Cmd", "Entrypoint", "Env", "User", "WorkingDir")


def architecture_of_machine(machine: str) -> str:
    return MACHINES.get(machine, machine)


def content_identity(entry: dict[str, Any]) -> str:
    """Same for the same layers and start-up configuration, whichever store keeps them, before and after a copy."""
    layers = list((entry.get("RootFS") or {}).get("Layers") or [])
    config = entry.get("Config") or {}
    runtime = {key: config.get(key) or None for key in _RUNTIME_KEYS}
    text = json.dumps({"layers": layers, "config": runtime}, sort_keys=True, separators=(",", ":"))
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def absent(ref: str) -> dict[str, Any]:
    return {
        "ref": ref,
        "present": False,
        "content": None,
        "id": None,
        "architecture": None,
        "size_bytes": None,
        "layers": None,
    }


def describe(ref: str, inspected: str) -> dict[str, Any]:
    """The image facts of engine_info from the output of ``docker image inspect REF``."""
    entries = json.loads(inspected)
    if not entries:
        return absent(ref)
    entry = entries[0]
    return {
        "ref": ref,
        "present": True,
        "content": content_identity(entry),
        "id": entry.get("Id"),
        "architecture": entry.get("Architecture") or None,
        "size_bytes": int(entry.get("Size") or 0),
        "layers": len((entry.get("RootFS") or {}).get("Layers") or []),
    }


def repository(ref: str) -> str:
    """The reference without tag: registry:5000/a/b:tag -> registry:5000/a/b."""
    head, separator, last = ref.rpartition("/")
    return head + separator + last.split("@", 1)[0].split(":", 1)[0]


def previous_ref(ref: str) -> str:
    return f"{repository(ref)}:{PREVIOUS}"


def problem_of_ref(ref: str) -> str | None:
    """Why this reference cannot be distributed, or None."""
    if "@" in ref:
        return "a digest does not survive save and load; give the image a tag and name that"
    if ref.startswith("-") or not ref or any(char.isspace() for char in ref):
        return "it is not a reference"
    if ref == previous_ref(ref):
        return f"the tag {PREVIOUS} is kept for going back"
    return None


def save_commands(ref: str, os_name: str, architecture: str | None, api_version: str) -> list[list[str]]:
    """Commands to try in turn. The containerd store saves a multi-platform image only when the platform is named."""
    plain = ["docker", "save", ref]
    try:
        version = tuple(int(part) for part in api_version.strip().split("."))
    except ValueError:
        version = (0,)
    if architecture and version >= (1, 48):
        return [["docker", "save", "--platform", f"{os_name or 'linux'}/{architecture}", ref], plain]
    return [plain]


def load_problem(text: str) -> str:
    """What the end of docker load's output means and what to do."""
    low = text.lower()
    if "no space left" in low:
        return (
            "the disk of Docker's data root is full. Free space there ('docker system df', 'docker image prune') "
            "and run again"
        )
    if "no such file or directory" in low and "blob" in low:
        return (
            "the archive names blobs that are not in it (several platforms in the source's store). Save on a "
            "newer Docker, which knows 'docker save --platform'"
        )
    if "cannot connect to the docker daemon" in low or "permission denied" in low:
        return "Docker does not answer this user. Use become, or add the user to the group docker"
    return "see the text of docker load"
