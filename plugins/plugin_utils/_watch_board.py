# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
# Private to this collection: no stability promised.
"""The folder on the controller that the ranks of one start share while they are watched."""

from __future__ import annotations

import itertools
import json
import os
from pathlib import Path
from typing import Any


class Board:
    """``ready`` when rank 0 answers, ``failed`` with who failed first, ``decided`` with what it was, and each rank's
    ``place`` and ``view``.
    """

    def __init__(self, base: Path, rank: int) -> None:
        self.rank = rank
        base.mkdir(parents=True, exist_ok=True)
        for attempt in itertools.count(1):  # the same release may be waited for again in one run
            try:
                os.close(os.open(base / f"{attempt}.{rank}", os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                continue
            self.path = base / str(attempt)
            break
        self.path.mkdir(exist_ok=True)

    def claim_failure(self, entry: dict[str, Any]) -> bool:
        """Enter this rank as the first to fail; whether it is."""
        mine = self._write(f"failed.{self.rank}", entry)
        try:
            os.link(mine, self.path / "failed")
        except FileExistsError:
            return False
        return True

    def failure(self) -> dict[str, Any] | None:
        """Who failed first, or None."""
        return self._read("failed")

    def decide(self, entry: dict[str, Any]) -> None:
        self._write("decided", entry)

    def decision(self) -> dict[str, Any] | None:
        """What the first to fail made of all ranks' views, or None as long as it has not."""
        return self._read("decided")

    def post(self, what: str, entry: dict[str, Any]) -> None:
        """Tell the others this rank's ``place`` or ``view``."""
        self._write(f"{what}.{self.rank}", entry)

    def posted(self, what: str) -> dict[int, dict[str, Any]]:
        """What the ranks have told, by rank."""
        told = {}
        for path in self.path.glob(f"{what}.*"):
            number = path.name.rpartition(".")[2]
            if number.isdigit() and (entry := self._read(path.name)) is not None:
                told[int(number)] = entry
        return told

    def announce_ready(self) -> None:
        (self.path / "ready").touch()

    def is_ready(self) -> bool:
        return (self.path / "ready").exists()

    def _write(self, name: str, entry: dict[str, Any]) -> Path:
        path, fresh = self.path / name, self.path / f"{name}.{self.rank}.new"
        fresh.write_text(json.dumps(entry), encoding="utf-8")
        os.replace(fresh, path)
        return path

    def _read(self, name: str) -> dict[str, Any] | None:
        try:
            return dict(json.loads((self.path / name).read_text(encoding="utf-8")))
        except FileNotFoundError:
            return None
