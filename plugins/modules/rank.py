#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: rank
short_description: Starts, stops or removes the rank of a deployment on a node
version_added: 0.1.0
description:
  - A rank is one container, started by the C(launch.sh) of a release below O(root)/O(name)/releases.
  - The container carries the release id as a label, so a rank that already runs the wanted release is left alone.
  - Starting a release points the link C(current) to it and keeps the one before as C(previous).
  - Releases before those two are removed, but for those of O(keep) and for one that has just failed.
  - Stopping keeps the end of the container's log beside the release as C(last.log), readable by root only.
extends_documentation_fragment:
  - gb10.serving.attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
  idempotent:
    support: full
options:
  name:
    description: Name of the deployment.
    type: str
    required: true
  root:
    description: Directory on the node that holds all deployments.
    type: path
    default: /opt/gb10-serving
  state:
    description:
      - V(started) runs O(release).
      - V(stopped) leaves no container; releases stay.
      - V(absent) also removes the deployment's directory. Images and models stay.
    type: str
    choices: [started, stopped, absent]
    default: started
  release:
    description: Release id to run; its directory must exist. Required with O(state=started).
    type: str
  previous:
    description:
      - Release id that the link C(previous) gets in place of the one that was current. An empty string, or one that is
        not on the node any more, takes the link away.
      - For returning to a release after another one failed, which is nothing to return to.
    type: str
  keep:
    description: Further releases that are not removed at a start.
    type: list
    elements: str
    default: []
  restart:
    description: Start anew even if the release already runs.
    type: bool
    default: false
  stop_timeout:
    description: Seconds that the engine gets to end before it is killed.
    type: int
    default: 20
  failure:
    description:
      - What is to be remembered of the release that is stopped, with C(key), C(engine), C(release) and C(cause), and
        C(image) with C(ref) and C(content). M(gb10.serving.rank_info) returns it until that image changes.
      - The link C(current) goes back to the release before it, so that this one stays the one to return to.
    type: dict
  forget:
    description: Key of a failure that is not remembered any more.
    type: str
  memory_bytes:
    description: Memory that must be available on the node once no container is left, before the module returns.
    type: int
  memory_timeout:
    description: Seconds that it waits for O(memory_bytes) at most. Less memory is not a failure; RV(memory) tells it.
    type: int
    default: 60
author:
  - gb10.serving contributors (@gb10-serving)
"""

EXAMPLES = r"""
- name: Run a release
  gb10.serving.rank:
    name: main
    release: main-0a1b2c3d4e5f
  become: true

- name: Take the deployment away
  gb10.serving.rank:
    name: main
    state: absent
  become: true
"""

RETURN = r"""
container:
  description: Name of the container that runs, or V(null).
  returned: always
  type: str
  sample: gb10-main-rank0
previous:
  description: Release id that ran before, or V(null).
  returned: always
  type: str
  sample: null
memory:
  description: Memory available at the end, and how long it was waited for.
  returned: when O(state=stopped)
  type: dict
  sample: {available_bytes: 124000000000, wanted_bytes: 0, back: true, seconds: 0.0}
cause:
  description:
    - Why it was not started, as M(gb10.serving.engine_log_info) names it, where that is known. C(remedy) goes with it.
    - V(ranks_disagree) when the image is another one than that of the spec.
  returned: on failure
  type: str
  sample: ranks_disagree
removed:
  description: Containers that were taken away.
  returned: always
  type: list
  elements: str
  sample: []
"""

import os
import shutil
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.gb10.serving.plugins.module_utils import (
    _rank,
    _rank_failed,
    _rank_refused,
    _rank_releases,
)

LOG_LINES_KEPT = 2000


class Rank:
    """The wanted and the present state of one rank, and the steps between them."""

    def __init__(self, module: AnsibleModule) -> None:
        self.module = module
        self.params = module.params
        self.directory = _rank.directory_of(module.params["root"], module.params["name"])
        self.found = _rank.containers(self.run, module.params["name"])
        self.current = _rank.linked_release(self.directory, "current")

    def run(self, argv: list[str]) -> tuple[int, str, str]:
        return self.module.run_command(argv, environ_update={"LC_ALL": "C"}, handle_exceptions=False)

    def is_wanted(self) -> bool:
        """Whether exactly one container is there, it runs, and it runs the wanted release."""
        return (
            not self.params["restart"]
            and len(self.found) == 1
            and self.found[0]["running"]
            and self.found[0]["release"] == self.params["release"] == self.current
        )

    def take_down(self) -> list[str]:
        """Stop and remove every container of the deployment; keep the end of its log beside its release."""
        names = [container["name"] for container in self.found]
        for container in self.found:
            if container["running"]:
                self._checked(["docker", "stop", "-t", str(self.params["stop_timeout"]), container["name"]])
            self._keep_log(container)
            self._checked(["docker", "rm", "--force", "--volumes", container["name"]])
        return names

    def _keep_log(self, container: dict[str, Any]) -> None:
        place = os.path.join(self.directory, "releases", str(container["release"]))
        if os.path.isdir(place):
            secrets = _rank.secrets_of(self.directory, container["release"])
            lines = _rank.log_tail(self.run, container["name"], LOG_LINES_KEPT, secrets)
            path = os.path.join(place, "last.log")
            with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as stream:
                stream.write("\n".join(lines) + "\n")

    def start(self) -> str:
        """Run the release's launch script; returns the container's name."""
        release = self.params["release"]
        script = os.path.join(self.directory, "releases", release, "launch.sh")
        if not os.path.isfile(script):
            self.module.fail_json(
                msg=f"{script} does not exist. Expected: the release rendered on this node. "
                "Next step: run the deploy playbook, which renders it."
            )
        self._check_image(release)
        _rank_releases.set_links(self.directory, release, self.current, self.params["previous"], self.params["keep"])
        self._checked([script], f"Next step: run 'sudo {script}' on this node and read what docker says.")
        return _rank.containers(self.run, self.params["name"])[0]["name"]

    def _check_image(self, release: str) -> None:
        """Nothing is started with another image than the other ranks have."""
        if refused := _rank_refused.by_image(_rank.read_spec(self.directory, release) or {}):
            self.module.fail_json(**refused)

    def remember(self, failure: dict[str, Any]) -> None:
        """Keep that a release failed; the one before it becomes the current one again."""
        _rank_failed.remember(self.directory, failure)
        if self.current is not None and self.current == failure.get("release"):
            _rank.set_link(self.directory, "current", _rank.linked_release(self.directory, "previous"))

    def _checked(self, argv: list[str], hint: str = "Next step: 'sudo docker ps -a' on this node.") -> None:
        rc, out, err = self.run(argv)
        if rc != 0:
            self.module.fail_json(
                **_rank_refused.by_docker(argv, rc, err, hint),
                cmd=argv,
                rc=rc,
                stdout=out[-1500:],
                stderr=err[-1500:],
            )


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "required": True},
            "root": {"type": "path", "default": "/opt/gb10-serving"},
            "state": {"type": "str", "choices": ["started", "stopped", "absent"], "default": "started"},
            "release": {"type": "str"},
            "previous": {"type": "str"},
            "keep": {"type": "list", "elements": "str", "default": []},
            "restart": {"type": "bool", "default": False},
            "stop_timeout": {"type": "int", "default": 20},
            "failure": {"type": "dict"},
            "forget": {"type": "str", "no_log": False},
            "memory_bytes": {"type": "int"},
            "memory_timeout": {"type": "int", "default": 60},
        },
        required_if=[("state", "started", ["release"])],
        supports_check_mode=True,
    )
    try:
        rank = Rank(module)
    except (_rank.RankError, OSError) as error:
        module.fail_json(msg=str(error))
    state, release = module.params["state"], module.params["release"]
    if state == "absent" and os.path.isdir(rank.directory) and not os.path.isdir(f"{rank.directory}/releases"):
        module.fail_json(
            msg=f"{rank.directory} is not the directory of a deployment: there is no 'releases' in it. Nothing was "
            "removed. Next step: correct gb10_server_root or gb10_server_name."
        )
    before = [f"{container['name']} {container['state']} {container['release']}" for container in rank.found]
    if state == "started":
        changed = not rank.is_wanted()
        after = [f"release {release} running"] if changed else before
    else:
        changed = bool(rank.found) or (
            state == "absent" and bool(_rank_releases.leftovers(rank.directory, module.params["root"]))
        )
        after = []
    result: dict[str, Any] = {
        "changed": changed,
        "previous": rank.current,
        "removed": [],
        "container": None if changed or state != "started" else rank.found[0]["name"],
        "diff": {"before": "".join(f"{line}\n" for line in before), "after": "".join(f"{line}\n" for line in after)},
    }
    if changed and not module.check_mode:
        result["removed"] = rank.take_down()
        if state == "started":
            result["container"] = rank.start()
        elif state == "absent":
            for path in _rank_releases.leftovers(rank.directory, module.params["root"]):
                # The root itself was emptied before; what somebody else put there since stays.
                remove = os.rmdir if path == module.params["root"] else shutil.rmtree
                remove(path)
    if not module.check_mode and os.path.isdir(rank.directory):
        if module.params["failure"]:
            rank.remember(module.params["failure"])
        if module.params["forget"]:
            _rank_failed.forget(rank.directory, module.params["forget"])
    if state == "stopped":
        patience = 0 if module.check_mode else module.params["memory_timeout"]
        result["memory"] = _rank_failed.wait_for_memory(module.params["memory_bytes"] or 0, patience)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
