#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)

# This is a virtual module that is entirely implemented as an action plugin and runs on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: deployment_report
short_description: Writes the report of a deployment
version_added: 0.1.0
description:
  - Gathers what the roles registered on each host and writes it as C(report.json), C(report.md) and C(plan.svg) below
    O(directory)/O(name)/TIME on the controller.
  - A report is a record of a run, not a state, so it never counts as a change. In check mode nothing is written.
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
  directory:
    description: Directory on the controller for all reports.
    type: path
    required: true
  failed:
    description:
      - Set in a C(rescue). The cause is taken from what failed on each host, and the action fails
        after the report is written.
    type: bool
    default: false
author:
  - gb10.serving contributors (@gb10-serving)
"""

EXAMPLES = r"""
- name: Write the report
  gb10.serving.deployment_report:
    name: main
    directory: gb10-reports
  run_once: true
"""

RETURN = r"""
path:
  description: The Markdown file, or V(null) in check mode.
  returned: always
  type: str
  sample: /home/me/gb10-reports/main/20261130T101500Z/report.md
outcome:
  description: V(running), V(failed), V(predicted) in check mode, or V(unproven) when no completion came.
  returned: always
  type: str
  sample: running
report:
  description: What would have been written.
  returned: in check mode, when nothing failed
  type: dict
  sample: {}
"""
