#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)

# This is a virtual module that is entirely implemented as an action plugin and runs on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: memory_plan
short_description: Plan memory and tensor parallelism of a deployment
version_added: 0.1.0
author: gb10.serving contributors (@gb10-serving)
description:
  - Says whether a model fits the nodes, and with which settings, before a byte is moved.
  - Adds up, for each rank, the weights after sharding, the KV cache and the linear-attention state as the engine lays
    them out, activations, CUDA graphs, communication buffers and a reserve for the operating system.
  - Counts from the available memory of the node that has least. Without measured memory it takes a prior and says so.
  - Fails when the model does not fit, with the reasons and with what would help, the smallest change first.
  - Equal options give an equal plan.
extends_documentation_fragment:
  - gb10.serving.attributes
  - gb10.serving.attributes.info_module
  - gb10.serving.attributes.action
  - gb10.serving.attributes.no_connection
options:
  nodes:
    description: The nodes in the order of their ranks.
    type: list
    elements: dict
    required: true
    suboptions:
      host:
        description: Name of the node.
        type: str
        required: true
      total_bytes:
        description: Total memory. A prior of 121.6 GiB without it.
        type: int
      available_bytes:
        description: Memory that a process can get now. A prior of 109 GiB without it.
        type: int
  model:
    description:
      - What M(gb10.serving.model_info) returned as RV(gb10.serving.model_info#module:model).
      - A model of which only C(config.json) is there is planned too, if its family is known and its weights have
        16 bits or are quantised to FP8.
    type: dict
    required: true
  wishes:
    description: What the deployment should have. What is left out, the plan chooses.
    type: dict
    suboptions:
      tensor_parallel:
        description: Number of ranks that share each layer. The number of nodes without it.
        type: int
      context_length:
        description: Tokens of the longest request. The model's own limit without it.
        type: int
      max_num_seqs:
        description: Requests in one batch at most. V(256), the engine's default, without it.
        type: int
      max_num_batched_tokens:
        description: Tokens in one batch at most. V(2048), the engine's default, without it.
        type: int
      kv_cache_dtype:
        description: Type of the KV cache; V(auto) is the type of the model, or what its checkpoint asks for.
        type: str
        choices: [auto, fp8]
        default: auto
      kv_cache_bytes:
        description:
          - Fixes the KV cache of each rank. Without it the cache gets all that is left, rounded down to 256 MiB.
        type: int
      reserve_bytes:
        description: Memory that stays with the operating system. 8 GiB without it.
        type: int
      overhead_bytes:
        description: Replaces the estimates of activations, graphs, communication buffers and fixed costs by one number.
        type: int
      gpu_memory_utilization:
        description: Upper limit of what the engine may take of total memory.
        type: float
      speculative_tokens:
        description: Draft tokens of multi-token prediction. With V(0) its weights are not loaded.
        type: int
        default: 0
      prefix_caching:
        description: Whether prefixes are cached. Linear-attention models then keep one more state for each request.
        type: bool
        default: true
      enforce_eager:
        description: Whether the engine runs without CUDA graphs.
        type: bool
        default: false
      language_model_only:
        description: Whether the vision part is left out.
        type: bool
        default: false
      vision_sharded:
        description: Whether the vision part is split over the ranks. Each rank has all of it otherwise.
        type: bool
        default: false
      block_size:
        description: Tokens of a KV block, when the engine is told. Its default without it.
        type: int
  engine:
    description:
      - The engine, as M(gb10.serving.engine_info) describes it. C(name) and C(version) are used.
      - C(device) V(cpu), or a version with C(+cpu), selects the block size of an engine without GPU.
    type: dict
  previous:
    description:
      - An earlier RV(plan). It is returned unchanged if the question is the same but for the measured memory.
      - So a server that runs, and fills the memory, keeps its settings.
    type: dict
seealso:
  - module: gb10.serving.model_info
"""

EXAMPLES = r"""
- name: Plan for two nodes
  gb10.serving.memory_plan:
    nodes:
      - host: spark-a
        total_bytes: 130620692889
        available_bytes: 117037858816
      - host: spark-b
        total_bytes: 130620692889
        available_bytes: 116500987904
    model: "{{ described.model }}"
    wishes:
      context_length: 131072
    engine:
      name: vllm
      version: 0.33.0
  register: planned
"""

RETURN = r"""
plan:
  description: The plan, also when it is refused. Sizes are bytes of one rank.
  returned: always
  type: dict
  contains:
    verdict:
      description: V(borderline) means that less than 3 GiB stay, the difference between two identical starts.
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
      description: What would help, the smallest change first.
      type: list
      elements: str
      returned: always
      sample: []
    tp:
      description: Tensor-parallel size.
      type: int
      returned: always
      sample: 2
    world_size:
      description: Number of ranks.
      type: int
      returned: always
      sample: 2
    context_length:
      description: Tokens of the longest request.
      type: int
      returned: always
      sample: 131072
    max_num_seqs:
      description: Requests in one batch at most.
      type: int
      returned: always
      sample: 256
    max_num_batched_tokens:
      description: Tokens in one batch at most.
      type: int
      returned: always
      sample: 2048
    kv_bytes_per_token:
      description: KV cache that one more token takes.
      type: int
      returned: always
      sample: 12288
    state_bytes_per_seq:
      description: Linear-attention state of one sequence.
      type: int
      returned: always
      sample: 76824576
    request_bytes:
      description: What one request of RV(plan.context_length) takes from the cache.
      type: int
      returned: always
      sample: 1736441856
    kv_cache_bytes:
      description: Size of the cache, state included; a multiple of 1 MiB.
      type: int
      returned: always
      sample: 39728447488
    kv_block_tokens:
      description: Tokens of one KV block after the engine has matched it to the state's size.
      type: int
      returned: always
      sample: 2096
    gpu_memory_utilization:
      description: vLLM's share of total memory, in steps of 0.005.
      type: float
      returned: always
      sample: 0.83
    mem_fraction_static:
      description: SGLang's share of the memory that is available at the start, in steps of 0.005.
      type: float
      returned: always
      sample: 0.875
    kv_tokens_estimate:
      description: The number of tokens that the engine's log will give for its cache.
      type: int
      returned: always
      sample: 2998272
    max_concurrency_estimate:
      description: Requests of RV(plan.context_length) that the cache holds at once.
      type: float
      returned: always
      sample: 22.87
    slack_bytes:
      description: What stays beside one request. Negative when it does not fit.
      type: int
      returned: always
      sample: 38000000000
    ranks:
      description:
        - For each rank C(host), C(rank), C(total_bytes), C(available_bytes), C(weights_bytes), C(state_bytes),
          C(kv_bytes), C(activation_bytes), C(graphs_bytes), C(non_torch_bytes), C(reserve_bytes), C(free_bytes),
          C(short_bytes) and C(terms).
        - Each term has C(name), C(bytes), C(formula) and C(uncertainty_bytes).
      type: list
      elements: dict
      returned: always
      sample: []
    basis:
      description: Where the available memory comes from.
      type: str
      returned: always
      sample: measured on spark-b
    weights_source:
      description: Where the sizes of the weights come from.
      type: str
      returned: always
      sample: safetensors headers
    inputs:
      description: Identity of the question, without the measured memory.
      type: str
      returned: always
      sample: sha256:4b1de0f54b1de0f54b1de0f54b1de0f54b1de0f54b1de0f54b1de0f54b1de0f5
    kept:
      description: Whether this is O(previous).
      type: bool
      returned: always
      sample: false
"""
