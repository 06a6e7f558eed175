# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
from __future__ import annotations

import threading
from pathlib import Path

from ansible_collections.gb10.serving.plugins.plugin_utils._watch_board import Board


def test_one_rank_is_the_first_to_fail(tmp_path: Path) -> None:
    boards = [Board(tmp_path, rank) for rank in range(8)]
    assert boards[0].failure() is None
    claimed: list[int] = []
    together = threading.Barrier(len(boards))

    def claim(board: Board) -> None:
        together.wait()
        if board.claim_failure({"rank": board.rank}):
            claimed.append(board.rank)

    threads = [threading.Thread(target=claim, args=(board,)) for board in boards]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(claimed) == 1
    assert [board.failure() for board in boards] == 8 * [{"rank": claimed[0]}]


def test_ranks_tell_each_other(tmp_path: Path) -> None:
    one, two = Board(tmp_path, 0), Board(tmp_path, 1)
    one.post("place", {"place": 1})
    two.post("place", {"place": 2})
    two.post("place", {"place": 3})
    assert one.posted("place") == {0: {"place": 1}, 1: {"place": 3}} and one.posted("view") == {}
    assert one.decision() is None and not one.is_ready()
    two.decide({"x": 1})
    two.announce_ready()
    assert one.decision() == {"x": 1} and one.is_ready()


def test_each_wait_has_a_board_of_its_own(tmp_path: Path) -> None:
    Board(tmp_path, 0).announce_ready()
    Board(tmp_path, 1).claim_failure({})
    again, other = Board(tmp_path, 0), Board(tmp_path, 1)
    assert not again.is_ready() and again.failure() is None
    assert again.path == other.path
