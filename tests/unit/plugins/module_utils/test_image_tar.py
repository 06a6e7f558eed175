# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
from __future__ import annotations

import io
import random
import tarfile

import pytest

from ansible_collections.gb10.serving.plugins.module_utils._image_layers import LayerChoice
from ansible_collections.gb10.serving.plugins.module_utils._image_tar import Member, TarError, TarFilter
from ansible_collections.gb10.serving.tests.unit.plugins.module_utils.image_archives import (
    chains,
    diffs,
    legacy,
    oci,
    pack,
)

LAYERS = [random.Random(seed).randbytes(size) for seed, size in enumerate((700, 512, 5000, 1, 3000))]


def through(archive: bytes, chosen: TarFilter, piece: int) -> bytes:
    out = b"".join(
        bytes(part) for begin in range(0, len(archive), piece) for part in chosen.feed(archive[begin : begin + piece])
    )
    chosen.finish()
    return out


def names(archive: bytes) -> list[str]:
    with tarfile.open(fileobj=io.BytesIO(archive)) as opened:
        return opened.getnames()


def without(members: list[tuple[str, bytes | str]], dropped: list[bytes]) -> list[tuple[str, bytes | str]]:
    return [(name, content) for name, content in members if content not in dropped]


@pytest.mark.parametrize("piece", [1, 511, 512, 513, 10_000, 1 << 20])
@pytest.mark.parametrize("layout", [legacy, oci])
@pytest.mark.parametrize("held", [0, 1, 3, 4, 5])
def test_layers_that_are_held_are_left_out_and_the_rest_is_the_same(layout: object, held: int, piece: int) -> None:
    members = layout(LAYERS)  # type: ignore[operator]
    choice = LayerChoice(diffs(LAYERS), chains(LAYERS)[:held])
    chosen = TarFilter(choice.drop, choice.note)
    assert through(pack(members), chosen, piece) == pack(without(members, list(LAYERS[:held])))
    assert sum(chosen.dropped.values()) == sum(len(layer) for layer in LAYERS[:held])


@pytest.mark.parametrize("layout", [legacy, oci])
def test_a_layer_on_other_layers_is_another_one(layout: object) -> None:
    members = layout(LAYERS)  # type: ignore[operator]
    choice = LayerChoice(diffs(LAYERS), chains(LAYERS[1:]))
    assert through(pack(members), TarFilter(choice.drop, choice.note), 777) == pack(members)


@pytest.mark.parametrize("layout", [legacy, oci])
def test_a_layer_that_stands_twice_stays_while_one_place_lacks_it(layout: object) -> None:
    twice = [LAYERS[0], LAYERS[2], LAYERS[0], LAYERS[4]]
    members = layout(twice)  # type: ignore[operator]
    for held, dropped in ((2, [LAYERS[2]]), (3, [LAYERS[0], LAYERS[2]])):
        choice = LayerChoice(diffs(twice), chains(twice)[:held])
        assert through(pack(members), TarFilter(choice.drop, choice.note), 999) == pack(without(members, dropped))


def test_a_folder_whose_name_does_not_follow_from_its_content_is_kept() -> None:
    members = [
        (name, content.replace(b'"Hostname":""', b'"Hostname":"x"') if isinstance(content, bytes) else content)
        for name, content in legacy(LAYERS)
    ]
    choice = LayerChoice(diffs(LAYERS), chains(LAYERS))
    assert through(pack(members), TarFilter(choice.drop, choice.note), 4096) == pack(members)


@pytest.mark.parametrize("form", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT])
def test_long_names_belong_to_the_member_after_them(form: int) -> None:
    long = "a" * 150 + "/" + "b" * 150
    members: list[tuple[str, bytes | str]] = [("one", b"1" * 600), (long, b"2" * 600), ("link", "t" * 200), ("z", b"")]
    for gone in ("one", long, "z"):
        asked: list[Member] = []

        def drop(member: Member, gone: str = gone, asked: list[Member] = asked) -> bool:
            asked.append(member)
            return member.name == gone

        out = through(pack(members, form), TarFilter(drop), 300)
        assert [member.name for member in asked] == ["one", long, "link", "z"]
        assert out == pack([member for member in members if member[0] != gone], form)


def test_small_members_are_noted_with_their_content() -> None:
    seen: dict[str, bytes] = {}
    chosen = TarFilter(lambda _member: False, lambda name, content: seen.update({name: content}))
    through(pack([("a", b"x" * 700), ("b", b"y" * 300_000), ("c", b"")]), chosen, 64)
    assert seen == {"a": b"x" * 700}


def test_a_size_beyond_octal_is_read() -> None:
    info = tarfile.TarInfo("big")
    info.size = 9 << 30
    header = info.tobuf(tarfile.GNU_FORMAT)
    asked: list[Member] = []

    def drop(member: Member) -> bool:
        asked.append(member)
        return False

    list(TarFilter(drop).feed(header))
    assert asked == [Member("big", 9 << 30, "0")]


@pytest.mark.parametrize("damage", ["cut", "noise"])
def test_what_is_no_archive_is_named(damage: str) -> None:
    archive = pack([("a", b"x" * 700)])
    with pytest.raises(TarError, match="stops before its end" if damage == "cut" else "checksum"):
        through(archive[:900] if damage == "cut" else b"7" * 2000, TarFilter(lambda _member: False), 512)


def header(name: str, size: bytes, kind: bytes = b"0") -> bytes:
    block = bytearray(tarfile.TarInfo(name).tobuf(tarfile.USTAR_FORMAT))
    block[124:136], block[156:157], block[148:156] = size.ljust(12, b"\0"), kind, b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block)


def after_pax(records: bytes) -> bytes:
    return header("p", b"%o" % len(records), b"x") + records.ljust(512, b"\0") + header("k", b"0") + bytes(1024)


@pytest.mark.parametrize(
    "archive",
    [
        after_pax(b"16 size=-999999\n"),
        after_pax(b"12 size=abc\n"),
        after_pax(b"30 size=99999999999999999999\n"),
        after_pax(b"-5 path=abc\n"),
        after_pax(b"0 path=abc\n"),
        after_pax(b"2 path=abc\n"),
        after_pax(b"99 path=abc\n"),
        after_pax(b"9" * 5000 + b" path=abc\n")[:1024] + bytes(1024),
        header("k", b"-0000000777") + bytes(1024),
        header("k", b"\x80" + b"\xff" * 11) + bytes(1024),
        header("k", b"\xff" * 12) + bytes(1024),
    ],
)
def test_a_size_or_length_that_cannot_be_is_named(archive: bytes) -> None:
    with pytest.raises(TarError):
        through(archive, TarFilter(lambda _member: False), 1000)


def test_pax_records_that_are_sound_are_read() -> None:
    seen: list[Member] = []

    def drop(member: Member) -> bool:
        seen.append(member)
        return False

    through(after_pax(b"12 path=abc\n10 size=0\n"), TarFilter(drop), 1000)
    assert seen == [Member("abc", 0, "0")]
