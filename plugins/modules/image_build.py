#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: image_build
short_description: Pull or build a container image on a node
version_added: 0.1.0
description:
  - Makes sure that a node has an image, from a registry or built there from a Dockerfile.
  - Run it on the head; M(gb10.serving.image_sync) brings the image to the other nodes.
extends_documentation_fragment:
  - gb10.serving.attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
  idempotent:
    support: partial
    details:
      - An image that is there is not pulled again, also when the registry has a newer one under its tag.
      - An image is built again when the arguments or any file of the context changed, not when its base did.
  platform:
    platforms: linux
options:
  image:
    description: Reference of the image, with its tag.
    type: str
    required: true
  pull:
    description:
      - Whether to pull an image that is not there.
      - Without O(build), V(never) fails when the image is not there.
    type: str
    choices: [missing, never]
    default: missing
  build:
    description: How the image is built; without it the image comes from its registry.
    type: dict
    suboptions:
      context:
        description: Folder on the node with the files of the build.
        type: path
        required: true
      dockerfile:
        description: The Dockerfile, relative to O(build.context).
        type: str
        default: Dockerfile
      args:
        description: Arguments of the build. They can be read in the image's history, so no secrets.
        type: dict
        default: {}
  idle_timeout:
    description: Seconds after which a pull or build fails that says nothing and writes nothing.
    type: int
    default: 1800
  detach:
    description: Set by the action plugin. The work runs detached and the result names its folder as RV(ignore:job).
    type: bool
    default: false
author:
  - gb10.serving contributors (@gb10-serving)
"""

EXAMPLES = r"""
- name: Pull the image on the head when it is not there
  gb10.serving.image_build:
    image: vllm/vllm-openai:v0.25.1-aarch64
  become: true

- name: Build an image with newer transformers on the head
  gb10.serving.image_build:
    image: local/vllm-transformers:1
    build:
      context: ~/images/vllm-transformers
      args:
        BASE: vllm/vllm-openai:v0.25.1-aarch64
  become: true
"""

RETURN = r"""
how:
  description: Where the image came from in this run; V(present) when it was there.
  returned: success
  type: str
  sample: pulled
content:
  description: Content identity of the image, as RV(gb10.serving.engine_info#module:engine) gives it.
  returned: success, not in check mode before a change
  type: str
  sample: sha256:3c1f2a
architecture:
  description: Architecture of the image.
  returned: success, not in check mode before a change
  type: str
  sample: arm64
size_bytes:
  description: Size of the image.
  returned: success, not in check mode before a change
  type: int
  sample: 18200000000
seconds:
  description: Duration of the pull or build.
  returned: when something was pulled or built
  type: float
  sample: 412.7
"""

import os
import platform
import socket
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.gb10.serving.plugins.module_utils import _image, _image_docker, _image_make
from ansible_collections.gb10.serving.plugins.module_utils._job import JobError, Progress, Work
from ansible_collections.gb10.serving.plugins.module_utils._sync import carry_out

FACTS = ("content", "architecture", "size_bytes")


def wanted(module: AnsibleModule) -> tuple[str, Work | None, dict[str, Any]]:
    """What to do, how, and the image as it is. JobError when it cannot be had."""
    ref, plan = module.params["image"], module.params["build"]
    problem = _image.problem_of_ref(ref)
    if problem:
        raise JobError(f"it cannot be pulled or built: {problem}.")
    mine = _image.architecture_of_machine(platform.machine())
    image = _image_docker.inspect(ref)
    if image["present"] and image["architecture"] != mine:
        raise JobError(f"it is built for {image['architecture']}, this node is {mine}. Use an image for {mine}.")
    if plan:
        context = os.path.abspath(plan["context"])
        how = dict(plan, context=context, args={key: str(value) for key, value in (plan["args"] or {}).items()})
        digest = _image_make.build_digest(context, how["dockerfile"], how["args"])
        if image["present"] and _image_make.built_from(ref) == digest:
            return "present", None, image
        return "built", lambda progress: _image_make.build(ref, how, digest, mine, progress), image
    if image["present"]:
        return "present", None, image
    if module.params["pull"] == "never":
        raise JobError("it is not there, and gb10_image_pull is never. Load it here, or set gb10_image_pull: missing.")
    return "pulled", lambda progress: _image_make.pull(ref, mine, progress), image


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "image": {"type": "str", "required": True},
            "pull": {"type": "str", "choices": ["missing", "never"], "default": "missing"},
            "build": {
                "type": "dict",
                "options": {
                    "context": {"type": "path", "required": True},
                    "dockerfile": {"type": "str", "default": "Dockerfile"},
                    "args": {"type": "dict", "default": {}},
                },
            },
            "idle_timeout": {"type": "int", "default": 1800},
            "detach": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    where = f"The image {module.params['image']} on {socket.gethostname()}"
    try:
        how, work, image = wanted(module)
    except JobError as error:
        module.fail_json(msg=f"{where}: {error}")
    if not work:
        module.exit_json(changed=False, how=how, **{key: image[key] for key in FACTS})
        return
    if module.check_mode:
        module.exit_json(changed=True, how=how)

    begun = work

    def make(progress: Progress) -> dict[str, Any]:
        made = begun(progress)
        return {"changed": made["content"] != image["content"], "how": how, **{key: made[key] for key in FACTS}}

    result = carry_out(module, make, module.params["idle_timeout"])
    if "error" in result:
        module.fail_json(msg=f"{where}: {result.pop('error')}", **result)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
