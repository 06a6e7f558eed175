#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)

# This is a virtual module that is entirely implemented as an action plugin and runs on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: plan_document
short_description: Says whether a model fits, without any node
version_added: 0.1.0
description:
  - Reads C(config.json) (and the headers of the weights, where they are) on the controller, or from the hub, plans
    memory like M(gb10.serving.memory_plan), and shows the result for a person.
  - Writes the plan as JSON with keys that stay, and as a picture, if asked to.
  - Fails when the plan is refused, after the files were written.
extends_documentation_fragment:
  - gb10.serving.attributes
  - gb10.serving.attributes.info_module
  - gb10.serving.attributes.action
  - gb10.serving.attributes.no_connection
options:
  about:
    description:
      - V(variables) looks at the variables of the host that the plan would use, and fails with everything that is wrong
        with them, names that are not known included.
      - V(plan) plans.
    type: str
    choices: [variables, plan]
    default: plan
  variables:
    description:
      - The variables of the role C(gb10.serving.gb10_plan) by their names, as they are; text is taken for numbers.
      - Memory of nodes is what M(gb10.serving.gb10_facts) found in this run, if C(gb10_plan_measure) is true.
    type: dict
    default: {}
  model_root:
    description: The directory that C(gb10_model_dir) has when no model is named.
    type: str
    default: ''
  image_ref:
    description: Image whose tag names the version of the engine, where C(gb10_plan_engine_version) does not.
    type: str
    default: ''
  args:
    description: Arguments of the engine. Those that matter for memory are heeded.
    type: list
    elements: str
    default: []
author:
  - gb10.serving contributors (@gb10-serving)
seealso:
  - module: gb10.serving.memory_plan
  - module: gb10.serving.model_info
"""

EXAMPLES = r"""
- name: Would it fit two nodes?
  gb10.serving.plan_document:
    variables:
      gb10_model_dir: ~/models/Qwen3.5-122B-A10B-FP8
      gb10_plan_nodes: 2
      gb10_plan_context_length: 131072
      gb10_plan_output: plan.json
"""

RETURN = r"""
variables:
  description: Names of the variables that are set.
  returned: O(about=variables)
  type: list
  elements: str
  sample: [gb10_model_dir, gb10_plan_nodes]
verdict:
  description: V(fits), V(borderline) or V(refused).
  returned: O(about=plan)
  type: str
  sample: fits
written:
  description: Files that were written.
  returned: O(about=plan)
  type: list
  elements: str
  sample: [/home/me/plan.json]
document:
  description: The plan, also what is written as JSON. Sizes are bytes of one rank unless said otherwise.
  returned: O(about=plan), unless the task fails
  type: dict
  contains:
    schema:
      description: Number of this form; it grows when a key changes its meaning.
      type: int
      returned: always
      sample: 1
    verdict:
      description: V(fits), V(borderline) or V(refused).
      type: str
      returned: always
      sample: fits
    reasons:
      description: Why it does not fit, or fits only just.
      type: list
      elements: str
      returned: always
      sample: []
    remedies:
      description: What would help, as sentences, what fits first, then the smallest change.
      type: list
      elements: str
      returned: always
      sample: []
    model:
      description: C(name), C(path), C(weights_source) and C(problems) of the model.
      type: dict
      returned: always
      sample: {name: Qwen3.5-122B-A10B-FP8, weights_source: config.json}
    engine:
      description: C(name) and C(version).
      type: dict
      returned: always
      sample: {name: vllm, version: 0.33.0}
    nodes:
      description: C(count), C(memory_bytes) of the smallest, and how many of them were C(measured).
      type: dict
      returned: always
      sample: {count: 2, memory_bytes: 130562000000, measured: 0}
    basis:
      description: Where the available memory comes from.
      type: str
      returned: always
      sample: prior
    weights_source:
      description: Where the sizes of the weights come from.
      type: str
      returned: always
      sample: config.json
    settings:
      description:
        - C(tp), C(pp), C(ep), C(context_length), C(max_num_seqs), C(max_num_batched_tokens), C(kv_cache_dtype),
          C(kv_cache_bytes), C(gpu_memory_utilization) and C(mem_fraction_static) of the plan.
      type: dict
      returned: always
      sample: {tp: 2, pp: 1, context_length: 131072}
    kv:
      description:
        - C(bytes_per_token_per_rank), C(bytes_per_request_per_rank) for a request of the context length, C(tokens) as
          the engine's log will say, and C(max_concurrency), the requests of the context length that the cache holds.
        - C(dtype), the type that the cache is kept in, and C(fixed), whether its size was set.
      type: dict
      returned: always
      sample: {tokens: 2998272, max_concurrency: 22.87}
    slack_bytes:
      description: What stays beside one request of the context length; negative when it does not fit.
      type: int
      returned: always
      sample: 38000000000
    margin_bytes:
      description: Slack below this is borderline.
      type: int
      returned: always
      sample: 3800000000
    load_peak:
      description: The most that is in use while weights are read, as a term. V(null) without a sum.
      type: dict
      returned: always
      sample: {name: load_peak, bytes: 71000000000}
    notes:
      description: What the plan picked in a way that one should know.
      type: list
      elements: str
      returned: always
      sample: []
    candidates:
      description: The layouts that were tried, each with C(tp), C(pp), C(ep), C(verdict) and C(reason).
      type: list
      elements: dict
      returned: always
      sample: []
    ranks:
      description:
        - For each rank C(rank), C(host), C(total_bytes), C(available_bytes), C(taken_bytes) (in use before the start),
          C(weights_bytes), C(state_bytes), C(kv_bytes), C(activation_bytes), C(graphs_bytes), C(non_torch_bytes),
          C(reserve_bytes), C(free_bytes) and C(short_bytes).
      type: list
      elements: dict
      returned: always
      sample: []
    terms:
      description:
        - The sum of the rank with the least memory, each term with C(name), C(bytes), C(uncertainty_bytes), C(formula)
          and C(source).
      type: list
      elements: dict
      returned: always
      sample: []
    changes:
      description:
        - What would help, what fits first, then the smallest change, each with C(change), C(effect_bytes), the
          C(verdict) that it leads to and its C(settings).
      type: list
      elements: dict
      returned: always
      sample: []
    expected_log:
      description: Lines that the engine will print of its cache if the plan is right.
      type: list
      elements: dict
      returned: always
      sample: [{line: "GPU KV cache size: 2,998,272 tokens", tokens: 2998272}]
    options:
      description: Each variant that was compared, with its C(name), C(verdict), C(settings), C(kv) and sizes.
      type: list
      elements: dict
      returned: always
      sample: []
"""
