# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
from __future__ import annotations

import pytest
from rehearsal._packages import codename, distribution_sources
from rehearsal._shell import Problem

DEB822 = """\
Types: deb
# a comment inside
URIs: http://mirror.example/debian
Suites: bookworm bookworm-updates
Components: main contrib
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg

Types: deb
URIs: http://mirror.example/debian-security
Suites: bookworm-security
Components: main

Types: deb-src
URIs: http://mirror.example/debian
Suites: bookworm
Components: main

Enabled: no
Types: deb
URIs: http://off.example/debian
Suites: bookworm
Components: main
"""
ONE_LINE = """\
# deb http://commented.example/ubuntu noble main
deb [arch=amd64 signed-by=/k.gpg] http://mirror.example/ubuntu noble main restricted # note
deb http://mirror.example/ubuntu noble-updates universe
deb http://mirror.example/ubuntu noble-backports main
deb https://download.example/docker noble stable
"""
KEY = "[signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] "


@pytest.mark.parametrize(
    ("files", "release", "expected"),
    [
        (
            {"/etc/apt/sources.list.d/debian.sources": DEB822},
            "bookworm",
            [
                f"deb {KEY}http://mirror.example/debian bookworm main",
                f"deb {KEY}http://mirror.example/debian bookworm-updates main",
                "deb http://mirror.example/debian-security bookworm-security main",
            ],
        ),
        (
            {"/etc/apt/sources.list": ONE_LINE},
            "noble",
            [
                "deb [arch=amd64 signed-by=/k.gpg] http://mirror.example/ubuntu noble main",
                "deb http://mirror.example/ubuntu noble-updates universe",
            ],
        ),
        ({"/etc/apt/sources.list": ONE_LINE}, "trixie", []),
        ({}, "bookworm", []),
    ],
)
def test_only_the_distributions_own_sources_are_taken(files: dict[str, str], release: str, expected: list[str]) -> None:
    assert distribution_sources(files, release) == expected


def test_the_same_line_twice_is_taken_once() -> None:
    line = "deb http://mirror.example/debian bookworm main\n"
    assert len(distribution_sources({"/a.list": line, "/b.list": line}, "bookworm")) == 1


@pytest.mark.parametrize("text", ["VERSION_CODENAME=bookworm\n", 'ID=x\nVERSION_CODENAME="bookworm"\n'])
def test_codename(text: str) -> None:
    assert codename(text) == "bookworm"


def test_other_distributions_are_named_as_such() -> None:
    with pytest.raises(Problem, match="neither Debian nor Ubuntu"):
        codename("ID=fedora\n")
