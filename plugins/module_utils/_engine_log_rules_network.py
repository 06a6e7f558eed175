# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 gb10.serving contributors
# Private to gb10.serving: rules for ranks, rendezvous, NCCL, gloo and RDMA. Data.
"""What the messages between the ranks say of a failure."""

from __future__ import annotations

from ansible_collections.gb10.serving.plugins.module_utils._engine_log_rule import (
    DECISIVE,
    FOLLOWS,
    LIKELY,
    ROOT,
    SECONDARY,
    WEAK,
    Rule,
    rules,
)

#: A shell's word for a child that somebody else ended; the engines' launchers end theirs, too, but say why before.
KILLED = r"^Killed$|^\S+: line \d+:\s+\d+ Killed"
#: The same as a number. SGLang ends itself so after any failure, and so does who stops a container: it proves nothing.
KILLED_CODE = (
    r"code=killed, status=9",
    r"[Ee]xit(?: ?[Cc]ode|ed(?: with)?(?: code)?)\W*:?\s*(?:-9|137)\b(?! \(SIGKILL\))",
    r"[Ss]tatus\W*:?\s*(?:-9|137)\b(?! \(SIGKILL\))",
    r"Failed core proc\(s\): \{[^}]*: (?:-9|137)\b",
)
TAKING_MEMORY = ("starting", "weights", "kv_cache", "graphs")

NETWORK: tuple[Rule, ...] = (
    *rules(
        "rdma_failure", DECISIVE,
        r"Call to ibv_\w+ (?:\S+ )?failed",
        r"ibv_\w+ failed with error",
        r"Got completion (?:from peer|with).*(?:status|error)",
        r"NCCL_IB_GID_INDEX\b.*(?:incorrect|forced)|HINT:.*NCCL_IB_GID_INDEX",
        r"NET/IB ?: .*(?:async (?:fatal|error) event|fatal error|Unable to (?:open|query))",
        r"ib_uverbs.*Cannot allocate memory|mlx5.*(?:failed to (?:create|register|modify)|CQE error)",
        r"(?:create|modify)[ _]qp\b.*(?:fail|error)|failed to (?:create|modify|transition) qp\b",
        r"ibv_(?:create|reg|modify)\w*.*(?:ENOMEM|Cannot allocate)",
        r"device \"?/dev/infiniband\S*: no such file",
        r"GID (?:index|table).*(?:not found|invalid|empty)|RLIMIT_MEMLOCK is|memlock\b(?!=).*(?:fail|low|small|exceed)",
        quiet=True,
    ),
    *rules(
        "rdma_failure", LIKELY + 5,
        r"NCCL WARN NET/IB ?:(?! No device found)|NCCL WARN Could not find NET with name",
    ),
    *rules(
        "nccl_mismatch", DECISIVE,
        r"Mismatched NCCL version",
        r"mixed local Net device counts",
        r"Message truncated\s*: received|NCCL WARN.*truncated",
        r"NCCL version mismatch|mismatched? (?:nccl|collective)",
    ),
    *rules(
        "interface_not_found", DECISIVE,
        r"no (?:socket )?interface found|No such device \(addr=",
        r"Unable to find address for",
        r"ifa != nullptr",
        r"connectFullMesh failed",
        r"NCCL_SOCKET_IFNAME.*(?:not found|no interface)|NCCL WARN.*(?:find|No) interface",
        r"Gloo.*(?:no (?:interface|device)|makeDeviceForInterface.*unsupported)|unsupported gloo device",
        r"Could not find any local address|No IP address found for interface|bound to a local interface",
    ),
    *rules(
        "address_not_local", DECISIVE,
        r"Cannot assign requested address|EADDRNOTAVAIL|Errno 99\b",
        r"Every node should have a unique IP address",
    ),
    *rules(
        "port_in_use", DECISIVE,
        r"EADDRINUSE",
        r"address already in use",
        r"error while attempting to bind on address.*98",
        r"port is already allocated|Port \d+ is (?:already )?(?:in use|occupied|not available)",
        r"ports? (?:are|is) not available: exposing port|(?:Could not|Unable to) find an? (?:open|free) port",
    ),
    *rules(
        "rank_missing", ROOT,
        r"\d/\d+ clients joined", r"DistStoreError: Timed out after .*waiting for clients",
        r"Timed out initializing process group in store based barrier",
    ),
    *rules(
        "rank_missing", LIKELY,
        r"Cannot provide a placement group|No nodes with resources found in Ray cluster",
        r"Not enough resources to allocate",
        r"placement group.*(?:cannot be (?:created|scheduled)|timed? ?out|not (?:been )?ready)",
        r"Ray does not allocate any GPUs",
        r"The number of required GPUs exceeds the total number of available GPUs",
    ),
    *rules(
        "rendezvous_unreachable", ROOT,
        r"DistNetworkError: The client socket has",
        r"TCP client failed to connect/validate to host",
        r"The client socket has timed out after",
        r"RendezvousConnectionError|RendezvousTimeoutError",
        r"Failed to (?:get|resolve) (?:the )?(?:address|host).*(?:master|head)|getaddrinfo failed",
        r"Name or service not known|network addresses of \(\S+ \d+\) cannot be retrieved",
        r"(?:Failed to|Unable to|Could not) connect to (?:GCS|Ray cluster)",
        r"Could not find any running Ray instance",
        r"node timed out during startup|waiting for the head|connect\(\) timed out",
        r"Did not receive response from front-end",
    ),
    # The hub's client may say so, too, and then says more.
    *rules("rendezvous_unreachable", LIKELY - 2, r"^\w*Error: \[Errno (?:101|110|111|113)\]"),
    *rules("rendezvous_unreachable", LIKELY, r"failed to connect to any network address", r"store->get\(.*got error"),
    *rules(
        "ranks_disagree", DECISIVE,
        r"wait timeout after \d+ms, keys: ",
        r"Rank \d+ (?:is )?already (?:joined|in use|exists)|duplicate (?:node )?rank\b",
        r"world.?size.*(?:mismatch|does not match|differ)",
        r"ranks? (?:have|has|run|use) different|Detected mismatch between collectives",
        r"Configuration mismatch detected",
        r"(?:version|config\w*) mismatch between (?:ranks|nodes|head)",
        r"Version mismatch: The cluster was started with",
    ),
    *rules(
        "nccl_system_error", DECISIVE,
        r"(?:Error|failed).*(?:/dev/shm/nccl|shared memory segment)|/dev/shm/nccl.*(?:error|fail)",
        r"NCCL WARN.*(?:posix_fallocate|shm_open|shmOpen|mmap|ftruncate).*fail",
        r"/dev/shm\b.*No space left|No space left.*/dev/shm\b",
        r"unable to (?:open|allocate|resize) (?:a )?shared memory|out of shared memory\b",
        r"Insufficient space in \S+ for|Increase .*--shm-size",
    ),
    *rules(
        "nccl_system_error", ROOT,
        r"NCCL WARN.*(?:Too many open files|socket|Socket).*(?:fail|error)(?!.*refused)",
        r"NCCL WARN.*Call to (?!ibv_)\w+ (?:from .* )?failed(?!.*refused)",
        r"OSError: \[Errno 24\]|Too many open files",
    ),
    *rules(
        "nccl_system_error", LIKELY,
        r"NCCL error.*unhandled system error|unhandled system error \(run with",
        r"ncclSystemError|NCCL_ERROR_SYSTEM_ERROR",
        r"unable to (?:mmap .* bytes from|allocate shared memory.* for) file|Bus error|bus error \(core dumped\)",
    ),
    *rules(
        "collective_timeout", LIKELY - 5,
        r"Watchdog caught collective operation timeout",
        r"collective operation timeout|Timeout at NCCL work|Timeout waiting for (?:key|collective)",
        r"watchdog timeout \(|Watchdog timeout|Scheduler watchdog",
        r"(?:RPC call to|execute_model|sample_tokens).*timed out",
        r"monitoredBarrier|Timed out waiting \d+ms for (?:send|recv) operation",
    ),
    *rules(
        "nccl_system_error", FOLLOWS,
        r"NCCL error.*(?:internal error|unhandled cuda error|invalid (?:usage|argument))",
        r"ncclInternalError|ncclUnhandledCudaError",
        r"NCCL WARN Cuda failure",
        r"NCCL error\b(?!.*remote process)",
        r"NCCL WARN.*(?:retcode|res=)\s?\d|Failed to execute operation (?:Connect|Setup|Init)",
    ),
    *rules(
        "collective_timeout", FOLLOWS,
        r"Timed out waiting for engine|Health check failed.*detokenizer",
    ),
    *rules(
        "peer_died", SECONDARY + 5,
        r"ncclRemoteError|NCCL error.*remote process exited",
        r"remote process exited or there was a network error",
        r"connection closed by (?:remote )?peer|Connection reset by peer|Connection closed by remote",
        r"typically caused by a remote worker crashing",
        r"NCCL WARN.*(?:Connection refused|closed the connection|socketProgress|remote peer)",
        r"gloo/transport/tcp/pair\.cc.*(?:Read|Write|closed|error)|there are other ranks that didn't finish",
        r"Broken pipe|failed to recv, got 0 bytes|Socket recv failed",
        r"recvValue failed|sendBytes failed|TCPStore.*(?:Broken pipe|server has been shut down)",
        r"store server .*shut down",
        r"The node with node id.*has been marked dead|node .* died|raylet.*(?:died|marked dead)",
    ),
    *rules(
        "worker_died", SECONDARY,
        r"Worker proc \S+ died unexpectedly|WorkerProc rank=\S+ died unexpectedly",
        r"worker process.*(?:died|terminated)|VllmWorker\S* (?:pid \d+ )?died",
        r"Rank \d+ scheduler (?:is dead|died)|(?:scheduler|detokenizer)\b.*\bdied\b",
        r"ActorDiedError|RayActorError|The actor (?:is dead|died)",
        r"Fatal Python error|Segmentation fault|terminate called after|core dumped",
        r"(?:engine|server) process.*died|Engine is already dead|terminating server process",
        r"A worker died or was killed|SIGKILL|Got fatal signal from worker",
    ),
    # Killed from outside: while nothing or memory is being taken it is the memory, most of all where all share one.
    *rules("host_oom_killed", FOLLOWS, KILLED, cased=True, phases=TAKING_MEMORY),
    *rules("worker_died", SECONDARY, KILLED, *KILLED_CODE, cased=True),
    *rules("worker_died", WEAK, r"EngineDeadError|AsyncEngineDeadError|EngineCore encountered a fatal error"),
)  # fmt: skip
