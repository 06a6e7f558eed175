# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 gb10.serving contributors
# Private to gb10.serving: the receiver of a model copy: many streams, over all rails, from the best source there is.
from __future__ import annotations

import threading
import time
from collections.abc import Iterable

from ansible_collections.gb10.serving.plugins.module_utils import _model_sources
from ansible_collections.gb10.serving.plugins.module_utils._job import JobError, Progress
from ansible_collections.gb10.serving.plugins.module_utils._model_asking import ask
from ansible_collections.gb10.serving.plugins.module_utils._model_flight import Flight
from ansible_collections.gb10.serving.plugins.module_utils._model_landing import Landing, disk_problem
from ansible_collections.gb10.serving.plugins.module_utils._model_ranges import File, Ranges
from ansible_collections.gb10.serving.plugins.module_utils._model_sources import (
    DiskError,
    Link,
    Refused,
    Source,
    none_left,
)
from ansible_collections.gb10.serving.plugins.module_utils._wire import WireError

RATE_SECONDS = 1.0
#: A connection over which less comes within LAG_SECONDS is given up when another source has the file.
LEAST_BYTES = 1 << 20
#: So often in a row a source may fail on one file before the file is fetched elsewhere.
FAILURES = 8
_BATCH = 1 << 20


class Pull:
    """One copy of files into a staging folder."""

    def __init__(
        self,
        staging: str,
        files: Iterable[File],
        sources: list[Source],
        sums: dict[str, str],
        streams: int,
        progress: Progress,
    ) -> None:
        rails = max(len(source.addresses) for source in sources)
        self.staging, self.sources, self.progress = staging, sources, progress
        self.ranges = Ranges(files, rails * streams)
        self.landing = Landing(staging, self.ranges, sums, sources, progress, self.failed)
        self.change = self.landing.change
        self.rails: dict[str, int] = {address: 0 for source in sources for address in source.addresses}
        self.moved = 0
        self.error: JobError | None = None
        self.rate = 0.0
        self._rates: dict[str, int] = {}
        self._flights: dict[int, Flight] = {}  # by stream
        self._pace: dict[str, float] = {}  # bytes a second, by address
        self._links: set[Link] = set()
        self.waited: object = None
        self._streams = [
            threading.Thread(target=self._stream, args=(rail,), daemon=True)
            for _number in range(streams)
            for rail in range(rails)
        ]

    def run(self) -> None:
        """Until every file is verified and written out. JobError when that cannot be."""
        self.progress.on_abort(self.stop)
        self.progress.signs = lambda: (
            self.landing.hashed_bytes,
            self.landing.unsafe,
            self.waited,
            [source.gained for source in self.sources],
        )
        self.progress.more = lambda: {"rails": dict(self._rates)}
        asking = [threading.Thread(target=ask, args=(self, source), daemon=True) for source in self.sources]
        control = threading.Thread(target=self._control, daemon=True)
        threads = [*self._streams, *self.landing.threads(), *asking, control]
        for thread in threads:
            thread.start()
        try:
            with self.change:
                while not self.over():
                    self.change.wait(0.5)
        finally:
            self.landing.end()
            self.stop()
            for thread in threads:
                # One that still waits for an address that does not answer has nothing to say any more.
                thread.join(0.5 if thread in asking else None)
            self.landing.close()
        self.progress.check()
        if self.error:
            raise self.error

    def over(self) -> bool:
        return bool(self.error or self.progress.abort_reason or not self.landing.unsafe)

    def stop(self) -> None:
        for link in list(self._links):
            link.stop()

    def failed(self, error: Exception, name: str) -> None:
        with self.change:
            if not isinstance(error, (OSError, JobError)):
                error = JobError(f"{type(error).__name__} during {name}: {error}")
            elif isinstance(error, OSError):
                error = disk_problem(error, name, self.progress.bytes_done, self.staging)
            self.error = self.error or (error if isinstance(error, JobError) else JobError(str(error)))
            self.change.notify_all()

    def connect(self, source: Source, address: str) -> Link | None:
        if not source.claim(address):
            return None
        try:
            link = Link(source, address)
        except (OSError, WireError) as error:
            source.failed(address, error)
            return None
        self._links.add(link)
        if self.over():
            link.stop()
        source.worked(address)
        return link

    def drop(self, link: Link | None) -> None:
        if link:
            self._links.discard(link)
            link.close()

    def _stream(self, rail: int) -> None:
        link: Link | None = None
        try:
            while not self.over():
                with self.change:
                    task = self._next(rail)
                    if task is None:
                        if not self.over():
                            self._relieve(rail)
                            self.change.wait(0.1)
                        continue
                    source, file, start, end = task
                    target = self.landing.target(file)
                address = source.address(rail)
                came, broke = start, True
                try:
                    if link and (link.source is not source or link.at != address):
                        self.drop(link)
                        link = None
                    link = link or self.connect(source, address)
                    if link:
                        flight = Flight(link, file, start, end)
                        with self.change:
                            self._flights[threading.get_ident()] = flight
                        came, broke = self._range(flight, target)
                finally:
                    with self.change:
                        self._landed(self._flights.pop(threading.get_ident(), None), broke)
                        self.ranges.give_back(file, start, came, end)
                        if came > start:
                            self.landing.journal.add(file.name, start, came)
                        self.change.notify_all()
                if broke:
                    self.drop(link)
                    link = None
        except Exception as error:
            self.failed(error, "a new file")
        finally:
            self.drop(link)

    def _next(self, rail: int) -> tuple[Source, File, int, int] | None:
        """What this rail does now: from the first source that lives, unless it stays behind."""
        for source in sorted(self.sources, key=lambda source: source.slow):
            usable, dead = source.usable(source.address(rail)), source.dead
            if not usable and dead:
                continue
            if not source.lagging and not dead and not usable:
                return None  # the other rails of this source go on
            number = source.number
            task = usable and self.ranges.take(
                lambda file, source=source: source.has(file.name) and source.number not in file.refused,  # type: ignore[misc]
                self.rate,
            )
            if task:
                return source, *task
            refused = any(number in self.ranges.files[name].refused for name in self.ranges.open)
            if not dead and not source.lagging and not refused:
                return None
        return None

    def _relieve(self, rail: int) -> None:
        """This rail has nothing to do: what comes over a far slower one is given back, for this one to take."""
        waits = [source.address(rail) for source in self.sources if source.usable(source.address(rail))]
        pace = max((self._pace.get(address, 0.0) for address in waits), default=0.0)
        if self.ranges.left():
            return
        late = [flight for flight in self._flights.values() if flight.link.at not in waits and flight.late(pace)]
        for flight in late:
            flight.relieved = True
            flight.link.source.failed(flight.link.at, WireError(f"{flight.link.at} is far slower than other rails"))
            flight.link.stop()

    def _landed(self, flight: Flight | None, broke: bool) -> None:
        """The best pace counts, since small ranges say little, until another rail had to help."""
        if flight and (flight.relieved or not broke):
            at = flight.link.at
            self._pace[at] = flight.rate() if flight.relieved else max(flight.rate(), self._pace.get(at, 0.0))

    def _instead(self, file: File, source: Source) -> bool:
        """Whether another source, no slower as far as it is known, has the file."""
        return any(
            other is not source
            and other.slow <= source.slow
            and not other.dead
            and other.number not in file.refused
            and other.has(file.name)
            for other in self.sources
        )

    def _range(self, flight: Flight, target: int) -> tuple[int, bool]:
        """(how far it came, whether the connection is of no more use)."""
        link, file, start, end = flight.link, flight.file, flight.start, flight.end
        source, came, told = link.source, start, start

        def account(count: int) -> None:
            nonlocal came, told
            came += count
            flight.came = came
            if flight.crawls(_model_sources.LAG_SECONDS, LEAST_BYTES) and self._instead(file, source):
                source.slow += 1
                raise WireError(f"less than {LEAST_BYTES} bytes came in {_model_sources.LAG_SECONDS:g} s")
            if came - told >= _BATCH:
                self._count(link, came - told)
                told = came

        try:
            mtime = link.fetch(file.name, file.size, target, (start, end), account)
            self.landing.mtimes[file.name] = mtime
            file.failures.pop(source.number, None)
            source.worked(link.at)
            return came, False
        except Refused as error:
            if source.origin:
                self.failed(JobError(f"{source.host}: {error}. Put the source right and run again."), file.name)
            self._miss(file, source, FAILURES)
            return came, False
        except DiskError as error:
            self.failed(error.args[0], file.name)
        except (OSError, WireError) as error:
            if not self.over():
                if not flight.relieved:
                    source.failed(link.at, error)
                self._miss(file, source, 0 if came > start else 1)
        finally:
            self._count(link, came - told)
            self.landing.came_from.setdefault(file.name, set()).add(source.number)
        return came, True

    def _miss(self, file: File, source: Source, count: int) -> None:
        """A source that fails on one file again and again is not asked for it any more."""
        with self.change:
            file.failures[source.number] = file.failures.get(source.number, 0) + count
            if file.failures[source.number] >= FAILURES and not source.dead:
                file.refused.add(source.number)
            if len(file.refused) == len(self.sources):
                self.failed(
                    JobError(
                        f"no source hands out {file.name}: {source.host} said last: {source.why or 'not there'}. Look "
                        f"at this file on the source nodes and run again; what came so far is kept in {self.staging}."
                    ),
                    file.name,
                )

    def _count(self, link: Link, count: int) -> None:
        if count:
            link.source.gained = link.source.grown = time.monotonic()
            with self.change:
                self.rails[link.at] += count
                self.moved += count
            self.progress.add(count)

    def _control(self) -> None:
        """Measures the rate; notices when no source is left."""
        last, before = time.monotonic(), dict(self.rails)
        try:
            while not self.over():
                now = time.monotonic()
                if now - last >= RATE_SECONDS:
                    seen = dict(self.rails)
                    self._rates = {rail: round((seen[rail] - before[rail]) / (now - last)) for rail in seen}
                    self.rate, last, before = float(sum(self._rates.values())), now, seen
                    if any(source.seen and not source.dead and not source.lagging for source in self.sources):
                        self.landing.journal.beat()
                if all(source.gone for source in self.sources):
                    self.failed(none_left(self.sources, self.progress.bytes_done, self.staging), "")
                with self.change:
                    if not self.over():
                        self.change.wait(0.1)
        except Exception as error:
            self.failed(error, "a file")
