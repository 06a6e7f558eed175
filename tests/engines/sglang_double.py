# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""A stand-in for SGLang's model: what comes after "Load weight begin", on a machine without its kernels.

SGLang loads this file as a plug-in. Up to that line everything is the real engine, and so are afterwards its HTTP
server, its tokenizer and detokenizer, and the ways between its processes and ranks. In place of the model there is a
loading that takes a moment, and a sentence that answers every prompt.

GB10_DOUBLE=MODE[:RANK][@serving] makes it fail: `hang`, `die` (killed) or `oom`; without a rank all of them do it, and
with `@serving` not while loading but at the first request that is not the engine's own. GB10_DOUBLE_SECONDS is how
long the loading takes.
"""

from __future__ import annotations

import contextlib
import importlib
import logging
import os
import re
import signal
import sys
import time
from array import array
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple

MODES = ("hang", "die", "oom")
SENTENCE = "This is the rehearsal: a stand-in for SGLang's model says so to everybody."
LOADING_SECONDS = 2.0
#: Between two looks for requests, in which the other ranks wait for the first.
POLL_MILLISECONDS = 200

logger = logging.getLogger("gb10_sglang_double")


class Fault(NamedTuple):
    mode: str
    rank: int | None
    place: str

    def hits(self, rank: int, place: str) -> bool:
        return self.place == place and self.rank in (None, rank)


class LoadingBegins(BaseException):
    """The real engine has come to the point where it would load the model."""


def parse_fault(text: str) -> Fault | None:
    """GB10_DOUBLE as a fault; nothing for none.

    Raises:
        ValueError: it is not of the form that it must have.
    """
    if not text:
        return None
    found = re.fullmatch(rf"({'|'.join(MODES)})(?::(\d+))?(?:@(loading|serving))?", text)
    if not found:
        raise ValueError(f"GB10_DOUBLE is '{text}', expected {'|'.join(MODES)}, then :RANK or nothing, then @serving")
    mode, rank, place = found.groups()
    return Fault(mode, None if rank is None else int(rank), place or "loading")


def loading_lines(tokens: int, architecture: str, seconds: float, available_gb: float) -> Iterator[str]:
    """What the engine says on a GPU from the end of the loading on, in its own words."""
    yield (
        f"Load weight end. elapsed={seconds:.2f} s, type={architecture}, "
        f"avail mem={available_gb:.2f} GB, mem usage=0.02 GB."
    )
    yield f"KV Cache is allocated. #tokens: {tokens}, K size: 0.01 GB, V size: 0.01 GB"
    yield f"Memory pool end. avail mem={available_gb:.2f} GB"
    yield f"Capture target decode CUDA graph begin. backend=full, num_tokens=[1, 2, 4], avail mem={available_gb:.2f} GB"
    yield f"Capture target decode CUDA graph end. elapsed=0.10 s, mem usage=0.00 GB, avail mem={available_gb:.2f} GB."


def answer(sentence: Sequence[int], end: int | None, limit: int | None, ignore_end: bool) -> tuple[list[int], Any]:
    """Token ids of an answer, and why it ends there: the sentence, or as much of it as is asked for."""
    whole = [*sentence, *([] if end is None else [end])]
    if ignore_end and limit is not None:
        return [sentence[index % len(sentence)] for index in range(limit)], {"type": "length", "length": limit}
    if limit is not None and limit < len(whole):
        return list(whole[:limit]), {"type": "length", "length": limit}
    return whole, {"type": "stop", "matched": end}


def fail(fault: Fault) -> None:
    logger.warning("Stand-in: does as GB10_DOUBLE says: %s.", fault.mode)
    if fault.mode == "hang":
        while True:
            time.sleep(3600)
    if fault.mode == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    import torch

    raise torch.OutOfMemoryError(
        "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 119.70 GiB "
        "of which 1.20 GiB is free. Including non-PyTorch memory, this process has 95.31 GiB memory in use."
    )


def double_of(real: Any) -> Any:
    """A scheduler that is the real one up to the loading of the model."""
    io = importlib.import_module("sglang.srt.managers.io_struct")
    context = importlib.import_module("sglang.srt.runtime_context")
    utils = importlib.import_module("sglang.srt.utils")
    zmq = importlib.import_module("zmq")

    class Double(real):
        def __init__(self, server_args: Any, port_args: Any) -> None:
            with contextlib.suppress(LoadingBegins):
                super().__init__(server_args, port_args)
            self.group = context.get_parallel().tp_group
            self.rank = context.get_parallel().tp_rank
            self.fault = parse_fault(os.environ.get("GB10_DOUBLE", ""))
            self.warm = False
            self.seconds = float(os.environ.get("GB10_DOUBLE_SECONDS", LOADING_SECONDS))
            # What the end of the process looks for.
            self.gracefully_exit, self.async_d2h_worker = False, None
            self.metrics_reporter = SimpleNamespace(_shutdown_fpm=lambda: None)
            self._load()

        def _load(self) -> None:
            logger.warning("Stand-in for model loading and serving: from here on this is not SGLang's model.")
            if self.fault and self.fault.hits(self.rank, "loading"):
                fail(self.fault)
            time.sleep(self.seconds)
            context_length, requests = self.model_config.context_len, self.server_args.max_running_requests or 8
            self.max_total_num_tokens = context_length * requests
            available = utils.get_available_gpu_memory("cpu", 0)
            architecture = self.model_config.hf_config.architectures[0]
            for line in loading_lines(self.max_total_num_tokens, architecture, self.seconds, available):
                logger.info(line)
            self._meet()  # real ranks do so while they prepare their graphs
            if self.rank == 0:
                logger.info(
                    f"max_total_num_tokens={self.max_total_num_tokens}, max_running_requests={requests}, "
                    f"context_len={context_length}, available_gpu_mem={available:.2f} GB"
                )

        def _meet(self) -> None:
            """No rank goes on before all have come here."""
            if self.group.world_size > 1:
                self.group.barrier()

        def get_init_info(self) -> dict[str, Any]:
            # One token is kept for the answer.
            longest = self.model_config.context_len - 1
            return {
                "status": "ready",
                "max_total_num_tokens": self.max_total_num_tokens,
                "max_req_input_len": longest,
                "startup_time": None,
            }

        def release_host_resources(self) -> None:
            """It holds none."""

        def run_event_loop(self) -> None:
            while not self.gracefully_exit:
                for request in self._receive():
                    self._handle(request)

        def _receive(self) -> list[Any]:
            """Requests of the HTTP server: rank 0 takes them and passes them on to all ranks."""
            requests: list[Any] = []
            if self.rank == 0:
                sockets = [self.ipc_channels.recv_from_tokenizer, self.ipc_channels.recv_from_rpc]
                poller = zmq.Poller()
                for socket in sockets:
                    poller.register(socket, zmq.POLLIN)
                requests = [io.sock_recv(socket) for socket, _event in poller.poll(POLL_MILLISECONDS)]
            if self.group.world_size == 1:
                return requests
            return list(utils.broadcast_pyobj(requests, self.group.rank, self.group.cpu_group, src=self.group.ranks[0]))

        def _handle(self, request: Any) -> None:
            to_tokenizer = self.ipc_channels.send_to_tokenizer
            if isinstance(request, io.BatchTokenizedGenerateReqInput):
                for one in request:
                    self._generate(one)
            elif isinstance(request, io.TokenizedGenerateReqInput):
                self._generate(request)
            elif isinstance(request, io.ShutdownReq):
                self.gracefully_exit = True
            elif isinstance(request, io.FlushCacheReqInput):
                to_tokenizer.send_output(io.FlushCacheReqOutput(success=True), request)
            elif isinstance(request, io.GetInternalStateReq):
                to_tokenizer.send_output(io.GetInternalStateReqOutput(internal_state={"stand_in": True}), request)
            elif not isinstance(request, (io.AbortReq, io.FreezeGCReq, io.ConfigureLoggingReq)):
                logger.warning("Stand-in: has no answer to %s.", type(request).__name__)

        def _generate(self, request: Any) -> None:
            own = not self.warm or request.rid.startswith("HEALTH_CHECK")
            self.warm = True
            if self.fault and not own and self.fault.hits(self.rank, "serving"):
                fail(self.fault)
            self._meet()  # real ranks do so in each layer of the model
            request.unwrap_pickle_fields()
            wanted = request.sampling_params
            sentence = self.tokenizer.encode(SENTENCE, add_special_tokens=False)
            ids, reason = answer(sentence, self.tokenizer.eos_token_id, wanted.max_new_tokens, wanted.ignore_eos)
            for sent in range(len(ids)) if request.stream else [0]:
                new = ids[sent : sent + 1] if request.stream else ids
                self._send(request, new, sent + len(new), reason if sent + len(new) == len(ids) else None)

        def _send(self, request: Any, new: list[int], count: int, reason: Any) -> None:
            wanted = request.sampling_params
            given = {
                "rids": [request.rid],
                "http_worker_ipcs": [request.http_worker_ipc],
                "finished_reasons": [reason],
                "decoded_texts": [""],
                "decode_ids": [array("q", new)],
                "read_offsets": [0],
                "output_ids": [array("q", new)],
                "skip_special_tokens": [wanted.skip_special_tokens],
                "spaces_between_special_tokens": [wanted.spaces_between_special_tokens],
                "no_stop_trim": [wanted.no_stop_trim],
                "prompt_tokens": [len(request.input_ids)],
                "reasoning_tokens": [0],
                "completion_tokens": [count],
                "cached_tokens": [0],
                "retraction_counts": [0],
            }
            needed = io.BatchTokenIDOutput.__struct_fields__
            output = io.BatchTokenIDOutput(**{**dict.fromkeys(needed), **given})
            self.ipc_channels.send_to_detokenizer.send_output(output)

    return Double


def stop_before_loading(*_args: object, **_kwargs: object) -> None:
    raise LoadingBegins


def install() -> None:
    """What SGLang calls in each of its processes; only the scheduler's has the scheduler imported by then."""
    scheduler = sys.modules.get("sglang.srt.managers.scheduler")
    if scheduler is not None:
        runner = importlib.import_module("sglang.srt.model_executor.model_runner")
        vars(runner)["load_model_with_memory_saver"] = stop_before_loading
        vars(scheduler)["Scheduler"] = double_of(vars(scheduler)["Scheduler"])
