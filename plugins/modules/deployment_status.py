#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)

# This is a virtual module that is entirely implemented as an action plugin and runs on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: deployment_status
short_description: The state of a deployment as a whole
version_added: 0.1.0
description:
  - Puts together what M(gb10.serving.rank_info) registered on each host as C(__gb10_rank) and what
    M(gb10.serving.endpoint_info) registered on the head as C(__gb10_endpoint), shows it,
    and writes it as JSON if asked to.
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
  output:
    description: File on the controller that gets the status as JSON; empty for none.
    type: path
    default: ''
author:
  - gb10.serving contributors (@gb10-serving)
"""

EXAMPLES = r"""
- name: Show the state
  gb10.serving.deployment_status:
    name: main
    output: status.json
  run_once: true
"""

RETURN = r"""
status:
  description:
    - C(state) is V(running), V(degraded) (all ranks run, the endpoint does not answer), V(failed) (a rank is missing)
      or V(stopped).
    - C(reason) says why in one sentence; C(ranks) has one entry a rank.
  returned: success
  type: dict
  sample: {name: main, state: running, reason: all ranks run and the endpoint answers, ranks: []}
"""
