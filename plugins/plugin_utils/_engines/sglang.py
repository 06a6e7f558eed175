# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
# Private to this collection: no stability promised.
"""SGLang over several nodes: one container a rank; rank 0 serves HTTP, the others answer for their health only."""

from __future__ import annotations

import re
from typing import Any

from ansible_collections.gb10.serving.plugins.module_utils._engine_log_phases import SGLANG
from ansible_collections.gb10.serving.plugins.plugin_utils._flag_reasons import ENDS, GRPC, LAYOUT, NO_CHAT, TLS

#: The program inside the image, given as the entry point because images differ in theirs, and what precedes the flags.
#: ``sglang serve`` is younger than many images; this form works in all of them.
ENTRYPOINT = "python3"
SUBCOMMAND = ("-m", "sglang.launch_server")

#: The oldest release whose flags and log lines are known here.
MIN_VERSION = (0, 5, 5)

#: Port of the TCP store on rank 0.
RENDEZVOUS_PORT = 20000

#: How the image is asked for its flags, and the Python distributions that are this engine.
HELP = ("python3", "-m", "sglang.launch_server", "--help")
DISTRIBUTIONS = ("sglang",)

#: Its parser is argparse's own: it takes unique beginnings of names, and no underscores.
UNDERSCORES = False
JSON_PATHS = False
LEVELS: tuple[str, tuple[str, ...]] = ("", ())
#: Taken, and kept out of the help.
HIDDEN_FLAGS = ("--forward-pass-metrics-worker-id", "--forward-pass-metrics-ipc-name")
REPEATABLE: frozenset[str] = frozenset()

#: Flags that the spec decides, and by which variable; a recipe or user may not give them a second time.
OWNED = {
    "--host": "gb10_server_bind",
    "--port": "gb10_server_port",
    "--api-key": "gb10_server_api_key",
    "--config": "",
    "--model-path": "gb10_model_dir",
    "--model": "gb10_model_dir",
    "--served-model-name": "gb10_model_served_name",
    "--tensor-parallel-size": "gb10_plan_tp",
    "--tp-size": "gb10_plan_tp",
    "--pipeline-parallel-size": "",
    "--pp-size": "",
    "--nnodes": "",
    "--node-rank": "gb10_rank",
    "--dist-init-addr": "gb10_server_rendezvous_port",
    "--nccl-init-addr": "gb10_server_rendezvous_port",
    "--nccl-port": "",
    "--context-length": "gb10_plan_context_length",
    "--max-running-requests": "gb10_plan_max_num_seqs",
    "--chunked-prefill-size": "gb10_plan_max_num_batched_tokens",
    "--kv-cache-dtype": "gb10_plan_kv_cache_dtype",
    "--mem-fraction-static": "gb10_plan_mem_fraction_static",
}
OWNED_FLAGS = frozenset(OWNED)

#: Flags that it takes, and that a deployment cannot work with -> (why, what to do).
REFUSED = {
    "--ssl-keyfile": TLS,
    "--ssl-certfile": TLS,
    "--grpc-mode": GRPC,
    "--smg-grpc-mode": GRPC,
    "--dp-size": LAYOUT,
    "--data-parallel-size": LAYOUT,
    "--skip-tokenizer-init": NO_CHAT,
    "--help": ENDS,
    "--version": ENDS,
}

#: What a flag is for -> (the flag or nothing, a note); by this, flags of one engine are named in the words of another.
CONCEPTS = {
    "memory share": ("--mem-fraction-static", "a share of the memory that is free at the start"),
    "context length": ("--context-length", ""),
    "tensor parallelism": ("--tp-size", ""),
    "pipeline parallelism": ("--pp-size", ""),
    "data parallelism": ("--dp-size", ""),
    "rendezvous": ("--dist-init-addr", "ADDRESS:PORT"),
    "model": ("--model-path", ""),
    "concurrency": ("--max-running-requests", ""),
    "prefill chunk": ("--chunked-prefill-size", ""),
    "no graphs": ("--disable-cuda-graph", ""),
    "tool calls": ("", "--tool-call-parser alone switches tool calls on"),
    "follower": ("", "every rank but 0 works without it"),
    "text only": (
        "--language-model-only",
        "since 0.5.18; older releases have nothing for it, and --language-only is something else",
    ),
    "no prefix cache": ("--disable-radix-cache", ""),
    "expert parallelism": ("--ep-size", "takes the number of ranks"),
    "speculation": ("--speculative-algorithm", "with further --speculative-... flags"),
    "weight offload": ("--cpu-offload-gb", ""),
    "request log": ("--log-requests", ""),
    "page size": ("--page-size", ""),
}

#: What flags switch: (flags for on, flags for off, whether it is on without one; None where the model decides).
SWITCHES: dict[str, tuple[tuple[str, ...], tuple[str, ...], bool | None]] = {
    "graphs": ((), ("--disable-cuda-graph",), True),
    "prefix cache": ((), ("--disable-radix-cache",), True),
    "request log": (("--log-requests",), (), False),
    "tool calls": ((), (), False),
    "text only": (("--language-model-only",), (), False),
    "expert parallelism": ((), (), False),
    "overlapped scheduling": ((), ("--disable-overlap-schedule",), True),
}

_PREFILL_CP, _CP_STRATEGY = ("0.5.18 to 0.5.20", "--enable-prefill-cp"), ("0.5.18 to 0.5.20", "--cp-strategy")
_SPARSITY = ("0.5.10 to 0.5.12", "")

#: Flags that were there once -> (when they went, what to give instead; empty for nothing).
CHANGED = {
    "--load-watch-interval": ("0.5.6 to 0.5.9", ""),
    "--enable-double-sparsity": _SPARSITY,
    "--ds-channel-config-path": _SPARSITY,
    "--ds-heavy-channel-num": _SPARSITY,
    "--ds-heavy-channel-type": _SPARSITY,
    "--ds-heavy-token-num": _SPARSITY,
    "--ds-sparse-decode-threshold": _SPARSITY,
    "--mm-max-concurrent-calls": _SPARSITY,
    "--mm-per-request-timeout": _SPARSITY,
    "--speculative-ngram-min-match-window-size": _SPARSITY,
    "--speculative-ngram-max-match-window-size": _SPARSITY,
    "--enable-piecewise-cuda-graph": ("0.5.13 or 0.5.14", ""),
    "--enable-nan-detection": ("0.5.13 or 0.5.14", ""),
    "--hybrid-kvcache-ratio": ("0.5.13 or 0.5.14", ""),
    "--cuda-graph-bs": ("0.5.18 to 0.5.20", "--cuda-graph-bs-decode"),
    "--cuda-graph-max-bs": ("0.5.18 to 0.5.20", "--cuda-graph-max-bs-decode"),
    "--piecewise-cuda-graph-tokens": ("0.5.18 to 0.5.20", "--cuda-graph-bs-prefill"),
    "--piecewise-cuda-graph-max-tokens": ("0.5.18 to 0.5.20", "--cuda-graph-max-bs-prefill"),
    "--piecewise-cuda-graph-compiler": ("0.5.18 to 0.5.20", ""),
    "--disable-piecewise-cuda-graph": ("0.5.18 to 0.5.20", "--cuda-graph-backend-prefill disabled"),
    "--enforce-piecewise-cuda-graph": ("0.5.18 to 0.5.20", "--cuda-graph-backend-prefill"),
    "--enable-breakable-cuda-graph": ("0.5.18 to 0.5.20", "--cuda-graph-backend-prefill breakable"),
    "--nsa-prefill-backend": ("0.5.18 to 0.5.20", "--dsa-prefill-backend"),
    "--nsa-decode-backend": ("0.5.18 to 0.5.20", "--dsa-decode-backend"),
    "--enable-prefill-context-parallel": _PREFILL_CP,
    "--enable-dsa-prefill-context-parallel": _PREFILL_CP,
    "--enable-nsa-prefill-context-parallel": _PREFILL_CP,
    "--prefill-cp-mode": _CP_STRATEGY,
    "--dsa-prefill-cp-mode": _CP_STRATEGY,
    "--nsa-prefill-cp-mode": _CP_STRATEGY,
    "--mamba-scheduler-strategy": ("0.5.18 to 0.5.20", "--mamba-radix-cache-strategy"),
    "--stream-output": ("0.5.18 to 0.5.20", "--incremental-streaming-output"),
    "--torchao-config": ("0.5.18 to 0.5.20", ""),
    "--collect-tokens-histogram": ("0.5.18 to 0.5.20", "--enable-metrics"),
    "--speculative-dflash-draft-window-size": ("0.5.18 to 0.5.20", "--speculative-draft-window-size"),
    "--prefill-round-robin-balance": ("0.5.18 to 0.5.20", ""),
    "--enable-gdn-replayssm-spec": ("0.5.18 to 0.5.20", "--enable-linear-replayssm-spec"),
    "--keep-mm-feature-on-device": ("0.5.21 to 0.5.23", "--mm-feature-transport cuda_ipc"),
    "--elastic-ep-rejoin": ("0.5.21 to 0.5.23", "--elastic-ep-join-mode recover"),
    "--cuda-graph-tc-compiler": ("0.5.21 to 0.5.23", ""),
}

# All ranks answer HTTP once they are loaded, those other than 0 only for their health, and always with 200. They wait
# for rank 0 to say that it ends, which takes it about ten seconds: all are stopped at once. As first process of a
# container, a rank ends with 0 also after most failures. /v1/models says 200 before rank 0 is warm.

#: It reads an API key from no variable, so that the key comes by a file of its own, which --config reads.
API_KEY_VARIABLE = ""
API_KEY_FILE = "/run/gb10-serving/key.yml"

#: Variable that gives the message queue between the nodes its address.
ADDRESS_VARIABLE = "SGLANG_HOST_IP"

#: The lines by which its start is followed; the last one says that requests are answered. Other ranks
#: print the one about the health server instead of the last.
STEPS = SGLANG

#: What the engine says of itself during a start: name -> pattern whose first group is a number.
TOLD = {
    "weights_gib": re.compile(r"Load weight end\..*\bmem usage=([\d.]+) GB"),
    "kv_cache_tokens": re.compile(r"\bmax_total_num_tokens=(\d+)"),
}

#: The plan's words for what the engine calls otherwise.
_KV_DTYPES = {"fp8": "fp8_e4m3"}


def layout_args(settings: dict[str, Any]) -> list[str]:
    """How ranks share the model: tp, and pp and ep where a plan has them."""
    args = ["--tp-size", str(settings["tp"])]
    if (settings.get("pp") or 1) > 1:
        args += ["--pp-size", str(settings["pp"])]
    return [*args, "--ep-size", str(settings["ep"])] if (settings.get("ep") or 1) > 1 else args


def memory_args(settings: dict[str, Any]) -> list[str]:
    """What a plan decides besides, in a spec and in what plan.yml prints."""
    args = ["--context-length", str(settings["context_length"])]
    args += ["--max-running-requests", str(settings["max_num_seqs"])]
    if settings["max_num_batched_tokens"]:
        args += ["--chunked-prefill-size", str(settings["max_num_batched_tokens"])]
    if settings["kv_cache_dtype"] != "auto":
        args += ["--kv-cache-dtype", _KV_DTYPES.get(settings["kv_cache_dtype"], settings["kv_cache_dtype"])]
    return [*args, "--mem-fraction-static", f"{settings['mem_fraction_static']:.3f}"]


def wish_args(dtype: str, drafts: int) -> list[str]:
    """What plan.yml takes by variables that a spec does not have."""
    args = ["--dtype", dtype] if dtype != "auto" else []
    if drafts:  # by the model's own layer, one chain; what is verified is the drafts and the token before them
        args += ["--speculative-algorithm", "NEXTN", "--speculative-num-steps", str(drafts)]
        args += ["--speculative-eagle-topk", "1", "--speculative-num-draft-tokens", str(drafts + 1)]
    return args


def argv(spec: dict[str, Any], rank: int) -> list[str]:
    """Arguments after the entry point for one rank; equal on all ranks but for node-rank."""
    memory, endpoint = spec["memory"], spec["endpoint"]
    args = [*SUBCOMMAND, "--model-path", spec["model"]["container_path"]]
    args += ["--served-model-name", spec["model"]["served_name"]]
    args += ["--host", endpoint["bind"], "--port", str(endpoint["port"])]
    args += layout_args(spec["parallel"])
    if spec["world_size"] > 1:
        store = spec["rendezvous"]
        args += ["--nnodes", str(spec["world_size"]), "--node-rank", str(rank)]
        args += ["--dist-init-addr", f"{store['address']}:{store['port']}"]
    args += memory_args(memory)
    if endpoint["api_key"]:
        args += ["--config", API_KEY_FILE]
    return args + spec["engine"]["args"]


def env(spec: dict[str, Any], rank: dict[str, Any]) -> dict[str, str]:
    """Environment of one rank. SGLANG_HOST_IP, its own address, keeps the message queue off the default route."""
    return {
        ADDRESS_VARIABLE: rank["address"],
        "DO_NOT_TRACK": "1",
        "HF_HUB_OFFLINE": "1",
    }


def ports(spec: dict[str, Any], rank: int) -> dict[str, int]:
    """Fixed TCP ports that a rank listens on, by purpose.

    Ranks other than 0 have a health server on the same port. The engine finds a taken one only after loading. NCCL,
    gloo and the message queue take free ports besides.
    """
    taken = {"endpoint": int(spec["endpoint"]["port"])}
    if rank > 0 or spec["world_size"] == 1:
        return taken
    return {**taken, "rendezvous": int(spec["rendezvous"]["port"])}
