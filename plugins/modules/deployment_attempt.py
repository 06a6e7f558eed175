#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)

# This is a virtual module that is entirely implemented as an action plugin and runs on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: deployment_attempt
short_description: Which engine of a recipe is to be tried
version_added: 0.1.0
description:
  - Before the first attempt, leaves out engines that are known to have failed with exactly this recipe.
  - After an attempt that failed, says whether another engine can do better. That depends on the cause, which
    M(gb10.serving.rank_wait), M(gb10.serving.collective_verdict) or M(gb10.serving.endpoint_info) named. Causes that
    lie in nodes, files, memory or recipe would come again.
  - Reads what the other tasks of the deploy playbook registered on each host, so it has no use of its own.
extends_documentation_fragment:
  - gb10.serving.attributes
  - gb10.serving.attributes.info_module
  - gb10.serving.attributes.action
  - gb10.serving.attributes.no_connection
options:
  about:
    description: V(begin) before the first attempt, V(failure) after one that failed.
    type: str
    choices: [begin, failure]
    required: true
  engines:
    description: The engines, as M(gb10.serving.recipe) returned them.
    type: list
    elements: dict
    required: true
  retry:
    description: Leave no engine out for an earlier failure.
    type: bool
    default: false
author:
  - gb10.serving contributors (@gb10-serving)
"""

EXAMPLES = r"""
- name: See whether another engine can do better
  gb10.serving.deployment_attempt:
    about: failure
    engines: "{{ __gb10_recipe.engines }}"
  run_once: true
  register: __gb10_attempt
"""

RETURN = r"""
turn:
  description: Number of the engine whose turn it is.
  returned: always
  type: int
  sample: 1
next:
  description: The same if another attempt is to be made after a failure, else V(null).
  returned: always
  type: int
  sample: 1
variables:
  description: What has to be set for it, each with C(name) and C(value).
  returned: always
  type: list
  elements: dict
  sample: [{name: gb10_server_engine, value: vllm}]
attempts:
  description: The attempts that failed until now.
  returned: always
  type: list
  elements: dict
  sample:
    - {engine: sglang, release: main-0a1b2c3d4e5f, stage: start, cause: nccl_init_hang, why: silence, seconds: 190.2}
failure:
  description: What is to be remembered of it on the nodes; V(null) for nothing.
  returned: when O(about=failure)
  type: dict
  sample: null
before:
  description: The spec of the release that ran before the first attempt; empty when none did.
  returned: when O(about=failure)
  type: dict
  sample: {}
lines:
  description: What was said of it.
  returned: always
  type: list
  elements: str
  sample: ["sglang failed (nccl_init_hang); vllm is next: another image has another NCCL."]
"""
