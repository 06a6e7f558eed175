# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 gb10.serving contributors
# Private to gb10.serving: a model directory is completed from other nodes, verified and put in place.
from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ansible_collections.gb10.serving.plugins.module_utils import _model_journal
from ansible_collections.gb10.serving.plugins.module_utils._job import JobError, Progress
from ansible_collections.gb10.serving.plugins.module_utils._model_manifest import (
    Sums,
    hash_file,
    pool_size,
    wanted_sums,
)
from ansible_collections.gb10.serving.plugins.module_utils._model_pull import Pull
from ansible_collections.gb10.serving.plugins.module_utils._model_ranges import File, order
from ansible_collections.gb10.serving.plugins.module_utils._model_sources import Source, ask_any
from ansible_collections.gb10.serving.plugins.module_utils._model_stage import publish, staged
from ansible_collections.gb10.serving.plugins.module_utils._model_state import Destination, files_digest, signature

_WAIT_SECONDS = 2.0


def damaged(
    destination: Destination, names: list[str], sums: dict[str, str], progress: Progress
) -> tuple[list[str], list[str]]:
    """(names whose content is not what it should be, names of which nobody knows it). Reads all of these files."""

    def check(name: str) -> bool:
        progress.check()
        return hash_file(os.path.join(destination.path, name), progress.add) == sums[name]

    known = [name for name in order({name: destination.sizes[name] for name in names}) if name in sums]
    progress.begin("verify", sum(destination.sizes[name] for name in known))
    with ThreadPoolExecutor(pool_size()) as pool:
        right = dict(zip(known, pool.map(check, known), strict=True))
    progress.bytes_done = 0
    return [name for name in known if not right[name]], [name for name in names if name not in sums]


class Fetch:
    """One run of a receiver."""

    def __init__(
        self,
        destination: Destination,
        sources: list[dict[str, Any]],
        progress: Progress,
        own: Callable[[str], None],
        streams: int = 2,
    ) -> None:
        self.destination, self.progress, self.own, self.streams = destination, progress, own, streams
        self.sources = [Source(number, spec) for number, spec in enumerate(sources)]
        self.sums: dict[str, str] = {}
        self.revision: str | None = None

    def verify(self, wrong: list[str]) -> list[str]:
        """The files that are damaged, besides those that are known to be wrong. Reads, changes nothing."""
        names = [name for name in self.destination.sizes if name not in wrong]
        sums = wanted_sums(self.destination.path, self.destination.sizes)
        if self.sources and any(name not in sums for name in names):
            self._ask_sources()
            sums = {**self.sums, **sums}
            for name in (name for name in names if name not in sums):
                sums[name] = self._sum(name)
        bad, unknown = damaged(self.destination, names, sums, self.progress)
        if unknown:
            raise JobError(
                f"nothing says what {len(unknown)} of {len(self.destination.sizes)} files should hold, for example "
                f"{unknown[0]}: there is no note of an earlier copy and no metadata of the hub. Give sources, so that "
                "they can be compared with another node."
            )
        return bad

    def _sum(self, name: str) -> str:
        """Waits until a source has read the file."""
        while True:
            self.progress.check()
            answer = ask_any(self.sources, [{"op": "sha", "name": name}], f"what {name} should hold")[0]
            if answer.get("sha256"):
                return str(answer["sha256"])
            time.sleep(_WAIT_SECONDS / 4)
            self.progress.signs = lambda seen=answer: seen.get("read_bytes")  # type: ignore[misc]

    def _ask_sources(self) -> None:
        """What the first source that answers knows, and which sources have what."""
        for source in self.sources:
            source.seen = False
            with contextlib.suppress(JobError):
                told, known = ask_any([source], [{"op": "list"}, {"op": "sha"}], "")
                source.told(told)
                if source.origin or not self.sums:
                    self.sums = {**self.sums, **known.get("sha256", {})}
                    self.revision = known.get("revision") or self.revision

    def run(self, bad: list[str]) -> dict[str, Any]:
        """Completes the destination. After a JobError it is as it was; what came waits in the staging folder."""
        destination, progress, sizes = self.destination, self.progress, self.destination.sizes
        with staged(destination.staging, destination.digest, self.own):
            progress.begin("compare")
            self._ask_sources()
            wrong = self._wrong() | set(bad)
            todo = {name: sizes[name] for name in order({name: sizes[name] for name in wrong})}
            files, resumed = self._resume(todo)
            lack = destination.lack_of_space(sum(todo.values()) - resumed)
            if lack:
                raise JobError(lack)
            progress.bytes_done = resumed
            progress.begin("copy", sum(todo.values()))
            result: dict[str, Any] = {"moved_bytes": 0, "refetched": [], "rails": {}}
            known = sum(1 for name in todo if name in self.sums)
            if files:
                pull = Pull(destination.staging, files, self.sources, self.sums, self.streams, progress)
                pull.run()
                rails = {rail: count for rail, count in pull.rails.items() if count}
                result = {"moved_bytes": pull.moved, "refetched": pull.landing.refetched, "rails": rails}
            progress.begin("verify")
            self._prove(set(todo))
            progress.begin("publish")
            publish(destination, list(todo), self._all_sums(set(todo)), self.revision, self.own)
        return dict(result, resumed_bytes=resumed, files_moved=len(todo), sha256_known=known, digest=destination.digest)

    def _wrong(self) -> set[str]:
        """Files that are absent, of another size, or of another head than on the source."""
        wrong = set(self.destination.wrong_sizes())
        reused = [name for name in self.destination.sizes if name not in wrong]
        if reused:
            requests = [{"op": "sign", "name": name} for name in reused]
            self.progress.signs = lambda: [source.pulse for source in self.sources]
            # A neighbour that is a receiver itself can tell when it has all of them.
            while not any(source.ready is None for source in self.sources) and any(s.seen for s in self.sources):
                self.progress.check()
                time.sleep(_WAIT_SECONDS)
                self._ask_sources()
            able = [source for source in self.sources if source.ready is None]
            theirs = ask_any(able or self.sources, requests, "while files were compared")
            for name, answer in zip(reused, theirs, strict=True):
                if signature(os.path.join(self.destination.path, name)) != answer.get("signature"):
                    wrong.add(name)
        return wrong

    def _resume(self, todo: dict[str, int]) -> tuple[list[File], int]:
        """The files that have to come, with what an earlier run left of them; and how many bytes that was."""
        staging = self.destination.staging
        came = _model_journal.resumable(staging, self.destination.digest, todo)
        for name, digest in list(came.sums.items()):
            if name in came.safe and self.sums.get(name, digest) == digest:
                self.sums[name] = digest
                continue
            # It may not have reached the disk: it is hashed again.
            del came.sums[name]
            came.safe.discard(name)
            part = os.path.join(staging, _model_journal.PARTS, name)
            os.makedirs(os.path.dirname(part), exist_ok=True)
            os.replace(os.path.join(staging, name), part)
        files = [File(name, size, came.spans.get(name, ())) for name, size in todo.items() if name not in came.sums]
        _model_journal.rewrite(staging, came)
        return files, sum(came.have(name) for name in todo)

    def _prove(self, fresh: set[str]) -> None:
        destination = self.destination
        digest = self._digest_of_both(fresh)
        if digest != destination.digest:
            shutil.rmtree(destination.staging, ignore_errors=True)
            raise JobError(
                f"the files that came have the digest {digest}, expected {destination.digest}. They were thrown "
                "away. Did the model change on the source since it was looked at? Run again from the start."
            )

    def _all_sums(self, fresh: set[str]) -> dict[str, str]:
        """Sums of the files that were verified now, and of those here that are still as noted before."""
        sums = Sums(self.destination.path, self.destination.sizes)
        sums.look()
        return {**sums.known(), **{name: self.sums[name] for name in fresh}}

    def _digest_of_both(self, fresh: set[str]) -> str:
        """Digest of what the destination will be: fresh files from staging, the others from where they are."""
        destination = self.destination
        view = os.path.join(destination.staging, ".gb10-view")
        shutil.rmtree(view, ignore_errors=True)
        try:
            for name in destination.sizes:
                link = os.path.join(view, name)
                os.makedirs(os.path.dirname(link), exist_ok=True)
                folder = destination.staging if name in fresh else destination.path
                os.symlink(os.path.join(folder, name), link)
            return files_digest(view, destination.sizes)
        finally:
            shutil.rmtree(view, ignore_errors=True)
