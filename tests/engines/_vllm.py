# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""The image with the real vLLM, its CPU build, as small as serving a text model allows."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import _archive
import _build
import _trim

TAG = "gb10-rehearsal/vllm:cpu"
INPUTS = ("_vllm.py", "stub.py", "requirements.txt")

SUITE = "bookworm"
DEBIAN_PACKAGES = ("python3", "libgomp1", "libnuma1", "libstdc++6")
NO_DOCS = [f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in ("doc", "man", "info", "locale", "lintian")]
ENGINE_VERSION = "0.32.0+cpu"  # "+cpu" tells the engine its platform
STUBS = {"numba": "0.65.0", "torchvision": "0.28.0"}
# Imports only where it is run: the engine's child processes load this file too.
COMMAND = """#!/usr/bin/python3
if __name__ == "__main__":
    from vllm.entrypoints.cli.main import main

    main()
"""
INSPECT = """
from vllm import ModelRegistry

ModelRegistry.models["Qwen3_5MoeForCausalLM"].inspect_model_cls()
"""
ENVIRONMENT = {
    "PATH": _build.SEARCH_PATH,
    "TORCHDYNAMO_DISABLE": "1",  # the image has no C++ compiler
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",  # nodes that share a machine would all take its first core
    "OMP_NUM_THREADS": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
}
#: Layers that hold nothing of this engine, the lowest first; another engine's image may begin with them.
COMMON = ("base system", "torch", "packages")


def digest() -> str:
    return _build.inputs_digest(INPUTS)


@_build.step("base system")
def base_system(work: Path, root: Path) -> Path:
    layer = work / "base.tar"
    options = ["--variant=essential", f"--include={','.join(DEBIAN_PACKAGES)}", *NO_DOCS]
    _build.run(["mmdebstrap", *options, SUITE, str(layer)], work / "base.log", SOURCE_DATE_EPOCH="946684800")
    root.mkdir()
    _build.run(["tar", "-xf", str(layer), "-C", str(root), "--exclude=./dev/*"], work / "base.log")
    return layer


@_build.step("Python packages")
def python_packages(work: Path, site: Path) -> None:
    try:
        _build.install(_build.HERE / "requirements.txt", site, work / "pip.log")
    except _build.BuildError as error:
        if "No matching distribution found for torch" not in str(error):
            raise
        raise _build.BuildError(
            f"{error}\npip found no CPU build of torch, and the CUDA build is gigabytes larger. Set"
            " GB10_TORCH_INDEX_URL to an index that has it, or PIP_FIND_LINKS to a directory that holds the wheel."
        ) from error
    _trim.drop(site)
    _trim.strip_all(site)


def own_files(root: Path, site: Path) -> None:
    for name, version in {"vllm": ENGINE_VERSION, **STUBS}.items():
        _build.distribution(site, name, version)
    for name in STUBS:
        (site / name).mkdir()
        shutil.copyfile(_build.HERE / "stub.py", site / name / "__init__.py")
    command = root / "usr/local/bin/vllm"
    command.write_text(COMMAND)
    command.chmod(0o755)


def image_archive() -> Path:
    inputs = digest()
    folder = _build.CACHE / inputs
    archive, work = folder / "image.tar", folder / "work"
    if archive.exists():
        return archive
    shutil.rmtree(folder, ignore_errors=True)
    work.mkdir(parents=True)
    root, layers = work / "root", {}
    site = root / _build.SITE
    with ThreadPoolExecutor() as pool:
        packages = pool.submit(python_packages, work, work / "site")
        layers["base system"] = base_system(work, root)
        packages.result()
    with _build.step("compile, inspect the model"):
        site.rmdir()
        (work / "site").rename(site)
        own_files(root, site)
        # Each later start saves compiling, and one round of imports to inspect the model.
        _build.compile_modules(root, work / "inside.log", ENVIRONMENT)
        _build.inside(root, work / "inside.log", ENVIRONMENT, "python3", "-c", INSPECT)
    with _build.step("layers"):
        torch = sorted(site.glob("*torch*"))
        engine = sorted(site.glob("vllm*"))
        other = sorted(set(site.iterdir()) - {*torch, *engine})
        engine += [root / "usr/local/bin/vllm", root / "root/.cache"]
        for name, paths in (("torch", torch), ("packages", other), ("engine", engine)):
            layers[name] = work / f"{name}.tar"
            _archive.write_layer(layers[name], root, paths)
        runtime = _build.runtime(ENVIRONMENT, ["vllm", "serve"], inputs)
        _archive.write_image(folder / "image.part", TAG, _build.architecture(), layers, runtime)
    shutil.rmtree(work)
    (folder / "image.part").rename(archive)
    return archive
