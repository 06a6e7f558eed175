# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""Write docs/causes.md from the table of causes, or check that it is current.

Usage: ``python tests/docs/causes.py --write | --check``
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "collections"))

from ansible_collections.gb10.serving.plugins.module_utils._engine_log_causes import CAUSES

PAGE = Path(__file__).resolve().parents[2] / "docs" / "causes.md"
HEAD = """# Why an engine did not start

`gb10.serving.engine_log_info` reads the log of a vLLM or SGLang start and answers with one of these identifiers as
`cause`, with the lines that show it as `evidence`, and with the remedy. `cause` is null where nothing is wrong.

```
sudo docker logs gb10-main-rank0 > rank0.log 2>&1        # on the node
ansible localhost -m gb10.serving.engine_log_info -a path=rank0.log
ansible localhost -m gb10.serving.engine_log_info -a '{"path": "rank0.log", "peers": ["rank1.log"]}'
```

A log tells what one rank saw. Give the other ranks' logs as `peers`: a rank that only waited for another one, or
noticed its end, then says `peer_died`, and the rank that failed first keeps its cause. Exit codes prove little: a rank
can end with 0 after its worker was killed, and an engine can end with 137 after any failure.

`rank_wait`, by which a deployment waits for its ranks, reads their logs in the same way and names the same causes;
`engines.md` says how a start is watched.

Of a log that holds several starts the last one counts. What clients sent is not read. A complaint after which the log
goes on is taken for the cause only once something fails. A server that was stopped from outside is `unknown`, with the
`phase` ready that it had: it is neither ready any more nor has it failed. So is the log of a program that is no engine.

`confidence` is high where a message names the cause, medium where it usually does, and low where only a consequence,
the place of an unknown error, or silence tells it.

| cause | what is seen | why it happens on GB10 | remedy |
|---|---|---|---|
"""


def render() -> str:
    """The page."""
    rows = (f"| `{name}` | {' | '.join(cause)} |" for name, cause in CAUSES.items())
    return HEAD + "\n".join(rows) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    mode = parser.add_mutually_exclusive_group(required=True)
    mode.add_argument("--write", action="store_true")
    mode.add_argument("--check", action="store_true")
    if parser.parse_args().write:
        PAGE.write_text(render(), encoding="utf-8")
    elif PAGE.read_text(encoding="utf-8") != render():
        sys.exit(f"{PAGE} is out of date. Next step: run `python tests/docs/causes.py --write`.")


if __name__ == "__main__":
    main()
