# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
from __future__ import annotations

import io
import json
import os
import tarfile
from pathlib import Path

import pytest
from rehearsal._image import files_digest
from rehearsal._shell import Problem
from rehearsal._transfer import model_listing, tar_layers


def save_archive(path: Path, members: dict[str, object]) -> Path:
    with tarfile.open(path, "w") as archive:
        for name, value in members.items():
            content = json.dumps(value).encode()
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return path


def test_layers_of_a_saved_image(tmp_path: Path) -> None:
    manifest = [{"Config": "abc.json", "RepoTags": ["engine:cpu"], "Layers": ["x/layer.tar"]}]
    config = {"rootfs": {"diff_ids": ["sha256:1", "sha256:2"]}}
    archive = save_archive(tmp_path / "a.tar", {"manifest.json": manifest, "abc.json": config})
    assert tar_layers(archive) == (["engine:cpu"], ["sha256:1", "sha256:2"])


@pytest.mark.parametrize("members", [{}, {"manifest.json": []}, {"manifest.json": [{"Config": "gone.json"}]}])
def test_another_archive_is_refused(tmp_path: Path, members: dict[str, object]) -> None:
    with pytest.raises(Problem, match="not an archive made by 'docker save'"):
        tar_layers(save_archive(tmp_path / "a.tar", members))


def test_a_file_that_is_no_archive_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("hello")
    with pytest.raises(Problem, match="not an archive"):
        tar_layers(tmp_path / "text")


def test_model_listing_sees_names_sizes_and_times(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    for name, text in (("config.json", "{}"), ("sub/b.bin", "12345")):
        (tmp_path / name).write_text(text)
        os.utime(tmp_path / name, (1000, 1000.9))
    assert model_listing(tmp_path) == "config.json\t2\t1000\nsub/b.bin\t5\t1000"


def test_image_digest_changes_with_content_and_mode(tmp_path: Path) -> None:
    program = tmp_path / "p.py"
    program.write_text("1")
    program.chmod(0o644)
    first = files_digest(tmp_path)
    program.chmod(0o755)
    second = files_digest(tmp_path)
    program.write_text("2")
    assert len({first, second, files_digest(tmp_path)}) == 3
