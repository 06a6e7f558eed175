# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
from __future__ import annotations

import io
import json
import pathlib
import tarfile
from typing import Any

import pytest

from ansible_collections.gb10.serving.plugins.module_utils import _image_docker, _image_store
from ansible_collections.gb10.serving.plugins.module_utils._image_store import Store, tag_of
from ansible_collections.gb10.serving.plugins.module_utils._tar_split import Unsuited
from ansible_collections.gb10.serving.tests.unit.plugins.module_utils.docker_store import fill, layer_folder, tar
from ansible_collections.gb10.serving.tests.unit.plugins.module_utils.image_archives import chains, diffs, digest

LAYERS = [tar({"name": f"file{number}", "data": bytes([number]) * 70_000}) for number in range(4)]
EMPTY = bytes(1024)


def docker(root: pathlib.Path, image: str, layers: list[bytes], driver: str = "overlay2", status: str = "[]") -> Any:
    """What a daemon with this data root says."""

    def runner(argv: list[str]) -> tuple[int, str, str]:
        if argv[1] == "info":
            return 0, f"{root}\t28.0\t{driver}\t{status}\n", ""
        return 0, json.dumps([image, ["img:v"], diffs(layers)]), ""

    return runner


def taken(store: Store, held: list[str]) -> tuple[dict[str, bytes], list[Any], dict[str, Any]]:
    """Members of the archive, its manifest and the status; what was foretold must come true."""
    pieces: list[bytes] = []
    stream = store.stream(held)
    status = stream.feed(pieces.append)
    data, note = b"".join(pieces), stream.note()
    assert sum(note["layers"].values()) + note["rest"] == len(data)
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        members = {member.name: archive.extractfile(member).read() for member in archive}  # type: ignore[union-attr]
    return members, json.loads(members.pop("manifest.json")), status


@pytest.fixture
def image(tmp_path: pathlib.Path) -> str:
    return fill(tmp_path, LAYERS)


def test_the_archive_has_all_that_docker_load_reads(tmp_path: pathlib.Path, image: str) -> None:
    members, manifest, status = taken(Store(str(tmp_path), image, diffs(LAYERS), "img:v"), [])
    assert [members[name] for name in manifest[0]["Layers"]] == LAYERS
    assert digest(members[manifest[0]["Config"]]) == image.removeprefix("sha256:")
    assert manifest[0]["RepoTags"] == ["img:v"]
    assert status == {"rc": 0, "error": "", "left_out_bytes": 0}


def test_held_layers_are_named_but_neither_read_nor_sent(tmp_path: pathlib.Path, image: str) -> None:
    store = Store(str(tmp_path), image, diffs(LAYERS), "img:v")
    for number in range(3):
        (tmp_path / f"overlay2/cache{number}/diff/file{number}").unlink()
    members, manifest, status = taken(store, chains(LAYERS)[:3])
    assert [name in members for name in manifest[0]["Layers"]] == [False, False, False, True]
    assert status["left_out_bytes"] == sum(map(len, LAYERS[:3]))


def test_a_layer_that_stands_twice_comes_once_and_when_one_place_lacks_it(tmp_path: pathlib.Path) -> None:
    layers = [EMPTY, LAYERS[0], EMPTY]
    store = Store(str(tmp_path), fill(tmp_path, layers), diffs(layers), "img:v")
    for held, there in (([], [True, True, True]), (chains(layers)[:2], [True, False, True])):
        members, manifest, _status = taken(store, held)
        named = manifest[0]["Layers"]
        assert [name in members for name in named] == there
        assert len(members) == 1 + len(set(named) & members.keys())


def test_a_changed_file_of_the_same_size_is_found(tmp_path: pathlib.Path, image: str) -> None:
    file = tmp_path / "overlay2/cache2/diff/file2"
    file.write_bytes(b"\xff" + file.read_bytes()[1:])
    stream = Store(str(tmp_path), image, diffs(LAYERS), "img:v").stream([])
    with pytest.raises(Unsuited, match=f"layer {diffs(LAYERS)[2]} became sha256:"):
        stream.feed(lambda _piece: None)


def test_a_missing_file_is_found_before_the_first_byte(tmp_path: pathlib.Path, image: str) -> None:
    store = Store(str(tmp_path), image, diffs(LAYERS), "img:v")
    (tmp_path / "overlay2/cache3/diff/file3").unlink()
    with pytest.raises(Unsuited, match="No such file"):
        store.stream([])


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("diff", f"sha256:{'0' * 64}", "described in an unknown way"),
        ("cache-id", "../../etc", "described in an unknown way"),
        ("size", "many", "described in an unknown way"),
        ("size", None, "cannot read .*/size"),
        ("tar-split.json.gz", None, "cannot read .*tar-split"),
    ],
)
def test_an_unknown_layer_is_said(tmp_path: pathlib.Path, image: str, name: str, text: str | None, said: str) -> None:
    file = layer_folder(tmp_path, chains(LAYERS)[1]) / name
    file.write_text(text) if text else file.unlink()
    with pytest.raises(Unsuited, match=said):
        Store(str(tmp_path), image, diffs(LAYERS), "img:v")


def test_another_configuration_is_said(tmp_path: pathlib.Path, image: str) -> None:
    (tmp_path / "image/overlay2/imagedb/content/sha256" / image.removeprefix("sha256:")).write_text("{}")
    with pytest.raises(Unsuited, match="another digest"):
        Store(str(tmp_path), image, diffs(LAYERS), "img:v")


@pytest.mark.parametrize(
    ("driver", "status", "ref", "said"),
    [
        ("overlay2", "[]", "img:v", None),
        ("btrfs", "[]", "img:v", "store is btrfs, expected overlay2"),
        ("overlayfs", '[["driver-type","io.containerd.snapshotter.v1"]]', "img:v", "store is containerd"),
        ("", "", "img:v", "store is unknown"),
        ("overlay2", "[]", "0123abcd", "not one of the tags"),
    ],
)
def test_the_store_must_be_known(
    tmp_path: pathlib.Path, image: str, driver: str, status: str, ref: str, said: str | None
) -> None:
    found = _image_store.find_or_why_not(ref, docker(tmp_path, image, LAYERS, driver, status))
    assert isinstance(found, Store) if said is None else said in str(found)


def test_the_chains_that_are_held_are_read_without_a_command(tmp_path: pathlib.Path, image: str) -> None:
    assert sorted(_image_docker.held_chains(docker(tmp_path, image, LAYERS))) == sorted(chains(LAYERS))


def test_a_data_root_of_another_machine_is_said(tmp_path: pathlib.Path, image: str) -> None:
    said = _image_store.find_or_why_not("img:v", docker(tmp_path / "none", image, LAYERS))
    assert "No such file" in str(said)


@pytest.mark.parametrize(
    ("ref", "tag"),
    [
        ("a/b:1", "a/b:1"),
        ("a/b", "a/b:latest"),
        ("docker.io/a/b:1", "a/b:1"),
        ("docker.io/library/c", "c:latest"),
        ("host:5000/d", "host:5000/d:latest"),
        ("b:1", None),
        ("sha256:0123", None),
    ],
)
def test_tag_of(ref: str, tag: str | None) -> None:
    tags = ["a/b:1", "a/b:latest", "c:latest", "host:5000/d:latest"]
    if tag:
        assert tag_of(ref, tags) == tag
    else:
        with pytest.raises(Unsuited):
            tag_of(ref, tags)
