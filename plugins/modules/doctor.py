#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)

# This is a virtual module that is entirely implemented as an action plugin and runs on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: doctor
short_description: Shows what is wrong with nodes and fabric as one table
version_added: 0.1.0
description:
  - Judges what M(gb10.serving.gb10_facts) registered on each host as C(__gb10_probe) (and without sudo as
    C(__gb10_storage)), M(gb10.serving.rank_info) as C(__gb10_rank), and M(gb10.serving.fabric_verdict) as
    C(__gb10_fabric_judged) and C(__gb10_fabric_measured).
  - Shows it as a table, and writes it as JSON if asked to.
  - A host that could not be reached or probed is a row, and does not keep the others from being looked at.
  - Fails when a row is an error. Warnings do not fail. What was not measured or could not be read is called
    C(unmeasured), never good.
  - Hosts are those of group C(sparks) in this run; without that group, all hosts of the play.
  - The playbook C(check.yml) ends with status 2 when the verdict is V(error) or a setting is refused, and with 0 when
    it is V(warning) or V(ok), also when something is unmeasured.
  - The playbook keeps what it measured as C(fabric.json) with the reports of the deployment, and shows older figures of
    the same links, with their date, rather than measure again; see O(gb10.serving.fabric_verdict#module:measure).
extends_documentation_fragment:
  - gb10.serving.attributes
  - gb10.serving.attributes.info_module
  - gb10.serving.attributes.action
  - gb10.serving.attributes.no_connection
options:
  about:
    description:
      - V(inventory) only looks whether there are hosts at all, V(fabric) whether the fabric can be tested.
      - V(nodes) judges everything and shows the table.
    type: str
    choices: [inventory, fabric, nodes]
    default: nodes
  gpus:
    description: What containers will ask Docker for; empty for no GPU.
    type: str
    default: all
  rdma:
    description: Whether ranks will talk over RDMA devices.
    type: bool
    default: true
  ports:
    description: TCP ports that the head needs free, by what they are for.
    type: dict
    default: {}
  mtu:
    description: MTU that fabric interfaces should have.
    type: int
    default: 9000
  gate:
    description:
      - With V(fail), what the fabric test found wrong is an error. With V(warn) or V(off) it is a warning.
      - That nodes have no rail in common is an error with any of them. Any other value is refused.
    type: str
    default: fail
  expected_gbps:
    description: Rate that one rail should have, in Gb/s; V(0) for what port and PCIe link allow.
    type: float
    default: 0
  output:
    description: File on the controller that gets the result as JSON; empty for none.
    type: path
    default: ''
author:
  - gb10.serving contributors (@gb10-serving)
"""

EXAMPLES = r"""
- name: Show what is wrong
  gb10.serving.doctor:
    ports:
      endpoint: 8000
      rendezvous: 29501
    output: check.json
  run_once: true
"""

RETURN = r"""
testable:
  description: Whether all nodes were probed and have rails in common.
  returned: O(about=fabric)
  type: bool
  sample: true
reason:
  description: Why the fabric cannot be tested; empty when it can.
  returned: O(about=fabric)
  type: str
  sample: ''
verdict:
  description: V(error) when a row is one, else V(warning) when a row is one, else V(ok).
  returned: O(about=nodes), or there are no hosts
  type: str
  sample: warning
summary:
  description: The verdict and how many rows have which.
  returned: with the verdict
  type: str
  sample: "warning: 0 errors, 1 warning, 2 unmeasured, 6 info, 17 ok (26 rows)"
counts:
  description: How many rows have which verdict.
  returned: with the verdict, unless it is V(error); O(output) gets them always
  type: dict
  sample: {error: 0, warning: 1, unmeasured: 2, info: 6, ok: 17}
time:
  description: When it was judged.
  returned: with the verdict
  type: str
  sample: 2026-11-30 12:05:00 UTC
version:
  description: Version of this collection; V(null) when it is not known.
  returned: with the verdict
  type: str
  sample: 0.1.0
hosts:
  description: The hosts that this run looked at, in rank order.
  returned: with the verdict
  type: list
  elements: str
  sample: [spark-a, spark-b]
bandwidth:
  description:
    - Measured rates in Gb/s, one entry for each pair, direction and set of rails. V(null) is unmeasured, or nothing to
      compare with. C(class) is that of M(gb10.serving.fabric_verdict).
  returned: with the verdict, unless it is V(error); O(output) gets them always
  type: list
  elements: dict
  sample:
    - source: spark-a
      target: spark-b
      rails: [0]
      gbps: 98.04
      expected_gbps: 98.3
      method: rdma
      class: good
      measured_at: 2026-11-30 12:00:00 UTC
rows:
  description:
    - One entry for each thing looked at. C(host) is V(fabric) for what concerns all nodes together.
    - C(verdict) is V(ok), V(info) (worth to know, and neither good nor bad; a rate with nothing to compare it with is
      called unrated and is V(info)), V(unmeasured) (nobody knows), V(warning) or V(error).
  returned: with the verdict, unless it is V(error); O(output) gets them always
  type: list
  elements: dict
  sample:
    - host: spark-a
      what: swap
      seen: 6.1 GiB of 16.0 GiB in use
      expected: less than 4.0 GiB of swap in use
      verdict: warning
      remedy: The node has been short of memory. Stop what is not needed; a reboot empties the swap.
"""
