# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""What the tests of starts share lies beside them; pytest's import mode does not find it by itself."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from launch import home_network, launch, previous  # noqa: F401
