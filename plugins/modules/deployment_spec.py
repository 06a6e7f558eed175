#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)

# This is a virtual module that is entirely implemented as an action plugin and runs on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: deployment_spec
short_description: Builds the spec of a deployment
version_added: 0.1.0
description:
  - The spec is the one document that every address, port, interface, path, flag and version of a deployment comes from.
  - Its id depends on all the rest, so an unchanged deployment keeps its id.
  - Refuses wishes that cannot work, all of them in one message. Arguments of the engine are held against the flags that
    the help of the image lists; where these are not known, a warning says so.
extends_documentation_fragment:
  - gb10.serving.attributes
  - gb10.serving.attributes.info_module
  - gb10.serving.attributes.action
  - gb10.serving.attributes.no_connection
options:
  name:
    description: Name of the deployment.
    type: str
    required: true
  engine:
    description: Name of the engine.
    type: str
    required: true
  image_ref:
    description: Reference of the image.
    type: str
    required: true
  model_id:
    description: Name of the model.
    type: str
    required: true
  served_name:
    description: Name under which the endpoint serves the model; empty for O(model_id).
    type: str
    default: ''
  args:
    description: Further arguments for the engine, the same on all ranks. Those that the spec decides are refused.
    type: list
    elements: str
    default: []
  env:
    description:
      - Further environment for the engine, the same on all ranks.
      - A value that contradicts an interface, HCA, GID index or address that the spec gives to a node is refused.
    type: dict
    default: {}
  env_override:
    description: Take such a value of O(env) with a warning.
    type: bool
    default: false
  bind:
    description: Address that the endpoint listens on.
    type: str
    default: 127.0.0.1
  port:
    description: TCP port of the endpoint.
    type: int
    default: 8000
  secret_env:
    description:
      - Secret environment of the ranks. Only its names enter the spec; other values make another C(id).
    type: dict
    default: {}
  api_key:
    description:
      - Key of the endpoint. Only whether there is one enters the spec. Required unless O(bind) is a loopback address.
    type: str
    default: ''
  rendezvous_port:
    description: TCP port of the ranks' store on the head; the engine's own default when it is not given.
    type: int
  gpus:
    description: What the containers ask Docker for; empty for none.
    type: str
    default: all
  rdma:
    description: Whether the ranks talk over RDMA devices, or over TCP on the same interfaces.
    type: bool
    default: true
  ulimits:
    description: Limits of the containers, as Docker names them.
    type: dict
    default: {}
  rails:
    description: Pairing of the fabric, from M(gb10.serving.deployment_check).
    type: list
    elements: dict
    required: true
  plan:
    description: The plan, from M(gb10.serving.memory_plan).
    type: dict
    required: true
  sources:
    description: What image and model are, from M(gb10.serving.deployment_check) with C(about=sources).
    type: dict
    required: true
author:
  - gb10.serving contributors (@gb10-serving)
"""

EXAMPLES = r"""
- name: Build the spec
  gb10.serving.deployment_spec:
    name: main
    engine: vllm
    image_ref: vllm/vllm-openai:v0.25.1-aarch64
    model_id: Qwen/Qwen3.5-122B-A10B-FP8
    rails: "{{ fabric.rails }}"
    plan: "{{ planned.plan }}"
    sources: "{{ sources }}"
  run_once: true
  register: built
"""

RETURN = r"""
spec:
  description:
    - The document, with C(id), C(engine), C(model), C(parallel), C(rendezvous), C(endpoint), C(memory), C(container)
      and C(ranks).
  returned: success
  type: dict
  sample: {id: main-0a1b2c3d4e5f, world_size: 2, rendezvous: {address: 192.168.200.12, port: 29501}}
before:
  description: The spec that all ranks run now, if it is another one; empty otherwise.
  returned: success
  type: dict
  sample: {}
running:
  description: Whether every rank runs exactly this spec already.
  returned: success
  type: bool
  sample: false
"""
