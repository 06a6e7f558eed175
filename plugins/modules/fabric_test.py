#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: fabric_test
short_description: Test the rails between the nodes
version_added: 0.1.0
description:
  - Finds out whether packets of every size pass on each rail, and how fast the rails are, each alone and all together,
    in both directions.
  - Every socket is bound to the address and the interface of its rail, so no test can go over another network.
  - Bandwidth is measured by C(ib_write_bw) where both ends have RDMA devices and perftest, else by C(iperf3) from 3.16
    on, else with sockets of the standard library. A pair takes O(seconds) at most and a few MB of memory.
  - What a test finds wrong is no failure of the module, but a value in the result. It fails when a listener cannot be
    opened (O(state=listening)) or the network of the node cannot be read; then only C(msg) is returned. Nothing is left
    behind. M(gb10.serving.fabric_verdict) judges the values.
  - The action plugin takes the rails and the peers from what M(gb10.serving.deployment_check) and this module
    registered for each host as C(__gb10_fabric) and C(__gb10_fabric_listener), unless they are given.
extends_documentation_fragment:
  - gb10.serving.attributes
  - gb10.serving.attributes.info_module
attributes:
  action:
    description: Has an action plugin of the same name, so that parts of the work are done on the controller.
    support: full
options:
  state:
    description:
      - With V(reached), looks at this node's end of each rail, fills the neighbour table, and asks every peer for small
        and full-size packets and for TCP. Takes a moment.
      - With V(listening), opens a one-time listener on each rail that ends by itself.
      - With V(measured), measures to the listeners of the peers, one peer after the other. In a play each host measures
        to the hosts of higher rank; run it with C(throttle=1).
      - With V(closed), ends the listeners of this node.
    type: str
    choices: [reached, listening, measured, closed]
    default: reached
  rails:
    description: This node's ends of the rails.
    type: list
    elements: dict
    suboptions:
      number: {description: Number of the rail., type: int, required: true}
      netdev: {description: Interface., type: str, required: true}
      address: {description: IPv4 address on it., type: str, required: true}
      hca: {description: RDMA device of the interface., type: str}
      gid_index: {description: Index of the RoCE v2 GID of the address., type: int}
  peers:
    description: The other nodes.
    type: list
    elements: dict
    default: []
    suboptions:
      host:
        description: Name of the node.
        type: str
        required: true
      rails:
        description: Its ends of the rails. Needed with O(state=reached) and O(state=listening).
        type: list
        elements: dict
        default: []
        suboptions:
          number: {description: Number of the rail., type: int, required: true}
          address: {description: IPv4 address of the node on it., type: str, required: true}
      listeners:
        description: As O(state=listening) returned them there. Needed with O(state=measured).
        type: list
        elements: dict
        default: []
        suboptions:
          number: {description: Number of the rail., type: int, required: true}
          address: {description: Address of the listener., type: str, required: true}
          port: {description: Port of the listener., type: int, required: true}
          token: {description: One-time token of the listener., type: str, required: true}
          session: {description: Name of the listener on its node., type: str}
          hca: {description: 'RDMA device of that end, if it has one.', type: str}
      tools:
        description: As O(state=listening) returned it there.
        type: dict
        default: {}
  rdma:
    description: Whether RDMA devices may be used.
    type: bool
    default: true
  seconds:
    description:
      - Longest time for the measurement of a pair. Two rails need about 8, six tests of a second and what starts them;
        a test for which no time is left is not made. The role refuses less than 8.
    type: float
    default: 10
  port:
    description: TCP port that O(state=reached) knocks at; an answer of any kind shows that TCP passes.
    type: int
    default: 45991
  idle_timeout:
    description: Seconds after which an unused listener ends.
    type: float
    default: 60
  sessions:
    description: The listeners to end.
    type: list
    elements: str
    default: []
author:
  - gb10.serving contributors (@gb10-serving)
"""

EXAMPLES = r"""
- name: See whether the rails reach the other nodes
  gb10.serving.fabric_test:
  become: true
  register: __gb10_fabric_paths

- name: Listen
  gb10.serving.fabric_test:
    state: listening
  become: true
  no_log: true
  register: __gb10_fabric_listener

- name: Measure, one host after the other
  gb10.serving.fabric_test:
    state: measured
  become: true
  throttle: 1
  register: __gb10_fabric_bandwidth

- name: Close
  gb10.serving.fabric_test:
    state: closed
  become: true
"""

RETURN = r"""
rails:
  description:
    - This node's ends as they are now. C(enabled) is false when the interface was set down, C(up) is true with a
      carrier.
    - C(address_on) is the interface that has the address, V(null) when none has it. C(mtu) is in bytes.
  returned: O(state=reached)
  type: list
  elements: dict
  sample:
    - number: 0
      netdev: enp1s0f0np0
      address: 192.168.200.12
      exists: true
      up: true
      enabled: true
      state: up
      mtu: 9000
      mac: 4c:bb:47:00:00:01
      carrier_changes: 2
      ifindex: 3
      address_on: enp1s0f0np0
paths:
  description:
    - What was seen of each peer on each rail. V(null) where it was not asked, as on an end that is down.
    - C(echo) is the answer to a ping of 84 bytes, and C(large) to one of C(packet) bytes (the MTU), not to be
      fragmented; C(large) is only asked after an V(ok). V(ok); V(no answer); V(too big) for an interface on the way;
      V(refused) by the network or a firewall; V(refused here) by a filter of this node; or C(unknown) with the reason.
    - C(tcp) is V(open) or V(closed), both of which show that TCP passes; V(refused) or V(refused here), by a firewall;
      V(no answer); or C(unknown) with the reason.
    - C(source) is the address that the routing table would send from, C(neighbour) the peer's hardware address.
  returned: O(state=reached)
  type: list
  elements: dict
  sample:
    - host: spark-b
      number: 0
      peer: 192.168.200.13
      source: 192.168.200.12
      neighbour: 4c:bb:47:00:00:05
      echo: ok
      tcp: closed
      large: ok
      packet: 9000
boot_id:
  description: Changes with each start of the node.
  returned: O(state=reached)
  type: str
  sample: 5cda3c3e-1f0f-4d1e-9c38-2a8ea2a4a0aa
listeners:
  description: Where this node listens. Holds tokens; keep it out of logs with C(no_log).
  returned: O(state=listening)
  type: list
  elements: dict
  sample:
    - number: 0
      address: 192.168.200.13
      port: 40123
      token: VALUE_HIDDEN
      session: /run/gb10-offer-x1y2
      hca: null
tools:
  description: What this node can measure with.
  returned: O(state=listening)
  type: dict
  sample: {perftest: true, iperf3: false}
bandwidth:
  description:
    - One entry for each peer, each rail alone and all rails together, and each direction as seen from this node (V(to)
      or V(from) the peer).
    - C(method) is V(rdma) (ib_write_bw), V(iperf3) or V(sockets), or V(null) when nothing was measured. RDMA counts the
      payload of the adapters, the others that of TCP streams, in bits per second.
    - C(bits_per_second) is V(null) where nothing could be measured. C(errors) has the reason of each method that
      failed, also when the next one worked.
  returned: O(state=measured)
  type: list
  elements: dict
  sample:
    - host: spark-b
      rails: [0]
      direction: to
      bits_per_second: 98040000000
      method: rdma
      errors: {}
"""

import socket
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.gb10.serving.plugins.module_utils import _fabric_bench, _fabric_probe, _fabric_tools, _offer
from ansible_collections.gb10.serving.plugins.module_utils._fabric_args import SPEC
from ansible_collections.gb10.serving.plugins.module_utils._job import JobError


def listening(params: dict[str, Any]) -> dict[str, Any]:
    allowed: dict[int, list[str]] = {end["number"]: [] for end in params["rails"]}
    for peer in params["peers"]:
        for end in peer["rails"]:
            allowed.setdefault(end["number"], []).append(end["address"])
    listeners: list[dict[str, Any]] = []
    try:
        for rail in params["rails"]:
            handler = _fabric_bench.Answer(rail)
            peers = allowed[rail["number"]]
            offer = _offer.open_offer(
                rail["address"], 0, peers, params["idle_timeout"], handler.for_session, device=rail["netdev"]
            )
            hca = rail["hca"] if _fabric_tools.has_hca(rail) else None
            # what the option listeners takes, and no more of the offer
            known = {key: offer[key] for key in ("address", "port", "token", "session")}
            listeners.append({"number": rail["number"], "hca": hca, **known})
    except JobError:
        closed({"sessions": [listener["session"] for listener in listeners]})
        raise
    tools = {"perftest": _fabric_tools.has_perftest(), "iperf3": _fabric_tools.has_iperf3()}
    return {"listeners": listeners, "tools": tools}


def closed(params: dict[str, Any]) -> dict[str, Any]:
    for session in params["sessions"]:
        _offer.withdraw(session)
    return {}


def main() -> None:
    module = AnsibleModule(argument_spec=SPEC, supports_check_mode=True)
    params = dict(module.params, rails=module.params["rails"] or [])
    result: dict[str, Any] = {}
    try:
        if params["state"] == "reached":
            result = _fabric_probe.look(params["rails"], params["peers"], params["port"])
        elif params["state"] == "listening":
            result = listening(params)
        elif params["state"] == "measured":
            found = _fabric_bench.measure(params["rails"], params["peers"], params["rdma"], params["seconds"])
            result = {"bandwidth": found}
        else:
            result = closed(params)
    except (JobError, OSError) as error:
        module.fail_json(msg=f"The test of the rails on {socket.gethostname()} stopped: {error}")
    module.exit_json(changed=False, **result)


if __name__ == "__main__":
    main()
