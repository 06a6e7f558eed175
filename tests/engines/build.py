#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""Build the rehearsal's engine image: the real vLLM, its CPU build, as small as serving a text model allows.

    build.py              build what is missing, load it into the Docker daemon of DOCKER_HOST
    build.py --no-load    only the archive; its path is the last line printed

Needs: mmdebstrap, pip, unshare. pip and apt use this machine's own configuration.
GB10_TORCH_INDEX_URL names a package index that has torch's CPU builds, where pip's own configuration has none.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import _archive
import _trim

HERE = Path(__file__).resolve().parent
CACHE = HERE.parents[1] / ".cache" / "engine"
INPUTS = ("build.py", "_archive.py", "_trim.py", "stub.py", "requirements.txt")
TAG = "gb10-rehearsal/vllm:cpu"
LABEL = "gb10.rehearsal/inputs"

SUITE, PYTHON = "bookworm", "3.11"
DEBIAN_PACKAGES = ("python3", "libgomp1", "libnuma1", "libstdc++6")
NO_DOCS = [f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in ("doc", "man", "info", "locale", "lintian")]
SITE = f"usr/local/lib/python{PYTHON}/dist-packages"
ENGINE_VERSION = "0.32.0+cpu"  # "+cpu" tells the engine its platform
STUBS = {"numba": "0.65.0", "torchvision": "0.28.0"}
# Imports only where it is run: the engine's child processes load this file too.
COMMAND = """#!/usr/bin/python3
if __name__ == "__main__":
    from vllm.entrypoints.cli.main import main

    main()
"""
# Files for a newer Python do not compile; nothing imports them.
COMPILE = f"""
from compileall import compile_dir
from py_compile import PycInvalidationMode

compile_dir("/{SITE}", quiet=2, workers=0, invalidation_mode=PycInvalidationMode.UNCHECKED_HASH)
"""
INSPECT = """
from vllm import ModelRegistry

ModelRegistry.models["Qwen3_5MoeForCausalLM"].inspect_model_cls()
"""
ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "TORCHDYNAMO_DISABLE": "1",  # the image has no C++ compiler
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",  # nodes that share a machine would all take its first core
    "OMP_NUM_THREADS": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
}


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


def inputs_digest() -> str:
    digest = hashlib.sha256(platform.machine().encode())
    for name in INPUTS:
        digest.update((HERE / name).read_bytes())
    return digest.hexdigest()[:16]


@step("base system")
def base_system(work: Path, root: Path) -> Path:
    layer = work / "base.tar"
    options = ["--variant=essential", f"--include={','.join(DEBIAN_PACKAGES)}", *NO_DOCS]
    run(["mmdebstrap", *options, SUITE, str(layer)], work / "base.log", SOURCE_DATE_EPOCH="946684800")
    root.mkdir()
    run(["tar", "-xf", str(layer), "-C", str(root), "--exclude=./dev/*"], work / "base.log")
    return layer


@step("Python packages")
def python_packages(work: Path, site: Path) -> None:
    machine = platform.machine()
    names = [f"manylinux_2_{minor}_{machine}" for minor in range(36, 4, -1)]
    tags = [f"--platform={name}" for name in [*names, f"manylinux2014_{machine}", f"linux_{machine}", "any"]]
    tags += [f"--abi={abi}" for abi in (f"cp{PYTHON.replace('.', '')}", "abi3", "none")]
    tags += ["--implementation=cp", f"--python-version={PYTHON}", "--only-binary=:all:"]
    index = os.environ.get("GB10_TORCH_INDEX_URL")
    command = [sys.executable, "-m", "pip", "install", "--no-deps", "--no-compile", "--progress-bar=off", *tags]
    command += [f"--extra-index-url={index}"] if index else []
    try:
        run([*command, f"--target={site}", "-r", str(HERE / "requirements.txt")], work / "pip.log")
    except BuildError as error:
        if "No matching distribution found for torch" not in str(error):
            raise
        raise BuildError(
            f"{error}\npip found no CPU build of torch, and the CUDA build is gigabytes larger. Set"
            " GB10_TORCH_INDEX_URL to an index that has it, or PIP_FIND_LINKS to a directory that holds the wheel."
        ) from error
    _trim.drop(site)
    _trim.strip_all(site)


def own_files(root: Path, site: Path) -> None:
    for name, version in {"vllm": ENGINE_VERSION, **STUBS}.items():
        about = site / f"{name}-{version}.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    for name in STUBS:
        (site / name).mkdir()
        shutil.copyfile(HERE / "stub.py", site / name / "__init__.py")
    command = root / "usr/local/bin/vllm"
    command.write_text(COMMAND)
    command.chmod(0o755)


def inside(root: Path, work: Path, *command: str) -> None:
    """Run a command of the new system."""
    variables = [f"{name}={value}" for name, value in {**ENVIRONMENT, "HOME": "/root"}.items()]
    namespace = ["unshare", "--mount", *(["--map-root-user"] if os.geteuid() else [])]
    enter = ["sh", "-ec", 'for i in dev proc; do mount --rbind "/$i" "$0/$i"; done; exec chroot "$0" "$@"', str(root)]
    run(["env", "-i", *variables, *namespace, *enter, *command], work / "inside.log")


def warm_up(root: Path, work: Path) -> None:
    """Compile all modules, and let the engine inspect the model once: each later start saves one round of imports."""
    inside(root, work, "python3", "-c", COMPILE)
    inside(root, work, "python3", "-c", INSPECT)


def image_archive(digest: str) -> Path:
    folder = CACHE / digest
    archive, work = folder / "image.tar", folder / "work"
    if archive.exists():
        return archive
    shutil.rmtree(folder, ignore_errors=True)
    work.mkdir(parents=True)
    root, layers = work / "root", {}
    site = root / SITE
    with ThreadPoolExecutor() as pool:
        packages = pool.submit(python_packages, work, work / "site")
        layers["base system"] = base_system(work, root)
        packages.result()
    with step("compile, inspect the model"):
        site.rmdir()
        (work / "site").rename(site)
        own_files(root, site)
        warm_up(root, work)
    with step("layers"):
        torch = sorted(site.glob("*torch*"))
        engine = sorted(site.glob("vllm*"))
        other = sorted(set(site.iterdir()) - {*torch, *engine})
        engine += [root / "usr/local/bin/vllm", root / "root/.cache"]
        for name, paths in (("torch", torch), ("packages", other), ("engine", engine)):
            layers[name] = work / f"{name}.tar"
            _archive.write_layer(layers[name], root, paths)
        runtime = {
            "Env": [f"{key}={value}" for key, value in ENVIRONMENT.items()],
            "Entrypoint": ["vllm", "serve"],
            "Labels": {LABEL: digest},
            "WorkingDir": "/",
        }
        architecture = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
        _archive.write_image(folder / "image.part", TAG, architecture, layers, runtime)
    shutil.rmtree(work)
    (folder / "image.part").rename(archive)
    return archive


def loaded_digest() -> str:
    command = ["docker", "image", "inspect", "--format", f'{{{{index .Config.Labels "{LABEL}"}}}}', TAG]
    return subprocess.run(command, capture_output=True, text=True).stdout.strip()


def main() -> int:
    parser = argparse.ArgumentParser(description="Build the engine image of the rehearsal.")
    parser.add_argument("--no-load", action="store_true", help="write the archive and load it nowhere")
    load = not parser.parse_args().no_load
    digest = inputs_digest()
    try:
        if load and loaded_digest() == digest:
            print(f"engine image | {TAG} is there already")
            return 0
        with only_one():
            archive = image_archive(digest)
        if load:
            with step("docker load"):
                run(["docker", "load", "--quiet", "--input", str(archive)], archive.with_name("load.log"))
    except BuildError as error:
        print(f"engine image | {error}", file=sys.stderr)
        return 1
    print(f"engine image | {archive.stat().st_size / 1e6:.0f} MB", flush=True)
    print(archive)
    return 0


if __name__ == "__main__":
    sys.exit(main())
