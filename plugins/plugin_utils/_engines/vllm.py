# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
# Private to this collection: no stability promised.
"""vLLM over several nodes by its own ``mp`` backend: one container a rank, rank 0 serves HTTP, others are headless."""

from __future__ import annotations

import re
from typing import Any

#: The program inside the image, given as the entry point because images differ in theirs, and what precedes the model.
ENTRYPOINT = "vllm"
SUBCOMMAND = ("serve",)

#: First release with --nnodes, --node-rank and --headless; older ones need Ray, which is not driven here.
MIN_VERSION = (0, 11, 1)

#: Port of the TCP store on rank 0 (vLLM's own default).
RENDEZVOUS_PORT = 29501

#: Flags that the spec decides; a recipe or user may not give them a second time.
OWNED_FLAGS = frozenset(
    {
        "--host", "--port", "--api-key", "--model", "--served-model-name",
        "--tensor-parallel-size", "-tp", "--pipeline-parallel-size", "-pp", "--nnodes", "-n", "--node-rank", "-r",
        "--master-addr", "--master-port", "--headless", "--distributed-executor-backend",
        "--max-model-len", "--max-num-seqs", "--max-num-batched-tokens", "--kv-cache-dtype",
        "--kv-cache-memory-bytes", "--kv-cache-memory", "--gpu-memory-utilization",
    }
)  # fmt: skip

#: Variable that carries the API key; read by the engine, so the key never stands in argv.
API_KEY_VARIABLE = "VLLM_API_KEY"

#: The line that rank 0 prints when it answers requests. A headless rank never prints one.
READY_LINE = "Application startup complete."

#: (text in a line, name of the phase that has begun with it), in the order of a start.
MILESTONES = (
    ("non-default args", "reading the configuration"),
    ("Initializing a V1 LLM engine", "starting the engine"),
    ("headless multiproc executor", "starting the engine"),
    ("distributed_init_method", "rendezvous of the ranks"),
    ("is using nccl==", "opening the collectives"),
    ("is assigned as DP rank", "ranks are connected"),
    ("Starting to load model", "loading weights"),
    ("Loading weights took", "weights are loaded"),
    ("KV cache size", "KV cache is allocated"),
    ("Capturing CUDA graphs", "capturing CUDA graphs"),
    ("init engine", "engine is ready"),
    ("Starting vLLM", "starting the HTTP server"),
    (READY_LINE, "ready"),
)

#: Lines that name an error but never its cause.
GENERIC_ERRORS = (
    "Engine core initialization failed",
    "WorkerProc initialization failed",
    "WorkerProc failed to start",
    "EngineCore failed to start",
)

#: What the engine says of itself during a start: name -> pattern whose first group is a number.
TOLD = {
    "weights_gib": re.compile(r"Model loading took ([\d.]+) GiB"),
    "kv_cache_tokens": re.compile(r"KV cache size: ([\d,]+) tokens"),
    "max_concurrency": re.compile(r"Maximum concurrency for [\d,]+ tokens per request: ([\d.]+)x"),
    "start_seconds": re.compile(r"init engine .*took ([\d.]+) s"),
}


def argv(spec: dict[str, Any], rank: int) -> list[str]:
    """Arguments after the entry point for one rank; equal on all ranks but for node-rank and headless."""
    parallel, memory, endpoint = spec["parallel"], spec["memory"], spec["endpoint"]
    args = [*SUBCOMMAND, spec["model"]["container_path"], "--served-model-name", spec["model"]["served_name"]]
    args += ["--host", endpoint["bind"], "--port", str(endpoint["port"])]
    args += ["--tensor-parallel-size", str(parallel["tp"])]
    if spec["world_size"] > 1:
        store = spec["rendezvous"]
        args += ["--distributed-executor-backend", "mp", "--nnodes", str(spec["world_size"]), "--node-rank", str(rank)]
        args += ["--master-addr", store["address"], "--master-port", str(store["port"])]
    args += ["--max-model-len", str(memory["context_length"]), "--max-num-seqs", str(memory["max_num_seqs"])]
    if memory["max_num_batched_tokens"]:
        args += ["--max-num-batched-tokens", str(memory["max_num_batched_tokens"])]
    if memory["kv_cache_dtype"] != "auto":
        args += ["--kv-cache-dtype", memory["kv_cache_dtype"]]
    args += ["--kv-cache-memory-bytes", str(memory["kv_cache_bytes"])]
    args += ["--gpu-memory-utilization", f"{memory['gpu_memory_utilization']:.3f}"]
    args += spec["engine"]["args"]
    if rank > 0:
        args.append("--headless")
    return args


def env(spec: dict[str, Any], rank: dict[str, Any]) -> dict[str, str]:
    """Environment of one rank. VLLM_HOST_IP, its own address, keeps the message queue off the default route."""
    return {
        "VLLM_HOST_IP": rank["address"],
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
        "HF_HUB_OFFLINE": "1",
    }
