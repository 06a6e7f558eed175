# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""A source and receivers of an image: real sockets and processes, programs in the place of docker save and load."""

from __future__ import annotations

import contextlib
import pathlib
import socket
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest

from ansible_collections.gb10.serving.plugins.module_utils import _image_hub, _image_load, _image_offer, _image_relay
from ansible_collections.gb10.serving.plugins.module_utils._image_load import receive
from ansible_collections.gb10.serving.plugins.module_utils._job import JobError, Progress
from ansible_collections.gb10.serving.plugins.module_utils._wire import read_json


def make_quick(patch: pytest.MonkeyPatch) -> None:
    """Time-outs as short as a test wants them."""
    patch.setattr(_image_load, "docker_root", lambda: None)
    patch.setattr(_image_hub, "SIGN_SECONDS", 0.1)
    patch.setattr(_image_relay, "SIGN_SECONDS", 0.1)
    patch.setattr(_image_hub, "STALL_SECONDS", 2.0)
    patch.setattr(_image_hub, "STALL_STEP", 1.0)
    patch.setattr(_image_hub, "STALL_LEAST", 0.5)
    for module in (_image_offer, _image_relay):
        patch.setattr(module, "GRACE", 1.0)
        patch.setattr(module, "PATIENCE", 4.0)


def py(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def save_of(path: pathlib.Path, log: pathlib.Path | None = None) -> list[str]:
    note = f"open({str(log)!r}, 'a').write('x');" if log else ""
    return py(f"import sys, shutil; {note} shutil.copyfileobj(open({str(path)!r}, 'rb'), sys.stdout.buffer, 50_000)")


def load_to(path: pathlib.Path) -> list[str]:
    return py(f"import sys; data = sys.stdin.buffer.read(); open({str(path)!r}, 'wb').write(data)")


def connect(handler: Callable[[socket.socket, dict[str, Any]], None]) -> socket.socket:
    """A receiver's end of a connection that this handler serves."""
    ours, theirs = socket.socketpair()

    def serve() -> None:
        with theirs, contextlib.suppress(OSError):
            while request := read_json(theirs):
                handler(theirs, request)

    threading.Thread(target=serve, daemon=True).start()
    ours.settimeout(15)
    return ours


class Receiving:
    """receive() in a thread, as a node runs it."""

    def __init__(
        self, handler: Any, target: pathlib.Path | list[str], held: list[str] | None = None, content: str = ""
    ) -> None:
        command = load_to(target) if isinstance(target, pathlib.Path) else target
        self.progress = Progress()
        self.outcome: Any = None
        self._args = (connect(handler), self.progress, command, held or [], content)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            with self._args[0]:
                self.outcome = receive(*self._args)
        except JobError as error:
            self.outcome = error

    def result(self, seconds: float = 20) -> Any:
        self._thread.join(seconds)
        assert not self._thread.is_alive(), "the copy hangs"
        return self.outcome
