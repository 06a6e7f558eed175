#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: collective_test
short_description: Let the ranks add up a few numbers before they load weights
version_added: 0.1.0
description:
  - Runs a container of the deployment's image on each node, with the network, devices, limits, GPU and environment that
    the rank will have, but without model. In it the ranks meet at the store of rank 0 and do a small all-reduce, over
    NCCL where PyTorch sees a GPU and over gloo where not.
  - Nothing is run on a node whose image is not, by its content, the one of O(spec).
  - Has to run on all nodes of the deployment at once. It takes a few seconds where all is well, O(timeout) at most, and
    less than 300 MiB of memory beside what PyTorch and NCCL need themselves.
  - The container ends by itself when nobody waits for it any more, and is removed. One that an interrupted run left is
    removed first.
  - What the test finds wrong is no failure of the module, but a value in the result.
    M(gb10.serving.collective_verdict) judges the results of all ranks.
  - The action plugin finds the rank of the host in O(spec). When a rank fails before it has met the others, which then
    would wait for it, the action plugins of the others end their containers.
extends_documentation_fragment:
  - gb10.serving.attributes
  - gb10.serving.attributes.action
attributes:
  check_mode:
    support: none
    details:
      - Skipped in check mode, and for a deployment of one rank.
  diff_mode:
    support: N/A
    details:
      - Leaves nothing behind.
  idempotent:
    support: full
    details:
      - Leaves nothing behind.
options:
  spec:
    description: The deployment's specification, as M(gb10.serving.deployment_spec) returns it.
    type: dict
    required: true
  rank:
    description: Number of the rank. The action plugin takes the one of the host.
    type: int
  timeout:
    description: >-
      Seconds that the test may take in total, from 15 to 600. A Docker that does not answer makes it a few more.
    type: int
    default: 60
  port:
    description: TCP port of the store on rank 0. By default the spec's own, which firewalls have to let pass.
    type: int
author:
  - gb10.serving contributors (@gb10-serving)
"""

EXAMPLES = r"""
- name: Test the collective
  gb10.serving.collective_test:
    spec: "{{ spec }}"
  become: true
  register: __gb10_collective
"""

RETURN = r"""
collective:
  description:
    - What this rank saw. C(arrived) is whether it reached the store of rank 0.
    - C(skipped) is true where the test says nothing of the ranks, for instance in an image without PyTorch, with
      C(reason).
    - C(transport) is V(rdma), V(sockets), V(shared_memory) or V(null), by what NCCL says; gloo always uses sockets.
      C(gpu_direct) is whether adapters read the GPU's memory themselves. C(devices) are the adapters that NCCL uses.
    - C(bandwidth_gbps) is the best of C(sizes), as bus bandwidth of nccl-tests in Gb/s, the size by the time and by
      2 (n - 1) / n for n ranks.
    - C(image) is the content of the image on this node, as M(gb10.serving.engine_info) returns it.
    - C(stage) is the last one that began, C(image), C(address), C(torch), C(store), C(arrive), C(gloo), C(nccl),
      C(reduce) or C(end).
    - C(missing_ranks) did not reach the store. C(silent_ranks) did, and gave no sign of life at the end.
    - C(cause) is an identifier as M(gb10.serving.engine_log_info) uses them, or V(null).
  returned: always
  type: dict
  sample:
    rank: 0
    ok: true
    skipped: false
    arrived: true
    image: sha256:3c1f2a
    stage: end
    backend: nccl
    transport: rdma
    gpu_direct: false
    devices: [roceP2p1s0f0, rocep1s0f0]
    bandwidth_gbps: 176.3
    sizes:
      - {bytes: 67108864, count: 20, seconds: 0.003045, gbps: 176.3}
    seconds: 14.2
    versions: {torch: 2.11.0, nccl: 2.29.3, cuda: '13.1'}
    missing_ranks: []
    silent_ranks: []
    cause: null
    reason: null
    remedy: null
    evidence: []
    warnings: []
"""

import signal

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.gb10.serving.plugins.module_utils import _collective, _collective_container


def end(_number: int, _frame: object) -> None:
    raise SystemExit(1)


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "spec": {"type": "dict", "required": True},
            "rank": {"type": "int"},
            "timeout": {"type": "int", "default": 60},
            "port": {"type": "int"},
        },
    )
    spec, number, timeout = module.params["spec"], module.params["rank"], module.params["timeout"]
    if not 15 <= timeout <= 600:
        module.fail_json(
            msg=f"timeout is {timeout}. Expected: 15 to 600 seconds. Next step: correct gb10_server_smoke_timeout."
        )
    try:
        _collective.rank_of(spec, number)
    except KeyError:
        module.fail_json(
            msg=f"the spec has no rank {number}. Expected: a rank from 0 to {len(spec.get('ranks', [])) - 1}. Next "
            "step: correct the option rank, or give a spec that has this host."
        )
    # So that the container goes and the file of the environment too, when the run is interrupted.
    for name in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(name, end)
    port = module.params["port"] or spec["rendezvous"]["port"]
    module.exit_json(changed=False, collective=_collective_container.test(spec, number, timeout, port))


if __name__ == "__main__":
    main()
