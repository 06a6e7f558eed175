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
  - Watches this host's rank until rank 0 answers requests, or a rank ends, or its log stays silent for too long.
  - Runs for all ranks at the same time; the first that fails ends the waiting of all others, and its last lines are
    shown.
  - Shows each phase of the start as it is reached.
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
  silence:
    description: Seconds without a new log line after which a rank counts as stalled.
    type: int
    default: 900
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
  description: Why the waiting ended.
  returned: always
  type: str
  sample: ready
phase:
  description: The last phase of the start that the log showed.
  returned: always
  type: str
  sample: ready
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
  description: Last lines of a rank that failed.
  returned: always
  type: list
  elements: str
  sample: []
"""
