#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)

# This is a virtual module that is entirely implemented as an action plugin and runs on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: collective_verdict
short_description: Judge what the ranks saw of the collective test
version_added: 0.1.0
description:
  - Puts together what M(gb10.serving.collective_test) registered for each host as C(__gb10_collective).
  - Fails, with one message, when the ranks cannot work together; what other ranks saw of the same cause is left out.
  - A test that shows nothing, and a collective that works but is slower than it was meant to be, are warnings.
extends_documentation_fragment:
  - gb10.serving.attributes
  - gb10.serving.attributes.action
  - gb10.serving.attributes.no_connection
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
  idempotent:
    support: full
    details:
      - Does not touch the nodes.
options:
  spec:
    description: The deployment's specification, as M(gb10.serving.deployment_spec) returns it.
    type: dict
    required: true
  timeout:
    description: Seconds that the test could take.
    type: int
    default: 60
author:
  - gb10.serving contributors (@gb10-serving)
"""

EXAMPLES = r"""
- name: Judge the collective
  gb10.serving.collective_verdict:
    spec: "{{ spec }}"
  run_once: true
"""

RETURN = r"""
collective:
  description:
    - The answer for all ranks. C(transport) is the slowest of theirs, C(bandwidth_gbps) the lowest, in Gb/s.
    - C(cause) is an identifier as M(gb10.serving.engine_log_info) uses them, C(first) the host and rank that it is
      about.
    - C(image) is the content of the image, which was compared on all nodes before the test.
    - C(remedy) is what to do about C(cause).
    - C(skipped) is true where the test shows nothing; C(summary) says why.
  returned: always
  type: dict
  sample:
    ok: true
    skipped: false
    image: sha256:3c1f2a
    backend: nccl
    transport: rdma
    bandwidth_gbps: 176.3
    seconds: 14.2
    missing_ranks: []
    cause: null
    remedy: null
    first: null
    summary: 'all-reduce of 2 ranks by NCCL 2.29.3 over RDMA: 176 Gb/s, after 14 s'
    evidence: []
    warnings: []
"""
