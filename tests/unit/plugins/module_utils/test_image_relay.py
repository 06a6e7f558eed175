# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""Streams between nodes: real sockets and processes, programs in the place of docker save and docker load."""

from __future__ import annotations

import pathlib
import random
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ansible_collections.gb10.serving.plugins.module_utils._image_load import LoadError, SourceError
from ansible_collections.gb10.serving.plugins.module_utils._image_offer import ImageOffer
from ansible_collections.gb10.serving.plugins.module_utils._image_relay import Relay
from ansible_collections.gb10.serving.plugins.module_utils._job import JobError
from ansible_collections.gb10.serving.plugins.module_utils._offer import PREFIX
from ansible_collections.gb10.serving.tests.unit.plugins.module_utils.image_archives import (
    chains,
    diffs,
    legacy,
    pack,
)
from ansible_collections.gb10.serving.tests.unit.plugins.module_utils.image_streams import (
    Receiving,
    make_quick,
    py,
    save_of,
)

LAYERS = [random.Random(seed).randbytes(1_000_000) for seed in range(4)]
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


@pytest.fixture
def archive(tmp_path: pathlib.Path) -> pathlib.Path:
    path = tmp_path / "archive.tar"
    path.write_bytes(ARCHIVE)
    return path


def test_one_save_feeds_all_each_without_what_it_has(tmp_path: pathlib.Path, archive: pathlib.Path) -> None:
    log = tmp_path / "saves"
    offer = ImageOffer([save_of(archive, log)], diffs(LAYERS), receivers=3)
    offer.begin()
    held = [[], chains(LAYERS)[:3], chains(LAYERS)]
    copies = [Receiving(offer, tmp_path / f"out{number}", chain) for number, chain in enumerate(held)]
    for number, (copy, chain) in enumerate(zip(copies, held, strict=True)):
        got = copy.result()
        expected = pack([m for m in legacy(LAYERS) if m[1] not in LAYERS[: len(chain)]])
        assert (tmp_path / f"out{number}").read_bytes() == expected
        assert got.moved_bytes == len(expected)
        assert got.left_out_bytes == len(chain) * 1_000_000
    assert log.read_text() == "x"


def test_who_comes_after_the_round_gets_another_save(tmp_path: pathlib.Path, archive: pathlib.Path) -> None:
    log = tmp_path / "saves"
    offer = ImageOffer([save_of(archive, log)], diffs(LAYERS))
    for name in ("one", "two"):
        assert Receiving(offer, tmp_path / name).result().moved_bytes == len(ARCHIVE)
        assert (tmp_path / name).read_bytes() == ARCHIVE
    assert log.read_text() == "xx"


def test_the_stream_does_not_wait_for_ever_for_one_that_is_expected(
    tmp_path: pathlib.Path, archive: pathlib.Path
) -> None:
    offer = ImageOffer([save_of(archive)], diffs(LAYERS), receivers=2)
    assert Receiving(offer, tmp_path / "out").result().moved_bytes == len(ARCHIVE)


def test_a_receiver_that_stalls_loses_its_place_and_the_other_gets_all(
    tmp_path: pathlib.Path, archive: pathlib.Path
) -> None:
    archive.write_bytes(pack([(str(n), LAYERS[0]) for n in range(40)]))
    offer = ImageOffer([save_of(archive)], [], receivers=2)
    stalled = Receiving(offer, py("import time; time.sleep(60)"))
    well = Receiving(offer, tmp_path / "out")
    assert well.result().moved_bytes == archive.stat().st_size
    assert (tmp_path / "out").read_bytes() == archive.read_bytes()
    stalled.progress.abort("test over")
    assert isinstance(stalled.result(), JobError)


def relay(session: str, has_it: Callable[[], bool] = lambda: False, after: Any = None, receivers: int = 1) -> Relay:
    handler = Relay(session, "sha256:c", has_it, after or (lambda: pytest.fail("not asked for")), receivers)
    handler.begin()
    return handler


def test_a_receiver_hands_on_what_it_loads(tmp_path: pathlib.Path, archive: pathlib.Path, session: str) -> None:
    head = ImageOffer([save_of(archive)], diffs(LAYERS))
    middle = relay(session)
    last = Receiving(middle, tmp_path / "last", chains(LAYERS)[:1])
    own = Receiving(head, tmp_path / "own", chains(LAYERS)[:3], "sha256:c")
    # What the last one lacks has to come through the middle, so only what both have is left out.
    expected = pack([m for m in legacy(LAYERS) if m[1] != LAYERS[0]])
    for copy, name in ((own, "own"), (last, "last")):
        assert copy.result().moved_bytes == len(expected)
        assert (tmp_path / name).read_bytes() == expected


@pytest.mark.parametrize("how", ["dead", "stalled"])
def test_a_bad_receiver_downstream_does_not_harm_its_upstream(
    tmp_path: pathlib.Path, archive: pathlib.Path, session: str, how: str
) -> None:
    archive.write_bytes(pack([(str(n), LAYERS[0]) for n in range(40)]))
    head = ImageOffer([save_of(archive)], [])
    code = "import sys, time; sys.stdin.buffer.read(9); " + ("sys.exit(1)" if how == "dead" else "time.sleep(60)")
    last = Receiving(relay(session), py(code))
    own = Receiving(head, tmp_path / "own", [], "sha256:c")
    assert not isinstance(own.result(), Exception), own.result()
    assert own.result().moved_bytes == archive.stat().st_size
    assert (tmp_path / "own").read_bytes() == archive.read_bytes()
    last.progress.abort("test over")
    assert isinstance(last.result(), JobError)


def test_an_upstream_that_breaks_is_told_downstream(tmp_path: pathlib.Path, session: str) -> None:
    head = ImageOffer([py("import sys; sys.stdout.write('x' * 100_000); sys.stdout.flush(); sys.exit('gone')")], [])
    last = Receiving(relay(session), tmp_path / "last")
    own = Receiving(head, tmp_path / "own", [], "sha256:c")
    assert isinstance(own.result(), SourceError) and "gone" in str(own.result())
    assert isinstance(last.result(), SourceError)
    assert not (tmp_path / "last").exists()


def test_who_comes_late_waits_until_the_image_is_there(
    tmp_path: pathlib.Path, archive: pathlib.Path, session: str
) -> None:
    there = threading.Event()
    middle = relay(session, there.is_set, lambda: ImageOffer([save_of(archive)], diffs(LAYERS)), receivers=0)
    head = ImageOffer([save_of(archive)], diffs(LAYERS))
    slow = f"""if 1:
        import sys, time
        data = sys.stdin.buffer.read()
        time.sleep(2)
        open({str(tmp_path / "own")!r}, 'wb').write(data)"""
    own = Receiving(head, py(slow), [], "sha256:c")
    while own.progress.stage != "load":
        time.sleep(0.02)
    late = Receiving(middle, tmp_path / "late")
    time.sleep(0.5)
    assert not (tmp_path / "late").exists()
    there.set()
    assert late.result().moved_bytes == len(ARCHIVE)
    assert own.result().moved_bytes == len(ARCHIVE)


def test_a_node_without_a_copy_of_its_own_says_so(tmp_path: pathlib.Path, session: str) -> None:
    assert "did not get the image itself" in str(Receiving(relay(session), tmp_path / "out").result())


def test_a_load_that_refuses_says_whether_layers_were_left_out(archive: pathlib.Path) -> None:
    for held, partial in (([], False), (chains(LAYERS)[:2], True)):
        offer = ImageOffer([save_of(archive)], diffs(LAYERS))
        error = Receiving(offer, py("import sys; sys.stdin.buffer.read(); sys.exit('layer not found')"), held).result()
        assert isinstance(error, LoadError) and error.partial is partial and "layer not found" in str(error)
