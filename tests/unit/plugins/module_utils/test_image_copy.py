# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
from __future__ import annotations

import contextlib
import json
import socket
import sys
import threading
from typing import Any

import pytest

from ansible_collections.gb10.serving.plugins.module_utils import _image, _image_copy
from ansible_collections.gb10.serving.plugins.module_utils._job import JobError, Progress


@pytest.fixture(autouse=True)
def no_docker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_image_copy, "docker_root", lambda runner=None: None)


def stream(save: list[list[str]], load: list[str]) -> int:
    """What receive() makes of these two commands."""
    ours, theirs = socket.socketpair()
    handler = _image_copy.send_image(save)

    def serve() -> None:
        with theirs:
            line = theirs.makefile("r").readline()
            with contextlib.suppress(OSError):
                handler(theirs, json.loads(line))

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        with ours:
            return _image_copy.receive(ours, Progress(), load)
    finally:
        thread.join(10)


def py(code: str) -> list[str]:
    return [sys.executable, "-c", code]


SAVE = py("import sys; sys.stdout.buffer.write(b'x' * 3_000_001)")


def load_to(path: Any) -> list[str]:
    return py(f"import sys; data = sys.stdin.buffer.read(); open({str(path)!r}, 'wb').write(data)")


def test_every_byte_arrives(tmp_path: Any) -> None:
    assert stream([SAVE], load_to(tmp_path / "out")) == 3_000_001
    assert (tmp_path / "out").read_bytes() == b"x" * 3_000_001


def test_a_save_that_fails_is_told_to_the_receiver(tmp_path: Any) -> None:
    save = py("import sys; sys.stdout.write('x' * 100_000); sys.stdout.flush(); sys.exit('layer is gone')")
    with pytest.raises(JobError, match="layer is gone"):
        stream([save], load_to(tmp_path / "out"))
    assert not (tmp_path / "out").exists()


def test_the_second_command_is_tried_when_the_first_sent_nothing(tmp_path: Any) -> None:
    assert stream([py("raise SystemExit(1)"), SAVE], load_to(tmp_path / "out")) == 3_000_001


def test_no_second_command_after_bytes_went(tmp_path: Any) -> None:
    with pytest.raises(JobError, match="ended with 3"):
        stream([py("print('x', flush=True); raise SystemExit(3)"), SAVE], load_to(tmp_path / "out"))


@pytest.mark.parametrize(
    "code",
    [
        "import sys; sys.stdin.buffer.read(); sys.exit('no space left on device')",
        "import sys; sys.exit('no space left on device')",
    ],
)
def test_a_load_that_fails_is_named(code: str) -> None:
    with pytest.raises(JobError, match="data root is full"):
        stream([SAVE], py(code))


def test_a_source_that_dies_is_no_success(tmp_path: Any) -> None:
    ours, theirs = socket.socketpair()
    theirs.sendall(b"D\0\0\0\4abcd")
    theirs.close()
    with ours, pytest.raises(JobError, match="broke"):
        _image_copy.receive(ours, Progress(), load_to(tmp_path / "out"))
    assert not (tmp_path / "out").exists()


class Docker:
    """Names and identities, enough for fetch()."""

    def __init__(self, **tags: str) -> None:
        self.tags = {key.replace("_", ":", 1).replace("_", "-"): value for key, value in tags.items()}
        self.removed: list[str] = []

    def __call__(self, argv: list[str]) -> tuple[int, str, str]:
        match argv[1:]:
            case ["image", "inspect", "--format", _, image]:
                return 0, str(list(self.tags.values()).count(image)), ""
            case ["image", "inspect", ref]:
                if ref not in self.tags:
                    return 1, "[]", f"Error: No such image: {ref}"
                return 0, json.dumps([{"Id": self.tags[ref], "RootFS": {"Layers": [self.tags[ref]]}}]), ""
            case ["tag", image, ref]:
                self.tags[ref] = image
            case ["image", "rm", image]:
                self.removed.append(image)
                self.tags.pop(image, None)
            case _:
                raise AssertionError(argv)
        return 0, "", ""


def content(image: str) -> str:
    return _image.content_identity({"RootFS": {"Layers": [image]}})


def fetch(docker: Docker, monkeypatch: pytest.MonkeyPatch, loads: str | None, wants: str) -> dict[str, Any]:
    def receive(_sock: Any, _progress: Progress, _command: list[str]) -> int:
        if loads is None:
            raise JobError("broken")
        docker.tags["img:v"] = loads
        return 7

    monkeypatch.setattr(_image_copy, "connect", lambda *_: socket.socket())
    monkeypatch.setattr(_image_copy, "receive", receive)
    source = {"address": "192.0.2.1", "port": 1, "token": "t"}
    return _image_copy.fetch("img:v", content(wants), source, 1, Progress(), docker)


def test_fetch_keeps_one_previous_image(monkeypatch: pytest.MonkeyPatch) -> None:
    docker = Docker(img_v="two", img_gb10_previous="one")
    result = fetch(docker, monkeypatch, loads="three", wants="three")
    assert docker.tags == {"img:v": "three", "img:gb10-previous": "two"}
    assert docker.removed == ["one"]
    assert result == {"moved_bytes": 7, "content": content("three"), "previous": "img:gb10-previous"}


def test_fetch_leaves_an_image_that_has_another_name(monkeypatch: pytest.MonkeyPatch) -> None:
    docker = Docker(img_v="two", img_gb10_previous="one", mine_x="one")
    fetch(docker, monkeypatch, loads="three", wants="three")
    assert docker.tags["mine:x"] == "one" and docker.removed == []


@pytest.mark.parametrize("loads", [None, "wrong"])
@pytest.mark.parametrize("before", [{"img_v": "two", "img_gb10_previous": "one"}, {"img_v": "two"}])
def test_fetch_that_fails_puts_names_back(
    monkeypatch: pytest.MonkeyPatch, loads: str | None, before: dict[str, str]
) -> None:
    docker = Docker(**before)
    names = dict(docker.tags)
    with pytest.raises(JobError):
        fetch(docker, monkeypatch, loads=loads, wants="three")
    assert docker.tags == names


def test_going_back_moves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    docker = Docker(img_v="two", img_gb10_previous="one")
    assert fetch(docker, monkeypatch, loads=None, wants="one")["moved_bytes"] == 0
    assert docker.tags == {"img:v": "one", "img:gb10-previous": "two"}


def test_docker_that_does_not_answer_is_a_failure() -> None:
    with pytest.raises(JobError, match="become"):
        _image_copy.inspect("a:1", lambda _argv: (1, "", "Cannot connect to the Docker daemon"))
    assert _image_copy.run(["no-such-program-here"])[0] == 127
