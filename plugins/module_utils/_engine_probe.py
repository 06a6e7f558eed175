# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 gb10.serving contributors
# Private to this collection: no stability promised.
"""Questions that only a container of the image can answer: which engine it holds, and which flags that takes.

Answers are kept by the image's content, so that they are asked once. An answer that was not given is not kept.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.gb10.serving.plugins.module_utils import _engine_help, _image_docker
from ansible_collections.gb10.serving.plugins.module_utils._job import write_json

MARK = "gb10-engine:"
#: Of the form in which flags are kept; another one is asked again.
FORMAT = 1
#: No line of the help is broken where this many characters fit.
COLUMNS = 200

_SCRIPT = f"""
import importlib.metadata as m, json, sys
found = {{}}
for name in sys.argv[1:]:
    try: found[name] = m.version(name)
    except Exception: pass
print({MARK!r} + json.dumps(found))
"""

Engines = Mapping[str, Mapping[str, Any]]


def run(ref: str, command: Sequence[str], timeout: int, options: Sequence[str] = ()) -> tuple[int, str, str]:
    """A command in a container of the image, without network, which is gone afterwards also when time is up."""
    name = f"gb10-probe-{secrets.token_hex(6)}"
    argv = ["docker", "run", "--rm", "--name", name, "--network", "none", "--pull", "never", *options]
    code, out, err = _image_docker.run([*argv, "--entrypoint", command[0], ref, *command[1:]], timeout)
    if code == 124:
        _image_docker.run(["docker", "rm", "--force", name])
    return code, out, err


def distributions(engines: Engines) -> dict[str, str]:
    """Python distribution -> engine; the first that is found counts."""
    return {name: engine for engine, known in engines.items() for name in known["distributions"]}


def parse_engine(output: str, known: Mapping[str, str]) -> dict[str, Any]:
    """name, version and reason from what the script printed among whatever else the image prints."""
    for text in reversed(output.splitlines()):
        if text.startswith(MARK):
            with contextlib.suppress(ValueError):
                found = json.loads(text[len(MARK) :])
                for distribution, name in known.items():
                    if distribution in found:
                        return {"name": name, "version": found[distribution], "reason": None}
                return {
                    "name": None,
                    "version": None,
                    "reason": f"python3 of the image has none of {', '.join(known)} installed",
                }
    return {"name": None, "version": None, "reason": "python3 of the image did not answer the question for its engine"}


def engine(ref: str, engines: Engines, timeout: int) -> tuple[dict[str, Any], bool]:
    """The engine, and whether the answer may be kept."""
    known = distributions(engines)
    code, out, err = run(ref, ["python3", "-c", _SCRIPT, *known], timeout)
    if code == 0:
        answer = parse_engine(out, known)
        return answer, answer["name"] is not None or MARK in out
    return {
        "name": None,
        "version": None,
        "reason": f"running python3 in {ref} ended with {code}: {err.strip()[-300:]}",
    }, False


def flags(ref: str, command: Sequence[str], gpus: str, timeout: int) -> tuple[dict[str, Any], bool]:
    """The flags that the engine's own help lists, or why they are not known; and whether the answer may be kept."""
    options = ["--env", f"COLUMNS={COLUMNS}", "--env", "HF_HUB_OFFLINE=1"]
    if gpus:
        options += ["--gpus", gpus]
    code, out, err = run(ref, command, timeout, options)
    shown = " ".join(command)
    if code == 124:
        return _unknown(f"'{shown}' in the image did not answer within {timeout} s"), False
    found, reason = _engine_help.read(out, err)
    if code == 0 and found:
        return {"flags": found, "flags_reason": None}, True
    if found:
        reason = f"its last line is: {(err.strip() or out.strip()).splitlines()[-1].strip()[-300:]}"
    return _unknown(f"'{shown}' in the image ended with {code}: {reason}"), False


def _unknown(reason: str) -> dict[str, Any]:
    return {"flags": None, "flags_reason": reason}


class Kept:
    """Answers about one image in a directory of the node. A directory that cannot be used is no failure."""

    def __init__(self, directory: str, content: str, write: bool) -> None:
        self.directory, self.write = directory, write
        self.content = content.partition(":")[2]

    def _path(self, kind: str) -> str:
        return os.path.join(self.directory, f"{kind}-{self.content}.json")

    def read(self, kind: str, keys: Sequence[str]) -> dict[str, Any] | None:
        with contextlib.suppress(OSError, ValueError), open(self._path(kind), encoding="utf-8") as stream:
            known = json.load(stream)
            if isinstance(known, dict) and set(keys) <= set(known):
                return {key: known[key] for key in keys}
        return None

    def keep(self, kind: str, answer: Mapping[str, Any]) -> None:
        if not self.write:
            return
        with contextlib.suppress(OSError):
            os.makedirs(self.directory, mode=0o755, exist_ok=True)
            write_json(self._path(kind), dict(answer))
            os.chmod(self._path(kind), 0o644)


def ask_engine(ref: str, engines: Engines, timeout: int, kept: Kept) -> dict[str, Any]:
    # The keys are those of the file; one of an engine that was not known then is asked again.
    known = kept.read("engine", ("name", "version", "reason"))
    if known and (known["name"] in engines or known["name"] is None):
        return known
    answer, keep = engine(ref, engines, timeout)
    if keep:
        kept.keep("engine", answer)
    return answer


def ask_flags(ref: str, name: str, engines: Engines, gpus: str, timeout: int, kept: Kept) -> dict[str, Any]:
    known = kept.read("flags", ("format", "flags"))
    if known and known["format"] == FORMAT and known["flags"]:
        return {"flags": known["flags"], "flags_reason": None}
    answer, keep = flags(ref, engines[name]["help"], gpus, timeout)
    if keep:
        kept.keep("flags", {"format": FORMAT, "flags": answer["flags"]})
    return answer
