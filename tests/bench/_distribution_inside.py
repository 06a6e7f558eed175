# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""What the bench of the distribution runs inside a node, from standard input: python3 - WHAT ARGUMENTS."""

from __future__ import annotations

import hashlib
import io
import json
import os
import random
import socket
import sys
import tarfile
import threading
from collections.abc import Sequence

BLOCK = 1 << 20


def model(folder: str, total: int, shards: int) -> None:
    """A complete model directory whose weights are random bytes."""
    os.makedirs(folder, exist_ok=True)
    size = total // shards
    weight_map = {}
    for number in range(1, shards + 1):
        name = f"model-{number:05d}-of-{shards:05d}.safetensors"
        tensor = f"model.layers.{number - 1}.mlp.down_proj.weight"
        head = json.dumps({tensor: {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}}).encode()
        weight_map[tensor] = name
        with open(os.path.join(folder, name), "wb") as stream:
            stream.write(len(head).to_bytes(8, "little") + head)
            left = size
            while left:
                stream.write(os.urandom(min(left, 8 * BLOCK)))
                left -= min(left, 8 * BLOCK)
    index = {"metadata": {"total_size": size * shards}, "weight_map": weight_map}
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "num_hidden_layers": shards}
    for name, value in (("model.safetensors.index.json", index), ("config.json", config)):
        with open(os.path.join(folder, name), "w", encoding="utf-8") as stream:
            json.dump(value, stream)


def _layer(number: int, seed: str, size: int) -> bytes:
    """A layer of many small files and some large ones, incompressible, always the same for the same seed."""
    buffer, source = io.BytesIO(), random.Random(f"{number}-{seed}")
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        count = 0
        while size > 0:
            part = min(size, source.choice([20_000, 200_000, 1_500_000]))
            entry = tarfile.TarInfo(f"opt/l{number}/f{count}")
            entry.size = part
            archive.addfile(entry, io.BytesIO(source.randbytes(part)))
            size, count = size - part, count + 1
    return buffer.getvalue()


def image(ref: str, architecture: str, layers: int, layer_bytes: int, seed: str) -> int:
    """An archive of `docker save` for this image on standard output; only the last layer depends on seed."""
    last = 0
    with tarfile.open(fileobj=sys.stdout.buffer, mode="w|") as archive:

        def add(name: str, data: bytes) -> None:
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))

        digests = []
        for number in range(layers):
            data = _layer(number, seed if number == layers - 1 else "base", layer_bytes)
            digests.append(hashlib.sha256(data).hexdigest())
            add(f"{digests[-1]}/layer.tar", data)
            last = len(data)
        config = {
            "architecture": architecture,
            "os": "linux",
            "created": "2026-01-01T00:00:00Z",
            "config": {"Env": ["BENCH=1"], "Cmd": ["/none"]},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}" for digest in digests]},
            "history": [{"created": "2026-01-01T00:00:00Z"} for _digest in digests],
        }
        text = json.dumps(config).encode()
        name = hashlib.sha256(text).hexdigest() + ".json"
        add(name, text)
        paths = [f"{digest}/layer.tar" for digest in digests]
        add("manifest.json", json.dumps([{"Config": name, "RepoTags": [ref], "Layers": paths}]).encode())
    print(last, file=sys.stderr)
    return last


def receive(folder: str, addresses: Sequence[str]) -> None:
    """The raw limit: one plain socket for each rail, what comes is written to files and nothing else is done."""
    os.makedirs(folder, exist_ok=True)
    listeners = [socket.create_server((address, 0)) for address in addresses]
    print(json.dumps([listener.getsockname()[1] for listener in listeners]), flush=True)

    def take(listener: socket.socket) -> None:
        connection, _peer = listener.accept()
        stream = connection.makefile("rb", buffering=0)
        buffer = memoryview(bytearray(BLOCK))
        head = bytearray()
        while True:
            head.clear()
            while not head.endswith(b"\n"):
                part = connection.recv(1)
                if not part:
                    return
                head += part
            name, size = json.loads(head)
            with open(os.path.join(folder, name), "wb", buffering=0) as target:
                while size:
                    count = stream.readinto(buffer[: min(size, BLOCK)])
                    target.write(buffer[:count])
                    size -= count or 0

    threads = [threading.Thread(target=take, args=(listener,)) for listener in listeners]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def send(folder: str, ends: Sequence[str]) -> None:
    """The other side: files by turns over the sockets, with sendfile."""
    names = sorted(os.listdir(folder))

    def give(number: int, end: str) -> None:
        address, port = end.rsplit(":", 1)
        with socket.create_connection((address, int(port))) as connection:
            for name in names[number :: len(ends)]:
                with open(os.path.join(folder, name), "rb") as stream:
                    connection.sendall(json.dumps([name, os.fstat(stream.fileno()).st_size]).encode() + b"\n")
                    connection.sendfile(stream)

    threads = [threading.Thread(target=give, args=item) for item in enumerate(ends)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def main(what: str, *words: str) -> None:
    if what == "model":
        model(words[0], int(words[1]), int(words[2]))
    elif what == "image":
        image(words[0], words[1], int(words[2]), int(words[3]), words[4])
    elif what == "receive":
        receive(words[0], words[1:])
    else:
        send(words[0], words[1:])


if __name__ == "__main__":
    main(*sys.argv[1:])
