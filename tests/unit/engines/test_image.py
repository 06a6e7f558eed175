# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""What the engine image is made with: archives that repeat, stripped libraries that still load, stubs."""

from __future__ import annotations

import ctypes
import hashlib
import importlib.util
import json
import shutil
import sys
import sysconfig
import tarfile
from pathlib import Path
from types import ModuleType

import pytest

ENGINES = Path(__file__).resolve().parents[2] / "engines"


def load(path: Path, name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


archive = load(ENGINES / "_archive.py", "rehearsal_archive")
trim = load(ENGINES / "_trim.py", "rehearsal_trim")


def image(folder: Path) -> Path:
    tree = folder / "root" / "usr" / "lib" / "thing"
    tree.mkdir(parents=True)
    (tree / "a.py").write_text("a = 1\n")
    (folder / "root" / "other").write_text("not in the layer\n")
    archive.write_layer(folder / "layer.tar", folder / "root", [tree])
    layers = {"thing": folder / "layer.tar"}
    archive.write_image(folder / "image.tar", "some/image:tag", "arm64", layers, {"Env": ["A=1"]})
    return folder / "image.tar"


def test_archive_is_the_same_each_time(tmp_path: Path) -> None:
    first, second = image(tmp_path / "1"), image(tmp_path / "2")
    assert first.read_bytes() == second.read_bytes()


def test_archive_is_consistent(tmp_path: Path) -> None:
    with tarfile.open(image(tmp_path / "1")) as tar:
        (manifest,) = json.load(tar.extractfile("manifest.json"))  # type: ignore[arg-type]
        config = json.load(tar.extractfile(manifest["Config"]))  # type: ignore[arg-type]
        (name,) = manifest["Layers"]
        layer = tar.extractfile(name).read()  # type: ignore[union-attr]
    assert manifest["RepoTags"] == ["some/image:tag"]
    assert config["architecture"] == "arm64"
    assert config["rootfs"]["diff_ids"] == [f"sha256:{hashlib.sha256(layer).hexdigest()}"]
    with tarfile.open(tmp_path / "1" / "layer.tar") as tar:
        assert tar.getnames() == ["usr", "usr/lib", "usr/lib/thing", "usr/lib/thing/a.py"]


def test_stripped_library_is_smaller_and_loads(tmp_path: Path) -> None:
    modules = sorted(Path(sysconfig.get_path("platstdlib"), "lib-dynload").glob("*.so"))
    if not modules:
        pytest.skip("this Python has no shared extension modules")
    copy = tmp_path / modules[0].name
    shutil.copyfile(modules[0], copy)
    won = trim.strip(copy)
    assert won > 0
    assert copy.stat().st_size == modules[0].stat().st_size - won
    assert ctypes.CDLL(str(copy))
    assert trim.strip(copy) == 0


def test_other_files_are_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "libx.so"
    path.write_text("GROUP ( libx.so.1 )")
    assert trim.strip_all(tmp_path) == 0
    assert path.read_text() == "GROUP ( libx.so.1 )"


def test_stub_has_every_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "pretended"
    package.mkdir()
    shutil.copyfile(ENGINES / "stub.py", package / "__init__.py")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    from pretended.transforms.v2 import functional  # type: ignore[import-not-found]

    assert functional.jit(nopython=True)(print) is not None
    assert functional.Mode.NEAREST is not None
    assert not hasattr(functional, "__wrapped__")
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("pretended2")
