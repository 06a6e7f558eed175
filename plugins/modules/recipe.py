#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)

# This is a virtual module that is entirely implemented as an action plugin and runs on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: recipe
short_description: Reads a recipe
version_added: 0.1.0
description:
  - A recipe is a vars file that names a model, an image, an engine and how to serve.
  - Returns the recipe's variables that neither inventory nor command line set, so that those win over the recipe.
  - A recipe may name several engines in C(gb10_server_engines) and what each of them needs in
    C(gb10_server_engine_settings). RV(variables) then holds what the first one needs.
  - A key that is not for a recipe to set is refused with the nearest name that is.
extends_documentation_fragment:
  - gb10.serving.attributes
  - gb10.serving.attributes.info_module
  - gb10.serving.attributes.action
  - gb10.serving.attributes.no_connection
options:
  name:
    description: Name of a recipe in the directory C(recipes) beside the playbook, or the path of a file.
    type: str
    required: true
author:
  - gb10.serving contributors (@gb10-serving)
"""

EXAMPLES = r"""
- name: Read the recipe
  gb10.serving.recipe:
    name: qwen35_122b_fp8
  register: recipe

- name: Use it
  ansible.builtin.set_fact:
    "{{ item.name }}": "{{ item.value }}"
  loop: "{{ recipe.variables }}"
"""

RETURN = r"""
path:
  description: The file that was read.
  returned: success
  type: str
  sample: playbooks/recipes/qwen35_122b_fp8.yml
variables:
  description: The variables to set, each with C(name) and C(value).
  returned: success
  type: list
  elements: dict
  sample: [{name: gb10_server_engine, value: vllm}]
engines:
  description:
    - The engines to try in their order, each with C(name), the C(variables) to set when it is its turn, and C(key),
      which changes with anything that is asked of it.
    - One engine if the recipe names no others, or if inventory or command line set C(gb10_server_engine).
  returned: success
  type: list
  elements: dict
  sample: [{name: vllm, variables: [], key: 0f1e2d3c4b5a6978}]
overridden:
  description: Names of the recipe's variables that are set elsewhere already.
  returned: success
  type: list
  elements: str
  sample: []
"""
