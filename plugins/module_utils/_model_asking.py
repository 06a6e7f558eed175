# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 gb10.serving contributors
# Private to gb10.serving: what the sources of a model copy have, asked again and again while it runs.
"""Each source in a thread of its own, so that one that does not answer holds up nobody but itself."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING

from ansible_collections.gb10.serving.plugins.module_utils._model_sources import Link, Refused, Source
from ansible_collections.gb10.serving.plugins.module_utils._wire import WireError

if TYPE_CHECKING:
    from ansible_collections.gb10.serving.plugins.module_utils._model_pull import Pull

#: How soon it is seen that the node before has got another file: part of each step down the chain.
POLL_SECONDS = 0.1


def ask(pull: Pull, source: Source) -> None:
    """Asks what the source has and what files should be, until the copy is over."""
    link: Link | None = None
    try:
        while not pull.over():
            missing = pull.landing.missing_sums()
            if source.ready is not None or missing or source.dead:
                link = _once(pull, source, link, missing)
            time.sleep(POLL_SECONDS)
    except Exception as error:
        pull.failed(error, "a file")
    finally:
        pull.drop(link)


def _once(pull: Pull, source: Source, link: Link | None, missing: list[str]) -> Link | None:
    """The connection for the next time."""
    try:
        address = source.next_address()
        if link is None and address:
            link = pull.connect(source, address)
        if link is None:
            return None
        answer = link.ask({"op": "list"})
        source.told(answer)
        for name, digest in (answer.get("sha256") or {}).items():
            _settle(pull, name, str(digest))
        for name in missing if not source.dead else []:
            _sum(pull, link, name)
    except (OSError, WireError) as error:
        if not isinstance(error, Refused) and not pull.over() and link:
            source.failed(link.at, error)
        pull.drop(link)
        return None
    finally:
        with pull.change:
            pull.change.notify_all()
    return link


def _sum(pull: Pull, link: Link, name: str) -> None:
    with contextlib.suppress(Refused):
        answer = link.ask({"op": "sha", "name": name})
        if answer.get("sha256"):
            _settle(pull, name, str(answer["sha256"]))
        else:
            pull.waited = answer.get("read_bytes")


def _settle(pull: Pull, name: str, digest: str) -> None:
    if name in pull.ranges.files and name not in pull.landing.sums:
        pull.landing.sums[name] = digest
        pull.landing.settle(pull.ranges.files[name])
