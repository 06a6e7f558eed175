# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""Make ``ansible_collections.gb10.serving`` importable from this checkout, whatever folder pytest is started in."""

from __future__ import annotations

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

sys.path.insert(0, str(ROOT / "collections"))
# Nothing of a test run stays between the sources.
os.environ.setdefault("HYPOTHESIS_STORAGE_DIRECTORY", str(ROOT / ".cache" / "hypothesis"))
# For tests that start ansible itself.
os.environ["ANSIBLE_CONFIG"] = str(ROOT / "ansible.cfg")
# A test must not depend on what the caller's shell says about ansible or a rehearsal.
for name in [key for key in os.environ if key.startswith(("ANSIBLE_", "GB10_")) and key != "ANSIBLE_CONFIG"]:
    del os.environ[name]
