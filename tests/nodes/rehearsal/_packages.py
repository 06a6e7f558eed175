# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""Debian and Ubuntu packages: install what is missing, read the configured mirror. Private to the rehearsal tool."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from ._shell import Problem, as_root, missing_tools, run, say

PACKAGE_OF = {
    "docker": "docker.io",
    "dockerd": "docker.io",
    "rsync": "rsync",
    "ssh": "openssh-client",
    "ssh-keygen": "openssh-client",
    "mmdebstrap": "mmdebstrap",
    "ip": "iproute2",
    "iptables": "iptables",
}


def install(packages: Iterable[str]) -> None:
    """Install packages by apt-get, without recommendations; waits for another apt-get to end."""
    names = sorted(set(packages))
    command = f"apt-get install -y --no-install-recommends {' '.join(names)}"
    if missing_tools(["apt-get"]):
        raise Problem(f"Missing on this machine: {', '.join(names)} (Debian names). Install them and run this again.")
    try:
        root = as_root()
    except Problem as error:
        raise Problem(f"Missing: {', '.join(names)}. Get them by: sudo {command}\n{error}") from error
    say("packages", f"installing {' '.join(names)}")
    apt = [*root, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-o", "DPkg::Lock::Timeout=300"]
    install_args = ["install", "-y", "--no-install-recommends", *names]
    if run([*apt, *install_args], check=False, timeout=1200).returncode != 0:
        run([*apt, "update"], check=False, timeout=600)
        run([*apt, *install_args], timeout=1200)


def ensure_tools(tools: Iterable[str]) -> None:
    missing = missing_tools(list(tools))
    if missing:
        install(PACKAGE_OF[tool] for tool in missing)
    still = missing_tools(list(tools))
    if still:
        raise Problem(f"Still missing after installation: {', '.join(still)}. Install these commands by hand.")


def known(package: str) -> bool:
    """Whether the configured mirrors have this package."""
    if missing_tools(["apt-cache"]):
        return False
    return bool(run(["apt-cache", "show", "--no-all-versions", package], check=False).stdout.strip())


def install_engine() -> None:
    wanted = [PACKAGE_OF[tool] for tool in missing_tools(["dockerd", "docker", "iptables", "ip"])]
    if "docker.io" in wanted and known("docker-cli"):
        wanted.append("docker-cli")
    install(wanted)


def codename(os_release: str) -> str:
    """VERSION_CODENAME of an os-release text."""
    found = re.search(r'^VERSION_CODENAME="?([a-z]+)"?$', os_release, re.MULTILINE)
    if not found:
        raise Problem("No VERSION_CODENAME in /etc/os-release: this is neither Debian nor Ubuntu.")
    return found.group(1)


def _parse_one_line(text: str) -> list[tuple[str, str, str, str]]:
    entries = []
    for line in text.splitlines():
        found = re.match(r"\s*deb\s+(?:\[([^]]*)\]\s+)?(\S+)\s+(\S+)\s+([^#]+)", line)
        if found:
            options, uri, suite, components = found.groups()
            entries.append((options or "", uri, suite, components.strip()))
    return entries


def _parse_deb822(text: str) -> list[tuple[str, str, str, str]]:
    entries = []
    for stanza in re.split(r"\n\s*\n", "\n".join(ln for ln in text.splitlines() if not ln.startswith("#"))):
        fields: dict[str, str] = {}
        name = ""
        for line in stanza.splitlines():
            if line[:1].isspace():
                fields[name] = f"{fields.get(name, '')} {line.strip()}"
            elif ":" in line:
                name, _, value = line.partition(":")
                name = name.strip().lower()
                fields[name] = value.strip()
        if "deb" not in fields.get("types", "").split() or fields.get("enabled", "yes").lower() == "no":
            continue
        signed = fields.get("signed-by", "")
        options = f"signed-by={signed}" if signed.startswith("/") else ""
        for uri in fields.get("uris", "").split():
            for suite in fields.get("suites", "").split():
                entries.append((options, uri, suite, fields.get("components", "")))
    return entries


def distribution_sources(files: dict[str, str], release: str) -> list[str]:
    """The lines of the distribution itself out of all apt sources (no third-party repositories)."""
    suites = {release, f"{release}-updates", f"{release}-security"}
    lines = []
    for name, text in sorted(files.items()):
        entries = _parse_deb822(text) if name.endswith(".sources") else _parse_one_line(text)
        for options, uri, suite, components in entries:
            wanted = [c for c in components.split() if c in ("main", "universe")]
            if suite in suites and wanted:
                option_text = f"[{options}] " if options else ""
                lines.append(f"deb {option_text}{uri} {suite} {' '.join(wanted)}")
    return list(dict.fromkeys(lines))


def read_sources() -> dict[str, str]:
    folder = Path("/etc/apt/sources.list.d")
    paths = [Path("/etc/apt/sources.list"), *folder.glob("*.list"), *folder.glob("*.sources")]
    return {str(path): path.read_text(errors="replace") for path in paths if path.is_file()}


def proxy_options() -> list[str]:
    """apt's proxy settings of this machine."""
    text = run(["apt-config", "dump", "--format", "%f %v%n", "Acquire"], check=False).stdout
    pairs = (line.split(" ", 1) for line in text.splitlines() if " " in line)
    return [f'{name} "{value}"' for name, value in pairs if re.search(r"::Proxy(::|$)", name, re.I) and value.strip()]
