# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 gb10.serving contributors
# Private to gb10.serving: runs in a container of the engine's image, not on the node itself. Needs PyTorch there.
"""A small all-reduce by the ranks of a deployment. Its source is handed to the image's ``python3 -c``.

Tells each stage before it begins, so that the last one told is the one in which it hangs. Ends by itself: a container
that nobody waits for any more goes away in time.
"""

from __future__ import annotations

import datetime
import faulthandler
import json
import os
import socket
import sys
import threading
import time
import traceback
from typing import Any

MARK = "gb10-collective:"
#: Bytes; the largest twice and a result of comparing is all that is taken of the memory that GPU and system share.
SIZES = (1 << 20, 16 << 20, 64 << 20)
#: Seconds for all sizes together, and the most repetitions of one.
MEASURE_SECONDS = 5.0
MOST = 20
#: A rank that gives no sign for so long has stopped. It gives one twice a second.
SILENT_SECONDS = 3.0


def tell(**event: Any) -> None:
    # In one piece and on a line of its own, whatever NCCL writes meanwhile.
    os.write(1, f"\n{MARK}{json.dumps(event)}\n".encode())


class Ended(Exception):
    """The test is over before its time; what is wrong has been told."""


class Test:
    """One rank. ``settings``: rank, world, own, address, port, arrive (seconds until all have to be there), end."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.settings = settings
        self.rank, self.world = int(settings["rank"]), int(settings["world"])
        self.end = float(settings["end"])
        self.stage = "begin"
        self.store: Any = None
        self.signs: dict[int, tuple[bytes, float]] = {}
        self.heard = 0.0
        self.arrived: set[int] = set()

    def left(self) -> float:
        return self.end - time.time()

    def timeout(self, seconds: float) -> datetime.timedelta:
        return datetime.timedelta(seconds=max(1.0, seconds))

    def enter(self, stage: str) -> None:
        self.stage = stage
        tell(stage=stage, at=round(time.time(), 2))

    def fail(self, kind: str, **more: Any) -> Ended:
        tell(failed=kind, stage=self.stage, **more)
        return Ended()

    def client(self, master: bool) -> Any:
        from torch.distributed import TCPStore

        return TCPStore(
            self.settings["address"],
            int(self.settings["port"]),
            self.world,
            master,
            timeout=self.timeout(float(self.settings["arrive"]) - time.time()),
            wait_for_workers=False,
        )

    # What watches beside the test itself.

    def watch(self) -> None:
        """Ends this rank when time is up and says who had stopped."""
        while self.left() > 0:
            time.sleep(min(0.2, max(0.01, self.left())))
        now = time.time()
        silent = [rank for rank, (_sign, at) in self.signs.items() if rank != self.rank and now - at > SILENT_SECONDS]
        if self.heard and now - self.heard > SILENT_SECONDS and self.rank:
            silent = [0]  # the store is there, and answers no more
        tell(failed="hang", stage=self.stage, silent=sorted(silent), missing=self.missing())
        os._exit(4)

    def beat(self, store: Any) -> None:
        """Gives a sign of life and looks for those of the others; ends this rank when another one has failed."""
        count = 0
        try:
            while True:
                count += 1
                store.set(f"sign/{self.rank}", str(count))
                for rank in range(self.world):
                    if rank not in self.arrived and store.check([f"arrived/{rank}"]):
                        self.arrived.add(rank)
                    sign = store.get(f"sign/{rank}") if store.check([f"sign/{rank}"]) else b""
                    if sign and self.signs.get(rank, (b"", 0.0))[0] != sign:
                        self.signs[rank] = (sign, time.time())
                for rank in range(self.world):
                    if rank != self.rank and store.check([f"failed/{rank}"]):
                        tell(failed="peer", stage=self.stage, peer=rank, missing=self.missing())
                        os._exit(5)
                self.heard = time.time()
                time.sleep(0.5)
        except Exception:  # rank 0 is gone; the test itself will notice
            return

    def missing(self) -> list[int]:
        """Ranks that did not arrive, as far as this one knows: none before it has heard of anybody."""
        return [rank for rank in range(self.world) if rank not in self.arrived] if self.heard else []

    # The test.

    def run(self) -> None:
        self.enter("address")
        with socket.socket() as probe:
            probe.bind((self.settings["own"], 0))
        self.enter("torch")
        try:
            import torch
            import torch.distributed as dist
        except ImportError as error:
            raise self.fail("torch", text=str(error)) from error
        gpu = torch.cuda.is_available()
        about = {
            "torch": torch.__version__,
            "nccl": ".".join(map(str, torch.cuda.nccl.version())) if gpu else None,
            "cuda": torch.version.cuda,
            "gpu": gpu,
        }
        tell(about=about)
        self.enter("store")
        self.store = self.client(self.rank == 0)
        self.store.set(f"arrived/{self.rank}", json.dumps(about))
        tell(arrived=True)
        threading.Thread(target=self.beat, args=(self.client(False),), daemon=True).start()
        self.enter("arrive")
        ranks = self.wait_for_all()
        tell(ranks=ranks)
        if len({(entry["torch"], entry["nccl"], entry["gpu"]) for entry in ranks}) > 1:
            raise self.fail("versions")
        # Engines open one group of each kind, so both are tried: gloo is used between CPUs.
        self.enter("gloo")
        group: Any = None
        dist.init_process_group(
            "gloo",
            store=dist.PrefixStore("group", self.store),
            rank=self.rank,
            world_size=self.world,
            timeout=self.timeout(self.left() + 30),
        )
        dist.barrier()
        device = "cpu"
        if gpu:
            self.enter("nccl")
            device = "cuda:0"
            torch.cuda.set_device(0)
            group = dist.new_group(backend="nccl", timeout=self.timeout(self.left() + 30))
        first = torch.ones(1, device=device)
        dist.all_reduce(first, group=group)
        self.synchronize(torch, gpu)
        self.enter("reduce")
        self.measure(torch, dist, group, device)
        self.enter("end")
        self.store.set(f"done/{self.rank}", "1")
        if self.rank == 0:  # it has the store
            self.wait_for([f"done/{rank}" for rank in range(self.world)], min(self.end, time.time() + 5))
        tell(done=True)

    def wait_for(self, keys: list[str], until: float) -> bool:
        while time.time() < until:
            if self.store.check(keys):
                return True
            time.sleep(0.1)
        return False

    def wait_for_all(self) -> list[dict[str, Any]]:
        keys = [f"arrived/{rank}" for rank in range(self.world)]
        if not self.wait_for(keys, float(self.settings["arrive"])):
            missing = [rank for rank, key in enumerate(keys) if not self.store.check([key])]
            if missing:
                raise self.fail("missing", missing=missing)
        return [json.loads(self.store.get(key)) for key in keys]

    def synchronize(self, torch: Any, gpu: bool) -> None:
        if gpu:
            torch.cuda.synchronize()

    def measure(self, torch: Any, dist: Any, group: Any, device: str) -> None:
        """Each size once, to compare the sum, then as often as there is time for. Rank 0 says how often."""
        whole = torch.empty(SIZES[-1] // 4, dtype=torch.float32, device=device)
        expected = torch.empty_like(whole)
        for size in SIZES:
            part, wanted = whole[: size // 4], expected[: size // 4]
            torch.arange(size // 4, out=part)
            part.remainder_(7)
            wanted.copy_(part).mul_(self.world).add_(self.world * (self.world + 1) // 2)
            part.add_(self.rank + 1)
            seconds = self.timed(torch, dist, part, group, device, 1)
            if not torch.equal(part, wanted):
                raise self.fail("sum", bytes=size)
            if self.rank == 0:
                count = int(min(MOST, MEASURE_SECONDS / len(SIZES) / max(seconds, 1e-6)))
                self.store.set(f"count/{size}", str(count))
            count = int(self.store.get(f"count/{size}"))
            if count:
                part.fill_(1)
                seconds = self.timed(torch, dist, part, group, device, count)
            tell(reduced=size, count=max(1, count), seconds=seconds)
            if not count:
                return  # a larger one would take too long

    def timed(self, torch: Any, dist: Any, part: Any, group: Any, device: str, count: int) -> float:
        """Seconds of one all-reduce."""
        dist.barrier()
        self.synchronize(torch, device != "cpu")
        begun = time.perf_counter()
        for _number in range(count):
            dist.all_reduce(part, group=group)
        self.synchronize(torch, device != "cpu")
        return (time.perf_counter() - begun) / count


def main() -> None:
    test = Test(json.loads(sys.argv[1]))
    # In C, so that it ends a rank that holds the interpreter's lock too; later than watch(), which says more.
    faulthandler.dump_traceback_later(max(1.0, test.left()) + 2, exit=True)
    os.environ.update(NCCL_DEBUG="INFO", NCCL_DEBUG_SUBSYS="INIT,NET,ENV")
    os.environ.pop("NCCL_DEBUG_FILE", None)
    threading.Thread(target=test.watch, daemon=True).start()
    code = 0
    try:
        test.run()
    except Ended:
        code = 3
    except Exception:
        traceback.print_exc()
        tell(failed="error", stage=test.stage)
        code = 3
    if code and test.store is not None:
        try:
            test.store.set(f"failed/{test.rank}", "1")
            if test.rank == 0:
                time.sleep(1.5)  # the others look twice a second
        except Exception as error:
            sys.stderr.write(f"the other ranks could not be told: {error}\n")
    sys.stdout.flush()
    sys.stderr.flush()
    # Groups that are half open would wait for the others.
    os._exit(code)


if __name__ == "__main__":
    main()
