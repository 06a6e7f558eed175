# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""The module with a Docker that is a script: what it is given, and what is left when it is over."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gb10.serving.plugins.module_utils import _collective_container
from ansible_collections.gb10.serving.plugins.module_utils._image import content_identity
from ansible_collections.gb10.serving.tests.unit.plugins.module_utils import collective_outputs as out

#: Writes down what it was given; a container is a process that "rm" ends.
DOCKER = """#!/bin/sh
here=$(dirname "$0")
echo "$(echo "$*" | tr '\\n' ' ')" >> "$here/calls"
case $1 in
image) cat "$here/image"; exit 0 ;;
run)
  while [ "$1" != --env-file ]; do shift; done
  stat -c %a "$2" > "$here/mode"; cat "$2" > "$here/env"
  cat "$here/output"
  sleep "$(cat "$here/seconds")" > /dev/null 2>&1 &
  echo $! > "$here/container"
  wait $!
  rm -f "$here/container"
  exit "$(cat "$here/code")" ;;
ps) cat "$here/leftovers" 2> /dev/null ;;
rm)
  if [ -e "$here/hangs" ]; then exec sleep 40; fi
  if [ -e "$here/container" ]; then kill "$(cat "$here/container")"; rm -f "$here/container"; fi ;;
esac
"""
IMAGE = {"Id": "sha256:1", "Size": 5, "RootFS": {"Layers": ["sha256:a"]}, "Config": {}}


def spec() -> dict[str, Any]:
    made = out.spec()
    made["engine"]["image"]["content"] = content_identity(IMAGE)
    return made


@pytest.fixture
def docker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "docker").write_text(DOCKER)
    (tmp_path / "docker").chmod(0o755)
    (tmp_path / "tmp").mkdir()
    (tmp_path / "image").write_text(json.dumps([IMAGE]))
    given(tmp_path, out.RDMA + out.until("end", True) + out.event(done=True))
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    return tmp_path


def given(docker: Path, output: str, code: int = 0, seconds: float = 0) -> None:
    for name, value in (("output", output), ("code", str(code)), ("seconds", str(seconds))):
        (docker / name).write_text(value)


def calls(docker: Path) -> list[str]:
    """Without the look at the image, which comes first."""
    look, *others = (docker / "calls").read_text().splitlines()
    assert look.strip() == "image inspect example/vllm:1"
    return others


def nothing_is_left(docker: Path) -> bool:
    return not (docker / "container").exists() and not list((docker / "tmp").iterdir())


def run(number: int = 0, timeout: int = 60) -> dict[str, Any]:
    return _collective_container.test(spec(), number, timeout, 29501)


def test_a_healthy_rank(docker: Path) -> None:
    answer = run(1)
    assert answer["ok"] and answer["transport"] == "rdma" and answer["seconds"] < 30
    asked, first, ran, last = [line.strip() for line in calls(docker)]
    assert asked == "ps --all --quiet --filter label=gb10.serving/collective=main"
    assert first == last == "rm --force --volumes gb10-main-collective-rank1"
    assert ran.startswith("run --rm") and '"rank": 1' in ran and '"port": 29501' in ran
    # the environment goes through a file that only its owner reads
    assert "two words" not in ran and (docker / "mode").read_text() == "600\n"
    assert (docker / "env").read_text() == "NCCL_SOCKET_IFNAME==enp1s0f0np0\nSOME=two words\n"
    assert nothing_is_left(docker)


def test_the_script_is_handed_over_whole(docker: Path) -> None:
    text = _collective_container.script()
    assert compile(text, "script", "exec") and text.endswith("main()\n")
    run()
    assert "all_reduce" in calls(docker)[2]


def test_what_an_interrupted_run_left_goes_first(docker: Path) -> None:
    (docker / "leftovers").write_text("0a1b\n2c3d\n")
    run()
    assert calls(docker)[1].strip() == "rm --force --volumes gb10-main-collective-rank0 0a1b 2c3d"
    assert calls(docker)[2].startswith("run ")


def test_a_container_that_hangs_is_ended_in_time(docker: Path) -> None:
    given(docker, out.until("nccl", True), seconds=60)
    begun = time.monotonic()
    answer = run(timeout=4)
    assert time.monotonic() - begun < 30
    assert answer["cause"] == "worker_died" and "while opening NCCL" in answer["reason"]
    assert nothing_is_left(docker)


def test_a_client_that_does_not_end_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_collective_container, "REST_SECONDS", 0.2)
    begun = time.monotonic()
    with subprocess.Popen(["sh", "-c", "echo told; sleep 14; :"], stdout=subprocess.PIPE, text=True) as process:
        assert "told" in _collective_container.rest(process, begun + 60)
    assert time.monotonic() - begun < 10


def test_a_docker_that_hangs_is_not_waited_for(docker: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_collective_container, "OVER_SECONDS", 1.0)
    (docker / "hangs").touch()
    given(docker, out.until("store"), seconds=40)
    answer = run(1, timeout=4)
    assert answer["seconds"] < 4 + 6 and answer["stage"] == "store"
    (docker / "docker").write_text("#!/bin/sh\nexec sleep 40\n")
    begun = time.monotonic()
    answer = run(1, timeout=4)
    assert answer["skipped"] and time.monotonic() - begun < 4 + 8


@pytest.mark.parametrize(
    ("output", "code", "cause"),
    [
        ("docker: Error response from daemon: No such image: example/vllm:1\n", 125, "unknown"),
        (out.until("reduce"), 137, "worker_died"),
        (out.until("gloo") + out.NO_SUCH_INTERFACE + out.event(failed="error", stage="gloo"), 3, "interface_not_found"),
    ],
)
def test_a_failed_rank(docker: Path, output: str, code: int, cause: str) -> None:
    given(docker, output, code)
    answer = run()
    assert answer["cause"] == cause and not answer["skipped"]
    assert nothing_is_left(docker)


@pytest.mark.parametrize(
    ("layers", "seen"),
    [(["sha256:b"], "the image example/vllm:1 on this node is sha256:"), (None, "this node is gone")],
)
def test_another_image_is_not_run(docker: Path, layers: list[str] | None, seen: str) -> None:
    found = [] if layers is None else [{**IMAGE, "RootFS": {"Layers": layers}}]
    (docker / "image").write_text(json.dumps(found))
    answer = run(1)
    assert (answer["cause"], answer["stage"], answer["skipped"]) == ("ranks_disagree", "image", False)
    assert seen in answer["reason"] and f", not {content_identity(IMAGE)}, with which release" in answer["reason"]
    assert answer["image"] == (content_identity(found[0]) if found else None) and calls(docker) == []


def test_the_image_that_was_compared_is_told(docker: Path) -> None:
    assert run(1)["image"] == content_identity(IMAGE)


def test_no_docker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    answer = run()
    assert not answer["ok"] and answer["evidence"] == ["docker is not installed on this node"]


def as_module(**options: Any) -> subprocess.Popen[str]:
    """The module as Ansible runs it."""
    arguments = {"spec": spec(), "rank": 0, **options}
    code = (
        "import json, sys, ansible.module_utils.basic as basic\n"
        "basic._ANSIBLE_PROFILE = 'legacy'\n"
        "basic._ANSIBLE_ARGS = json.dumps({'ANSIBLE_MODULE_ARGS': json.loads(sys.argv[1])}).encode()\n"
        "from ansible_collections.gb10.serving.plugins.modules import collective_test\n"
        "collective_test.main()\n"
    )
    root = Path(__file__).parents[4] / "collections"
    return subprocess.Popen(
        [sys.executable, "-c", code, json.dumps({**arguments, "_ansible_remote_tmp": "/tmp"})],
        stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(root)},
    )  # fmt: skip


def test_an_interrupted_run_leaves_nothing(docker: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given(docker, "", seconds=60)
    monkeypatch.setenv("TMPDIR", str(docker / "tmp"))
    with as_module() as process:
        until = time.monotonic() + 40
        while not (docker / "container").exists() and time.monotonic() < until:
            time.sleep(0.05)
        assert (docker / "container").exists()
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=30)
    assert nothing_is_left(docker)


@pytest.mark.parametrize(
    ("options", "seen"),
    [({"timeout": 5}, "timeout is 5. Expected: 15 to 600"), ({"rank": 7}, "the spec has no rank 7. Expected: a rank")],
)
def test_options_that_cannot_be(docker: Path, options: dict[str, Any], seen: str) -> None:
    with as_module(**options) as process:
        told, _none = process.communicate(timeout=60)
    answer = json.loads(told)
    assert answer["failed"] and seen in answer["msg"] and "Next step:" in answer["msg"]
    assert not (docker / "calls").exists()
