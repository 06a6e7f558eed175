# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""The image with the real SGLang and, in place of its model, a double: one layer on what vLLM's image begins with."""

from __future__ import annotations

import shutil
from pathlib import Path

import _archive
import _build
import _trim
import _vllm

TAG = "gb10-rehearsal/sglang:cpu"
INPUTS = ("_sglang.py", "sglang_double.py", "sglang_stubs.py", "requirements-sglang.txt")
ENVIRONMENT = {
    "PATH": _build.SEARCH_PATH,
    "TORCHDYNAMO_DISABLE": "1",  # the image has no C++ compiler
    "OMP_NUM_THREADS": "1",
    # A core for each rank of one machine. It only has to be named: what binds to it is among the missing kernels.
    "SGLANG_CPU_OMP_THREADS_BIND": "0|0|0|0",
    "DO_NOT_TRACK": "1",
}
#: Below the site directory: what a server of text never opens.
DROPPED = (
    "sglang/benchmark",
    "sglang/test",
    "sglang/multimodal_gen",
    "sglang/srt/rust_extensions/_bench.*",
    "sglang/srt/**/configs/**/*.json",
    "sglang/**/*.cu",
    "sglang/**/*.cuh",
)
#: By this, each Python finds the stand-ins, and the engine its plug-in.
HOOK = "import gb10_sglang_stubs\n"
PLUGIN = "[sglang.srt.plugins]\ngb10_sglang_double = gb10_sglang_double:install\n"


def digest() -> str:
    return _build.inputs_digest(INPUTS, _vllm.digest())


def own_files(site: Path) -> None:
    shutil.copyfile(_build.HERE / "sglang_stubs.py", site / "gb10_sglang_stubs.py")
    (site / "gb10_sglang_stubs.pth").write_text(HOOK)
    shutil.copyfile(_build.HERE / "sglang_double.py", site / "gb10_sglang_double.py")
    about = _build.distribution(site, "gb10_sglang_double", "1")
    (about / "entry_points.txt").write_text(PLUGIN)


@_build.step("SGLang's packages")
def packages(site: Path, log: Path) -> None:
    _build.install(_build.HERE / "requirements-sglang.txt", site, log)
    for pattern in DROPPED:
        for path in sorted(site.glob(pattern), reverse=True):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    _trim.drop(site)
    _trim.strip_all(site)
    own_files(site)


def image_archive() -> Path:
    inputs = digest()
    folder = _build.CACHE / inputs
    archive, work = folder / "image.tar", folder / "work"
    if archive.exists():
        return archive
    below = _vllm.image_archive()
    shutil.rmtree(folder, ignore_errors=True)
    root = work / "root"
    root.mkdir(parents=True)
    with _build.step("the layers below"):
        layers = _archive.read_layers(below, work, _vllm.COMMON)
        _build.run(["tar", "-xf", str(layers[_vllm.COMMON[0]]), "-C", str(root), "--exclude=./dev/*"], work / "tar.log")
    site = root / _build.SITE
    packages(site, work / "pip.log")
    with _build.step("compile"):
        _build.compile_modules(root, work / "inside.log", ENVIRONMENT)
    with _build.step("layers"):
        layers["engine"] = work / "engine.tar"
        _archive.write_layer(layers["engine"], root, sorted(site.iterdir()))
        runtime = _build.runtime(ENVIRONMENT, ["python3", "-m", "sglang.launch_server"], inputs)
        _archive.write_image(folder / "image.part", TAG, _build.architecture(), layers, runtime)
    shutil.rmtree(work)
    (folder / "image.part").rename(archive)
    return archive
