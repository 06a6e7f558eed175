#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: engine_info
short_description: What an engine image on a node is
version_added: 0.1.0
description:
  - Returns the content identity of a container image, its architecture, and the serving engine in it.
  - The identity is equal on all nodes that have the same image, whatever their storage driver.
  - The engine is found by running the image once, without network and without GPU. Its flags are read from its
    own help, in a second run. Answers are kept by content identity in O(cache_dir), so that later runs start no
    container.
  - An image that is not here is an answer, and so is a help that cannot be read. A Docker that does not answer is a
    failure.
extends_documentation_fragment:
  - gb10.serving.attributes
  - gb10.serving.attributes.info_module
  - gb10.serving.attributes.action
options:
  image:
    description: Reference of the image.
    type: str
    required: true
  cache_dir:
    description: Where answers are kept. Not written in check mode.
    type: path
    default: /opt/gb10-serving/.cache
  timeout:
    description: Seconds that the image may take to answer each question.
    type: int
    default: 120
  flags:
    description: Whether the engine is asked for its flags. That takes 10 to 30 seconds, once for each image.
    type: bool
    default: false
  gpus:
    description:
      - What the container with the help asks Docker for, like C(--gpus); empty for none.
      - vLLM prints its help only where it sees a GPU.
    type: str
    default: ''
  engines:
    description:
      - Engines to look for, by name, each with the Python C(distributions) that are this engine and the command of its
        C(help). Without them, those that the collection knows.
    type: dict
author:
  - gb10.serving contributors (@gb10-serving)
"""

EXAMPLES = r"""
- name: Look at the image
  gb10.serving.engine_info:
    image: vllm/vllm-openai:nightly
  become: true
  register: engine_here

- name: Ask the image for the flags of its engine
  gb10.serving.engine_info:
    image: vllm/vllm-openai:nightly
    flags: true
    gpus: all
  become: true
"""

RETURN = r"""
engine:
  description: The image and the engine in it.
  returned: always
  type: dict
  contains:
    image:
      description: The image; without it RV(ignore:present) is V(false) and the other values are V(null).
      type: dict
      sample:
        ref: vllm/vllm-openai:nightly
        present: true
        content: sha256:3c1f2a
        id: sha256:99aa01
        architecture: arm64
        size_bytes: 18200000000
        layers: 31
    name:
      description: V(vllm), V(sglang), or V(null) when none was found.
      type: str
      sample: vllm
    version:
      description: Version of the engine.
      type: str
      sample: 0.19.0
    reason:
      description: Why there is no name, or V(null).
      type: str
      sample: null
    flags:
      description:
        - What the help of the engine lists, in its order, or V(null) when it was not asked or did not answer.
        - Each has C(name), C(aliases), C(negatives) (names that turn it off), C(hidden) (negatives that the help does
          not show), C(takes_value) (V(no), V(one), V(optional) or V(many)), C(metavar), C(choices), C(known) (values
          that the help lists and the engine does not insist on), C(default), C(deprecated) (what the help says of that)
          and C(positional).
      type: list
      elements: dict
      sample:
        - name: --tensor-parallel-size
          aliases: [-tp]
          negatives: []
          hidden: []
          takes_value: one
          metavar: TENSOR_PARALLEL_SIZE
          choices: []
          known: []
          default: '1'
          deprecated: null
          positional: false
    flags_reason:
      description: Why there are no flags, or V(null).
      type: str
      sample: null
"""

import platform
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.gb10.serving.plugins.module_utils import _engine_probe, _image, _image_docker
from ansible_collections.gb10.serving.plugins.module_utils._job import JobError


def look(params: dict[str, Any], write: bool) -> dict[str, Any]:
    """The image, its engine, and the engine's flags, as far as they can be known."""
    ref = params["image"]
    image = _image_docker.inspect(ref)
    found: dict[str, Any] = {"image": image, "name": None, "version": None, "reason": None}
    found.update(flags=None, flags_reason=None if not params["flags"] else "the engine is not known")
    mine = _image.architecture_of_machine(platform.machine())
    if not image["present"]:
        found["reason"] = f"the image {ref} is not on this node"
    elif image["architecture"] not in (None, mine):
        found["reason"] = f"the image is built for {image['architecture']}, this node is {mine}"
    else:
        engines = params["engines"] or {}
        kept = _engine_probe.Kept(params["cache_dir"], image["content"], write)
        found.update(_engine_probe.ask_engine(ref, engines, params["timeout"], kept))
        if params["flags"] and found["name"]:
            found.update(_engine_probe.ask_flags(ref, found["name"], engines, params["gpus"], params["timeout"], kept))
    return found


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "image": {"type": "str", "required": True},
            "cache_dir": {"type": "path", "default": "/opt/gb10-serving/.cache"},
            "timeout": {"type": "int", "default": 120},
            "flags": {"type": "bool", "default": False},
            "gpus": {"type": "str", "default": ""},
            "engines": {"type": "dict"},
        },
        supports_check_mode=True,
    )
    try:
        engine = look(module.params, write=not module.check_mode)
    except JobError as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=False, engine=engine)


if __name__ == "__main__":
    main()
