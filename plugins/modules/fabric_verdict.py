#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)

# This is a virtual module that is entirely implemented as an action plugin and runs on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: fabric_verdict
short_description: Judge what the tests of the rails found
version_added: 0.1.0
description:
  - Puts together what M(gb10.serving.fabric_test) registered for each host as C(__gb10_fabric_paths) and
    C(__gb10_fabric_bandwidth), with the pairing as C(__gb10_fabric), and gives each figure a class, a cause and a
    remedy.
  - Keeps a measurement on the controller as C(DIRECTORY/NAME/fabric.json). It is used again as long as the nodes were
    not started anew and none of the links was taken down, moved or given another address or MTU, and it showed no
    problem.
extends_documentation_fragment:
  - gb10.serving.attributes
  - gb10.serving.attributes.action
  - gb10.serving.attributes.no_connection
attributes:
  check_mode:
    support: full
    details:
      - In check mode nothing is kept, and RV(measure) is V(false).
  diff_mode:
    support: none
  idempotent:
    support: full
    details:
      - Does not touch the nodes.
options:
  about:
    description:
      - V(paths) is about reachability and MTU, and decides whether to measure.
      - V(bandwidth) is about the rates; where none were measured now, the kept ones are returned.
    type: str
    required: true
    choices: [paths, bandwidth]
  name:
    description: Name of the deployment.
    type: str
    required: true
  directory:
    description: Directory on the controller for reports.
    type: path
    required: true
  gate:
    description: Whether a problem fails the task or is a warning.
    type: str
    choices: [fail, warn]
    default: fail
  measure:
    description:
      - With V(auto), bandwidth is to be measured when no kept measurement holds and no rank of the deployment runs.
    type: str
    choices: [auto, always, never]
    default: auto
  rdma:
    description: Whether the ranks use RDMA; then rates are compared with what port and PCIe link of the NICs allow.
    type: bool
    default: true
  expected_gbps:
    description: Expected rate of one rail in Gb/s; V(0) to find it out. Without any, rails and directions are compared.
    type: float
    default: 0
  seconds:
    description: Longest time for the measurement of a pair, which has to do for all tests; less than 8 is refused.
    type: float
    default: 10
author:
  - gb10.serving contributors (@gb10-serving)
"""

EXAMPLES = r"""
- name: Judge the paths
  gb10.serving.fabric_verdict:
    about: paths
    name: main
    directory: gb10-reports
  run_once: true
"""

RETURN = r"""
measure:
  description: Whether bandwidth should be measured now.
  returned: O(about=paths)
  type: bool
  sample: true
reason:
  description: Why it should or should not.
  returned: O(about=paths)
  type: str
  sample: there is no measurement of these links
findings:
  description: Everything that is not as it should be. C(rail) is V(null) for all rails together.
  returned: always
  type: list
  elements: dict
  sample:
    - code: down
      level: error
      rail: 1
      where: spark-b
      seen: "rail 1: enP2p1s0f0np0 is down (down, no carrier)."
      expected: an interface that is up, with a link.
      remedy: check the cable at both ends.
fabric:
  description:
    - Rates by pair, rails and direction in bits per second. V(null) is unmeasured, and is never good.
    - C(class) is one of C(good), C(below) (less than healthy machines show), C(half) (of what two rails carry),
      C(degraded) (a quarter or less), C(uneven) (a quarter of the other rail or direction), C(TCP only) (RDMA was not
      measured), C(unrated) (measured, with nothing to compare it with), C(unmeasured) and C(no path).
    - C(level) is C(good), C(note), C(warning) or C(error). C(method) is V(rdma) (ib_write_bw), V(iperf3) or V(sockets).
    - C(ratio) is the rate divided by the expected one.
    - C(kept) says that the figures are those of an earlier run.
  returned: O(about=bandwidth)
  type: dict
  sample:
    measured_at: 2026-11-30 10:00:00 UTC
    kept: false
    links: sha256:0a1b
    entries:
      - source: spark-a
        target: spark-b
        rails: [0]
        bits_per_second: 98040000000
        expected_bits_per_second: 96797538462
        previous_bits_per_second: null
        ratio: 1.013
        method: rdma
        class: good
        level: good
        cause: ''
        remedy: ''
"""
