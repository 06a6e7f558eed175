# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""When an engine image is built anew, and what the image of SGLang takes from that of vLLM."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from types import ModuleType

import pytest

ENGINES = Path(__file__).resolve().parents[2] / "engines"
sys.path.insert(0, str(ENGINES))

import _archive  # noqa: E402
import _build  # noqa: E402
import _sglang  # noqa: E402
import _vllm  # noqa: E402
import build  # noqa: E402


@pytest.fixture
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "engines"
    folder.mkdir()
    for name in {*_build.INPUTS, *_vllm.INPUTS, *_sglang.INPUTS}:
        shutil.copyfile(ENGINES / name, folder / name)
    monkeypatch.setattr(_build, "HERE", folder)
    return folder


@pytest.mark.parametrize(
    ("name", "changed"),
    [
        ("requirements.txt", {"vllm", "sglang"}),
        ("_trim.py", {"vllm", "sglang"}),
        ("stub.py", {"vllm", "sglang"}),
        ("requirements-sglang.txt", {"sglang"}),
        ("sglang_double.py", {"sglang"}),
        ("sglang_stubs.py", {"sglang"}),
    ],
)
def test_an_image_is_built_anew_when_what_it_is_made_of_changes(sources: Path, name: str, changed: set[str]) -> None:
    before = {engine: module.digest() for engine, module in build.ENGINES.items()}
    assert before == {engine: module.digest() for engine, module in build.ENGINES.items()}
    with (sources / name).open("a") as file:
        file.write("# changed\n")
    after = {engine: module.digest() for engine, module in build.ENGINES.items()}
    assert {engine for engine in before if before[engine] != after[engine]} == changed


def test_every_source_is_an_input_of_some_image() -> None:
    inputs = {*_build.INPUTS, *_vllm.INPUTS, *_sglang.INPUTS}
    others = {"build.py", "tiny_model.py"}
    assert {path.name for path in ENGINES.glob("*.py")} - others == {name for name in inputs if name.endswith(".py")}


def test_layers_are_taken_from_an_archive(tmp_path: Path) -> None:
    layers = {}
    for name in ("below", "above"):
        layers[name] = tmp_path / f"{name}.tar"
        (tmp_path / name / "usr").mkdir(parents=True)
        (tmp_path / name / "usr" / name).write_text(name)
        _archive.write_layer(layers[name], tmp_path / name, [tmp_path / name / "usr"])
    _archive.write_image(tmp_path / "image.tar", "some/image:tag", "arm64", layers, {})
    (tmp_path / "taken").mkdir()
    taken = _archive.read_layers(tmp_path / "image.tar", tmp_path / "taken", ["below"])
    assert list(taken) == ["below"]
    assert taken["below"].read_bytes() == layers["below"].read_bytes()
    with pytest.raises(KeyError):
        _archive.read_layers(tmp_path / "image.tar", tmp_path / "taken", ["other"])


def test_the_engine_finds_its_double(tmp_path: Path) -> None:
    _sglang.own_files(tmp_path)
    group, entry = (tmp_path / "gb10_sglang_double-1.dist-info" / "entry_points.txt").read_text().splitlines()
    module, function = entry.partition(" = ")[2].split(":")
    assert group == "[sglang.srt.plugins]"
    assert f"def {function}(" in (tmp_path / f"{module}.py").read_text()
    stubs = (tmp_path / "gb10_sglang_stubs.pth").read_text().split()[1]
    assert (tmp_path / f"{stubs}.py").exists()


def test_command_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    built: list[tuple[str, bool]] = []

    def make(engine: ModuleType, load: bool) -> str:
        built.append((engine.TAG, load))
        return "PATH"

    monkeypatch.setattr(build, "make", make)
    for arguments in ([], ["--no-load", "sglang"], ["sglang", "vllm"]):
        monkeypatch.setattr(sys, "argv", ["build.py", *arguments])
        assert build.main() == 0
    vllm, sglang = "gb10-rehearsal/vllm:cpu", "gb10-rehearsal/sglang:cpu"
    assert built == [(vllm, True), (sglang, False), (sglang, True), (vllm, True)]
    assert capsys.readouterr().out.splitlines() == ["PATH"] * 4
    monkeypatch.setattr(sys, "argv", ["build.py", "ray"])
    with pytest.raises(SystemExit):
        build.main()
