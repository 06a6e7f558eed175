#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)

# This is a virtual module that is entirely implemented as an action plugin and runs on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: deployment_check
short_description: Answers one question about all hosts of a deployment at once
version_added: 0.1.0
description:
  - Looks at the inventory or at what earlier tasks registered for each host of group C(sparks), and fails with every
    problem it found in one message.
  - Each problem names the host, what was seen, what was expected and the next step.
extends_documentation_fragment:
  - gb10.serving.attributes
  - gb10.serving.attributes.info_module
  - gb10.serving.attributes.action
  - gb10.serving.attributes.no_connection
options:
  about:
    description:
      - V(inventory) is about the group itself and needs nothing.
      - V(nodes) needs the facts of M(gb10.serving.gb10_facts) and the result of M(gb10.serving.rank_info) as
        C(__gb10_rank).
      - V(fabric) needs the facts, and pairs the rails of all hosts by their subnets.
      - V(sources) needs the facts, the pairing as C(__gb10_fabric), and the results of M(gb10.serving.engine_info) and
        M(gb10.serving.model_info) as C(__gb10_image) and C(__gb10_model).
      - V(offers) needs the result of V(sources) as C(__gb10_sources) and those of M(gb10.serving.image_sync) or
        M(gb10.serving.model_sync) with C(state=offered) as C(__gb10_image_offer) or C(__gb10_model_offer).
      - V(parity) compares image and model of all ranks with the spec, just before the start. It needs the spec as
        C(__gb10_spec), and the results of M(gb10.serving.rank_info) with its option C(image) and of
        M(gb10.serving.model_info) as C(__gb10_parity_image) and C(__gb10_parity_model).
    type: str
    required: true
    choices: [inventory, nodes, fabric, sources, offers, parity]
  gpus:
    description: What the containers ask Docker for; empty for none. For O(about=nodes).
    type: str
    default: ''
  ports:
    description: TCP ports that the head needs, by what they are for. For O(about=nodes).
    type: dict
    default: {}
  image:
    description: Reference of the image. Required with O(about=sources).
    type: str
  copy:
    description: What the offers are of. Required with O(about=offers).
    type: str
    choices: [image, model]
  verify_model:
    description: Every node but the source is a receiver, so that its copy is read and compared. For O(about=sources).
    type: bool
    default: false
author:
  - gb10.serving contributors (@gb10-serving)
"""

EXAMPLES = r"""
- name: Check the group
  gb10.serving.deployment_check:
    about: inventory
  run_once: true
"""

RETURN = r"""
cause:
  description:
    - Identifier of the first problem that has one, as M(gb10.serving.engine_log_info) uses them, or V(null).
    - C(remedy) is its next step, C(first) the host.
  returned: on failure
  type: str
  sample: ranks_disagree
hosts:
  description: Hosts in rank order.
  returned: O(about=inventory)
  type: list
  elements: str
  sample: [spark-a, spark-b]
rails:
  description: Rails that all hosts share, rail 0 first, with the member of each host.
  returned: O(about=fabric)
  type: list
  elements: dict
  sample:
    - subnet: 192.168.200.0/24
      members:
        spark-a: {netdev: enp1s0f0np0, hca: rocep1s0f0, address: 192.168.200.12, gid_index: 3, mtu: 9000}
image_copy:
  description:
    - How the image comes to every node. C(model_copy) alike.
    - C(receivers) stand in the order of the chain; it is empty when all nodes have the image.
    - C(plan) says by host on which addresses it offers, who may fetch there, where it fetches itself in order of
      preference, and at what rate in bytes per second the fabric test saw the first of these links.
  returned: O(about=sources)
  type: dict
  sample:
    source: spark-a
    receivers: [spark-b]
    content: sha256:3c1f2a
    size_bytes: 18000000000
    plan:
      spark-a: {addresses: [192.168.200.12], allowed: [192.168.200.13], following: false, sources: []}
      spark-b:
        addresses: []
        allowed: []
        following: true
        sources: [{host: spark-a, addresses: [192.168.200.12]}]
        measured_rate: 24000000000
sources:
  description: By host, where it fetches, with the port and the token of each offer. Keep it out of logs with C(no_log).
  returned: O(about=offers)
  type: dict
  sample: {spark-b: [{host: spark-a, addresses: [192.168.200.12], port: 40123, token: VALUE_HIDDEN}]}
"""
