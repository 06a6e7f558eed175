#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: rank_info
short_description: What a node runs of a deployment
version_added: 0.1.0
description:
  - Returns the rank container of a deployment on this node, the release it runs, and the end of its log.
  - A node without Docker or without the deployment is an answer, not a failure.
extends_documentation_fragment:
  - gb10.serving.attributes
  - gb10.serving.attributes.info_module
options:
  name:
    description: Name of the deployment.
    type: str
    required: true
  root:
    description: Directory on the node that holds all deployments.
    type: path
    default: /opt/gb10-serving
  log_lines:
    description: How many of the last log lines to return.
    type: int
    default: 20
  image:
    description: Reference of an image that is looked for too.
    type: str
author:
  - gb10.serving contributors (@gb10-serving)
"""

EXAMPLES = r"""
- name: See what runs
  gb10.serving.rank_info:
    name: main
  become: true
  register: rank_state
"""

RETURN = r"""
image:
  description: The image O(image) on this node, as M(gb10.serving.engine_info) returns it.
  returned: when O(image) is given
  type: dict
  sample: {ref: "vllm/vllm-openai:nightly", present: true, content: "sha256:3c1f2a"}
rank_state:
  description: What was found.
  returned: always
  type: dict
  contains:
    container:
      description:
        - The rank container, or V(null) when there is none.
        - C(exit_code) and C(finished_at) are V(null) while it runs.
      type: dict
      sample:
        {name: gb10-main-rank0, state: running, running: true, exit_code: null, release: main-0a1b2c3d4e5f, rank: 0}
    error:
      description: Why the container could not be looked up, or V(null).
      type: str
      sample: null
    current:
      description: Release id that was started last, or V(null).
      type: str
      sample: main-0a1b2c3d4e5f
    previous:
      description: Release id that ran before it, or V(null).
      type: str
      sample: null
    spec:
      description:
        - The spec of the release that the container runs, or of RV(rank_state.current) without one; V(null) when it
          cannot be read.
      type: dict
      sample: {id: main-0a1b2c3d4e5f}
    failed:
      description: Starts that failed and are remembered, as long as the image of that time is the one on the node.
      type: list
      elements: dict
      sample: [{key: 0f1e2d3c4b5a6978, engine: sglang, cause: nccl_init_hang, release: main-0a1b2c3d4e5f}]
    log:
      description: The last lines of the container's log, without API keys and other secrets.
      type: list
      elements: str
      sample: ["INFO: Application startup complete."]
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.gb10.serving.plugins.module_utils import _image_docker, _rank, _rank_failed
from ansible_collections.gb10.serving.plugins.module_utils._job import JobError


def failures(directory: str) -> list[dict[str, Any]]:
    """What is remembered; not what failed with an image that has been replaced since."""
    kept = []
    for failure in _rank_failed.read(directory):
        image = failure.get("image") or {}
        try:
            now = _image_docker.inspect(image["ref"])["content"] if image.get("ref") else None
        except (JobError, OSError):
            now = None
        if now is None or now == image.get("content"):
            kept.append(failure)
    return kept


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "required": True},
            "root": {"type": "path", "default": "/opt/gb10-serving"},
            "log_lines": {"type": "int", "default": 20},
            "image": {"type": "str"},
        },
        supports_check_mode=True,
    )

    def run(argv: list[str]) -> tuple[int, str, str]:
        return module.run_command(argv, environ_update={"LC_ALL": "C"}, handle_exceptions=False)

    try:
        directory = _rank.directory_of(module.params["root"], module.params["name"])
    except _rank.RankError as failure:
        module.fail_json(msg=str(failure))
    current = _rank.linked_release(directory, "current")
    container, error = None, None
    log: list[str] = []
    try:
        found = _rank.containers(run, module.params["name"])
        container = found[0] if found else None
        if container:
            secrets = _rank.secrets_of(directory, container["release"])
            log = _rank.log_tail(run, container["name"], module.params["log_lines"], secrets)
    except (_rank.RankError, OSError) as failure:
        error = str(failure)
    more = {}
    if module.params["image"]:
        try:
            more = {"image": _image_docker.inspect(module.params["image"])}
        except JobError as failure:
            module.fail_json(msg=str(failure))
    module.exit_json(
        changed=False,
        **more,
        rank_state={
            "container": container,
            "error": error,
            "current": current,
            "previous": _rank.linked_release(directory, "previous"),
            "spec": _rank.read_spec(directory, container["release"] if container else current),
            "failed": failures(directory),
            "log": log,
        },
    )


if __name__ == "__main__":
    main()
