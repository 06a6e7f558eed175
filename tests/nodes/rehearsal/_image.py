# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""The node image: a base from a registry or from the apt mirror, then our files. Private to the rehearsal tool."""

from __future__ import annotations

import hashlib
import tempfile
import urllib.error
import urllib.request
from pathlib import Path

from . import _packages
from ._engine import Engine
from ._settings import LABEL, PREFIX, Places, digest
from ._shell import Problem, as_root, run, say

IMAGE_DIR = Path(__file__).resolve().parents[1] / "image"
REGISTRY_PROBE = "https://registry-1.docker.io/v2/"
REGISTRY_BASE = "debian:bookworm-slim"
PACKAGES = (
    "ca-certificates", "docker.io", "iproute2", "iptables", "iputils-ping", "openssh-server",
    "procps", "python3", "rsync", "sudo",
)  # fmt: skip
NOT_WANTED = ("/usr/share/man/*", "/usr/share/doc/*", "/usr/share/locale/*", "/usr/share/info/*")


def files_digest(folder: Path) -> str:
    """Digest over names, modes and contents of the image folder's files."""
    total = hashlib.sha256()
    for path in sorted(p for p in folder.iterdir() if p.is_file()):
        total.update(f"{path.name}\0{path.stat().st_mode & 0o100}\0".encode())
        total.update(path.read_bytes() + b"\0")
    return total.hexdigest()[:16]


def base_tag() -> str:
    return f"{PREFIX}/base:{digest([PACKAGES, NOT_WANTED, (IMAGE_DIR / 'Dockerfile.base').read_text()])[:12]}"


def node_tag() -> str:
    return f"{PREFIX}/node:{digest([base_tag(), files_digest(IMAGE_DIR)])[:12]}"


def present(engine: Engine, tag: str) -> bool:
    return engine.try_docker("image", "inspect", tag).returncode == 0


def ensure(engine: Engine, where: Places) -> str:
    """The node image's tag; builds what is missing."""
    tag = node_tag()
    if present(engine, tag):
        say("image", f"{tag} is there")
        return tag
    if not present(engine, base_tag()):
        _make_base(engine, where)
    say("image", f"building {tag}")
    _build(engine, "Dockerfile", tag, "--build-arg", f"BASE={base_tag()}")
    return tag


def _build(engine: Engine, dockerfile: str, tag: str, *args: str) -> None:
    has_buildx = engine.try_docker("buildx", "version").returncode == 0
    env = {**engine.env(), "DOCKER_BUILDKIT": "1" if has_buildx else "0"}
    command = ["docker", "build", "-q", "-t", tag, "--label", f"{LABEL}=image", "-f", str(IMAGE_DIR / dockerfile)]
    run([*command, *args, str(IMAGE_DIR)], env=env, timeout=1800)


def remove_older(engine: Engine, tag: str) -> None:
    """Earlier node images, once no container uses them."""
    for old in engine.docker("image", "ls", "--format", "{{.Repository}}:{{.Tag}}", f"{PREFIX}/node").split():
        if old != tag:
            engine.try_docker("image", "rm", old)


def registry_in_reach() -> bool:
    try:
        urllib.request.urlopen(REGISTRY_PROBE, timeout=5).close()
    except urllib.error.HTTPError as error:
        return error.code == 401
    except (OSError, ValueError):
        return False
    return True


def _make_base(engine: Engine, where: Places) -> None:
    if present(engine, REGISTRY_BASE) or registry_in_reach():
        say("image", f"building {base_tag()} from {REGISTRY_BASE}")
        try:
            _build(
                engine, "Dockerfile.base", base_tag(), "--network", "host",
                "--build-arg", f"FROM={REGISTRY_BASE}", "--build-arg", f"PACKAGES={' '.join(PACKAGES)}",
            )  # fmt: skip
        except Problem as error:
            say("image", f"that failed, going on with the apt mirror: {error}")
        else:
            return
    _bootstrap(engine, where)


def _bootstrap(engine: Engine, where: Places) -> None:
    """No registry: make the base from the apt mirror that this machine is configured for."""
    _packages.ensure_tools(["mmdebstrap"])
    release = _packages.codename(Path("/etc/os-release").read_text())
    sources = _packages.distribution_sources(_packages.read_sources(), release)
    if not sources:
        raise Problem(
            f"No docker registry is in reach ({REGISTRY_PROBE}) and no apt source of {release} is configured.\n"
            f"Configure one of the two, or load a base image by hand: docker load / docker tag ... {REGISTRY_BASE}"
        )
    packages = [*PACKAGES, *(["docker-cli"] if _packages.known("docker-cli") else [])]
    say("image", f"no registry in reach: bootstrapping {release} from {sources[0].split()[-3]} (about a minute)")
    where.cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=where.cache) as folder:
        tar = Path(folder) / "base.tar"
        run(
            [*as_root(), "mmdebstrap", "--quiet", "--variant=minbase", f"--include={','.join(packages)}",
             *(f"--dpkgopt=path-exclude={pattern}" for pattern in NOT_WANTED),
             *(f"--aptopt={option}" for option in _packages.proxy_options()),
             release, str(tar), *sources],
            timeout=1800,
        )  # fmt: skip
        say("image", f"importing {tar.stat().st_size / 1e6:.0f} MB as {base_tag()}")
        engine.docker("import", str(tar), base_tag())
