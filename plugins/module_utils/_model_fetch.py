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

from ansible_collections.gb10.serving.plugins.module_utils import _model_inside, _model_journal
from ansible_collections.gb10.serving.plugins.module_utils._job import JobError, Progress
from ansible_collections.gb10.serving.plugins.module_utils._model_manifest import (
    Sums,
    hash_file,
    pool_size,
    present_sums,
    wanted_sums,
    write_store,
)
from ansible_collections.gb10.serving.plugins.module_utils._model_pull import Pull
from ansible_collections.gb10.serving.plugins.module_utils._model_ranges import File, order
from ansible_collections.gb10.serving.plugins.module_utils._model_sources import Source, ask_any
from ansible_collections.gb10.serving.plugins.module_utils._model_stage import discard, publish, staged, try_rename
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
        self.sums: dict[str, str] = dict(destination.sums)
        self.unproven: set[str] = set()  # files here that nobody could say anything about but size and head
        self._decided: dict[str, str] = dict(destination.sums)  # of these, what manifest and origin say
        self._told = False
        self._right: dict[str, str] = {}
        self.revision: str | None = None

    def verify(self, wrong: list[str]) -> list[str]:
        """The files that are damaged, besides those that are known to be wrong. Reads, changes nothing."""
        names = [name for name in self.destination.sizes if name not in wrong]
        noted = wanted_sums(self.destination.path, self.destination.sizes)
        if self.sources:
            self._ask_sources()
        # What this node noted is of the revision that it got: manifest and origin decide.
        sums = {**self.sums, **noted, **self._decided}
        if self.sources:
            settled = self._decided if any(source.origin for source in self.sources) else sums
            sums.update({name: self._sum(name) for name in names if name not in settled})
        bad, unknown = damaged(self.destination, names, sums, self.progress)
        if unknown:
            raise JobError(
                f"nothing says what {len(unknown)} of {len(self.destination.sizes)} files should hold, for example "
                f"{unknown[0]}: there is no note of an earlier copy and no metadata of the hub. Give sources, so that "
                "they can be compared with another node."
            )
        self._right = {name: sums[name] for name in names if name not in bad}
        return bad

    def all_known(self) -> bool:
        """Whether manifest and origin say of each file what it should hold, without anybody reading it now."""
        if not self.destination.provable():
            self._ask_sources()
        return self.destination.sizes.keys() <= self._decided.keys()

    def note(self) -> None:
        """Writes down what verify() found right, so that the next run knows it."""
        write_store(self.destination.path, self._right, self.own)

    def _sum(self, name: str) -> str:
        """Waits until a source has read the file."""
        while True:
            self.progress.check()
            authority = sorted(self.sources, key=lambda source: not source.origin)
            answer = ask_any(authority, [{"op": "sha", "name": name}], f"what {name} should hold")[0]
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
                sums = {str(name): str(digest) for name, digest in known.get("sha256", {}).items()}
                if source.origin:
                    self.sums.update(sums)
                    self._decided.update(sums)
                elif not self._told:
                    self.sums = {**sums, **self.sums}
                self._told = self._told or bool(sums)
                self.revision = known.get("revision") or self.revision

    def run(self, bad: list[str]) -> dict[str, Any]:
        """Completes the destination. After a JobError it is as it was; what came waits in the staging folder."""
        destination, progress, sizes = self.destination, self.progress, self.destination.sizes
        obstacle = destination.obstacle()
        if obstacle:
            raise JobError(obstacle)
        with staged(destination, self.own):
            try_rename(destination)
            progress.begin("compare")
            self._ask_sources()
            wrong = self._wrong(set(bad)) | set(bad)
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
            verified = not self.unproven
            publish(destination, list(todo), self._all_sums(set(todo)), self.revision, self.own, verified)
        result.update(resumed_bytes=resumed, files_moved=len(todo), sha256_known=known, verified=verified)
        return dict(result, digest=destination.digest)

    def _wrong(self, bad: set[str]) -> set[str]:
        """Besides the bad: files that are absent, or of another size, head or content than on the source."""
        wrong = {*self.destination.wrong_sizes(), *bad}
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
            wrong |= self._other([name for name in reused if name not in wrong])
        return wrong

    def _other(self, names: list[str]) -> set[str]:
        """Those that hold something else than on the source. Only files of which nothing is noted here are read."""
        sizes = {name: self.destination.sizes[name] for name in names}
        here = {**present_sums(self.destination.path, sizes), **self._right}
        other = {name for name in here if here[name] != self.sums.get(name, here[name])}
        unread = [name for name in names if name not in here]
        if unread:
            other.update(damaged(self.destination, unread, self.sums, self.progress)[0])
        self.unproven = {name for name in names if name not in self.sums}
        self._right = {name: self.sums[name] for name in names if name not in self.unproven | other}
        return other

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
            _model_inside.move(staging, name, f"{_model_journal.PARTS}/{name}")
        files = [File(name, size, came.spans.get(name, ())) for name, size in todo.items() if name not in came.sums]
        _model_journal.rewrite(staging, came)
        return files, sum(came.have(name) for name in todo)

    def _prove(self, fresh: set[str]) -> None:
        destination = self.destination
        digest = self._digest_of_both(fresh)
        if digest != destination.digest:
            discard(destination.staging)
            raise JobError(
                f"the files that came have the digest {digest}, expected {destination.digest}. They were thrown "
                "away. Did the model change on the source since it was looked at? Run again from the start."
            )

    def _all_sums(self, fresh: set[str]) -> dict[str, str]:
        """Sums of the files that were verified now, and of those here that are still as noted before."""
        sums = Sums(self.destination.path, self.destination.sizes)
        sums.look()
        return {**sums.known(), **self._right, **{name: self.sums[name] for name in fresh}}

    def _digest_of_both(self, fresh: set[str]) -> str:
        """Digest of what the destination will be: fresh files from staging, the others from where they are."""
        destination = self.destination
        view = os.path.join(destination.staging, ".gb10-view")
        _model_inside.remove(view)
        os.mkdir(view)
        try:
            for name in destination.sizes:
                link = os.path.join(view, name)
                os.makedirs(os.path.dirname(link), exist_ok=True)
                folder = destination.staging if name in fresh else destination.path
                os.symlink(os.path.join(folder, name), link)
            return files_digest(view, destination.sizes)
        finally:
            shutil.rmtree(view, ignore_errors=True)
