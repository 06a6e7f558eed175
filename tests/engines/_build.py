# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""What the builds of all engine images have in common."""

from __future__ import annotations

import fcntl
import hashlib
import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).resolve().parent
CACHE = HERE.parents[1] / ".cache" / "engine"
LABEL = "gb10.rehearsal/inputs"
PYTHON = "3.11"
SITE = f"usr/local/lib/python{PYTHON}/dist-packages"
#: Files of which each image depends on.
INPUTS = ("_build.py", "_archive.py", "_trim.py")
SEARCH_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class BuildError(Exception):
    pass


@contextmanager
def only_one() -> Iterator[None]:
    """Two builds at a time would write the same files; the second one waits and finds everything done."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextmanager
def step(name: str) -> Iterator[None]:
    print(f"engine image | {name} ...", flush=True)
    start = time.monotonic()
    yield
    print(f"engine image | {name}: {time.monotonic() - start:.1f} s", flush=True)


def run(command: list[str], log: Path, **variables: str) -> None:
    with log.open("ab") as output:
        output.write(f"+ {' '.join(command)}\n".encode())
        output.flush()
        code = subprocess.call(command, stdout=output, stderr=subprocess.STDOUT, env={**os.environ, **variables})
    if code:
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-15:])
        raise BuildError(f"{command[0]} ended with {code}; all of its output is in {log}. It ends with:\n{tail}")


def inputs_digest(names: Iterable[str], below: str = "") -> str:
    """Of the machine's kind, of what lies below, and of the named files of this directory."""
    digest = hashlib.sha256(platform.machine().encode())
    digest.update(below.encode())
    for name in (*INPUTS, *names):
        digest.update((HERE / name).read_bytes())
    return digest.hexdigest()[:16]


def install(requirements: Path, site: Path, log: Path) -> None:
    """Wheels for the Python of the image, whichever Python this is, without what they depend on."""
    machine = platform.machine()
    names = [f"manylinux_2_{minor}_{machine}" for minor in range(36, 4, -1)]
    tags = [f"--platform={name}" for name in [*names, f"manylinux2014_{machine}", f"linux_{machine}", "any"]]
    tags += [f"--abi={abi}" for abi in (f"cp{PYTHON.replace('.', '')}", "abi3", "none")]
    tags += ["--implementation=cp", f"--python-version={PYTHON}", "--only-binary=:all:"]
    index = os.environ.get("GB10_TORCH_INDEX_URL")
    command = [sys.executable, "-m", "pip", "install", "--no-deps", "--no-compile", "--progress-bar=off", *tags]
    command += [f"--extra-index-url={index}"] if index else []
    run([*command, f"--target={site}", "-r", str(requirements)], log)


def distribution(site: Path, name: str, version: str) -> Path:
    """The metadata directory of a package that pip did not bring."""
    about = site / f"{name}-{version}.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    return about


def inside(root: Path, log: Path, environment: Mapping[str, str], *command: str) -> None:
    """Run a command of the new system."""
    variables = [f"{name}={value}" for name, value in {**environment, "HOME": "/root"}.items()]
    namespace = ["unshare", "--mount", *(["--map-root-user"] if os.geteuid() else [])]
    enter = ["sh", "-ec", 'for i in dev proc; do mount --rbind "/$i" "$0/$i"; done; exec chroot "$0" "$@"', str(root)]
    run(["env", "-i", *variables, *namespace, *enter, *command], log)


def compile_modules(root: Path, log: Path, environment: Mapping[str, str], site: str = SITE) -> None:
    """Bytecode beside the sources. Files for a newer Python do not compile; nothing imports them."""
    code = (
        "from compileall import compile_dir; from py_compile import PycInvalidationMode as Mode;"
        f"compile_dir('/{site}', quiet=2, workers=0, invalidation_mode=Mode.UNCHECKED_HASH)"
    )
    inside(root, log, environment, "python3", "-c", code)


def runtime(environment: Mapping[str, str], entrypoint: list[str], digest: str) -> dict[str, object]:
    """The image's own settings."""
    return {
        "Env": [f"{key}={value}" for key, value in environment.items()],
        "Entrypoint": entrypoint,
        "Labels": {LABEL: digest},
        "WorkingDir": "/",
    }


def architecture() -> str:
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())


def loaded_digest(tag: str) -> str:
    command = ["docker", "image", "inspect", "--format", f'{{{{index .Config.Labels "{LABEL}"}}}}', tag]
    return subprocess.run(command, capture_output=True, text=True).stdout.strip()
