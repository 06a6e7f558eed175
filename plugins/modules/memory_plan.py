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
  - Fails when the model does not fit, with the reasons and with what would help, what fits first.
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
      - A model of which only C(config.json) is there is planned too, if its family is known.
    type: dict
    required: true
  wishes:
    description: What the deployment should have. What is left out, the plan chooses.
    type: dict
    suboptions:
      tensor_parallel:
        description: Number of ranks that share each layer. The number of nodes without it.
        type: int
      pipeline_parallel:
        description: Number of stages that share the layers. One without it.
        type: int
      expert_parallel:
        description: Whether each rank holds whole experts instead of a part of each.
        type: bool
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
        choices: [auto, bfloat16, float16, fp8, fp8_e4m3, fp8_e5m2]
        default: auto
      kv_cache_bytes:
        description: Fixes the KV cache of each rank. All that is left without it, rounded down to 256 MiB.
        type: int
      reserve_bytes:
        description: Memory that stays with the operating system. 8 GiB without it.
        type: int
      overhead_bytes:
        description: Replaces the estimates of activations, graphs, communication buffers and fixed costs by one number.
        type: int
      gpu_memory_utilization:
        description: Upper limit of what vLLM may take, as a share of total memory.
        type: float
      mem_fraction_static:
        description: What SGLang may fill with weights and cache, as a share of the memory that is free at its start.
        type: float
      dtype:
        description: Type of weights that are not quantised, and of activations; V(auto) is the model's own type.
        type: str
        choices: [auto, bfloat16, float16, float32]
        default: auto
      speculative_tokens:
        description: Draft tokens of multi-token prediction. With V(0) its weights are not loaded.
        type: int
        default: 0
      prefix_caching:
        description: Whether prefixes are cached. Linear-attention models then keep one more state for each request.
        type: bool
        default: true
      enforce_eager: {description: Whether the engine runs without CUDA graphs., type: bool, default: false}
      language_model_only:
        description: Whether the vision part is left out.
        type: bool
        default: false
      vision_sharded:
        description: Whether the vision part is split over the ranks, vLLM's default. Each rank has all of it otherwise.
        type: bool
        default: true
      block_size:
        description: Tokens of a KV block, when the engine is told. Its default without it.
        type: int
      load_format:
        description: Loader of the weights. Some stage shards in pinned memory and keep it, V(fastsafetensors) for one.
        type: str
        default: auto
      workspace_factor: {description: vLLM's C(sparse_mla_prefill_workspace_factor)., type: int}
      separate_drafter: {description: Whether drafts come from another model or from none., type: bool, default: false}
      drafting_args: {description: The server's arguments that speak of drafts., type: list, elements: str, default: []}
      pools: {description: How SGLang is told to divide its pool., type: dict, default: {}}
  variables:
    description:
      - Variables of the role C(gb10.serving.gb10_plan) by their names, C(gb10_plan_tp) for instance. Text is taken for
        numbers, and V(0) leaves to the plan what its description says.
      - They become wishes and win over O(wishes) and O(args). The advice then speaks of variables.
    type: dict
  args:
    description: Arguments of the engine. Those that matter for memory become wishes, V(--enforce-eager) for instance.
    type: list
    elements: str
    default: []
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
  show:
    description: Whether to show a bar for each rank, the sum and a sentence about it.
    type: bool
    default: false
seealso:
  - module: gb10.serving.model_info
"""

EXAMPLES = r"""
- name: Plan for two nodes
  gb10.serving.memory_plan:
    nodes:
      - {host: spark-a, total_bytes: 130620692889, available_bytes: 117037858816}
      - {host: spark-b, total_bytes: 130620692889, available_bytes: 116500987904}
    model: "{{ described.model }}"
    wishes:
      context_length: 131072
    engine: {name: vllm, version: 0.33.0}
  register: planned
"""

RETURN = r"""
plan:
  description: The plan, also when it is refused. Sizes are bytes of one rank.
  returned: always
  type: dict
  contains:
    verdict:
      description: V(fits), V(borderline) (less than RV(plan.margin_bytes) stays) or V(refused).
      type: str
    reasons:
      description: Why it does not fit, or fits only just.
      type: list
      elements: str
    remedies:
      description: What would help, what fits first, then the smallest change.
      type: list
      elements: str
    changes:
      description:
        - What would help, the smallest loss first. C(change) is the sentence, C(effect_bytes) the bytes of one rank
          that it gives (or V(null)), C(verdict) what the plan would then be, C(settings) the variables to set for it.
      type: list
      elements: dict
      sample: [{change: Use 2 nodes., effect_bytes: 64209551360, verdict: fits, settings: {gb10_plan_nodes: 2}}]
    levers:
      description: Of a plan that fits, what each setting alone would add. C(cache_bytes) is of one rank.
      type: list
      elements: dict
      sample: [{change: Use fp8., cache_bytes: 0, max_concurrency: 23.1, settings: {gb10_plan_kv_cache_dtype: fp8}}]
    notes:
      description: What the plan picked by itself in a way that one should know.
      type: list
      elements: str
    candidates:
      description: The layouts that were tried, each with C(tp), C(pp), C(ep), C(verdict) and C(reason).
      type: list
      elements: dict
      sample: [{tp: 2, pp: 1, ep: 1, verdict: fits, reason: taken}]
    tp:
      description: Tensor-parallel size.
      type: int
    world_size:
      description: Number of ranks.
      type: int
    context_length:
      description: Tokens of the longest request.
      type: int
    max_num_seqs:
      description: Requests in one batch at most.
      type: int
    max_num_batched_tokens:
      description: Tokens in one batch at most.
      type: int
    kv_bytes_per_token:
      description: KV cache that one more token takes.
      type: int
    state_bytes_per_seq:
      description: Linear-attention state of one sequence.
      type: int
    request_bytes:
      description: What one request of RV(plan.context_length) takes from the cache.
      type: int
    kv_cache_bytes:
      description: Size of the cache, state included; a multiple of 1 MiB.
      type: int
    kv_block_tokens:
      description: Tokens of one KV block after the engine has matched it to the state's size.
      type: int
    gpu_memory_utilization:
      description: vLLM's share of total memory, in steps of 0.005.
      type: float
    mem_fraction_static:
      description: SGLang's share of the memory that is available at the start, in steps of 0.005.
      type: float
    kv_tokens_estimate:
      description: The number of tokens that the engine's log will give for its cache.
      type: int
    max_concurrency_estimate:
      description: Requests of RV(plan.context_length) that the cache holds at once.
      type: float
    slack_bytes:
      description: What stays beside one request. Negative when it does not fit.
      type: int
    ranks:
      description:
        - For each rank C(host), C(rank), C(total_bytes), C(available_bytes), C(weights_bytes), C(state_bytes),
          C(kv_bytes), C(activation_bytes), C(graphs_bytes), C(non_torch_bytes), C(reserve_bytes), C(free_bytes),
          C(short_bytes) and C(terms).
      type: list
      elements: dict
    margin_bytes:
      description: Slack below this is borderline. The root of the sum of the squares of all uncertainties and 3 GiB.
      type: int
    terms:
      description:
        - The terms of the rank with the least memory, each with C(name), C(bytes), C(uncertainty_bytes), C(formula) and
          C(source) (a file of the model, a measurement on a host, a prior, or a variable).
      type: list
      elements: dict
      sample: [{name: graphs, bytes: 751619276, uncertainty_bytes: 751619276, source: "prior: measured on GB10"}]
    load_peak:
      description: Most that is in use while weights are read, a term with C(available_bytes). V(null) without a sum.
      type: dict
    settings:
      description:
        - What the engine is to be told, C(tp), C(pp), C(ep) (ranks), C(context_length) (tokens), C(max_num_seqs),
          C(max_num_batched_tokens), C(kv_cache_dtype), C(kv_cache_bytes), C(gpu_memory_utilization) (share of total
          memory; vLLM), C(mem_fraction_static) (share of free memory; SGLang). Empty when no sum was made.
      type: dict
    kv:
      description:
        - C(bytes_per_token_per_rank), C(bytes_per_request_per_rank) for a request of the context length, C(tokens) and
          C(max_concurrency) as the engine's log will say.
      type: dict
    expected_log:
      description: Parts of lines that the engine's log will hold, each with C(line), C(tokens) and C(concurrency).
      type: list
      elements: dict
      sample: [{line: "GPU KV cache size: 2,948,170 tokens", tokens: 2948170, concurrency: null}]
    basis:
      description: Where the available memory comes from.
      type: str
      sample: measured on spark-b
    weights_source:
      description: Where the sizes of the weights come from.
      type: str
    inputs:
      description: Identity of the question, without the measured memory.
      type: str
    kept:
      description: Whether this is O(previous).
      type: bool
"""
