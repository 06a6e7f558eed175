#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)

# This is a virtual module that is entirely implemented as an action plugin and runs on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: copy_wait
short_description: Waits for the copies of image and model that run on a node
version_added: 0.1.0
description:
  - M(gb10.serving.image_sync) and M(gb10.serving.model_sync) with O(gb10.serving.model_sync#module:wait=false) start a
    copy and return. This follows both at once and shows one line for each node.
  - A copy that nobody follows for a minute ends by itself; what it has brought of a model is kept.
extends_documentation_fragment:
  - gb10.serving.attributes
  - gb10.serving.attributes.action
attributes:
  check_mode:
    support: full
    details:
      - Nothing was started then, so there is nothing to wait for.
  diff_mode:
    support: none
  idempotent:
    support: N/A
    details:
      - Each copy is waited for once.
options:
  image:
    description: The C(job) that M(gb10.serving.image_sync) returned; empty for none.
    type: str
    default: ''
  model:
    description: The C(job) that M(gb10.serving.model_sync) returned; empty for none.
    type: str
    default: ''
  measured_rate:
    description: What the fabric test measured towards this node in bytes per second, to show the share of it.
    type: float
  cancel:
    description: Ends the copies instead of waiting for them.
    type: bool
    default: false
author:
  - gb10.serving contributors (@gb10-serving)
"""

EXAMPLES = r"""
- name: Wait for image and model
  gb10.serving.copy_wait:
    image: "{{ image.job | default('') }}"
    model: "{{ model.job | default('') }}"
  become: true
"""

RETURN = r"""
image:
  description: Result of the copy, as M(gb10.serving.image_sync) returns it when it waits.
  returned: with O(image)
  type: dict
  sample: {changed: true, moved_bytes: 18200000000, seconds: 21.4}
model:
  description: Result of the copy, as M(gb10.serving.model_sync) returns it when it waits.
  returned: with O(model)
  type: dict
  sample: {changed: true, moved_bytes: 127000000000, seconds: 64.2}
"""
