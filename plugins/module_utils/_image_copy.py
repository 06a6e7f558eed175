# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 gb10.serving contributors
# Private to gb10.serving: makes an image present under its name, from one of several sources.
from __future__ import annotations

import socket
from collections.abc import Sequence
from typing import Any

from ansible_collections.gb10.serving.plugins.module_utils import _image
from ansible_collections.gb10.serving.plugins.module_utils._image_docker import (
    Runner,
    daemon_name,
    held_chains,
    inspect,
    must,
    remember_wants_all,
    run,
    wants_all,
)
from ansible_collections.gb10.serving.plugins.module_utils._image_load import Got, LoadError, SourceError, receive
from ansible_collections.gb10.serving.plugins.module_utils._job import JobError, Progress
from ansible_collections.gb10.serving.plugins.module_utils._wire import WireError, connect

#: A source that sends nothing for so long, not even a sign of life, is given up for the next one.
STALL_SECONDS = 60.0
#: One that gives signs of life alone has so many times the idle limit: docker save first writes all to its disk.
QUIET = 3


def _drop_untagged(runner: Runner, image_id: str) -> None:
    """Removes an image that lost its last name; one that carries another name or is in use is the user's and stays."""
    code, out, _err = runner(["docker", "image", "inspect", "--format", "{{len .RepoTags}}", image_id])
    if code == 0 and out.strip() == "0":
        runner(["docker", "image", "rm", image_id])


def _open(source: dict[str, Any], stall: float) -> socket.socket:
    """A connection over the first rail that works."""
    problems: list[str] = []
    for address in source["addresses"]:
        try:
            return connect(address, source["port"], source["token"], stall)
        except WireError as error:
            problems.append(str(error))
    raise SourceError("; ".join(problems))


def _name(source: dict[str, Any]) -> str:
    return str(source.get("host") or (source["addresses"] or ["?"])[0])


class Transfer:
    """One image for this daemon: which source, and with or without the layers that are here."""

    def __init__(self, ref: str, content: str, idle_timeout: float, progress: Progress, runner: Runner = run) -> None:
        self._ref, self._content, self._progress, self._runner = ref, content, progress, runner
        self._stall, self._quiet = min(STALL_SECONDS, idle_timeout), QUIET * idle_timeout
        self._daemon = daemon_name(runner)
        self._held = [] if wants_all(self._daemon) else held_chains(runner)
        self.whole_because: str | None = None
        self.failed_sources: list[str] = []

    def bring(self, sources: Sequence[dict[str, Any]]) -> tuple[Got, str]:
        """What came and from whom. JobError names what every source said.

        Each source gets one chance, and a second one when it asks for it.
        """
        for source in sources:
            for _attempt in range(2):
                try:
                    return self._from(source), _name(source)
                except SourceError as error:
                    self._progress.check()
                    self.failed_sources.append(f"{_name(source)}: {error}")
                    if not error.again:
                        break
        said = ". ".join(self.failed_sources)
        raise JobError(
            f"no source could give the image. {said}. Docker keeps nothing of a broken stream, so a new run "
            "begins anew. Look at these nodes (are they up, is Docker running there, was the offer withdrawn?) and "
            "run again."
        )

    def _from(self, source: dict[str, Any]) -> Got:
        try:
            return self._once(source)
        except LoadError as error:
            self._progress.check()
            if not error.partial:
                raise
            # This daemon does not take an archive without the layers that it has.
            self.whole_because = str(error)
            self._held = []
            got = self._once(source)
            remember_wants_all(self._daemon)
            return got

    def _once(self, source: dict[str, Any]) -> Got:
        self._progress.begin("connect")
        with _open(source, self._stall) as sock:
            got = receive(sock, self._progress, ["docker", "load"], self._held, self._content, self._quiet)
        self._progress.begin("verify")
        after = inspect(self._ref, self._runner)
        if after["content"] != self._content:
            text = (
                f"after the copy {self._ref} has the content {after['content']}, expected {self._content}. Was the "
                "image changed on the source meanwhile? Run again."
            )
            raise LoadError(text, got.left_out_bytes > 0)
        if got.left_out_bytes and "containerd" in self._daemon:
            self._prove()
        return got

    def _prove(self) -> None:
        """The containerd store may take an image that it cannot unpack: a container of it, never started, tells."""
        code, out, err = self._runner(["docker", "create", "--network", "none", self._ref, "true"])
        if code != 0:
            raise LoadError(f"no container can be made of {self._ref}: {err.strip()[-500:]}", True)
        self._runner(["docker", "rm", "--volumes", out.strip()])


def fetch(
    ref: str,
    content: str,
    sources: Sequence[dict[str, Any]],
    idle_timeout: float,
    progress: Progress,
    runner: Runner = run,
    seen: tuple[dict[str, Any], dict[str, Any]] | None = None,
) -> dict[str, Any]:
    """Makes the image content present under its reference. The one before stays as REPOSITORY:gb10-previous.

    seen: what inspect() just said of the reference and of the previous image, to ask only once.
    """
    kept_ref = _image.previous_ref(ref)
    before, kept = seen or (inspect(ref, runner), inspect(kept_ref, runner))
    previous = kept_ref if before["present"] else None
    answer: dict[str, Any] = {"moved_bytes": 0, "left_out_bytes": 0, "source": None, "content": content}
    if kept["present"] and kept["content"] == content:  # going back costs nothing
        must(runner, ["docker", "tag", kept["id"], ref])
        if before["present"]:
            must(runner, ["docker", "tag", before["id"], kept_ref])
        return dict(answer, previous=previous)
    transfer = Transfer(ref, content, idle_timeout, progress, runner)
    if before["present"]:
        must(runner, ["docker", "tag", before["id"], kept_ref])
    try:
        got, source = transfer.bring(sources)
    except Exception:
        if before["present"]:  # as it was
            runner(["docker", "tag", before["id"], ref])
        runner(["docker", "tag", kept["id"], kept_ref] if kept["present"] else ["docker", "image", "rm", kept_ref])
        raise
    if kept["present"] and before["present"] and kept["id"] != before["id"]:
        _drop_untagged(runner, kept["id"])
    answer.update(moved_bytes=progress.bytes_done, left_out_bytes=got.left_out_bytes, source=source, previous=previous)
    if got.saved_because:
        answer["saved_because"] = got.saved_because
    if transfer.failed_sources:
        answer["failed_sources"] = transfer.failed_sources
    if transfer.whole_because:
        answer["whole_because"] = transfer.whole_because
    return answer
