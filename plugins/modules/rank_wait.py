#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)

# This is a virtual module that is entirely implemented as an action plugin and runs on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: rank_wait
short_description: Waits for all ranks of a deployment at once
version_added: 0.1.0
description:
  - Watches this host's rank until rank 0 answers requests, or a rank ends, cannot go on, or makes no progress for
    longer than the phase that it is in may take.
  - Runs for all ranks at the same time. The first that fails ends the waiting of all others; what all of them show then
    tells which rank has the cause, and what on the others only follows from it.
  - Logs are read as M(gb10.serving.engine_log_info) reads them.
  - A docker that refuses to answer is asked again for 10 seconds, one that hangs for a minute.
  - Shows each step of the start as it is reached.
  - API keys and other secrets are taken out of all lines of a log before anything is done with them.
extends_documentation_fragment:
  - gb10.serving.attributes
  - gb10.serving.attributes.action
attributes:
  check_mode:
    support: full
    details:
      - Skipped, since nothing was started.
  diff_mode:
    support: N/A
    details:
      - This action does not modify state.
  idempotent:
    support: full
    details:
      - This action does not modify state.
options:
  spec:
    description: The spec of the deployment.
    type: dict
    required: true
  allowance_factor:
    description: By what the usual allowances are multiplied, for slow or fast nodes.
    type: float
    default: 1.0
  allowances:
    description:
      - Seconds that a rank may show no progress, by what it does, in place of the usual ones.
      - V(starting) 300; V(rendezvous) 120, which includes opening the collectives and the message queue;
        V(connected) 300, until the load begins; V(weights) 1800; V(profiling) 900, from the end of the load on;
        V(kv_cache) 900; V(graphs) 900.
      - Progress is a new step, a growing share of the weights, or a line that did not come before in this step. A rank
        that waits for one that is not as far is not judged.
    type: dict
    default: {}
  timeout:
    description: Seconds after which a rank that is not ready counts as failed, whatever it prints.
    type: int
    default: 3600
author:
  - gb10.serving contributors (@gb10-serving)
"""

EXAMPLES = r"""
- name: Wait for the ranks
  gb10.serving.rank_wait:
    spec: "{{ built.spec }}"
  become: true
"""

RETURN = r"""
ready:
  description: Whether the deployment answers requests.
  returned: always
  type: bool
  sample: true
reason:
  description: Why the waiting for this rank ended.
  returned: always
  type: str
  sample: ready
phase:
  description: The last phase of the start that this rank's log showed, as in M(gb10.serving.engine_log_info).
  returned: always
  type: str
  sample: ready
phases:
  description: The phases that this rank reached, each with how long it took by the node's clock.
  returned: always
  type: list
  elements: dict
  sample: [{name: starting, seconds: 21.5}, {name: rendezvous, seconds: 4.1}, {name: weights, seconds: 412.9}]
seconds:
  description: How long it was waited.
  returned: always
  type: float
  sample: 55.2
told:
  description: Numbers that the engine printed of itself, for instance C(kv_cache_tokens).
  returned: always
  type: dict
  sample: {kv_cache_tokens: 174720}
log:
  description: Last lines of this rank if it failed.
  returned: always
  type: list
  elements: str
  sample: []
verdict:
  description: V(ready); V(failed) or V(stalled) of the rank that has the cause.
  returned: always
  type: str
  sample: ready
cause:
  description: Identifier of the cause, as in M(gb10.serving.engine_log_info); V(null) where nothing is wrong.
  returned: always
  type: str
  sample: null
remedy:
  description: What to do about it.
  returned: always
  type: str
  sample: null
evidence:
  description: Lines of the rank that has the cause, the deciding one first.
  returned: always
  type: list
  elements: str
  sample: []
confidence:
  description: V(high), V(medium) or V(low).
  returned: always
  type: str
  sample: high
first:
  description: The rank that has the cause, as C(host) and C(rank). The same on all hosts, like the cause itself.
  returned: always
  type: dict
  sample: null
"""
