# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 gb10.serving contributors
# Private to gb10.serving: what docker says when a pull or a build fails, and what to do. Pure.
from __future__ import annotations

import re

#: A pattern of docker's text, what it means, what to do. The first that fits counts.
_ANY = (
    (
        r"no space left on device",
        "the disk of Docker's data root is full",
        "free space there ('docker system df', 'docker image prune')",
    ),
    (
        r"cannot connect to the docker daemon|permission denied while trying to connect|dial unix .*permission denied",
        "Docker does not answer this user",
        "use become, or add the user to the group docker",
    ),
)
_UNREACHABLE = (
    r"no such host|dial tcp|timeout|connection refused|network is unreachable|proxyconnect|name resolution|"
    r"server misbehaving|deadline exceeded|EOF$"
)
_REGISTRY = (
    (r"toomanyrequests|rate limit", "the registry's limit of pulls is reached", "wait, or log in with 'docker login'"),
    (
        r"no matching manifest for|does not match the specified platform|image operating system .* cannot be used",
        "the registry has no image of this name for linux/{architecture}",
        "name a tag that is built for {architecture}",
    ),
    (
        r"unauthorized|authentication required|no basic auth credentials|\bdenied\b|\b40[13]\b",
        "the registry wants a login, or there is no such repository",
        "check the name, and log in on this node with 'docker login' as the user who pulls (root with become)",
    ),
    (
        r"manifest unknown|manifest for .* not found|name unknown|repository .* not found|not found: ",
        "the registry has no such image or tag",
        "check the name and the tag",
    ),
    (
        r"x509|certificate|server gave HTTP response to HTTPS client|tls: ",
        "the registry's certificate is not trusted, or it speaks plain HTTP",
        "add its certificate below /etc/docker/certs.d, or name it in insecure-registries of the daemon",
    ),
    (
        _UNREACHABLE,
        "the registry cannot be reached from this node",
        "check the node's network, DNS and Docker's proxy, or load the image here by hand: 'docker load -i FILE'",
    ),
)
_BUILD = (
    (
        r"cannot locate (specified )?Dockerfile|symlinks in Dockerfile path|failed to read dockerfile",
        "the Dockerfile is not where it is said to be",
        "name it relative to the context",
    ),
    (
        r"exec format error",
        "the base image is built for another architecture",
        "use a base image for {architecture}",
    ),
    (r"dockerfile parse error|unknown instruction", "the Dockerfile has an error", "correct the line that is named"),
    (
        r"returned a non-zero code|did not complete successfully",
        "a command of the Dockerfile failed",
        "look at its last lines above; a package index that cannot be reached is the usual reason",
    ),
)


def _explained(text: str, table: tuple[tuple[str, str, str], ...], architecture: str) -> str | None:
    for pattern, meaning, remedy in table:
        if re.search(pattern, text, re.IGNORECASE | re.MULTILINE):
            return f"{meaning}; {remedy}".format(architecture=architecture)
    return None


def pull_problem(text: str, architecture: str) -> str:
    """In one sentence what the end of docker pull's output means and what to do."""
    return _explained(text, (*_ANY, *_REGISTRY), architecture) or "see the text of docker pull"


def build_problem(text: str, architecture: str) -> str:
    """The same for docker build, which pulls its base image too."""
    found = _explained(text, (*_ANY, *_BUILD[:-1]), architecture)
    if found:
        return found
    if not re.search(_BUILD[-1][0], text, re.IGNORECASE):
        found = _explained(text, _REGISTRY, architecture)
        if found:
            return f"of its base image: {found}"
    return _explained(text, _BUILD[-1:], architecture) or "see the text of docker build"


def step_of(line: str) -> str | None:
    """What a line of docker build's output says of its progress: "Step 2/5 : RUN x", "#7 [2/5] RUN x"."""
    found = re.match(r"Step (\d+/\d+) : |#\d+ \[(?:\S+ )?(\d+/\d+)\] ", line)
    return (found.group(1) or found.group(2)) if found else None
