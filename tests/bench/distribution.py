#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""How fast image and model come to the nodes, beside what else would bring them, as one JSON object.

Runs on rehearsal nodes (make rehearse-up NODES=4) with the roles of a deploy, as root; takes away what it makes.

    .venv/bin/python tests/bench/distribution.py [--only model|receivers|image] [--size-gb 4] [--shards 24]

model_copy   a first copy to one receiver, verified. shaped_ratio: of the sum of both rails, at --shape-gbps each.
             ssh_rsync_ratio: times as fast as one `rsync -a` over ssh. raw_ratio: of what two plain sockets with
             sendfile bring into the same file system. cpu_s_per_gb: CPU seconds of both nodes.
receivers    time for three receivers over that for one, with rails at --receivers-gbps. switch: one subnet for each
             rail; line: a cable from each node to the next; pair: a cable between each two nodes. Needs four nodes.
image        an image of ten layers. first_ratio: time over that of `docker save | ssh docker load`.
             three_receivers_ratio: time for three over that for one, with rails at --receivers-gbps (four nodes).
             update_bytes_ratio: bytes that move after the last layer changed, over its size. update_time_ratio: over
             the first time. unchanged_bytes: moved the second time.
peak_rss_mib the most memory of any Python process in the nodes.

What was left out is null, and why is said on standard error, with the figures that the ratios are made of.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import _rehearsal
from _rehearsal import Failed, Node

sys.path.insert(0, str(_rehearsal.ROOT / "collections"))

from ansible_collections.gb10.serving.plugins.plugin_utils import _chain

INSIDE = "_distribution_inside.py"
HOME = "/home/spark/gb10-bench"
SOURCE, TARGET = f"{HOME}/source", f"{HOME}/target"
IMAGE = "gb10-bench/image:1"
KEY = "/home/spark/.ssh/gb10-bench"


def say(text: str) -> None:
    print(f"distribution: {text}", file=sys.stderr, flush=True)


class Bench:
    """The nodes, the first of which has everything, and what is measured on them."""

    def __init__(self, options: argparse.Namespace, results: Path) -> None:
        self.options, self.results = options, results
        self.nodes = _rehearsal.nodes()
        if len(self.nodes) < 2:
            raise Failed("two rehearsal nodes are needed: make rehearse-up")
        self.head = self.nodes[0]
        for node in self.nodes:
            node.run(f"mkdir -p {HOME}", user="spark")

    def copy(self, what: str, count: int, cabling: str = "switch") -> tuple[float, dict[str, Any]]:
        """Seconds until all of the first count receivers have it, and the bytes that moved to each."""
        members = self.nodes[: count + 1]
        names = [node.name for node in members]
        with _rehearsal.cabled(members, cabling) as addresses:
            plan, problems = _chain.plan(addresses, names[:1], names[1:], what)
            if problems:
                raise Failed(str(problems[0]))
            variables = {
                "bench_what": what, "bench_copy": {"source": names[0], **plan}, "bench_source_path": SOURCE,
                "bench_path": TARGET, "gb10_image_ref": IMAGE,
            }  # fmt: skip
            answers = _rehearsal.play(members, variables, self.results)
        if set(answers) != set(names[1:]):
            raise Failed(f"no result from {set(names[1:]) - set(answers)}")
        seconds = max(answer["seconds"] for answer in answers.values())
        say(f"{what} to {count} ({cabling}): {seconds:.1f} s; {json.dumps(answers)[:600]}")
        return seconds, answers

    # --- model ---

    def make_model(self, gigabytes: float) -> int:
        say(f"making a model of {gigabytes:g} GB in {self.options.shards} shards")
        words = ["model", SOURCE, str(int(gigabytes * 1e9)), str(self.options.shards)]
        _rehearsal.wait(self.head.python(INSIDE, *words), "making the model")
        return int(self.head.run(f"du -sb {SOURCE}").split()[0])

    def clear(self, receivers: Sequence[Node]) -> None:
        for node in receivers:
            node.run(f"rm -rf {TARGET} {HOME}/.target* {HOME}/.gb10*; sync")

    def same(self, receivers: Sequence[Node]) -> None:
        listing = "find . -type f ! -name '.gb10*' | sort | xargs sha256sum | sha256sum"
        sums = {node.name: node.run(f"cd {SOURCE if node is self.head else TARGET} && {listing}").strip()
                for node in (self.head, *receivers)}  # fmt: skip
        if len(set(sums.values())) != 1:
            raise Failed(f"the trees differ: {sums}")

    def model(self) -> dict[str, float]:
        size = self.make_model(self.options.size_gb)
        pair, target = self.nodes[:2], self.nodes[1]
        rsync, rsync_cpu = self.timed(pair, self.rsync)
        raw, raw_cpu = self.timed(pair, self.raw)
        self.clear([target])
        before = sum(node.cpu_seconds() for node in pair)
        ours, _answers = self.copy("model", 1)
        ours_cpu = sum(node.cpu_seconds() for node in pair) - before
        self.same([target])
        self.clear([target])
        with _rehearsal.shaped(pair, self.options.shape_gbps):
            shaped, _answers = self.copy("model", 1)
        self.clear([target])
        rails = self.options.shape_gbps * 1e9 / 8 * len(self.head.rails)
        for name, seconds, cpu in (("rsync -a over ssh", rsync, rsync_cpu), ("two plain sockets", raw, raw_cpu),
                                   ("model_sync", ours, ours_cpu)):  # fmt: skip
            say(f"{name}: {seconds:.1f} s, {size / seconds / 1e9:.2f} GB/s, {cpu / size * 1e9:.2f} CPU s/GB")
        say(f"model_sync on {self.options.shape_gbps:g} Gb/s rails: {shaped:.1f} s, {size / shaped / 1e6:.0f} MB/s")
        return {
            "shaped_ratio": round(size / shaped / rails, 3),
            "ssh_rsync_ratio": round(rsync / ours, 2),
            "raw_ratio": round(raw / ours, 3),
            "cpu_s_per_gb": round(ours_cpu / size * 1e9, 2),
        }

    def timed(self, members: Sequence[Node], work: Any) -> tuple[float, float]:
        self.clear(members[1:])
        cpu, begun = sum(node.cpu_seconds() for node in members), time.monotonic()
        work()
        return time.monotonic() - begun, sum(node.cpu_seconds() for node in members) - cpu

    def rsync(self) -> None:
        there = self.nodes[1].rails[0]["address"].partition("/")[0]
        self.head.run(f"rsync -a -e '{self.ssh()}' {SOURCE}/ spark@{there}:{TARGET}/", user="spark")

    def raw(self) -> None:
        target = self.nodes[1]
        addresses = [rail["address"].partition("/")[0] for rail in target.rails]
        receiver = target.python(INSIDE, "receive", TARGET, *addresses)
        assert receiver.stdout
        ports = json.loads(receiver.stdout.readline())
        ends = [f"{address}:{port}" for address, port in zip(addresses, ports, strict=True)]
        _rehearsal.wait(self.head.python(INSIDE, "send", SOURCE, *ends), "the plain sender")
        _rehearsal.wait(receiver, "the plain receiver")

    def ssh(self) -> str:
        """ssh from the head to the others with a key that lives as long as this bench."""
        if "ok" not in self.head.run(f"test -e {KEY} && echo ok", check=False):
            self.head.run(f"ssh-keygen -q -t ed25519 -N '' -C gb10-bench -f {KEY}", user="spark")
            public = self.head.run(f"cat {KEY}.pub")
            for node in self.nodes[1:]:
                node.run("cat >> /home/spark/.ssh/authorized_keys", user="spark", stdin=public)
        return f"ssh -i {KEY} -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR"

    # --- receivers ---

    def receivers(self) -> dict[str, dict[str, float]] | None:
        if len(self.nodes) < 4:
            say(f"receivers is null: it needs four nodes, {len(self.nodes)} are up (make rehearse-up NODES=4)")
            return None
        self.make_model(self.options.receivers_gb)
        found = {}
        for cabling in ("pair", "switch", "line"):
            seconds = {}
            for count in (1, 3):
                self.clear(self.nodes[1:])
                with _rehearsal.shaped(self.nodes[: count + 1], self.options.receivers_gbps):
                    seconds[count], _answers = self.copy("model", count, cabling)
                self.same(self.nodes[1 : count + 1])
            found[cabling] = {"ratio_3_to_1": round(seconds[3] / seconds[1], 3)}
        self.clear(self.nodes[1:])
        return found

    # --- image ---

    def load_image(self, seed: str) -> int:
        """The image into the head's daemon; the size of its last layer."""
        machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
        layer = int(self.options.image_mb * 1e6 / 10)
        words = f"image {IMAGE} {machine} 10 {layer} {seed}"
        program = Path(__file__).with_name(INSIDE).read_text()
        told = self.head.run(f"python3 - {words} 2>/tmp/gb10-bench-layer | docker load -q; cat /tmp/gb10-bench-layer; "
                             "rm /tmp/gb10-bench-layer", stdin=program)  # fmt: skip
        return int(told.split()[-1])

    def drop_image(self, nodes: Sequence[Node]) -> None:
        for node in nodes:
            node.run("docker image ls -q gb10-bench/image | sort -u | xargs -r docker image rm -f", check=False)

    def image(self) -> dict[str, float | None]:
        say(f"making an image of {self.options.image_mb:g} MB in ten layers")
        self.load_image("one")
        target = self.nodes[1]
        there = target.rails[0]["address"].partition("/")[0]
        begun = time.monotonic()
        self.head.run(f"docker save {IMAGE} | su spark -c \"{self.ssh()} spark@{there} 'sudo docker load -q'\"")
        baseline = time.monotonic() - begun
        self.drop_image([target])
        first, _answers = self.copy("image", 1)
        three: float | None = None
        if len(self.nodes) < 4:
            say(f"image.three_receivers_ratio is null: it needs four nodes, {len(self.nodes)} are up")
        else:
            seconds = {}
            with _rehearsal.shaped(self.nodes, self.options.receivers_gbps):
                for count in (1, 3):
                    self.drop_image(self.nodes[1:])
                    seconds[count], _answers = self.copy("image", count)
            three = round(seconds[3] / seconds[1], 3)
        layer = self.load_image("two")
        update, answers = self.copy("image", 1)
        moved = answers[target.name]["moved_bytes"]
        _seconds, again = self.copy("image", 1)
        say(f"docker save | ssh docker load: {baseline:.1f} s; image_sync: {first:.1f} s; "
            f"last layer of {layer / 1e6:.1f} MB changed: {update:.1f} s, {moved / 1e6:.1f} MB")  # fmt: skip
        return {
            "first_ratio": round(first / baseline, 3),
            "three_receivers_ratio": three,
            "update_bytes_ratio": round(moved / layer, 3),
            "update_time_ratio": round(update / first, 3),
            "unchanged_bytes": again[target.name]["moved_bytes"],
        }

    def clean(self) -> None:
        self.drop_image(self.nodes)
        for node in self.nodes:
            node.run(
                f"rm -rf {HOME} {KEY} {KEY}.pub; sed -i '/ gb10-bench$/d' /home/spark/.ssh/authorized_keys", check=False
            )


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--only", choices=["model", "receivers", "image"], help="one part instead of all")
    parser.add_argument("--size-gb", type=float, default=4, help="size of the model in GB")
    parser.add_argument("--shards", type=int, default=24)
    parser.add_argument("--shape-gbps", type=float, default=1, help="rate of each rail for shaped_ratio")
    parser.add_argument("--receivers-gb", type=float, default=0.6, help="size of the model for receivers")
    parser.add_argument(
        "--receivers-gbps", type=float, default=0.1, help="rate of each rail for receivers; all nodes share this disk"
    )
    parser.add_argument("--image-mb", type=float, default=1000)
    options = parser.parse_args()
    if os.geteuid() != 0:
        print(
            "distribution: needs root, to shape rails and to read the nodes' accounting: run it with sudo.",
            file=sys.stderr,
        )
        return 2
    answer: dict[str, Any] = {"model_copy": None, "receivers": None, "image": None, "peak_rss_mib": None}
    try:
        with tempfile.TemporaryDirectory() as results:
            bench = Bench(options, Path(results))
            parts = {"model_copy": bench.model, "receivers": bench.receivers, "image": bench.image}
            with _rehearsal.Peak(bench.nodes) as peak:
                try:
                    for name, part in parts.items():
                        if options.only in (None, name.partition("_")[0]):
                            answer[name] = part()
                finally:
                    bench.clean()
            answer["peak_rss_mib"] = round(peak.kib / 1024, 1)
            say(f"the largest Python process: {peak.command}")
    except Failed as error:
        print(f"distribution: {error}", file=sys.stderr)
        return 1
    print(json.dumps(answer))
    return 0


if __name__ == "__main__":
    sys.exit(main())
