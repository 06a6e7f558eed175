# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
from __future__ import annotations

import json
from typing import Any

import pytest

from ansible_collections.gb10.serving.plugins.module_utils import _image

LAYERS = ["sha256:aa01", "sha256:bb02"]

#: The same image as an older engine with overlay2 shows it, and as a newer one with the containerd store does.
OVERLAY2: dict[str, Any] = {
    "Id": "sha256:c0ffee01",
    "RepoTags": ["engine/serve:one"],
    "RepoDigests": ["engine/serve@sha256:d1d1"],
    "ContainerConfig": {"Cmd": ["/bin/sh", "-c", "#(nop) ADD file"]},
    "Config": {
        "Hostname": "",
        "User": "",
        "Env": ["PATH=/usr/bin", "A=1"],
        "Cmd": None,
        "Image": "sha256:99",
        "WorkingDir": "/srv",
        "Entrypoint": ["serve"],
        "Labels": None,
    },
    "Architecture": "arm64",
    "Os": "linux",
    "Size": 5000,
    "GraphDriver": {"Name": "overlay2", "Data": {"UpperDir": "/x"}},
    "RootFS": {"Type": "layers", "Layers": LAYERS},
}
CONTAINERD: dict[str, Any] = {
    "Id": "sha256:feed02",
    "RepoTags": ["engine/serve:one"],
    "RepoDigests": ["engine/serve@sha256:feed02"],
    "Config": {"Env": ["PATH=/usr/bin", "A=1"], "Entrypoint": ["serve"], "WorkingDir": "/srv", "Cmd": []},
    "Architecture": "arm64",
    "Variant": "v8",
    "Os": "linux",
    "Size": 2100,
    "GraphDriver": {"Name": "overlayfs", "Data": None},
    "RootFS": {"Type": "layers", "Layers": LAYERS},
    "Descriptor": {"mediaType": "application/vnd.oci.image.index.v1+json", "digest": "sha256:feed02"},
}


def changed(**config: Any) -> dict[str, Any]:
    return dict(OVERLAY2, Config=dict(OVERLAY2["Config"], **config))


def test_identity_does_not_depend_on_the_store() -> None:
    assert _image.content_identity(OVERLAY2) == _image.content_identity(CONTAINERD)


@pytest.mark.parametrize(
    "other",
    [
        changed(Env=["A=1", "PATH=/usr/bin"]),
        changed(Cmd=["--port", "1"]),
        changed(Entrypoint=None),
        changed(WorkingDir="/"),
        changed(User="1000"),
        dict(OVERLAY2, RootFS={"Layers": LAYERS[::-1]}),
        dict(OVERLAY2, RootFS={"Layers": LAYERS[:1]}),
    ],
)
def test_identity_sees_what_matters(other: dict[str, Any]) -> None:
    assert _image.content_identity(other) != _image.content_identity(OVERLAY2)


@pytest.mark.parametrize("other", [changed(Labels={"a": "b"}), changed(Image=""), dict(OVERLAY2, Id="sha256:0")])
def test_identity_ignores_what_a_copy_changes(other: dict[str, Any]) -> None:
    assert _image.content_identity(other) == _image.content_identity(OVERLAY2)


def test_describe() -> None:
    facts = _image.describe("engine/serve:one", json.dumps([OVERLAY2]))
    assert facts == {
        "ref": "engine/serve:one",
        "present": True,
        "content": _image.content_identity(OVERLAY2),
        "id": "sha256:c0ffee01",
        "architecture": "arm64",
        "size_bytes": 5000,
        "layers": 2,
    }
    assert _image.describe("x:y", "[]") == _image.absent("x:y")


@pytest.mark.parametrize(
    ("ref", "previous"),
    [
        ("img", "img:gb10-previous"),
        ("img:1", "img:gb10-previous"),
        ("a/b:1", "a/b:gb10-previous"),
        ("host:5000/a/b", "host:5000/a/b:gb10-previous"),
        ("host:5000/a/b:1", "host:5000/a/b:gb10-previous"),
    ],
)
def test_previous_ref(ref: str, previous: str) -> None:
    assert _image.previous_ref(ref) == previous
    assert _image.problem_of_ref(previous) is not None
    assert _image.problem_of_ref(ref) is None


@pytest.mark.parametrize("ref", ["", "--help", "a b", "a@sha256:00"])
def test_refused_refs(ref: str) -> None:
    assert _image.problem_of_ref(ref)


@pytest.mark.parametrize(
    ("api", "platform"),
    [("1.41", False), ("1.47", False), ("1.48\n", True), ("1.51", True), ("2.0", True), ("", False)],
)
def test_save_names_the_platform_where_docker_knows_it(api: str, platform: bool) -> None:
    commands = _image.save_commands("a:1", "linux", "arm64", api)
    assert commands[-1] == ["docker", "save", "a:1"]
    assert (commands[0] == ["docker", "save", "--platform", "linux/arm64", "a:1"]) is platform


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("write /layer.tar: no space left on device", "full"),
        ("open /blobs/sha256/00: no such file or directory: blob", "platform"),
        ("permission denied while trying to connect", "become"),
        ("something else", "see the text"),
    ],
)
def test_load_problem(text: str, word: str) -> None:
    assert word in _image.load_problem(text)
