#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""Build engine images of the rehearsal: the real engines on a CPU, as small as serving a text model allows.

    build.py [ENGINE...]             build what is missing, load it into the Docker daemon of DOCKER_HOST
    build.py --no-load [ENGINE...]   only the archives; their paths are the last lines printed

An engine is vllm, which is built when none is named, or sglang, whose model is a double.

Needs: mmdebstrap, pip, unshare. pip and apt use this machine's own configuration.
GB10_TORCH_INDEX_URL names a package index that has torch's CPU builds, where pip's own configuration has none.
"""

from __future__ import annotations

import argparse
import sys
from types import ModuleType

import _build
import _sglang
import _vllm

ENGINES: dict[str, ModuleType] = {"vllm": _vllm, "sglang": _sglang}


def make(engine: ModuleType, load: bool) -> str | None:
    """The path of the archive; nothing when the image was loaded before."""
    if load and _build.loaded_digest(engine.TAG) == engine.digest():
        print(f"engine image | {engine.TAG} is there already")
        return None
    with _build.only_one():
        archive = engine.image_archive()
    if load:
        with _build.step("docker load"):
            command = ["docker", "load", "--quiet", "--input", str(archive)]
            _build.run(command, archive.with_name("load.log"))
    print(f"engine image | {engine.TAG}: {archive.stat().st_size / 1e6:.0f} MB", flush=True)
    return str(archive)


def main() -> int:
    parser = argparse.ArgumentParser(description="Build the engine images of the rehearsal.")
    parser.add_argument("--no-load", action="store_true", help="write the archives and load them nowhere")
    parser.add_argument("engines", nargs="*", metavar="ENGINE", help=f"{' or '.join(ENGINES)}; vllm without any")
    chosen = parser.parse_args()
    unknown = [name for name in chosen.engines if name not in ENGINES]
    if unknown:
        parser.error(f"no engine {', '.join(unknown)}; there are {', '.join(ENGINES)}")
    try:
        archives = [make(ENGINES[name], not chosen.no_load) for name in chosen.engines or ["vllm"]]
    except _build.BuildError as error:
        print(f"engine image | {error}", file=sys.stderr)
        return 1
    for archive in filter(None, archives):
        print(archive)
    return 0


if __name__ == "__main__":
    sys.exit(main())
