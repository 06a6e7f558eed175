# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
from __future__ import annotations

import json
import pathlib
import socket
import sys
from typing import Any

import pytest

from ansible_collections.gb10.serving.plugins.module_utils import _image, _image_copy, _image_docker
from ansible_collections.gb10.serving.plugins.module_utils._image_load import Got, LoadError, SourceError
from ansible_collections.gb10.serving.plugins.module_utils._image_offer import Save
from ansible_collections.gb10.serving.plugins.module_utils._job import JobError, Progress
from ansible_collections.gb10.serving.plugins.module_utils._wire import WireError


@pytest.fixture(autouse=True)
def own_memory(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    monkeypatch.setattr(_image_docker, "_memory", lambda: str(tmp_path / "whole.json"))


def py(code: str) -> list[str]:
    return [sys.executable, "-c", code]


SAVE = py("import sys; sys.stdout.buffer.write(b'x' * 3_000_001)")


def saved(*commands: list[str]) -> tuple[int, dict[str, Any]]:
    pieces: list[bytes] = []
    status = Save(list(commands)).feed(pieces.append)
    return sum(map(len, pieces)), status


def test_save_gives_every_byte() -> None:
    assert saved(SAVE) == (3_000_001, {"rc": 0, "error": ""})


def test_a_save_that_fails_is_named() -> None:
    _sent, status = saved(
        py("import sys; sys.stdout.write('x' * 100_000); sys.stdout.flush(); sys.exit('layer is gone')")
    )
    assert status["rc"] == 1 and "layer is gone" in status["error"]


def test_the_second_command_is_tried_when_the_first_sent_nothing() -> None:
    assert saved(py("raise SystemExit(1)"), SAVE) == (3_000_001, {"rc": 0, "error": ""})


def test_no_second_command_after_bytes_went() -> None:
    sent, status = saved(py("print('x', flush=True); raise SystemExit(3)"), SAVE)
    assert sent == 2 and "ended with 3" in status["error"]


class Docker:
    """Names and identities, enough for fetch()."""

    def __init__(self, **tags: str) -> None:
        self.tags = {key.replace("_", ":", 1).replace("_", "-"): value for key, value in tags.items()}
        self.removed: list[str] = []
        self.driver, self.status = "overlay2", ""
        self.create = (0, "c1", "")

    def __call__(self, argv: list[str]) -> tuple[int, str, str]:
        match argv[1:]:
            case ["image", "inspect", "--format", "{{len .RepoTags}}", image]:
                return 0, str(list(self.tags.values()).count(image)), ""
            case ["image", "inspect", ref]:
                if ref not in self.tags:
                    return 1, "[]", f"Error: No such image: {ref}"
                return 0, json.dumps([{"Id": self.tags[ref], "RootFS": {"Layers": [self.tags[ref]]}}]), ""
            case ["tag", image, ref]:
                self.tags[ref] = image
            case ["info", "--format", _]:
                return 0, f"/root\t20.10.24\t{self.driver}\t{json.dumps(self.status)}\n", ""
            case ["image", "ls", *_]:
                return 0, "\n".join(self.tags.values()), ""
            case ["image", "inspect", "--format", "{{json .RootFS.Layers}}", *images]:
                return 0, "\n".join(json.dumps([image]) for image in images), ""
            case ["create", *_]:
                return self.create
            case ["rm", "--volumes", _]:
                pass
            case ["image", "rm", image]:
                self.removed.append(image)
                self.tags.pop(image, None)
            case _:
                raise AssertionError(argv)
        return 0, "", ""


def content(image: str) -> str:
    return _image.content_identity({"RootFS": {"Layers": [image]}})


class Way:
    """What the sources do, in turn: the image that docker ends with, or an error."""

    def __init__(self, docker: Docker, *outcomes: str | Exception) -> None:
        self.docker, self.outcomes = docker, list(outcomes)
        self.held: list[list[str]] = []
        self.asked: list[str] = []

    def connect(self, address: str, *_: Any) -> socket.socket:
        self.asked.append(address)
        return socket.socket()

    def receive(self, _sock: Any, progress: Progress, _command: Any, held: list[str], _content: str, _q: float) -> Got:
        self.held.append(sorted(held))
        progress.add(7)
        outcome = self.outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        self.docker.tags["img:v"] = outcome
        return Got(7, 100 if held else 0)


SOURCES = [
    {"host": "a", "addresses": ["192.0.2.1"], "port": 1, "token": "t"},
    {"host": "b", "addresses": ["192.0.2.2", "192.0.3.2"], "port": 1, "token": "t"},
]


def fetch(docker: Docker, monkeypatch: pytest.MonkeyPatch, way: Way, wants: str) -> dict[str, Any]:
    monkeypatch.setattr(_image_copy, "connect", way.connect)
    monkeypatch.setattr(_image_copy, "receive", way.receive)
    return _image_copy.fetch("img:v", content(wants), SOURCES, 1, Progress(), docker)


def test_fetch_keeps_one_previous_image(monkeypatch: pytest.MonkeyPatch) -> None:
    docker = Docker(img_v="two", img_gb10_previous="one")
    result = fetch(docker, monkeypatch, Way(docker, "three"), wants="three")
    assert docker.tags == {"img:v": "three", "img:gb10-previous": "two"}
    assert docker.removed == ["one"]
    assert result == {
        "moved_bytes": 7,
        "left_out_bytes": 100,
        "source": "a",
        "content": content("three"),
        "previous": "img:gb10-previous",
    }


def test_fetch_leaves_an_image_that_has_another_name(monkeypatch: pytest.MonkeyPatch) -> None:
    docker = Docker(img_v="two", img_gb10_previous="one", mine_x="one")
    fetch(docker, monkeypatch, Way(docker, "three"), wants="three")
    assert docker.tags["mine:x"] == "one" and docker.removed == []


@pytest.mark.parametrize("loads", [SourceError("broken"), LoadError("disk full", False), "wrong"])
@pytest.mark.parametrize("before", [{"img_v": "two", "img_gb10_previous": "one"}, {"img_v": "two"}])
def test_fetch_that_fails_puts_names_back(
    monkeypatch: pytest.MonkeyPatch, loads: str | Exception, before: dict[str, str]
) -> None:
    docker = Docker(**before)
    names = dict(docker.tags)
    with pytest.raises(JobError):
        fetch(docker, monkeypatch, Way(docker, loads, loads), wants="three")
    assert docker.tags == names


def test_going_back_moves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    docker = Docker(img_v="two", img_gb10_previous="one")
    assert fetch(docker, monkeypatch, Way(docker), wants="one")["moved_bytes"] == 0
    assert docker.tags == {"img:v": "one", "img:gb10-previous": "two"}


def test_docker_that_does_not_answer_is_a_failure() -> None:
    with pytest.raises(JobError, match="become"):
        _image_docker.inspect("a:1", lambda _argv: (1, "", "Cannot connect to the Docker daemon"))
    assert _image_docker.run(["no-such-program-here"])[0] == 127


def test_the_next_source_takes_over(monkeypatch: pytest.MonkeyPatch) -> None:
    docker = Docker()
    way = Way(docker, SourceError("stream broke"), "three")
    result = fetch(docker, monkeypatch, way, wants="three")
    assert way.asked == ["192.0.2.1", "192.0.2.2"]
    assert (result["source"], result["moved_bytes"]) == ("b", 14)
    assert result["failed_sources"] == ["a: stream broke"]


def test_when_no_source_is_left_all_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    docker = Docker()
    with pytest.raises(JobError, match=r"a: stream broke\. b: token is wrong"):
        fetch(
            docker, monkeypatch, Way(docker, SourceError("stream broke"), SourceError("token is wrong")), wants="three"
        )


def test_a_source_that_knows_another_way_is_asked_again_once(monkeypatch: pytest.MonkeyPatch) -> None:
    docker = Docker()
    way = Way(docker, SourceError("layer changed", again=True), SourceError("layer changed", again=True), "three")
    result = fetch(docker, monkeypatch, way, wants="three")
    assert way.asked == ["192.0.2.1", "192.0.2.1", "192.0.2.2"]
    assert result["failed_sources"] == ["a: layer changed", "a: layer changed"]


def test_why_the_source_used_docker_save_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    docker = Docker()
    way = Way(docker, "three")
    monkeypatch.setattr(way, "receive", lambda *_: docker.tags.update({"img:v": "three"}) or Got(1, 0, "no overlay2"))
    assert fetch(docker, monkeypatch, way, wants="three")["saved_because"] == "no overlay2"


def test_the_second_rail_is_tried_before_the_next_source(monkeypatch: pytest.MonkeyPatch) -> None:
    docker = Docker()
    way = Way(docker, "three")
    down = {"192.0.2.1", "192.0.2.2"}

    def connect(address: str, *_: Any) -> socket.socket:
        if address in down:
            raise WireError(f"cannot connect to {address}")
        return way.connect(address)

    monkeypatch.setattr(_image_copy, "receive", way.receive)
    monkeypatch.setattr(_image_copy, "connect", connect)
    assert _image_copy.fetch("img:v", content("three"), SOURCES, 1, Progress(), docker)["source"] == "b"
    assert way.asked == ["192.0.3.2"]


@pytest.mark.parametrize("first", [LoadError("layer not found", True), "wrong"])
def test_a_daemon_that_wants_all_layers_gets_them_and_is_remembered(
    monkeypatch: pytest.MonkeyPatch, first: str | Exception
) -> None:
    docker = Docker(img_v="two")
    way = Way(docker, first, "three", "four")
    result = fetch(docker, monkeypatch, way, wants="three")
    assert way.asked == ["192.0.2.1", "192.0.2.1"]
    assert "whole_because" in result and result["left_out_bytes"] == 0
    assert "whole_because" not in fetch(docker, monkeypatch, way, wants="four")
    assert way.held == [["two"], [], []]


def test_another_docker_is_asked_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    docker = Docker(img_v="two")
    way = Way(docker, LoadError("layer not found", True), "three", "four")
    fetch(docker, monkeypatch, way, wants="three")
    other = Docker()
    other.tags, other.driver, way.docker = docker.tags, "btrfs", docker
    fetch(other, monkeypatch, way, wants="four")
    assert [bool(held) for held in way.held] == [True, False, True]


def test_the_containerd_store_must_be_able_to_make_a_container(monkeypatch: pytest.MonkeyPatch) -> None:
    docker = Docker(img_v="two")
    docker.status, docker.create = "io.containerd.snapshotter.v1", (1, "", "snapshot not found")
    way = Way(docker, "three", "three")
    result = fetch(docker, monkeypatch, way, wants="three")
    assert "snapshot not found" in result["whole_because"] and way.held[1] == []


def test_a_load_that_fails_with_all_layers_is_final(monkeypatch: pytest.MonkeyPatch) -> None:
    docker = Docker()
    way = Way(docker, LoadError("disk full", False))
    with pytest.raises(JobError, match="disk full"):
        fetch(docker, monkeypatch, way, wants="three")
    assert way.asked == ["192.0.2.1"]
