# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""Each wrong input stops a real deploy before anything is changed, in a message with host, cause and next step."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

testinfra_hosts = ["local://"]
ROOT = Path(__file__).resolve().parents[4]
REHEARSAL = ROOT / "inventories" / "rehearsal"
HEAD, OTHER = "rehearsal-a", "rehearsal-b"
MODEL = "/home/spark/models/qwen35-tiny"
ENV = {**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "ANSIBLE_NOCOLOR": "1", "ANSIBLE_FORCE_COLOR": "0"}


def shell(host: str, script: str) -> str:
    """Run a script as root on a node."""
    done = subprocess.run(
        ["ansible", host, "-i", str(REHEARSAL), "--become", "-m", "ansible.builtin.raw", "-a", script],
        env=ENV,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return done.stdout


def changed_on_nodes() -> str:
    """What a deploy would change on a node: containers, releases, image of the receiver, its model directory."""
    listing = (
        "docker ps -aq | sort; docker images -q | sort; find /opt/gb10-serving /home/spark/models -type f "
        "-printf '%p %s %T@\\n' 2>/dev/null | grep -v /.cache | sort"
    )
    return shell(HEAD, listing) + shell(OTHER, listing)


class Deploy:
    """Runs the real playbook against the nodes with something wrong, and wants it to stop there."""

    def __init__(self, tmp_path: Path) -> None:
        self.tmp_path = tmp_path

    def refused(self, *words: str, hosts: dict[str, Any] | None = None, only: bool = False, **extra: Any) -> str:
        """Deploy must fail with every one of the words and without a change. ``hosts`` adds or replaces host vars."""
        inventories = [] if only else ["-i", str(REHEARSAL)]
        if hosts is not None:
            path = self.tmp_path / "wrong.json"
            path.write_text(json.dumps({"sparks": {"hosts": hosts}}))
            inventories += ["-i", str(path)]
        done = subprocess.run(
            [
                "ansible-playbook",
                str(ROOT / "playbooks" / "deploy_qwen35.yml"),
                *inventories,
                "-e",
                json.dumps(
                    {"gb10_report_dir": str(self.tmp_path / "reports"), "gb10_fabric_measure": "never", **extra}
                ),
            ],
            env=ENV,
            cwd=self.tmp_path,
            capture_output=True,
            text=True,
            check=False,
            timeout=180,
        )
        output = " ".join((done.stdout + done.stderr).split())
        assert done.returncode != 0, output
        missing = [word for word in words if word not in output]
        assert not missing, f"not said: {missing}\n{done.stdout[-4000:]}{done.stderr[-2000:]}"
        assert "Traceback" not in output
        recap = done.stdout.partition("PLAY RECAP")[2]
        assert all("changed=0" in line for line in recap.splitlines() if "ok=" in line), recap
        return output


@pytest.fixture
def deploy(tmp_path: Path) -> Iterator[Deploy]:
    before = changed_on_nodes()
    yield Deploy(tmp_path)
    assert changed_on_nodes() == before


@contextmanager
def wrong(host: str, make: str, mend: str) -> Iterator[None]:
    shell(host, make)
    try:
        yield
    finally:
        shell(host, mend)


def test_no_host_in_the_group(deploy: Deploy) -> None:
    deploy.refused("group 'sparks' is missing or has no host", "Next step:", hosts={}, only=True)


def test_one_host(deploy: Deploy) -> None:
    deploy.refused(
        "spark-x", "only host in group 'sparks'", hosts={"spark-x": {"ansible_host": "192.0.2.1"}}, only=True
    )


def test_two_hosts_with_one_management_address(deploy: Deploy) -> None:
    same = {"ansible_host": "192.0.2.1"}
    deploy.refused("a and b", "same ansible_host 192.0.2.1", hosts={"a": same, "b": same}, only=True)


def test_two_hosts_with_one_fabric_address(deploy: Deploy) -> None:
    copy = "/tmp/gb10-wrong-sysroot"
    make = (
        f"rm -rf {copy}; cp -a /opt/gb10-sysroot {copy}; grep -rlE '192.168.20[01].12|c0a8:c[89]0c' {copy}/commands "
        f"{copy}/sys | xargs sed -i -E 's/(192.168.20[01]).12/\\1.11/g; s/(c0a8:c[89])0c/\\10b/g'"
    )
    with wrong(OTHER, make, f"rm -rf {copy}"):
        deploy.refused("192.168.200.11 is on", HEAD, OTHER, "another address", hosts={OTHER: {"gb10_sysroot": copy}})


def test_unreachable_host(deploy: Deploy) -> None:
    hosts = {OTHER: {"ansible_host": "172.30.77.99", "ansible_ssh_extra_args": "-o ConnectTimeout=2"}}
    deploy.refused("UNREACHABLE", OTHER, "172.30.77.99", "Next:", hosts=hosts)


def test_no_python(deploy: Deploy) -> None:
    deploy.refused(
        OTHER, "Python", "apt install python3", hosts={OTHER: {"ansible_python_interpreter": "/nowhere/python3"}}
    )


def test_model_without_config(deploy: Deploy) -> None:
    with wrong(HEAD, f"mv {MODEL}/config.json /tmp/config.json", f"mv /tmp/config.json {MODEL}/config.json"):
        deploy.refused(HEAD, "config.json", "Next step:")


def test_model_with_a_missing_shard(deploy: Deploy) -> None:
    shard = next(name for name in shell(HEAD, f"ls -1 {MODEL}").split() if name.endswith(".safetensors"))
    with wrong(HEAD, f"mv {MODEL}/{shard} /tmp/{shard}", f"mv /tmp/{shard} {MODEL}/{shard}"):
        deploy.refused(HEAD, shard, "Next step:")


def test_image_that_exists_nowhere(deploy: Deploy) -> None:
    deploy.refused(HEAD, "no node has the image 'nowhere/image:1'", "docker pull", gb10_image_ref="nowhere/image:1")


def test_docker_not_running(deploy: Deploy) -> None:
    # Without its socket the daemon is as good as down for every client, and comes back in an instant.
    with wrong(OTHER, "mv /run/docker.sock /run/docker.off", "mv /run/docker.off /run/docker.sock"):
        deploy.refused(f"{OTHER}: docker does not answer", "systemctl start docker")


def test_disk_too_small(deploy: Deploy) -> None:
    make = "mkdir -p /home/spark/models && mount -t tmpfs -o size=8m,uid=1000,gid=1000 tmpfs /home/spark/models"
    with wrong(OTHER, make, "umount /home/spark/models; rmdir /home/spark/models"):
        deploy.refused(f"Not enough disk space on {OTHER} at {MODEL}: 0.0 GB are free", "Free space")


def test_model_directory_that_the_user_may_not_write(deploy: Deploy) -> None:
    with wrong(OTHER, "mkdir /home/spark/models", "rmdir /home/spark/models"):
        deploy.refused(f"{OTHER}: the user may not write {MODEL}", "chown")


def test_port_in_use(deploy: Deploy) -> None:
    make = "python3 -m http.server 8000 --bind 127.0.0.1 >/dev/null 2>&1 </dev/null & echo $! >/tmp/server.pid; sleep 1"
    with wrong(HEAD, make, "kill $(cat /tmp/server.pid); rm /tmp/server.pid"):
        deploy.refused(f"{HEAD}: TCP port 8000 (endpoint) is in use", "gb10_server_port")


def test_memory_too_small(deploy: Deploy) -> None:
    deploy.refused("GiB", "rehearsal-", gb10_plan_reserve_gib=900)


@pytest.mark.parametrize(
    ("extra", "words"),
    [
        ({"gb10_recipe": "qwen35_122b"}, "Did you mean 'qwen35_122b_fp8'"),
        ({"gb10_server_bind": "0.0.0.0"}, "set gb10_server_api_key"),
        ({"gb10_server_api_key": "hush-hush\n"}, "ends in a newline"),
        ({"gb10_server_args": ["--master-addr", "10.0.0.1"]}, "--master-addr is given"),
        ({"gb10_server_args": ["--enforce-eagr"]}, "write --enforce-eager, if that is meant"),
        ({"gb10_server_engine": "vlm"}, "vllm"),
    ],
)
def test_wrong_settings(deploy: Deploy, extra: dict[str, Any], words: str) -> None:
    deploy.refused(words, **extra)
