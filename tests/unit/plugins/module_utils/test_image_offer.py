# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""Streams from docker's own store, and the way back to docker save."""

from __future__ import annotations

import pathlib
import tarfile
import tempfile
from collections.abc import Iterator

import pytest

from ansible_collections.gb10.serving.plugins.module_utils._image_load import SourceError
from ansible_collections.gb10.serving.plugins.module_utils._image_offer import ImageOffer
from ansible_collections.gb10.serving.plugins.module_utils._image_relay import Relay
from ansible_collections.gb10.serving.plugins.module_utils._image_store import Store
from ansible_collections.gb10.serving.plugins.module_utils._offer import PREFIX
from ansible_collections.gb10.serving.tests.unit.plugins.module_utils.docker_store import fill, tar
from ansible_collections.gb10.serving.tests.unit.plugins.module_utils.image_archives import (
    chains,
    diffs,
    digest,
    legacy,
    pack,
)
from ansible_collections.gb10.serving.tests.unit.plugins.module_utils.image_streams import (
    Receiving,
    make_quick,
    save_of,
)

LAYERS = [tar({"name": f"file{number}", "data": bytes([number]) * 1_500_000}) for number in range(4)]
ARCHIVE = pack(legacy(LAYERS))


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    make_quick(monkeypatch)


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    with tempfile.TemporaryDirectory() as folder:
        monkeypatch.setattr(tempfile, "tempdir", folder)
        path = pathlib.Path(folder) / f"{PREFIX}one"
        path.mkdir()
        yield str(path)


class Source:
    """An offer of an image in a store, and how often docker save ran."""

    def __init__(self, folder: pathlib.Path, receivers: int = 1) -> None:
        self.root, self._log, archive = folder / "root", folder / "saves", folder / "archive.tar"
        archive.write_bytes(ARCHIVE)
        store = Store(str(self.root), fill(self.root, LAYERS), diffs(LAYERS), "img:v")
        self.offer = ImageOffer([save_of(archive, self._log)], diffs(LAYERS), receivers, store)
        self.offer.begin()

    def file(self, number: int) -> pathlib.Path:
        return self.root / f"overlay2/cache{number}/diff/file{number}"

    @property
    def saves(self) -> int:
        return len(self._log.read_text()) if self._log.exists() else 0


def layers_in(path: pathlib.Path) -> list[bool]:
    with tarfile.open(path) as archive:
        names = archive.getnames()
    return [f"blobs/sha256/{digest(layer)}" in names for layer in LAYERS]


def test_each_gets_what_it_lacks_and_nobody_reads_what_all_have(tmp_path: pathlib.Path) -> None:
    source = Source(tmp_path, receivers=2)
    source.file(0).unlink()
    one = Receiving(source.offer, tmp_path / "one", chains(LAYERS)[:3])
    two = Receiving(source.offer, tmp_path / "two", chains(LAYERS)[:1])
    for copy, name, count in ((one, "one", 3), (two, "two", 1)):
        got = copy.result()
        assert layers_in(tmp_path / name) == [number >= count for number in range(4)]
        assert got.left_out_bytes == sum(map(len, LAYERS[:count]))
        # What was foretold of the stream is what came.
        assert copy.progress.bytes_total == copy.progress.bytes_done == got.moved_bytes
        assert not got.saved_because
    assert source.saves == 0


def test_a_store_that_lacks_a_file_gives_way_before_the_first_byte(tmp_path: pathlib.Path) -> None:
    source = Source(tmp_path)
    source.file(2).unlink()
    got = Receiving(source.offer, tmp_path / "out").result()
    assert "No such file" in got.saved_because
    assert (tmp_path / "out").read_bytes() == ARCHIVE
    assert source.saves == 1


def test_a_layer_that_changed_ends_the_stream_and_the_next_one_is_saved(tmp_path: pathlib.Path) -> None:
    source = Source(tmp_path)
    source.file(3).write_bytes(b"x" * 1_500_000)
    error = Receiving(source.offer, tmp_path / "out").result()
    assert isinstance(error, SourceError) and error.again and diffs(LAYERS)[3] in str(error)
    assert not (tmp_path / "out").exists() and source.saves == 0
    got = Receiving(source.offer, tmp_path / "out").result()
    assert (tmp_path / "out").read_bytes() == ARCHIVE and source.saves == 1
    assert diffs(LAYERS)[3] in got.saved_because


def test_without_a_store_docker_save_starts_early_and_says_why(tmp_path: pathlib.Path) -> None:
    (tmp_path / "archive.tar").write_bytes(ARCHIVE)
    offer = ImageOffer([save_of(tmp_path / "archive.tar")], diffs(LAYERS), store="the store is btrfs")
    offer.begin()
    assert offer._save and offer._save._process
    assert Receiving(offer, tmp_path / "out").result().saved_because == "the store is btrfs"


def test_a_receiver_hands_on_what_comes_from_the_store(tmp_path: pathlib.Path, session: str) -> None:
    source = Source(tmp_path)
    middle = Relay(session, "sha256:c", lambda: False, lambda: pytest.fail("not asked for"))
    middle.begin()
    last = Receiving(middle, tmp_path / "last", chains(LAYERS)[:2])
    own = Receiving(source.offer, tmp_path / "own", chains(LAYERS)[:3], "sha256:c")
    for copy, name in ((own, "own"), (last, "last")):
        got = copy.result()
        assert layers_in(tmp_path / name) == [False, False, True, True]
        assert got.left_out_bytes == sum(map(len, LAYERS[:2]))
        assert copy.progress.bytes_total == got.moved_bytes
    assert source.saves == 0


def test_whatever_goes_wrong_in_the_store_docker_save_is_used(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_args: object) -> None:
        raise OverflowError("unforeseen")

    source = Source(tmp_path)
    monkeypatch.setattr(Store, "stream", fails)
    got = Receiving(source.offer, tmp_path / "got").result()
    assert (tmp_path / "got").read_bytes() == ARCHIVE and got.saved_because == "OverflowError: unforeseen"
