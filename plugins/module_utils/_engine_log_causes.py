# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 gb10.serving contributors
# Private to gb10.serving: why an engine did not start or went away, by name. Data.
"""The causes by their identifiers: what is seen, why it happens on GB10, and what to do. docs/causes.md shows it."""

from __future__ import annotations

from typing import NamedTuple


class Cause(NamedTuple):
    """One cause, in sentences for a person."""

    seen: str
    why: str
    remedy: str


CAUSES: dict[str, Cause] = {
    "message_queue_address": Cause(
        "Silence after the collectives are open; it looks like a hang of NCCL.",
        "The engine's message queue between the nodes uses the address of the default route, Wi-Fi or LAN, "
        "which the other node cannot reach. Both ranks wait for it without limit.",
        "Set VLLM_HOST_IP (vLLM) or SGLANG_HOST_IP (SGLang) on each node to that node's own address of the fabric.",
    ),
    "nccl_init_hang": Cause(
        "Silence after `is using nccl==`; no rank says that the communicator is complete.",
        "The ranks reach each other's store but not each other's NCCL: wrong interface or HCA, firewall, "
        "unequal MTU, a left-over nccl.conf in the image.",
        "Run the fabric test. Compare NCCL_SOCKET_IFNAME and NCCL_IB_HCA with each node's own interfaces, "
        "then start with NCCL_DEBUG=INFO.",
    ),
    "nccl_system_error": Cause(
        "`unhandled system error`, `ncclSystemError`, or no room in shared memory.",
        "A system call below NCCL failed: a small /dev/shm, a socket that cannot connect, too few descriptors.",
        "Start the container with --ipc=host (or a larger --shm-size) and the host's network; NCCL_DEBUG=WARN"
        " names the call.",
    ),
    "rdma_failure": Cause(
        "`Call to ibv_... failed`, `Got completion from peer ... with status`.",
        "The RoCE connection cannot be made or broke: GID index of another node, wrong HCA of the pair, "
        "locked memory limited, memory that cannot be pinned, a port that went down.",
        "Let the GID index be found on each node (unset NCCL_IB_GID_INDEX), name both HCAs of the cabled "
        "port, pass /dev/infiniband and --ulimit memlock=-1, free memory before the start, then run the "
        "fabric test.",
    ),
    "nccl_mismatch": Cause(
        "`Mismatched NCCL version`, `mixed local Net device counts`, `Message truncated`.",
        "The ranks run different NCCL builds or see a different number of network devices.",
        "Use one image and the same NCCL settings on all nodes; cable and name the same ports on all of them.",
    ),
    "interface_not_found": Cause(
        "`no socket interface found`, `Unable to find address for`, gloo cannot connect over the loopback.",
        "NCCL_SOCKET_IFNAME or GLOO_SOCKET_IFNAME names an interface that this node does not have; names can "
        "differ between two Sparks.",
        "Set both variables on each node to that node's own fabric interface.",
    ),
    "address_not_local": Cause(
        "`Cannot assign requested address`.",
        "The host address given to this node belongs to another node, or the interface that has it is down.",
        "Set VLLM_HOST_IP or SGLANG_HOST_IP to an address that this node has, and bring its interface up.",
    ),
    "port_in_use": Cause(
        "`Address already in use`, `EADDRINUSE`.",
        "An earlier deployment or another program listens on the API port or on the port of the store.",
        "Stop the other listener (`ss -ltnp` names it) or choose another port on all ranks.",
    ),
    "rank_missing": Cause(
        "`1/2 clients joined`, or rank 0 waits for the others without end.",
        "Another rank was not started, ended before it joined, or was started with another world size.",
        "Read the other ranks' logs first: the earliest failure is the cause. Then start all ranks with the "
        "same sizes.",
    ),
    "rendezvous_unreachable": Cause(
        "`The client socket has timed out`, `failed to connect to any network address`.",
        "The address of rank 0's store is wrong, nobody listens there yet, or the route or a firewall is in the way.",
        "Check that rank 0 runs, that its address is the one of the fabric, and that the port answers from this node.",
    ),
    "ranks_disagree": Cause(
        "`wait timeout after ... keys`, two ranks with one number; the deploy itself compares image, model and "
        "variables.",
        "The ranks were started with different world sizes, equal rank numbers, or different versions, or one node "
        "has another image, model or arguments than the release was made with.",
        "Start all ranks from one specification: same image, same model, same sizes, each its own rank number.",
    ),
    "peer_died": Cause(
        "`Connection closed by peer`, `remote process exited`.",
        "Another rank ended; this one only noticed.",
        "Read the other ranks' logs: the one that failed first has the cause.",
    ),
    "worker_died": Cause(
        "`Worker proc ... died unexpectedly`, a scheduler that died, exit code -9 or 137.",
        "A process of this rank was ended from outside or crashed without a word. The launcher may still end with exit "
        "code 0; -9 and 137 are often, not always, the OOM killer.",
        "Look for `oom-kill` and `Xid` in `sudo dmesg -T` on that node. If memory is short, plan with a larger reserve;"
        " watch MemAvailable in /proc/meminfo during the next start of all ranks.",
    ),
    "collective_timeout": Cause(
        "`Watchdog caught collective operation timeout`, workers that do not answer.",
        "A collective did not end in time: another rank hangs, died, or the link was lost.",
        "Read the other ranks' logs, check the links (fabric test), then restart all ranks.",
    ),
    "memory_free_at_start": Cause(
        "`Free memory on device ... is less than desired GPU memory utilization`.",
        "GPU and system share one memory on GB10; the page cache, another container or the desktop has some of it.",
        "Stop what else uses memory, drop the page cache, or lower --gpu-memory-utilization to what is free "
        "on the fullest node.",
    ),
    "kv_cache_too_small": Cause(
        "`No available memory for the cache blocks`, `larger than the available KV cache memory`.",
        "The weights and the engine's own needs leave too little for the KV cache of one request.",
        "Lower --max-model-len (--context-length), give the KV cache more memory, use FP8 for it, or spread "
        "over more nodes.",
    ),
    "out_of_memory": Cause(
        "`CUDA out of memory`, `cudaErrorMemoryAllocation`.",
        "An allocation failed while loading, profiling or capturing graphs; the system's part of the shared "
        "memory counts too.",
        "Lower the memory share, the batched tokens or the number of sequences; free memory on the node "
        "before the start.",
    ),
    "host_oom_killed": Cause(
        "`Out of memory: Killed process`, `OOMKilled`, Ray's memory monitor.",
        "The kernel or a memory guard ended the engine because the shared memory ran out.",
        "Plan with a larger reserve, stop other users of memory, drop the page cache before the load; with "
        "Ray set RAY_memory_monitor_refresh_ms=0.",
    ),
    "bad_flag": Cause(
        "`unrecognized arguments`, `invalid choice`, a flag that is missing or that contradicts the model.",
        "The command line does not fit this engine or this version of it; the engines do not share their flags.",
        "Correct the flag that is named. engine_info lists what the image accepts.",
    ),
    "parallel_size_invalid": Cause(
        "`must be divisible by tensor parallel size`, a rank out of range, more ranks than GPUs.",
        "Sizes that do not divide the model or do not fit the nodes: a GB10 has one GPU a node.",
        "Choose a tensor parallel size that divides the heads and equals the number of nodes, or use pipeline"
        " parallelism.",
    ),
    "context_too_long": Cause(
        "`is greater than the derived max_model_len`.",
        "The context asked for is longer than the model's configuration allows.",
        "Lower --max-model-len (--context-length), or give the rope scaling that the model's card names.",
    ),
    "model_not_found": Cause(
        "`Repo id must be in the form`, `Invalid repository ID or local directory`, nothing in the cache "
        "while offline.",
        "The path does not exist in the container, or the hub was not to be reached. An unreadable directory "
        "looks the same.",
        "Check the path and its mount on this node, and that the model was copied to it.",
    ),
    "model_incomplete": Cause(
        "`Weight files referenced in index but missing`, no weights, no tokenizer, no usable config.json.",
        "The download or copy was interrupted, or a part was left out.",
        "Copy the model to this node again and compare its files with those of the source.",
    ),
    "model_corrupt": Cause(
        "`SafetensorError`, `HeaderTooLarge`, shapes that do not fit.",
        "A file is cut short, or a pointer of Git LFS stands where weights should.",
        "Fetch the named file again and compare sizes and checksums.",
    ),
    "model_access_denied": Cause(
        "`gated repo`, `401`, `403`, `429`, `Permission denied` on the model or the cache.",
        "The hub refuses (no token, licence not accepted, too many requests), or the container's user may not"
        " read the files.",
        "Pass HF_TOKEN in gb10_server_secret_env, accept the licence, or correct owner and mode of the directory on "
        "this node; best is a local copy.",
    ),
    "model_unsupported": Cause(
        "`does not recognize this architecture`, `are not supported for now`, an unknown quantization.",
        "The engine or its Transformers is older than the model, or never supported it.",
        "Use an image that supports the model, or the other engine.",
    ),
    "kernel_unsupported": Cause(
        "`no kernel image`, `ptxas fatal ... sm_121`, `ninja: build stopped`.",
        "The image, or a compiler in it, does not know compute capability 12.1 of GB10, or no kernel exists "
        "for this use.",
        "Use an image built for GB10 (CUDA 13, sm_121); choose another attention or MoE backend; point "
        "TRITON_PTXAS_PATH to CUDA's own ptxas.",
    ),
    "missing_dependency": Cause(
        "`ModuleNotFoundError`, `undefined symbol`, `cannot open shared object file`.",
        "A package is missing in the image, or packages of different builds are mixed.",
        "Use the image as its maker published it, or one that has the package.",
    ),
    "gpu_not_visible": Cause(
        "`Failed to infer device type`, `No accelerator`, `could not select device driver`.",
        "The container was started without the GPU, or the NVIDIA container runtime is not set up.",
        "Start with --gpus all; check with `nvidia-smi` on the host and in a container; run `nvidia-ctk "
        "runtime configure`.",
    ),
    "gpu_lost": Cause(
        "`Xid`, `GPU has fallen off the bus`, `GPU is lost`.",
        "The driver lost the GPU; power or hardware may be behind it.",
        "Power the node off and on, update firmware and driver, and have it serviced if it comes again.",
    ),
    "driver_too_old": Cause(
        "`driver version is insufficient`, `unsatisfied condition: cuda>=`, `unsupported toolchain`.",
        "The image's CUDA is newer than the node's driver.",
        "Update DGX OS and its driver, or use an image with an older CUDA.",
    ),
    "image_wrong_architecture": Cause(
        "`exec format error`, `no matching manifest for linux/arm64`.",
        "The image is built for amd64; GB10 is arm64.",
        "Use a tag that has an arm64 variant.",
    ),
    "image_entrypoint": Cause(
        "`executable file not found`, `cannot execute binary file`.",
        "The image starts another program than the command line expects.",
        "Give the entry point explicitly and check the program's name in the image.",
    ),
    "docker_permission": Cause(
        "`permission denied while trying to connect to the Docker daemon`.",
        "The user is not in the group docker.",
        "Run with become, or add the user to the group docker and log in again.",
    ),
    "docker_unreachable": Cause(
        "`Cannot connect to the Docker daemon`, a docker that does not end its answer.",
        "The docker daemon of this node does not run, is being restarted, or hangs.",
        "See `systemctl status docker` and `journalctl -u docker` on that node; restart docker there, or the node if "
        "docker hangs.",
    ),
    "disk_full": Cause(
        "`No space left on device`, `Disk quota exceeded`.",
        "The file system of the images, of the model or of the cache is full on this node.",
        "Free space (`docker system df`, `df -h`) or use another directory.",
    ),
    "unknown": Cause(
        "An error that no rule knows.",
        "Not known.",
        "Read the evidence; start again with the engine's debug level if it does not say enough.",
    ),
}
