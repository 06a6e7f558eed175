# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""Make the rehearsal tool and the node image's programs importable."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
for folder in ("tests/nodes", "tests/nodes/image"):
    sys.path.insert(0, str(ROOT / folder))
